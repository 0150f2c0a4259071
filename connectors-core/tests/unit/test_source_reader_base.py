# SPDX-License-Identifier: Apache-2.0
"""Tests the base class of readers: positions, ends, pauses, and errors."""

import threading
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from fetcher_managers import DEADLINE, every_manager
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors_core.errors import FatalError
from connectors_core.metrics import MetricGroup
from connectors_core.source import InputStatus, SourceSplit, SplitState
from connectors_core.source.base import (
    FetchError,
    PositionedBatch,
    RecordEmitter,
    RecordsBySplits,
    SingleThreadMultiplexFetcherManager,
    SingleThreadSequentialFetcherManager,
    SourceReaderBase,
    SplitReader,
    ThreadPerSplitFetcherManager,
)


@dataclass(frozen=True)
class Range(SourceSplit):
    """The numbers from `position` up to, but not including, `end`."""

    split_id: str
    end: int
    position: int = 0


class RangeState(SplitState):
    def __init__(self, split):
        self.split = split

    def to_split(self):
        return self.split


class RangeReader(SplitReader):
    """Returns batches of three numbers. A split ends with its last batch or in a later fetch."""

    def __init__(self, *, late_end=False, fail_at=None):
        self._late_end = late_end
        self._fail_at = fail_at
        self._splits = {}
        self._paused = set()
        self._woken = threading.Event()

    def fetch(self):
        for split in list(self._splits.values()):
            if split.split_id in self._paused:
                continue
            del self._splits[split.split_id]
            if self._fail_at == split.position:
                raise OSError("connection lost")
            last = min(split.position + 3, split.end)
            records = []
            if last > split.position:
                batch = pa.record_batch({"n": pa.array(range(split.position, last), pa.int64())})
                records = [(split.split_id, PositionedBatch(batch, last))]
            if last == split.end and not (self._late_end and records):
                return RecordsBySplits(records, frozenset({split.split_id}))
            self._splits[split.split_id] = replace(split, position=last)
            return RecordsBySplits(records)
        assert self._woken.wait(DEADLINE)
        self._woken.clear()
        return RecordsBySplits()

    def handle_splits_changes(self, change):
        self._splits |= {split.split_id: split for split in change.splits}

    def pause_or_resume_splits(self, pause, resume):
        self._paused = (self._paused | set(pause)) - set(resume)

    def wake_up(self):
        self._woken.set()

    def close(self):
        pass


class RangeEmitter(RecordEmitter):
    def emit_record(self, element, output, split_state):
        output.collect(element.batch)
        split_state.split = replace(split_state.split, position=element.position)


class RangeSourceReader(SourceReaderBase):
    def __init__(self, context, manager, **options):
        super().__init__(context, manager, RangeEmitter(), **options)
        self.finished = {}

    def initialized_state(self, split):
        return RangeState(split)

    def on_split_finished(self, finished):
        self.finished |= {split_id: state.to_split() for split_id, state in finished.items()}


class Context:
    index_of_subtask = 0
    current_parallelism = 1
    record_errors = None

    def __init__(self):
        self.metric_group = MetricGroup()
        self.requests = 0

    def send_split_request(self):
        self.requests += 1

    def send_source_event_to_coordinator(self, event):
        raise AssertionError


class Output:
    """Keeps the emitted batches as (split id, numbers)."""

    def __init__(self):
        self.batches = []

    def create_output_for_split(self, split_id):
        return SplitOutput(split_id, self.batches)


@dataclass
class SplitOutput:
    split_id: str
    batches: list

    def collect(self, batch):
        self.batches.append((self.split_id, batch.column("n").to_pylist()))


def reader_of(manager_class, *, request_splits=False, queued=4, **reader_options):
    manager = manager_class(
        lambda: RangeReader(**reader_options), max_queued_elements=queued, close_timeout=DEADLINE
    )
    return RangeSourceReader(Context(), manager, request_splits=request_splits)


def poll(reader, output):
    """Poll until there is a batch or the end."""
    while (status := reader.poll_next(output)) is InputStatus.NOTHING_AVAILABLE:
        assert reader.wait_available(DEADLINE)
    return status


def read_all(reader, output):
    while poll(reader, output) is not InputStatus.END_OF_INPUT:
        pass


