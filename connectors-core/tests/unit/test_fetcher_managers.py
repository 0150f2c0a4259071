# SPDX-License-Identifier: Apache-2.0
"""Tests fetcher threads: which splits they read, and how they stop and fail."""

import logging
import threading
import time
from dataclasses import dataclass

import pytest
from fetcher_managers import DEADLINE, every_manager
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors_core.errors import ConfigurationError, RetryableError
from connectors_core.source import SourceSplit
from connectors_core.source.base import (
    FetchError,
    RecordsBySplits,
    SingleThreadMultiplexFetcherManager,
    SingleThreadSequentialFetcherManager,
    SplitReader,
    ThreadPerSplitFetcherManager,
)


@dataclass(frozen=True)
class Numbers(SourceSplit):
    """The numbers below `count`. With `endless`, the split then waits to be woken."""

    split_id: str
    count: int
    endless: bool = False


class NumbersReader(SplitReader):
    """Returns one number of each split per fetch. It blocks when all remaining splits are idle."""

    def __init__(self, log, fail_at=None):
        self.log = log
        self._fail_at = fail_at or {}
        self._next = {}
        self._left_out = set()
        self._woken = threading.Event()

    def fetch(self):
        self.log.append(("fetch", threading.current_thread()))
        records, finished = [], set()
        for split, number in list(self._next.items()):
            if split.split_id in self._left_out:
                continue
            if self._fail_at.get(split.split_id) == number:
                raise self._fail_at["error"]
            if number < split.count:
                records.append((split.split_id, (split.split_id, number)))
                self._next[split] = number + 1
            if number + 1 >= split.count and not split.endless:
                finished.add(split.split_id)
                del self._next[split]
        if not records and not finished:
            self.log.append(("blocked", None))
            assert self._woken.wait(DEADLINE)
        self._woken.clear()
        return RecordsBySplits(records, frozenset(finished))

    def handle_splits_changes(self, change):
        for split in change.splits:
            self.log.append(("added", split.split_id))
            self._next[split] = 0

    def wake_up(self):
        self._woken.set()

    def close(self):
        self.log.append(("closed", threading.current_thread()))


class PausingReader(NumbersReader):
    def pause_or_resume_splits(self, pause, resume):
        self.log.append(("paused", tuple(pause)))
        self.log.append(("resumed", tuple(resume)))
        self._left_out = (self._left_out | set(pause)) - set(resume)


def manager_of(manager_class, reader_class=NumbersReader, log=None, fail_at=None, **options):
    log = [] if log is None else log
    options = {"size_of": lambda element: 1, "close_timeout": DEADLINE} | options
    return manager_class(lambda: reader_class(log, fail_at), **options)


def poll(queue):
    """Wait for the next entry."""
    assert queue.wait_available(DEADLINE)
    return queue.poll()


def drain(manager, splits):
    """Return all elements until this many splits have ended."""
    elements, ended = [], []
    while len(ended) < splits:
        entry = poll(manager.queue)
        if entry.element is not None:
            elements.append(entry.element)
        if entry.finished:
            ended.append(entry.split_id)
    return elements, ended


def numbers_of(split):
    return [(split.split_id, number) for number in range(split.count)]


def wait_until(condition):
    """Wait for a condition without an event by polling, with a deadline."""
    deadline = time.monotonic() + DEADLINE
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline
        pause.wait(0.001)


@pytest.fixture(autouse=True)
def no_thread_is_left_behind():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@every_manager
@settings(max_examples=25, deadline=None)
@given(counts=st.lists(st.integers(0, 6), max_size=6), bound=st.integers(1, 4))
def test_every_element_arrives_once_and_in_the_order_of_its_split(manager_class, counts, bound):
    splits = [Numbers(f"s{at}", count) for at, count in enumerate(counts)]
    manager = manager_of(manager_class, max_queued_elements=bound)
    manager.add_splits(splits)
    elements, ended = drain(manager, len(splits))
    manager.close()
    assert sorted(ended) == [split.split_id for split in splits]
    for split in splits:
        assert [each for each in elements if each[0] == split.split_id] == numbers_of(split)
    if manager_class.ordered:
        assert elements == [each for split in splits for each in numbers_of(split)]
        assert ended == [split.split_id for split in splits]


@every_manager
def test_no_thread_runs_before_the_first_split(manager_class):
    log = []
    manager = manager_of(manager_class, log=log)
    assert manager.live_fetchers == 0
    manager.close()
    assert log == []


@every_manager
def test_the_last_element_marks_the_end_of_its_split(manager_class):
    manager = manager_of(manager_class)
    manager.add_splits([Numbers("a", 2)])
    assert [poll(manager.queue).finished for _ in range(2)] == [False, True]
    manager.close()


