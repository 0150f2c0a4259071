# SPDX-License-Identifier: Apache-2.0
"""Tests reading the record formats that precede Kafka 0.11."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder
from record_batches import START, Record, batch, rows_of

from connector_kafka.errors import CorruptRecordsError
from connector_kafka.records.compression import Compression, compress

texts = st.binary(max_size=200) | st.none()
records_to_write = st.lists(st.tuples(texts, texts, st.integers(0, 2**40)), min_size=1, max_size=5)


def message(magic, offset, key, value, timestamp=START, attributes=0):
    """Build a message. If the attributes name a codec, its value contains other messages."""
    parts = struct.pack(">bb", magic, attributes)
    if magic:
        parts += struct.pack(">q", timestamp)
    for text in (key, value):
        parts += struct.pack(">i", -1 if text is None else len(text)) + (text or b"")
    return struct.pack(">qiI", offset, 4 + len(parts), zlib.crc32(parts)) + parts


def compressed(magic, messages, compression, *, offset, timestamp=START, appended=False):
    value = compress(b"".join(messages), compression)
    attributes = compression | 0x08 * appended
    return message(magic, offset, None, value, timestamp, attributes)


@given(records_to_write, st.sampled_from([0, 1]), st.sampled_from([0, 1]))
def test_rows_equal_those_of_kafka_python(records, magic, codec):
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 30)
    for offset, (key, value, timestamp) in enumerate(records):
        builder.append(offset, timestamp=timestamp, key=key, value=value)
    raw, expected = bytes(builder.build()), []
    at = 0
    while at < len(raw):
        end = at + 12 + int.from_bytes(raw[at + 8 : at + 12], "big")
        expected += list(LegacyRecordBatch(raw[at:end], magic))
        at = end
    rows, position = rows_of(raw)
    assert [(row["offset"], row["key"], row["value"], row["timestamp"]) for row in rows] == [
        (each.offset, each.key, each.value, -1 if each.timestamp is None else each.timestamp)
        for each in expected
    ]
    assert position == len(rows) == len(records)


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
def test_offsets_within_a_compressed_message_are_relative_to_its_offset(compression):
    inner = [message(1, delta, b"k", b"%d" % delta, START + delta) for delta in (0, 2, 3)]
    raw = compressed(1, inner, compression, offset=103)
    rows, position = rows_of(raw, start_offset=101)
    assert [(row["offset"], row["value"]) for row in rows] == [(102, b"2"), (103, b"3")]
    assert position == 104


def test_the_append_time_of_the_broker_replaces_the_timestamps_of_the_messages():
    inner = [message(1, delta, None, b"v", START) for delta in range(2)]
    raw = compressed(1, inner, Compression.GZIP, offset=1, timestamp=START + 9, appended=True)
    rows, _ = rows_of(raw)
    assert [(row["timestamp"], row["timestamp_type"]) for row in rows] == [(START + 9, 1)] * 2


def test_old_and_new_formats_can_follow_one_another():
    raw = message(0, 7, None, b"0") + message(1, 8, b"k", None) + batch([Record(0)], base_offset=9)
    rows, position = rows_of(raw, start_offset=7)
    assert [(row["offset"], row["value"]) for row in rows] == [(7, b"0"), (8, None), (9, None)]
    assert position == 10
    assert rows[0]["timestamp"] == -1


def test_a_damaged_message_is_refused():
    raw = bytearray(message(1, 5, b"key", b"value"))
    raw[-1] ^= 1
    with pytest.raises(CorruptRecordsError, match="checksum"):
        rows_of(bytes(raw), start_offset=5)


@pytest.mark.parametrize("magic", [0, 1])
def test_bytes_that_are_not_messages_are_refused(magic):
    whole = message(magic, 0, b"key", b"value")
    inner = [whole[:-1], whole[:9], whole + b"\0", b"", whole[:8] + bytes(4) + whole[12:]]
    for content in inner:
        raw = compressed(magic, [content], Compression.GZIP, offset=0)
        with pytest.raises(CorruptRecordsError):
            rows_of(raw)
    twice = compressed(magic, [whole], Compression.GZIP, offset=0)
    with pytest.raises(CorruptRecordsError):
        rows_of(compressed(magic, [twice], Compression.GZIP, offset=0))
    for at in range(16, len(whole)):
        for byte in (0, 0x7F, 0xFF):
            damaged = whole[:at] + bytes([byte]) + whole[at + 1 :]
            try:
                rows_of(damaged, check_crcs=False)
            except CorruptRecordsError:
                continue
