# SPDX-License-Identifier: Apache-2.0
"""Tests the queue between fetchers and the task: limits, wake-ups, and errors."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.errors import ConfigurationError
from connectors_core.source.base import ElementQueue, FetchedElement, FetchError

DEADLINE = 10.0


def queue_of_bytes(max_elements=4, max_bytes=100):
    return ElementQueue(len, max_elements=max_elements, max_bytes=max_bytes)


def entry(size, finished=False):
    return FetchedElement("s", bytes(size), finished)


class Putting:
    """A put in its own thread."""

    def __init__(self, queue, item):
        self.taken = None
        self.done = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(queue, item), daemon=True)
        self._thread.start()

    def _run(self, queue, item):
        self.taken = queue.put(item)
        self.done.set()

    def result(self):
        assert self.done.wait(DEADLINE)
        self._thread.join(DEADLINE)
        return self.taken


def test_entries_are_returned_in_order():
    queue = queue_of_bytes()
    entries = [entry(size) for size in (1, 2, 3)]
    assert all(queue.put(each) for each in entries)
    assert [queue.poll() for _ in range(4)] == [*entries, None]


@pytest.mark.parametrize(
    ("first", "second", "bounds"),
    [
        pytest.param(entry(1), entry(1), {"max_elements": 1}, id="elements"),
        pytest.param(entry(60), entry(41), {"max_bytes": 100}, id="bytes"),
    ],
)
def test_a_put_blocks_until_there_is_room(first, second, bounds):
    queue = queue_of_bytes(**bounds)
    queue.put(first)
    putting = Putting(queue, second)
    assert not putting.done.wait(0.05)
    assert queue.poll() == first
    assert putting.result() is True
    assert queue.poll() == second


def test_an_element_larger_than_the_limit_passes_alone():
    queue = queue_of_bytes(max_bytes=10)
    assert queue.put(entry(1000))
    assert queue.nbytes == 1000


def test_the_end_of_a_split_never_blocks():
    queue = queue_of_bytes(max_elements=1)
    queue.put(entry(1))
    assert queue.put(FetchedElement("s", None, finished=True))
    assert len(queue) == 2


def test_closing_wakes_a_blocked_put_and_refuses_its_entry():
    queue = queue_of_bytes(max_elements=1)
    queue.put(entry(1))
    putting = Putting(queue, entry(2))
    assert not putting.done.wait(0.05)
    queue.close()
    assert putting.result() is False
    assert queue.put(entry(3)) is False


def test_an_error_is_raised_once_after_the_entries_fetched_before_it():
    queue = queue_of_bytes()
    queue.put(entry(1))
    queue.close(ValueError("lost"))
    queue.close(ValueError("later"))
    assert queue.poll() == entry(1)
    assert queue.wait_available(0)
    with pytest.raises(ValueError, match="lost"):
        queue.poll()
    with pytest.raises(FetchError, match="polled again"):
        queue.poll()


def test_waiting_ends_when_an_entry_arrives_or_at_the_timeout():
    queue = queue_of_bytes()
    assert not queue.wait_available(0.01)
    putting = Putting(queue, entry(1))
    assert queue.wait_available(DEADLINE)
    putting.result()


def test_clearing_makes_room():
    queue = queue_of_bytes(max_elements=1)
    queue.put(entry(5))
    queue.clear()
    assert (len(queue), queue.nbytes, queue.poll()) == (0, 0, None)
    assert queue.put(entry(5))


@pytest.mark.parametrize("bounds", [{"max_elements": 0}, {"max_bytes": 0}])
def test_limits_below_one_are_refused(bounds):
    with pytest.raises(ConfigurationError):
        queue_of_bytes(**bounds)


@given(
    sizes=st.lists(st.integers(0, 30), max_size=30),
    max_elements=st.integers(1, 4),
    max_bytes=st.integers(1, 60),
)
def test_the_queue_never_exceeds_its_limits_and_loses_no_entry(sizes, max_elements, max_bytes):
    queue = queue_of_bytes(max_elements, max_bytes)
    producer = threading.Thread(
        target=lambda: [queue.put(entry(size)) for size in sizes], daemon=True
    )
    producer.start()
    taken = []
    while len(taken) < len(sizes):
        assert queue.wait_available(DEADLINE)
        waiting, held = len(queue), queue.nbytes
        assert waiting <= max_elements
        assert held <= max(max_bytes, max(sizes))
        taken.append(len(queue.poll().element))
    producer.join(DEADLINE)
    assert taken == sizes