@every_manager
def test_a_split_reader_is_used_and_closed_on_one_thread_and_closed_once(manager_class):
    log = []
    manager = manager_of(manager_class, log=log)
    manager.add_splits([Numbers("a", 3)])
    drain(manager, 1)
    manager.close()
    manager.close()
    threads = [what for event, what in log if event in ("fetch", "closed")]
    assert len(set(threads)) == 1
    assert threads[0] is not threading.current_thread()
    assert [event for event, _ in log].count("closed") == 1


@every_manager
def test_splits_can_be_added_after_all_others_have_finished(manager_class):
    manager = manager_of(manager_class)
    for name in ("a", "b"):
        manager.add_splits([Numbers(name, 2)])
        assert drain(manager, 1) == ([(name, 0), (name, 1)], [name])
        wait_until(lambda: manager.live_fetchers == 0)
    manager.close()


@every_manager
def test_a_full_queue_stops_the_fetchers(manager_class):
    log = []
    manager = manager_of(manager_class, log=log, max_queued_elements=2)
    manager.add_splits([Numbers("a", 100)])
    wait_until(lambda: len(manager.queue) == 2)
    wait_until(lambda: log.count(("fetch", log[-1][1])) >= 3)
    assert len(log) == 1 + 3  # added; two are queued, and one is being put
    assert drain(manager, 1)[0] == numbers_of(Numbers("a", 100))
    manager.close()


@every_manager
def test_closing_wakes_a_blocked_fetch_and_a_blocked_put(manager_class):
    log = []
    manager = manager_of(manager_class, log=log, max_queued_elements=1)
    manager.add_splits([Numbers("put", 100), Numbers("fetch", 0, endless=True)])
    wait_until(lambda: len(manager.queue) == 1)
    manager.close()
    assert manager.live_fetchers == 0

    manager = manager_of(manager_class, log=log)
    manager.add_splits([Numbers("fetch", 0, endless=True)])
    wait_until(lambda: log[-1][0] == "blocked")
    manager.close()
    assert log[-1][0] == "closed"


def test_a_new_split_wakes_the_single_thread_that_reads_all_splits():
    log = []
    manager = manager_of(SingleThreadMultiplexFetcherManager, log=log)
    manager.add_splits([Numbers("idle", 0, endless=True)])
    wait_until(lambda: log[-1][0] == "blocked")
    manager.add_splits([Numbers("b", 2)])
    assert drain(manager, 1) == ([("b", 0), ("b", 1)], ["b"])
    manager.close()


def test_the_sequential_manager_opens_a_split_when_the_previous_one_is_finished():
    log = []
    manager = manager_of(SingleThreadSequentialFetcherManager, log=log)
    manager.add_splits([Numbers("a", 2), Numbers("b", 1)])
    drain(manager, 2)
    manager.close()
    assert [event for event, _ in log] == ["added", "fetch", "fetch", "added", "fetch", "closed"]


def test_with_a_thread_per_split_other_splits_continue_while_one_blocks():
    manager = manager_of(ThreadPerSplitFetcherManager)
    manager.add_splits([Numbers("idle", 0, endless=True), Numbers("b", 3)])
    assert drain(manager, 1)[1] == ["b"]
    wait_until(lambda: manager.live_fetchers == 1)
    manager.close()


def test_the_number_of_threads_is_limited_and_waiting_splits_reuse_them():
    log = []
    manager = manager_of(ThreadPerSplitFetcherManager, log=log, max_threads=2)
    splits = [Numbers(f"s{at}", 3) for at in range(7)]
    for split in splits:
        manager.add_splits([split])
        assert manager.live_fetchers <= 2
    assert sorted(drain(manager, 7)[1]) == [split.split_id for split in splits]
    manager.close()
    with pytest.raises(ConfigurationError):
        manager_of(ThreadPerSplitFetcherManager, max_threads=0)


@pytest.mark.parametrize(
    "manager_class", [SingleThreadSequentialFetcherManager, ThreadPerSplitFetcherManager]
)
def test_a_reader_of_a_single_split_needs_no_support_for_pauses(manager_class):
    manager = manager_of(manager_class, max_queued_elements=1)
    manager.add_splits([Numbers("a", 5)])
    assert poll(manager.queue).element == ("a", 0)
    manager.pause_or_resume_splits(["a"], [])
    ahead = []
    while manager.queue.wait_available(0.05):
        ahead.append(manager.queue.poll().element)
    assert len(ahead) <= 3  # queued, being put, and one running fetch
    manager.pause_or_resume_splits([], ["a"])
    assert ahead + drain(manager, 1)[0] == numbers_of(Numbers("a", 5))[1:]
    manager.close()


def test_a_split_reader_pauses_one_of_several_splits():
    log = []
    manager = manager_of(SingleThreadMultiplexFetcherManager, PausingReader, log=log)
    manager.add_splits([Numbers("a", 3, endless=True), Numbers("b", 3, endless=True)])
    wait_until(lambda: len(manager.queue) == 4)
    manager.pause_or_resume_splits(["a"], [])
    while ("paused", ("a",)) not in log:
        manager.queue.poll()
    manager.pause_or_resume_splits([], ["a"])
    while ("resumed", ("a",)) not in log:
        manager.queue.poll()
    manager.close()