def assert_silent(reader, output):
    """Check that no batch is emitted after those that were already fetched."""
    emitted = len(output.batches)
    for _ in range(20):
        assert reader.poll_next(output) is InputStatus.NOTHING_AVAILABLE
        if not reader.wait_available(0.05):
            break
    assert not reader.wait_available(0.05)
    assert len(output.batches) == emitted


def numbers_of(output, split_id):
    return [number for name, batch in output.batches if name == split_id for number in batch]


@pytest.fixture(autouse=True)
def no_thread_is_left_behind():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@pytest.fixture
def opened():
    readers = []

    def make(*args, **options):
        readers.append(reader_of(*args, **options))
        return readers[-1]

    yield make
    for reader in readers:
        reader.close()


@every_manager
@settings(max_examples=25, deadline=None)
@given(
    ends=st.lists(st.integers(0, 12), max_size=4),
    late_end=st.booleans(),
    queued=st.integers(1, 4),
    polls=st.integers(0, 10),
)
def test_reading_from_any_snapshot_returns_exactly_the_remaining_rows(
    manager_class, ends, late_end, queued, polls
):
    splits = [Range(f"s{at}", end) for at, end in enumerate(ends)]
    output = Output()
    for limit in (polls, None):
        reader = reader_of(manager_class, late_end=late_end, queued=queued)
        try:
            reader.start()
            reader.add_splits(splits)
            reader.notify_no_more_splits()
            if limit is None:
                read_all(reader, output)
                assert reader.snapshot_state() == []
            else:
                for _ in range(limit):
                    poll(reader, output)
                splits = reader.snapshot_state()
        finally:
            reader.close()
    for at, end in enumerate(ends):
        assert numbers_of(output, f"s{at}") == list(range(end))
    if manager_class.ordered:
        names = [name for name, _ in output.batches]
        assert names == sorted(names)


@every_manager
def test_a_poll_emits_one_batch_and_the_position_is_right_after_it(manager_class, opened):
    reader, output = opened(manager_class), Output()
    reader.add_splits([Range("a", 7), Range("b", 7)])
    reader.notify_no_more_splits()
    positions = {"a": 0, "b": 0}
    while positions:
        before = len(output.batches)
        poll(reader, output)
        (name, batch) = output.batches[-1]
        assert len(output.batches) == before + 1
        positions[name] += len(batch)
        if positions[name] == 7:
            del positions[name]
        assert {s.split_id: s.position for s in reader.snapshot_state()} == positions


@every_manager
def test_a_split_is_kept_until_its_last_element_is_emitted(manager_class, opened):
    reader, output = opened(manager_class), Output()
    reader.add_splits([Range("a", 6)])
    poll(reader, output)
    assert reader.wait_available(DEADLINE)  # fetched to its end, but not emitted
    assert reader.snapshot_state() == [Range("a", 6, 3)]
    assert reader.finished == {}
    poll(reader, output)
    assert reader.snapshot_state() == []
    assert reader.finished == {"a": Range("a", 6, 6)}


@every_manager
def test_an_end_without_rows_takes_a_separate_poll(manager_class, opened):
    reader, output = opened(manager_class, late_end=True), Output()
    reader.add_splits([Range("a", 3)])
    assert poll(reader, output) is InputStatus.MORE_AVAILABLE
    assert reader.snapshot_state() == [Range("a", 3, 3)]
    assert poll(reader, output) is InputStatus.MORE_AVAILABLE
    assert reader.snapshot_state() == []
    assert len(output.batches) == 1


@every_manager
def test_the_end_of_input_requires_all_splits_finished_and_no_more_splits(manager_class, opened):
    reader, output = opened(manager_class), Output()
    assert reader.poll_next(output) is InputStatus.NOTHING_AVAILABLE
    reader.add_splits([Range("a", 2)])
    poll(reader, output)
    assert reader.poll_next(output) is InputStatus.NOTHING_AVAILABLE
    assert not reader.wait_available(0)
    reader.notify_no_more_splits()
    assert reader.wait_available(DEADLINE)
    assert reader.poll_next(output) is InputStatus.END_OF_INPUT


