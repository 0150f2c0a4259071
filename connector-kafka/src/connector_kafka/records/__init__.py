# SPDX-License-Identifier: Apache-2.0
"""Converts Kafka's record batches to Arrow columns and back. No client and no I/O.

`decode` converts the bytes that a fetch returned for one partition to Arrow batches.
`Encoder.encode` converts an Arrow batch to the record batches of each partition that `Partitioner`
assigned.
"""

from connector_kafka.records.columns import COLUMNS
from connector_kafka.records.compression import Compression
from connector_kafka.records.decoder import MAX_RECORD_BYTES, DecodedRecords, decode
from connector_kafka.records.encoder import EncodedBatch, Encoder, measured, refused_rows
from connector_kafka.records.partitioner import Partitioner, wrong_partitions
from connector_kafka.records.splitting import halves

__all__ = [
    "COLUMNS",
    "MAX_RECORD_BYTES",
    "Compression",
    "DecodedRecords",
    "EncodedBatch",
    "Encoder",
    "Partitioner",
    "decode",
    "halves",
    "measured",
    "refused_rows",
    "wrong_partitions",
]
