# SPDX-License-Identifier: Apache-2.0
"""Tests that records go to the partitions that Java's producer chooses."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

from connector_kafka.records import Partitioner, wrong_partitions
from connector_kafka.records.partitioner import murmur2

# These hashes come from the tests of Kafka's Java client, where they are signed.
OF_JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def records_of(**columns):
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_binary()])
def test_hashes_equal_those_of_java(kind):
    keys = pa.array([key.decode() for key in OF_JAVA], kind)
    assert murmur2(keys).astype(np.int32).tolist() == list(OF_JAVA.values())


@given(st.lists(st.binary(max_size=30) | st.binary(min_size=90, max_size=100)), st.integers(0, 3))
def test_hashes_equal_those_of_kafka_python(keys, skipped):
    found = murmur2(pa.array(keys, pa.binary()).slice(skipped))
    assert found.tolist() == [murmur2_of_kafka_python(key) for key in keys[skipped:]]


def test_keys_of_every_length_are_hashed():
    keys = [bytes(range(length)) for length in range(256)] * 3
    expected = [murmur2_of_kafka_python(key) for key in keys]
    assert murmur2(pa.array(keys, pa.binary())).tolist() == expected


def test_a_key_goes_to_the_partition_that_java_chooses():
    keys = pa.array(list(OF_JAVA), pa.binary())
    found = Partitioner().assign(records_of(key=keys, value=keys), 7)
    assert found.tolist() == [(value & 0x7FFFFFFF) % 7 for value in OF_JAVA.values()]


def test_an_explicit_partition_takes_precedence_over_the_key():
    records = records_of(
        key=pa.array([b"foobar", b"foobar", None], pa.binary()),
        value=pa.array([b""] * 3, pa.binary()),
        partition=pa.array([2, None, 1], pa.int32()),
    )
    of_key = (OF_JAVA[b"foobar"] & 0x7FFFFFFF) % 3
    assert Partitioner().assign(records, 3).tolist() == [2, of_key, 1]


def test_a_missing_partition_is_reported_by_row():
    column = pa.array([0, -1, None, 3, 2], pa.int64())
    assert wrong_partitions(column, 3).tolist() == [1, 3]


def test_records_without_a_key_fill_the_partitions_in_turn():
    value = pa.array([bytes(84)] * 100, pa.binary())  # each record counts as 100 bytes
    partitioner = Partitioner(sticky_bytes=2_000, first=1)
    found = [partitioner.assign(records_of(value=value[i : i + 10]), 3) for i in range(0, 100, 10)]
    counts = np.bincount(np.concatenate(found), minlength=3)
    assert counts.sum() == 100
    assert counts.min() >= 20
    changes = np.count_nonzero(np.diff(np.concatenate(found)))
    assert changes == 5
    assert found[0][0] == 1


def test_the_same_rows_always_go_to_the_same_partitions():
    value = pa.array([bytes(n % 50) for n in range(1_000)], pa.binary())
    first, second = (
        Partitioner(sticky_bytes=500, first=4).assign(records_of(value=value), 6) for _ in range(2)
    )
    assert (first == second).all()


def test_records_with_keys_do_not_affect_records_without_keys():
    key = pa.array([b"foobar", None] * 10, pa.binary())
    records = records_of(key=key, value=pa.array([None] * 20, pa.binary()))
    found = Partitioner(sticky_bytes=1 << 20, first=2).assign(records, 5)
    assert set(found[0::2].tolist()) == {(OF_JAVA[b"foobar"] & 0x7FFFFFFF) % 5}
    assert set(found[1::2].tolist()) == {2}