def test_a_reader_that_cannot_pause_single_splits_raises_at_once():
    manager = manager_of(SingleThreadMultiplexFetcherManager)
    manager.add_splits([Numbers("a", 0, endless=True), Numbers("b", 0, endless=True)])
    with pytest.raises(NotImplementedError, match="single splits"):
        manager.pause_or_resume_splits(["a"], [])
    manager.pause_or_resume_splits(["a", "b"], [])  # no support needed: nothing is fetched
    manager.pause_or_resume_splits([], ["a", "b"])
    manager.close()


@every_manager
def test_an_error_follows_the_elements_before_it_and_stops_all_threads(manager_class):
    cause = ZeroDivisionError("by nothing")
    manager = manager_of(manager_class, fail_at={"a": 2, "error": cause})
    manager.add_splits([Numbers("a", 5), Numbers("idle", 0, endless=True)])
    assert [poll(manager.queue).element for _ in range(2)] == [("a", 0), ("a", 1)]
    with pytest.raises(FetchError, match="by nothing") as caught:
        poll(manager.queue)
    assert caught.value.__cause__ is cause
    wait_until(lambda: manager.live_fetchers == 0)
    manager.close()


@every_manager
def test_a_connector_error_keeps_its_class_and_names_the_thread(manager_class):
    error = RetryableError("the server is busy", retry_after=3.0)
    manager = manager_of(manager_class, fail_at={"a": 0, "error": error}, name="reader-7")
    manager.add_splits([Numbers("a", 1)])
    with pytest.raises(RetryableError) as caught:
        poll(manager.queue)
    assert caught.value is error
    assert any("reader-7-0" in note for note in caught.value.__notes__)
    manager.close()


class StrangeReader(NumbersReader):
    def fetch(self):
        return RecordsBySplits((), frozenset({"never added"}))


@every_manager
def test_a_split_reader_that_returns_an_unknown_split_raises_an_error(manager_class):
    manager = manager_of(manager_class, StrangeReader)
    manager.add_splits([Numbers("a", 1)])
    with pytest.raises(FetchError, match="StrangeReader") as caught:
        poll(manager.queue)
    assert "never added" in caught.value.found
    manager.close()


class BadlyClosingReader(NumbersReader):
    def close(self):
        super().close()
        raise OSError("the socket was gone")


@every_manager
def test_an_error_while_closing_a_stopped_split_reader_is_logged(manager_class, caplog):
    manager = manager_of(manager_class, BadlyClosingReader)
    manager.add_splits([Numbers("a", 0, endless=True)])
    with caplog.at_level(logging.WARNING):
        manager.close()
    assert "failed while it was stopped" in caplog.text
    assert "the socket was gone" in caplog.text


class StuckReader(NumbersReader):
    released = threading.Event()

    def fetch(self):
        self.log.append(("stuck", None))
        self.released.wait(DEADLINE)
        return RecordsBySplits()


def test_a_stuck_thread_is_abandoned_and_reported_with_its_stack(caplog):
    StuckReader.released.clear()
    log = []
    manager = manager_of(SingleThreadMultiplexFetcherManager, StuckReader, log=log, name="slow")
    manager.add_splits([Numbers("a", 1)])
    wait_until(lambda: ("stuck", None) in log)
    with caplog.at_level(logging.ERROR):
        manager.close(timeout=0.01)
    assert "slow-0 did not stop in time" in caplog.text
    assert "in fetch" in caplog.text
    StuckReader.released.set()
    wait_until(lambda: log[-1][0] == "closed")
    wait_until(lambda: not any(t.name == "slow-0" for t in threading.enumerate()))


class GatedReader(SplitReader):
    """Fetches nothing, after a gate opens."""

    def __init__(self, gate, begun):
        self._gate, self._begun = gate, begun

    def fetch(self):
        self._begun.release()
        assert self._gate.wait(DEADLINE)
        return RecordsBySplits()

    def handle_splits_changes(self, change):
        pass

    def wake_up(self):
        self._gate.set()

    def close(self):
        pass


@every_manager
def test_a_manager_has_fetched_when_each_of_its_threads_has(manager_class):
    gates, begun = [threading.Event(), threading.Event()], threading.Semaphore(0)
    left = iter(gates)
    manager = manager_class(lambda: GatedReader(next(left), begun))
    manager.add_splits([Numbers("a", 0, endless=True), Numbers("b", 0, endless=True)])
    assert begun.acquire(timeout=DEADLINE)
    assert not manager.has_fetched
    gates[0].set()
    if manager_class is ThreadPerSplitFetcherManager:
        assert begun.acquire(timeout=DEADLINE)
        assert not manager.has_fetched
        gates[1].set()
    deadline = time.monotonic() + DEADLINE
    while not manager.has_fetched:
        assert time.monotonic() < deadline
    manager.close()
