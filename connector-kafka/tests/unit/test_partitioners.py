# SPDX-License-Identifier: Apache-2.0
"""Tests of partitioners that users write."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector_kafka import (
    KafkaPartitioner,
    KafkaRecordSerializationSchema,
    KafkaSink,
    RecordPartitioner,
    UpsertMode,
)
from connector_kafka.sink.partition_assigner import PartitionAssigner
from connectors_core.errors import InvalidOptionError

PATH = f"{__name__}:ByLength"
BY_KEY = KafkaRecordSerializationSchema(topic="flights")


class ByLength(RecordPartitioner):
    """Assigns a record by the length of its value, after the number of its writer."""

    def open(self, subtask_id: int) -> None:
        self.first = subtask_id

    def partition(
        self, rows: pa.RecordBatch, keys: Any, values: Any, topic: str, partition_count: int
    ) -> Any:
        return (pc.binary_length(values).to_numpy() + self.first) % partition_count


class Returning(RecordPartitioner):
    """Returns what a test says, and remembers what it was asked."""

    def __init__(self, found: Any = None) -> None:
        self.found = found

    def partition(
        self, rows: pa.RecordBatch, keys: Any, values: Any, topic: str, partition_count: int
    ) -> Any:
        self.asked = rows, keys, values, topic, partition_count
        return self.found


class NeedsArguments(Returning):
    def __init__(self, found: Any) -> None:
        raise AssertionError("not created")


def records_of(values: list[bytes], **columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.nulls(len(values), pa.binary()),
            "value": pa.array(values, pa.binary()),
            **columns,
        }
    )


def assigner_of(partitioner: RecordPartitioner, subtask_id: int = 0) -> PartitionAssigner:
    return PartitionAssigner(partitioner, subtask_id=subtask_id, batch_size=1 << 16)


def sink_with(partitioner: Any, **settings: Any) -> KafkaSink:
    return KafkaSink("one:1", serialization=BY_KEY, partitioner=partitioner, **settings)


@given(st.lists(st.binary(max_size=9), min_size=1), st.integers(1, 7), st.integers(0, 9))
def test_a_retry_of_a_task_assigns_the_same_partitions(
    values: list[bytes], count: int, subtask: int
) -> None:
    shipped = pickle.loads(pickle.dumps(ByLength()))
    records = records_of(values)
    first, second = (
        assigner_of(each, subtask).assign("t", records, count, lambda rows: rows)
        for each in (ByLength(), shipped)
    )
    assert first.tolist() == second.tolist() == [(len(v) + subtask) % count for v in values]
    assert first.dtype == np.int32


def test_each_writer_has_its_own_copy() -> None:
    shared = ByLength()
    writers = [assigner_of(shared, subtask) for subtask in range(3)]
    records = records_of([b""])
    found = [each.assign("t", records, 3, lambda rows: rows).tolist() for each in writers]
    assert found == [[0], [1], [2]]
    assert not hasattr(shared, "first")


def test_only_records_without_an_explicit_partition_are_assigned() -> None:
    given_ones = pa.array([2, None, 0, None], pa.int64())
    records = records_of([b"a", b"bb", b"ccc", b"dddd"], partition=given_ones)
    found = assigner_of(ByLength()).assign("t", records, 3, lambda rows: rows)
    assert found.tolist() == [2, 2, 0, 1]
    never_asked = assigner_of(Returning()).assign("t", records.slice(0, 1), 3, lambda rows: rows)
    assert never_asked.tolist() == [2]


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (np.array([0, 3]), "3"),
        (np.array([-1, 0]), "-1"),
        (np.array([0]), "int64"),
        (np.array([0.0, 1.0]), "float64"),
        (pa.array([0, None], pa.int32()), "float64"),
        ([0, 1], "list"),
        (None, "NoneType"),
    ],
)
def test_partitions_that_do_not_exist_are_refused(found: Any, shown: str) -> None:
    with pytest.raises(InvalidOptionError, match=shown) as refused:
        assigner_of(Returning(found)).assign("t", records_of([b"", b""]), 3, lambda rows: rows)
    assert refused.value.option == "sink.partitioner"


def test_an_arrow_array_is_accepted() -> None:
    partitioner = Returning(pa.array([1, 0], pa.uint8()))
    found = assigner_of(partitioner).assign("t", records_of([b"", b""]), 2, lambda rows: rows)
    assert found.tolist() == [1, 0]


@pytest.mark.parametrize("name", ["default", "fixed", "round-robin", "ROUND_ROBIN"])
def test_the_built_in_ones_have_names(name: str) -> None:
    assert sink_with(name).partitioner in KafkaPartitioner


def test_a_class_can_be_given_as_an_object_or_by_its_path() -> None:
    given_one = Returning()
    assert sink_with(given_one).partitioner is given_one
    assert isinstance(sink_with(PATH).partitioner, ByLength)
    made = KafkaSink.from_options(
        {"properties.bootstrap.servers": "one:1", "topic": "t", "sink.partitioner": PATH}
    )
    assert isinstance(made.partitioner, ByLength)


@pytest.mark.parametrize(
    "path",
    [
        "abc",
        "no_such_module:Class",
        f"{__name__}:NoSuchClass",
        f"{__name__}:NeedsArguments",
        "builtins:dict",
    ],
)
def test_a_path_without_such_a_class_is_refused(path: str) -> None:
    with pytest.raises(InvalidOptionError, match="module:Class") as refused:
        sink_with(path)
    assert refused.value.option == "sink.partitioner"


def test_an_upsert_refuses_a_class() -> None:
    with pytest.raises(InvalidOptionError, match="default partitioner"):
        sink_with(ByLength(), upsert=UpsertMode.EVERY_ROW)
