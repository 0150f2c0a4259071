# SPDX-License-Identifier: Apache-2.0
"""Record batches for the codec tests, built and read with kafka-python's own classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import google_crc32c
import pyarrow as pa
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from connector_kafka.records import decode
from connector_kafka.records.batches import HEADER
from connector_kafka.records.compression import Compression, compress

ALL_COLUMNS = ("key", "value", "offset", "timestamp", "timestamp_type", "headers")
START = 1_700_000_000_000


class Record(NamedTuple):
    """A record to write; `delta` is its offset relative to the base offset of its batch."""

    delta: int
    key: bytes | None = None
    value: bytes | None = None
    timestamp: int = START
    headers: Sequence[tuple[str, bytes | None]] = ()


def batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    compression: Compression = Compression.NONE,
    log_append_time: int | None = None,
    producer_id: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """Build a batch with kafka-python, and add the fields that only brokers write."""
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 30)
    for record in records:
        builder.append(
            record.delta, record.timestamp, record.key, record.value, list(record.headers)
        )
    built = builder.build()
    fields = list(HEADER.unpack_from(built))
    fields[0] = base_offset
    fields[5] |= compression | 0x10 * transactional | 0x20 * control
    if log_append_time is not None:
        fields[5] |= 0x08
        fields[8] = log_append_time
    if last_offset_delta is not None:
        fields[6] = last_offset_delta
    fields[9:11] = [producer_id, 0 if producer_id >= 0 else -1]
    return sealed(fields, compress(bytes(built[HEADER.size :]), compression))


def marker(*, base_offset: int, producer_id: int, commit: bool) -> bytes:
    """Build the control batch that ends a transaction, as the broker writes it."""
    record = Record(0, key=bytes([0, 0, 0, commit]), value=bytes(6))
    return batch(
        [record], base_offset=base_offset, producer_id=producer_id, transactional=True, control=True
    )


def sealed(fields: Sequence[Any], content: bytes) -> bytes:
    """Return the batch with its correct length and checksum."""
    fields = list(fields)
    fields[1] = HEADER.size - 12 + len(content)
    data = bytearray(HEADER.pack(*fields) + content)
    data[17:21] = google_crc32c.value(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def rows_of(raw: Any, *, start_offset: int = 0, **options: Any) -> tuple[list[dict[str, Any]], int]:
    """Return the rows of our decoder, with timestamps as numbers, and the next offset to read."""
    options = {"columns": ALL_COLUMNS, "topic": "topic", "partition": 0} | options
    parts = list(decode(raw, start_offset=start_offset, **options))
    rows = []
    for part in parts:
        part.records.validate(full=True)
        columns = dict(zip(part.records.schema.names, part.records.columns, strict=True))
        if "timestamp" in columns:  # Python's datetime does not cover all 64-bit values
            columns["timestamp"] = columns["timestamp"].cast(pa.int64())
        rows += pa.RecordBatch.from_pydict(columns).to_pylist()
    return rows, parts[-1].next_offset


def rows_of_kafka_python(raw: bytes) -> list[dict[str, Any]]:
    """Return the rows of one batch as kafka-python's parser reads them."""
    return [
        {
            "key": record.key,
            "value": record.value,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestamp_type": record.timestamp_type,
            "headers": [{"key": key, "value": value} for key, value in record.headers],
        }
        for record in DefaultRecordBatch(raw)
    ]
