# SPDX-License-Identifier: Apache-2.0
"""Tests the order in which splits are assigned."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from connectors_core.source import SourceSplit
from connectors_core.source.assigner import SplitAssigner


@dataclass(frozen=True)
class Part(SourceSplit):
    split_id: str
    size: int = 1
    bound: int | None = None

    def weight(self):
        return self.size

    def event_time_lower_bound(self):
        return self.bound


parts = st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(-3, 3)), max_size=30).map(
    lambda rows: [Part(f"{n}", size, bound) for n, (size, bound) in enumerate(rows)]
)


def drain(assigner):
    taken = []
    while (part := assigner.next()) is not None:
        taken.append(part)
    return taken


def assigner_of(parts, event_time_order):
    assigner = SplitAssigner(event_time_order)
    assigner.add(parts)
    return assigner


@given(parts)
def test_without_event_time_the_heaviest_split_goes_first_then_discovery_order_decides(parts):
    expected = sorted(parts, key=lambda part: -part.size)  # sorting is stable
    assert drain(assigner_of(parts, event_time_order=False)) == expected


@given(parts)
def test_with_event_time_unknown_bounds_go_first_in_discovery_order_then_the_lowest_bound(parts):
    unknown = [part for part in parts if part.bound is None]
    known = sorted(
        (part for part in parts if part.bound is not None), key=lambda p: (p.bound, -p.size)
    )
    assert drain(assigner_of(parts, event_time_order=True)) == unknown + known


@given(parts, st.booleans(), st.data())
def test_pending_splits_are_listed_and_restored_in_their_order(parts, event_time, data):
    assigner = assigner_of(parts, event_time)
    taken = data.draw(st.integers(0, len(parts)))
    had = [assigner.next() for _ in range(taken)]
    assigner.add_back([part for part in had if data.draw(st.booleans())])
    pending = assigner.pending()
    assert len(assigner) == len(pending)
    assert drain(assigner_of(pending, event_time)) == list(pending)
    assert drain(assigner) == list(pending)


@given(parts, st.booleans(), st.integers(1, 5))
def test_discovering_a_pending_split_again_changes_nothing(parts, event_time, pieces):
    once = assigner_of(parts, event_time)
    again = SplitAssigner(event_time)
    for at in range(0, len(parts), pieces):
        again.add(parts[: at + pieces])
    again.add(parts)
    assert again.pending() == once.pending()


def test_returned_splits_go_before_equal_splits_in_their_order():
    assigner = assigner_of([Part("a"), Part("b"), Part("c")], event_time_order=True)
    a, b = assigner.next(), assigner.next()
    assigner.add_back([a, b])
    assert [part.split_id for part in drain(assigner)] == ["a", "b", "c"]


def test_an_assigned_split_can_be_returned():
    assigner = assigner_of([Part("a")], event_time_order=False)
    assert assigner.next() == Part("a")
    assigner.add([Part("a", size=2)])
    assert assigner.next() == Part("a", size=2)
    assert assigner.next() is None


@given(parts)
def test_splits_can_keep_the_order_of_discovery(parts):
    assigner = SplitAssigner(False, largest_first=False)
    assigner.add(parts)
    again = SplitAssigner(False, largest_first=False)
    again.add(assigner.pending())
    assert drain(again) == drain(assigner) == parts
