# SPDX-License-Identifier: Apache-2.0
"""Tests that damaged bytes yield the rows that kafka-python reads, or one clear error."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.errors import CorruptRecordError
from record_batches import Record, batch, rows_of, rows_of_kafka_python, sealed
from record_reference import RefusedError, reference_rows

from connector_kafka.errors import CorruptRecordsError
from connector_kafka.records import decode, starts, varints
from connector_kafka.records.batches import HEADER
from connector_kafka.records.compression import Compression

COPIES = 3
RECORDS = [Record(delta, value=b"%d" % delta) for delta in range(10)]

texts = st.binary(max_size=140) | st.none()
headers = st.lists(st.tuples(st.text("ab", max_size=70), texts), max_size=3)
records_to_read = st.lists(
    st.builds(
        Record,
        delta=st.integers(1, 300),
        key=texts,
        value=texts,
        timestamp=st.integers(0, 2**45),
        headers=headers,
    ),
    min_size=1,
    max_size=6,
).map(
    lambda records: [
        record._replace(delta=sum(each.delta for each in records[: number + 1]))
        for number, record in enumerate(records)
    ]
)
bytes_to_change = st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), max_size=3)
damages = st.tuples(
    records_to_read, st.sampled_from(Compression), bytes_to_change, st.integers(0, 9), st.booleans()
)
base_offsets = st.integers(0, 2**60)


def outcome(raw, **options):
    """Return the rows, or None if the decoder refuses the bytes."""
    try:
        return rows_of(raw, **options)[0]
    except CorruptRecordsError:
        return None


def outcome_of_reference(raw, attributes):
    try:
        return reference_rows(raw, attributes)
    except RefusedError:
        return None


def outcome_of_kafka_python(raw):
    try:
        return rows_of_kafka_python(raw)
    except CorruptRecordError:
        return None


def split(raw):
    return list(HEADER.unpack_from(raw)), raw[HEADER.size :]


def changed(content, changes):
    content = bytearray(content)
    for at, byte in changes:
        content[at % len(content)] = byte
    return bytes(content)


@given(records_to_read, base_offsets, st.sampled_from(Compression))
def test_rows_of_undamaged_batches_equal_those_of_kafka_python(records, base_offset, compression):
    plain = batch(records, base_offset=base_offset)
    packed = batch(records, base_offset=base_offset, compression=compression)
    assert outcome(plain) == outcome(packed) == rows_of_kafka_python(plain)


def check_damaged_records(records, changes):
    fields, content = split(batch(records))
    content = changed(content, changes)
    raw = sealed(fields, content)
    found = outcome(raw)
    attributes = []
    assert found == outcome_of_reference(raw, attributes)
    by_kafka_python = outcome_of_kafka_python(raw)
    # kafka-python reads the attributes, which are a single byte, as a varint.
    if found is not None and by_kafka_python is not None and max(attributes) < 0x80:
        assert found == by_kafka_python
    # The decoder locates records in three ways, which must all return the same rows.
    step = fields[6] + 1
    copies = b"".join(sealed([n * step, *fields[1:]], content) for n in range(COPIES))
    rows = (
        None
        if found is None
        else [
            row | {"offset": row["offset"] + number * step}
            for number in range(COPIES)
            for row in found
        ]
    )
    assert outcome(copies) == rows
    with patch.object(starts, "_MANY", 0):
        assert outcome(copies) == rows
        with patch.object(varints, "_NARROW", 1):
            assert outcome(copies) == rows


def check_damaged_bytes(records, compression, changes, cut, check_crcs):
    raw = b"".join(
        batch(records, base_offset=base, compression=compression, producer_id=1)
        for base in (0, 9999)
    )
    damaged = changed(raw, changes)[: len(raw) - cut]
    found = outcome(damaged, check_crcs=check_crcs, aborted=[(1, 5000)])
    if check_crcs and found:  # the checksum does not cover the base offsets
        whole = outcome(raw)
        assert [row | {"offset": 0} for row in found] == [
            row | {"offset": 0} for row in whole[: len(found)]
        ]


def read_as_far_as_possible(raw, **options):
    """Return the rows before the first error, the next offset to read, and the error, if any."""
    rows, position = [], options["start_offset"]
    try:
        for part in decode(raw, topic="topic", partition=0, columns=("offset", "value"), **options):
            rows += zip(*(column.to_pylist() for column in part.records.columns), strict=True)
            position = part.next_offset
    except CorruptRecordsError as error:
        return rows, position, error
    return rows, position, None


def log_of(groups, compression, first):
    """Return consecutive batches, their rows, their starts in bytes and offsets, and the end."""
    raw, rows, starts, base = b"", [], [], first
    for records in groups:
        starts.append((len(raw), base))
        raw += batch(records, base_offset=base, compression=compression)
        rows += [(base + record.delta, record.value) for record in records]
        base += records[-1].delta + 1
    return raw, rows, starts, base


def check_flipped_bits(groups, compression, flips, first):
    raw, whole, starts, end = log_of(groups, compression, first)
    damaged = bytearray(raw)
    for at, bit in flips:
        at %= len(raw)
        if min(at - start for start, _ in starts if start <= at) >= 8:  # not a base offset
            damaged[at] ^= 1 << bit
    rows, position, _ = read_as_far_as_possible(
        bytes(damaged), start_offset=first, end_offset=end, max_bytes=500
    )
    assert rows == [row for row in whole if row[0] < position]


def check_flipped_base_offset(groups, compression, number, bit, first):
    raw, whole, starts, end = log_of(groups, compression, first)
    number %= len(starts)
    at, base = starts[number]
    until = starts[number + 1][1] if number + 1 < len(starts) else end
    damaged = bytearray(raw)
    damaged[at + 7 - bit // 8] ^= 1 << bit % 8
    claimed = base ^ (1 << bit)
    rows, position, error = read_as_far_as_possible(
        bytes(damaged), start_offset=first, end_offset=end
    )
    if not number and claimed <= first <= claimed + until - base - 1:
        return  # looks like a batch that starts earlier and lost records to compaction
    assert error is not None
    assert rows == [row for row in whole if row[0] < position]


flipped_bits = st.tuples(
    st.lists(records_to_read, min_size=1, max_size=4),
    st.sampled_from(Compression),
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 7)), min_size=1, max_size=3),
    st.integers(0, 2**50),
)
flipped_base_offsets = st.tuples(
    st.lists(records_to_read, min_size=1, max_size=4),
    st.sampled_from(Compression),
    st.integers(0, 3),
    st.integers(0, 63),
    st.integers(0, 2**50),
)


@given(flipped_bits)
def test_flipped_bits_never_hide_a_row(damage):
    check_flipped_bits(*damage)


@given(flipped_base_offsets)
def test_an_impossible_base_offset_is_an_error(damage):
    check_flipped_base_offset(*damage)


@pytest.mark.slow
@settings(max_examples=5_000)
@given(flipped_bits)
def test_many_flipped_bits_never_hide_a_row(damage):
    check_flipped_bits(*damage)


@pytest.mark.slow
@settings(max_examples=5_000)
@given(flipped_base_offsets)
def test_many_impossible_base_offsets_are_errors(damage):
    check_flipped_base_offset(*damage)


def test_a_base_offset_after_the_stop_is_compared_with_the_next_batch():
    first = batch(RECORDS, base_offset=0)
    moved = batch(RECORDS, base_offset=5000)  # its base offset was 10
    behind = batch(RECORDS, base_offset=20)
    raw = first + moved + behind
    rows, _, error = read_as_far_as_possible(raw, start_offset=0, stop_offset=30, end_offset=10_000)
    assert [offset for offset, _ in rows] == list(range(10))
    assert "it ends at offset 5009, and the next one starts at 20" in str(error)


def test_a_batch_that_ends_before_the_requested_offset_is_an_error():
    with pytest.raises(CorruptRecordsError, match="9, before the requested offset 10") as caught:
        rows_of(batch(RECORDS), start_offset=10)
    assert caught.value.offset == 0


def test_a_batch_that_reaches_beyond_the_end_of_the_log_is_an_error():
    raw = batch(RECORDS, base_offset=10)
    assert len(rows_of(raw, start_offset=10, end_offset=20)[0]) == 10
    with pytest.raises(CorruptRecordsError, match="10 to 19, but the log ends at offset 19"):
        rows_of(raw, start_offset=10, end_offset=19)


@given(records_to_read, bytes_to_change)
def test_damaged_records_are_read_as_the_reference_decoder_reads_them_or_refused(records, changes):
    check_damaged_records(records, changes)


@given(damages)
def test_damaged_bytes_raise_at_most_one_clear_error(damage):
    check_damaged_bytes(*damage)


@pytest.mark.slow
@settings(max_examples=3_000)
@given(records_to_read, bytes_to_change)
def test_many_damaged_records_are_read_as_the_reference_decoder_reads_them_or_refused(
    records, changes
):
    check_damaged_records(records, changes)


@pytest.mark.slow
@settings(max_examples=3_000)
@given(damages)
def test_many_damaged_bytes_raise_at_most_one_clear_error(damage):
    check_damaged_bytes(*damage)
