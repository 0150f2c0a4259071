# SPDX-License-Identifier: Apache-2.0
"""Record batches of Kafka as Arrow columns and back. No client, no I/O.

`decode` takes what a fetch brought from one partition and gives Arrow batches. `Encoder.encode`
takes an Arrow batch and gives the record batches of each partition that `Partitioner` assigned.
"""

from connector_kafka.records.columns import COLUMNS
from connector_kafka.records.compression import Compression
from connector_kafka.records.decoder import MAX_RECORD_BYTES, DecodedRecords, decode
from connector_kafka.records.encoder import EncodedBatch, Encoder, measured, refused_rows
from connector_kafka.records.partitioner import Partitioner, wrong_partitions

__all__ = [
    "COLUMNS",
    "MAX_RECORD_BYTES",
    "Compression",
    "DecodedRecords",
    "EncodedBatch",
    "Encoder",
    "Partitioner",
    "decode",
    "measured",
    "refused_rows",
    "wrong_partitions",
]