@every_manager
def test_elements_of_a_paused_split_are_held_back_until_it_resumes(manager_class, opened):
    reader, output = opened(manager_class), Output()
    reader.add_splits([Range("a", 30)])
    poll(reader, output)
    assert reader.wait_available(DEADLINE)
    reader.pause_or_resume_splits(["a"], [])
    assert_silent(reader, output)
    assert reader.snapshot_state() == [Range("a", 30, 3)]
    reader.pause_or_resume_splits([], ["a"])
    reader.notify_no_more_splits()
    read_all(reader, output)
    assert numbers_of(output, "a") == list(range(30))


@pytest.mark.parametrize(
    "manager_class", [SingleThreadMultiplexFetcherManager, ThreadPerSplitFetcherManager]
)
def test_other_splits_overtake_a_paused_one(manager_class, opened):
    reader, output = opened(manager_class, queued=1), Output()
    reader.add_splits([Range("a", 30), Range("b", 30)])
    poll(reader, output)
    reader.pause_or_resume_splits(["a"], [])
    read = len(numbers_of(output, "a"))
    while "b" not in reader.finished:
        poll(reader, output)
    assert len(numbers_of(output, "a")) == read
    reader.pause_or_resume_splits([], ["a"])
    reader.notify_no_more_splits()
    read_all(reader, output)
    assert numbers_of(output, "a") == numbers_of(output, "b") == list(range(30))


def test_in_an_ordered_reader_no_split_overtakes_a_paused_one(opened):
    reader, output = opened(SingleThreadSequentialFetcherManager), Output()
    reader.add_splits([Range("a", 6), Range("b", 6)])
    reader.pause_or_resume_splits(["a"], [])
    assert_silent(reader, output)
    reader.pause_or_resume_splits([], ["a"])
    reader.notify_no_more_splits()
    read_all(reader, output)
    assert [name for name, _ in output.batches] == ["a", "a", "b", "b"]


class UnpausableReader(RangeReader):
    pause_or_resume_splits = SplitReader.pause_or_resume_splits


def test_a_refused_pause_changes_nothing():
    manager = SingleThreadMultiplexFetcherManager(UnpausableReader, close_timeout=DEADLINE)
    reader, output = RangeSourceReader(Context(), manager), Output()
    try:
        reader.add_splits([Range("a", 60), Range("b", 60)])
        with pytest.raises(NotImplementedError):
            reader.pause_or_resume_splits(["a"], [])
        reader.notify_no_more_splits()
        read_all(reader, output)
    finally:
        reader.close()
    assert numbers_of(output, "a") == list(range(60))


@every_manager
def test_an_error_of_a_fetcher_is_raised_by_the_poll_after_the_rows_before_it(
    manager_class, opened
):
    reader, output = opened(manager_class, fail_at=6), Output()
    reader.add_splits([Range("a", 9)])
    with pytest.raises(FetchError) as caught:
        read_all(reader, output)
    assert isinstance(caught.value.__cause__, OSError)
    assert numbers_of(output, "a") == list(range(6))
    assert reader.snapshot_state() == [Range("a", 9, 6)]
    with pytest.raises(FetchError, match="polled again"):
        reader.poll_next(output)


def test_a_split_is_requested_once_when_all_are_finished_or_none_was_assigned(opened):
    reader, output = opened(SingleThreadSequentialFetcherManager, request_splits=True), Output()
    reader.add_splits([Range("a", 3), Range("b", 3)])
    reader.notify_no_more_splits()
    poll(reader, output)
    assert reader.context.requests == 0
    read_all(reader, output)
    assert reader.context.requests == 1

    reader = opened(SingleThreadSequentialFetcherManager, request_splits=True)
    reader.notify_no_more_splits()
    assert reader.context.requests == 1


@every_manager
def test_a_split_cannot_be_added_twice_or_to_a_closed_reader(manager_class, opened):
    reader = opened(manager_class)
    reader.add_splits([Range("a", 3)])
    with pytest.raises(FatalError, match="'a'"):
        reader.add_splits([Range("a", 3)])
    reader.close()
    with pytest.raises(FatalError, match="'b'") as caught:
        reader.add_splits([Range("b", 3)])
    assert caught.value.found == "a closed reader"


@every_manager
def test_closing_during_a_read_leaves_no_thread_and_may_be_repeated(manager_class, opened):
    reader, output = opened(manager_class, queued=1), Output()
    reader.add_splits([Range("a", 300), Range("b", 300)])
    poll(reader, output)
    reader.close()
    reader.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("split-fetcher")]
