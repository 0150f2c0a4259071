# SPDX-License-Identifier: Apache-2.0
"""Whatever bytes arrive: the rows that kafka-python reads, or one clear error."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.errors import CorruptRecordError
from record_batches import Record, batch, rows_of, rows_of_kafka_python, sealed
from record_reference import RefusedError, reference_rows

from connector_kafka.errors import CorruptRecordsError
from connector_kafka.records import starts, varints
from connector_kafka.records.batches import HEADER
from connector_kafka.records.compression import Compression

COPIES = 3

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
    """The rows, or None for a refusal."""
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
def test_whole_batches_are_read_as_by_kafka_python(records, base_offset, compression):
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
    # kafka-python takes the attributes, which are one byte, for a number that may have more.
    if found is not None and by_kafka_python is not None and max(attributes) < 0x80:
        assert found == by_kafka_python
    # Records are looked for in three ways, all with the same result.
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
    if check_crcs and found:  # which does not cover the base offsets
        whole = outcome(raw)
        assert [row | {"offset": 0} for row in found] == [
            row | {"offset": 0} for row in whole[: len(found)]
        ]


@given(records_to_read, bytes_to_change)
def test_damaged_records_are_read_as_they_stand_or_refused(records, changes):
    check_damaged_records(records, changes)


@given(damages)
def test_damaged_bytes_are_never_more_than_one_clear_error(damage):
    check_damaged_bytes(*damage)


@pytest.mark.slow
@settings(max_examples=3_000)
@given(records_to_read, bytes_to_change)
def test_much_damage_to_records_is_read_as_it_stands_or_refused(records, changes):
    check_damaged_records(records, changes)


@pytest.mark.slow
@settings(max_examples=3_000)
@given(damages)
def test_much_damage_to_bytes_is_never_more_than_one_clear_error(damage):
    check_damaged_bytes(*damage)
