# SPDX-License-Identifier: Apache-2.0
"""Tests the sources that need no external system."""

import pickle

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StructType

from connectors_core.errors import ConfigurationError, FatalError
from connectors_core.metrics import MetricGroup
from connectors_core.source import Boundedness, InputStatus
from connectors_core.source.data_generator import DataGeneratorSource
from connectors_core.source.rate_limiter import RateLimiterStrategy
from connectors_core.source.sequence import NumberRangeSplit, NumberSequenceSource

SCHEMA = pa.schema([("n", pa.int64()), ("square", pa.int64())])
BIGGEST = 2**63 - 1

ranges = st.builds(
    lambda start, length, **sizes: NumberSequenceSource(start, start + length, **sizes),
    st.integers(-50, 50) | st.just(BIGGEST - 60) | st.just(-(2**63)),
    st.integers(0, 60),
    split_rows=st.integers(1, 25),
    batch_rows=st.integers(1, 25),
)


def squares(numbers):
    return pa.record_batch([numbers, pc.multiply(numbers, numbers)], schema=SCHEMA)


class EnumeratorContext:
    event_time_order = False
    current_parallelism = 2
    registered_readers = frozenset({0, 1})

    def __init__(self):
        self.assigned = []
        self.ended = []

    def assign_split(self, split, subtask_id):
        self.assigned.append(split)

    def signal_no_more_splits(self, subtask_id):
        self.ended.append(subtask_id)


class ReaderContext:
    index_of_subtask = 0
    current_parallelism = 2

    def __init__(self):
        self.metric_group = MetricGroup()
        self.requests = 0

    def send_split_request(self):
        self.requests += 1


class Output:
    def __init__(self):
        self.batches = []
        self.split_ids = []

    def create_output_for_split(self, split_id):
        self.split_ids.append(split_id)
        return self

    def collect(self, batch):
        self.batches.append(batch)

    def rows(self, column=0):
        return [row for batch in self.batches for row in batch.column(column).to_pylist()]


def ask(enumerator, context, times):
    for _ in range(times):
        enumerator.handle_split_request(0)
    return list(context.assigned)


def discover(source):
    """Return all splits of a bounded source."""
    context = EnumeratorContext()
    enumerator = source.create_enumerator(context)
    while not context.ended:
        enumerator.handle_split_request(0)
    return context.assigned


def reader_with(source, splits):
    reader = source.create_reader(ReaderContext())
    reader.start()
    reader.add_splits(splits)
    reader.notify_no_more_splits()
    return reader


def read_all(source, splits):
    reader, output = reader_with(source, splits), Output()
    while reader.poll_next(output) is not InputStatus.END_OF_INPUT:
        pass
    reader.close()
    return output


def all_numbers(source):
    return range(source._start, source._end + 1)


@given(ranges)
def test_the_splits_contain_every_number_once_and_both_bounds(source):
    output = read_all(source, discover(source))
    assert output.rows() == list(all_numbers(source))
    assert all(batch.schema == source.schema() for batch in output.batches)
    assert max(batch.num_rows for batch in output.batches) <= source._batch_rows


@given(ranges, st.integers(0, 30), st.data())
def test_a_restored_enumerator_continues_with_the_remaining_splits(source, asked, data):
    context = EnumeratorContext()
    enumerator = source.create_enumerator(context)
    splits = ask(enumerator, context, asked)
    returned = [split for split in splits if data.draw(st.booleans())]
    enumerator.add_splits_back(returned, 0)

    serializer = source.enumerator_state_serializer()
    stored = serializer.serialize(enumerator.snapshot_state(1))
    assert serializer.deserialize(serializer.version, stored) == enumerator.snapshot_state(1)

    context = EnumeratorContext()
    state = serializer.deserialize(serializer.version, stored)
    enumerator = source.restore_enumerator(context, state)
    while not context.ended:
        enumerator.handle_split_request(0)
    assert context.assigned[: len(returned)] == returned
    kept = [split for split in splits if split not in returned]
    numbers = read_all(source, kept + context.assigned).rows()
    assert sorted(numbers) == list(all_numbers(source))


@given(ranges)
def test_discovering_the_splits_again_returns_the_same_ones(source):
    splits = discover(source)
    assert discover(pickle.loads(pickle.dumps(source))) == splits
    assert len({split.split_id for split in splits}) == len(splits)


@given(ranges, st.integers(0, 40))
def test_reading_from_any_position_returns_exactly_the_remaining_rows(source, polls):
    reader, output = reader_with(source, discover(source)), Output()
    for _ in range(polls):
        reader.poll_next(output)
    serializer = source.split_serializer()
    stored = [serializer.serialize(split) for split in reader.snapshot_state()]
    rest = read_all(source, [serializer.deserialize(serializer.version, s) for s in stored])
    assert output.rows() + rest.rows() == list(all_numbers(source))


