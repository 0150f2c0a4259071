# SPDX-License-Identifier: Apache-2.0
"""Cases of an enumerator: discovery and assignment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

from connectors_core.source import (
    Boundedness,
    HybridSource,
    SourceEvent,
    SupportsAvailableNow,
)
from connectors_core.source.source import AnySource
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.enumeration import Enumeration, all_splits
from connectors_core.testing.source_unit import (
    Batches,
    Reading,
    SourceUnitSuite,
    SourceUnitTrial,
)

SPLITS: Final = 5


class EnumeratorAssignmentCases(SourceUnitSuite, part=True):
    """Cases of discovery and assignment by an enumerator."""

    # --- Discovery and assignment -----------------------------------------------------------------

    @case()
    def test_nothing_happens_before_the_start(self, trial: SourceUnitTrial) -> None:
        trial.write_splits()
        life = Enumeration(trial.source())
        for subtask in range(life.context.current_parallelism):
            life.context.register(subtask)
        life.context.work()
        assert not life.context.assigned, "splits are assigned before the start"
        assert not life.context.calls, "the enumerator works before its start"

    @case()
    def test_every_split_is_assigned_once(self, trial: SourceUnitTrial) -> None:
        trial.write_splits(SPLITS)
        source = trial.source()
        splits = all_splits(source)
        assert_once(splits)
        trial.assert_complete(source, trial.read(source, splits))

    @case(after="test_every_split_is_assigned_once")
    def test_a_split_has_the_same_id_whenever_it_is_found(self, trial: SourceUnitTrial) -> None:
        trial.write_splits(SPLITS)
        assert ids_of(all_splits(trial.source())) == ids_of(all_splits(trial.source()))

    @case(Capability.BOUNDED, after="test_every_split_is_assigned_once")
    @pytest.mark.parametrize("splits", [0, 1, SPLITS])
    def test_every_reader_is_told_that_there_are_no_more(
        self, trial: SourceUnitTrial, splits: int
    ) -> None:
        trial.write_splits(splits)
        life = Enumeration(trial.source(Boundedness.BOUNDED), 3).start()
        life.ask_on()
        assert_all_told(life)

    @case(
        Capability.BOUNDED,
        since="1.4",
        after=(
            "test_every_reader_is_told_that_there_are_no_more",
            "test_a_split_has_the_same_id_whenever_it_is_found",
        ),
    )
    def test_another_source_can_follow_it(self, trial: SourceUnitTrial) -> None:
        """A hybrid source reads it twice, so its first end is an intermediate one."""
        trial.write_splits(SPLITS)
        source = trial.source(Boundedness.BOUNDED)
        expected = ids_of(all_splits(source))
        life = Enumeration(HybridSource.builder(source).add_source(source).build(), 2).start()
        life.ask_on()
        assert not life.context.no_more, "readers learn of an end, although splits will follow"
        waiting = sorted(life.context.registered_readers - life.context.no_more_of_source)
        assert not waiting, f"the next source cannot start because of readers {waiting}"
        life.switch()
        life.enumerator.notify_checkpoint_complete(1)  # that of the last plan before the switch
        life.ask_on()
        assert_all_told(life)
        assert ids_of(life.splits) == [f"{n}:{name}" for n in (0, 1) for name in expected]

    @case(after="test_a_split_has_the_same_id_whenever_it_is_found")
    def test_several_readers_share_the_splits(self, trial: SourceUnitTrial) -> None:
        trial.write_splits(SPLITS)
        source = trial.source()
        life = Enumeration(source, 3).start()
        life.ask_on()
        assert_once(life.splits)
        assert ids_of(life.splits) == ids_of(all_splits(source))

    @case(Capability.UNBOUNDED, after="test_every_split_is_assigned_once")
    def test_without_an_end_no_reader_is_told_of_one(self, trial: SourceUnitTrial) -> None:
        trial.write_splits()
        life = Enumeration(trial.source(Boundedness.CONTINUOUS_UNBOUNDED), 2).start()
        life.ask_on()
        assert not life.context.no_more, "the enumerator signals that no more splits follow"

    @case(
        Capability.UNBOUNDED,
        Capability.DISCOVERY,
        after="test_without_an_end_no_reader_is_told_of_one",
    )
    def test_splits_that_appear_are_found_once(self, trial: SourceUnitTrial) -> None:
        trial.write_splits(2)
        source = trial.source(Boundedness.CONTINUOUS_UNBOUNDED)
        life = Enumeration(source, 2).start()
        life.ask_on()
        trial.write_splits(2)
        life.ask_on()
        assert_once(life.splits)
        trial.assert_complete(source, trial.read(source, life.planned(life.splits)))

    @case(
        Capability.UNBOUNDED,
        Capability.DISCOVERY,
        since="1.3",
        after=(
            "test_splits_that_appear_are_found_once",
            "test_a_split_has_the_same_id_whenever_it_is_found",
        ),
    )
    def test_a_split_that_appears_before_every_request_keeps_no_other_waiting(
        self, trial: SourceUnitTrial
    ) -> None:
        """Later splits are smaller, because a source may assign the largest first."""
        trial.write_splits(SPLITS)
        source = trial.source(Boundedness.CONTINUOUS_UNBOUNDED)
        first = {split.split_id for split in all_splits(source)}
        life = Enumeration(source).start()
        for _ in range(2 * len(first)):
            trial.write_splits(rows_each=1)
            life.context.let_time_pass()
            life.request()
        waiting = first - {split.split_id for split in life.splits}
        assert not waiting, f"never assigned: {', '.join(sorted(waiting))}"

    @case(
        Capability.UNBOUNDED,
        after=(
            "test_every_reader_is_told_that_there_are_no_more",
            "test_a_split_has_the_same_id_whenever_it_is_found",
        ),
    )
    def test_a_run_to_what_is_available_now_ends(self, trial: SourceUnitTrial) -> None:
        trial.write_splits(2)
        source = trial.source(Boundedness.CONTINUOUS_UNBOUNDED)
        life = Enumeration(source, 2).start()
        if Capability.DISCOVERY in self.capabilities.can:
            trial.write_splits()
        freeze_end(life)
        assert_once(life.splits)
        trial.assert_complete(source, trial.read(source, life.planned(life.splits)))
        assert_all_told(life)

    @case(
        Capability.UNBOUNDED,
        since="1.3",
        after=(
            "test_a_run_to_what_is_available_now_ends",
            "test_an_enumerator_restored_at_any_moment_goes_on",
        ),
    )
    def test_events_that_come_again_before_their_splits_are_found_again_double_nothing(
        self, trial: SourceUnitTrial
    ) -> None:
        """This happens when a driver crashes in the first epoch of a run with available_now."""
        trial.write_splits(2)
        source = trial.source(Boundedness.CONTINUOUS_UNBOUNDED)
        life = Enumeration(source).begin()
        state = life.snapshot()  # the plan before the one with the splits
        freeze_end(life)
        batches, events = read_to_the_end(trial, source, life.planned(life.splits))
        restored = Enumeration(source, state=state, passed_over=ids_of(life.splits)).begin()
        for event in events:
            restored.enumerator.handle_source_event(0, event)
        freeze_end(restored)
        again, _ = read_to_the_end(trial, source, restored.planned(restored.splits))
        trial.assert_complete(source, batches + again)

    # --- Returned splits --------------------------------------------------------------------------

    @case(after="test_several_readers_share_the_splits")
    def test_splits_of_a_reader_that_goes_away_go_to_others(self, trial: SourceUnitTrial) -> None:
        trial.write_splits(SPLITS)
        source = trial.source()
        life = Enumeration(source, 2).start()
        for subtask in (0, 1):
            life.request(subtask)
        kept = life.lose_reader(1)
        life.ask_on()
        assert_once(kept + life.splits)
        assert ids_of(kept + life.splits) == ids_of(all_splits(source)), "splits are lost"

    @case(
        Capability.BOUNDED,
        after=(
            "test_splits_of_a_reader_that_goes_away_go_to_others",
            "test_every_reader_is_told_that_there_are_no_more",
        ),
    )
    def test_splits_that_come_back_late_are_assigned_too(self, trial: SourceUnitTrial) -> None:
        trial.write_splits(SPLITS)
        source = trial.source(Boundedness.BOUNDED)
        life = Enumeration(source, 2).start()
        life.ask_on()
        kept = life.lose_reader(1)
        life.ask_on()
        assert_once(kept + life.splits)
        assert ids_of(kept + life.splits) == ids_of(all_splits(source)), "splits are lost"

    @case(
        after=(
            "test_splits_of_a_reader_that_goes_away_go_to_others",
            "test_splits_that_come_back_late_are_assigned_too",
        )
    )
    def test_a_split_that_comes_back_keeps_its_position(self, trial: SourceUnitTrial) -> None:
        trial.write_splits()
        source = trial.source()
        life = Enumeration(source, 2).start()
        life.request(1)
        with Reading(source, trial.deadline) as reading:
            reading.add(life.splits)
            reading.read_some()
            moved = reading.reader.snapshot_state()
        if not moved:
            pytest.skip("the only batch of the split is its last")
        life.context.assigned[:] = [(1, split) for split in moved]
        life.lose_reader(1)
        life.ask_on()
        serializer = source.split_serializer()
        again = {split.split_id: serializer.serialize(split) for split in life.splits}
        for split in moved:
            assert again.get(split.split_id) == serializer.serialize(split)


def freeze_end(life: Enumeration) -> None:
    """Let an enumerator end with the currently available data."""
    assert isinstance(life.enumerator, SupportsAvailableNow), (
        "the enumerator of an unbounded source has no freeze_end"
    )
    life.enumerator.freeze_end()
    life.context.work()
    life.ask_on()


def read_to_the_end(
    trial: SourceUnitTrial, source: AnySource, splits: Sequence[Any]
) -> tuple[Batches, list[SourceEvent]]:
    """Read splits to their end; return their rows, and the events of the reader."""
    with Reading(source, trial.deadline) as reading:
        reading.add(splits)
        reading.reader.notify_no_more_splits()
        for _ in reading.steps():
            pass
        return reading.batches, reading.events


def assert_all_told(life: Enumeration) -> None:
    """Check that every reader got the signal that no more splits follow."""
    untold = sorted(life.context.registered_readers - life.context.no_more)
    assert not untold, f"readers that wait forever: {untold}"


def ids_of(splits: Sequence[Any]) -> list[str]:
    """Return the sorted IDs of splits."""
    return sorted(split.split_id for split in splits)


def assert_once(splits: Sequence[Any]) -> None:
    """Check that no split was assigned twice."""
    ids = ids_of(splits)
    doubled = sorted({each for each in ids if ids.count(each) > 1})
    assert not doubled, f"assigned twice: {doubled}"
