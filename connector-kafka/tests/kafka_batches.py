# SPDX-License-Identifier: Apache-2.0
"""Record batches from the client's own builder, for tests that do not use the encoder."""

from __future__ import annotations

from kafka.record.default_records import DefaultRecordBatchBuilder

from connector_kafka.client.transactions import ProducerIdentity
from connector_kafka.records import EncodedBatch


def batch_of(producer: ProducerIdentity, *values: bytes, sequence: int = 0) -> EncodedBatch:
    """Return a transactional batch of these values."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=True,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        batch_size=1 << 20,
    )
    for offset, value in enumerate(values):
        builder.append(offset, timestamp=1_700_000_000_000, key=None, value=value, headers=[])
    return EncodedBatch(bytes(builder.build()), len(values))