def test_a_poll_emits_one_batch_and_the_position_is_right_after_it():
    source = NumberSequenceSource(0, 9, split_rows=6, batch_rows=4)
    reader, output = reader_with(source, discover(source)), Output()
    assert reader.poll_next(output) is InputStatus.MORE_AVAILABLE
    assert reader.snapshot_state() == [NumberRangeSplit("0", 4, 5), NumberRangeSplit("6", 6, 9)]
    reader.poll_next(output)
    assert reader.snapshot_state() == [NumberRangeSplit("6", 6, 9)]
    assert output.rows() == [0, 1, 2, 3, 4, 5]
    assert output.split_ids == ["0", "0"]


def test_a_reader_requests_a_split_when_it_has_none():
    source = NumberSequenceSource(0, 1)
    reader = source.create_reader(context := ReaderContext())
    assert reader.poll_next(Output()) is InputStatus.NOTHING_AVAILABLE
    assert not reader.wait_available(0.0)
    reader.add_splits(discover(source))
    assert reader.wait_available(0.0)
    reader.notify_no_more_splits()
    reader.poll_next(Output())
    reader.poll_next(Output())
    assert context.requests == 1


def test_a_paused_split_holds_back_the_splits_after_it():
    source = NumberSequenceSource(0, 3, split_rows=2)
    reader, output = reader_with(source, discover(source)), Output()
    reader.pause_or_resume_splits(["0"], [])
    assert reader.poll_next(output) is InputStatus.NOTHING_AVAILABLE
    assert not reader.wait_available(0.0)
    reader.pause_or_resume_splits([], ["0"])
    reader.poll_next(output)
    assert output.rows() == [0, 1]


def test_the_weight_of_a_split_is_the_number_of_its_remaining_rows():
    assert NumberRangeSplit("0", 4, 9).weight() == 6


@pytest.mark.parametrize(
    "arguments",
    [
        {"start": 1, "end": 0},
        {"start": 0, "end": 2**63},
        {"start": 0, "end": 1, "split_rows": 0},
        {"start": 0, "end": 1, "batch_rows": 0},
    ],
)
def test_a_sequence_refuses_invalid_bounds(arguments):
    with pytest.raises(ConfigurationError):
        NumberSequenceSource(**arguments)


def test_a_generator_creates_its_rows_from_their_numbers():
    source = DataGeneratorSource(squares, 10, SCHEMA, split_rows=4, batch_rows=3)
    assert source.boundedness() is Boundedness.BOUNDED
    output = read_all(source, discover(source))
    assert output.rows("square") == [n * n for n in range(10)]
    assert pickle.loads(pickle.dumps(source)).schema() == SCHEMA


@pytest.mark.parametrize(
    "schema",
    ["n BIGINT, square BIGINT", StructType().add("n", LongType()).add("square", LongType())],
    ids=["DDL", "StructType"],
)
def test_a_generator_accepts_a_schema_in_each_form(schema):
    assert DataGeneratorSource(squares, 1, schema).schema() == SCHEMA


def test_a_generator_refuses_an_invalid_schema():
    with pytest.raises(ConfigurationError) as refused:
        DataGeneratorSource(squares, 1, "n BIGIN")
    assert refused.value.option == "schema"


def test_a_generator_without_rows_ends_at_once():
    assert discover(DataGeneratorSource(squares, 0, SCHEMA)) == []


def test_an_endless_generator_always_has_another_bounded_split():
    source = DataGeneratorSource(squares, None, SCHEMA, split_rows=5)
    assert source.boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    assert source.split_traits().end
    context = EnumeratorContext()
    enumerator = source.create_enumerator(context)
    splits = ask(enumerator, context, 100)
    assert context.ended == []
    assert splits[99] == NumberRangeSplit("495", 495, 499)
    assert enumerator.snapshot_state(1).returned == ()


def test_a_generator_returns_its_rate_limit():
    limit = RateLimiterStrategy.per_second(5)
    assert DataGeneratorSource(squares, 1, SCHEMA, limit).rate_limiter_strategy() == limit
    assert (
        DataGeneratorSource(squares, 1, SCHEMA).rate_limiter_strategy()
        == RateLimiterStrategy.none()
    )


@pytest.mark.parametrize(
    "generator",
    [
        pytest.param(lambda numbers: squares(numbers).slice(1), id="a row is missing"),
        pytest.param(lambda numbers: pa.record_batch({"n": numbers}), id="a column is missing"),
    ],
)
def test_a_batch_that_does_not_match_the_schema_is_an_error(generator):
    source = DataGeneratorSource(generator, 3, SCHEMA)
    with pytest.raises(FatalError, match="DataGeneratorSource") as caught:
        read_all(source, discover(source))
    assert "3 rows" in caught.value.expected


def test_a_generator_refuses_a_count_below_zero():
    with pytest.raises(ConfigurationError):
        DataGeneratorSource(squares, -1, SCHEMA)
