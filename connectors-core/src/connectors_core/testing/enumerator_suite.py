# SPDX-License-Identifier: Apache-2.0
"""The unit suite of split enumerators: no lost or duplicate splits in any order of events."""

from __future__ import annotations

import contextlib
import itertools
import logging
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from connectors_core.source import Boundedness, HybridSource, SupportsBatchSnapshot
from connectors_core.source.source import AnySource
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.enumeration import Enumeration, all_splits
from connectors_core.testing.enumerator_assignment_cases import (
    SPLITS,
    EnumeratorAssignmentCases,
    assert_all_told,
    assert_once,
    freeze_end,
    ids_of,
    read_to_the_end,
)
from connectors_core.testing.outages import FAILING, LEAVING, Outage, assert_worth_another_attempt
from connectors_core.testing.source_unit import (
    SourceUnitTrial,
)
from connectors_core.testing.traces import assert_unseen, chain_of, error_texts, nothing_left

_MANY_SPLITS: Final = 9
_ROUNDS_OF_FAILURE: Final = 50
_STEPS: Final = 80
_MOST_SPLITS_IN_A_WALK: Final = 12


class SplitEnumeratorTestSuite(EnumeratorAssignmentCases):
    """Cases for the enumerators of a source, without a pipeline.

    Derive as from `SourceTestSuite`.
    """

    # --- Snapshots --------------------------------------------------------------------------------

    @case(after="test_every_split_is_assigned_once")
    def test_a_snapshot_stays_as_it_was_taken(self, trial: SourceUnitTrial) -> None:
        trial.write_splits(SPLITS)
        source = trial.source()
        serializer = source.enumerator_state_serializer()
        life = Enumeration(source).start()
        life.request()
        state = life.enumerator.snapshot_state(1)
        stored = serializer.serialize(state)
        life.ask_on()
        assert serializer.serialize(state) == stored, "the snapshot changes with the enumerator"

    @case(after="test_a_split_has_the_same_id_whenever_it_is_found")
    def test_an_enumerator_restored_at_any_moment_goes_on(self, trial: SourceUnitTrial) -> None:
        trial.write_splits(SPLITS)
        source = trial.source()
        expected = all_splits(source)
        for requests in range(len(expected) + 1):
            print(f"restored after {requests} requests")
            life = Enumeration(source).start()
            for _ in range(requests):
                life.request()
            restored = Enumeration(source, state=life.snapshot()).start()
            restored.ask_on()
            assert_once(life.splits + restored.splits)
            assert ids_of(life.splits + restored.splits) == ids_of(expected), "splits are lost"

    @case(
        since="1.3",
        after=(
            "test_splits_of_a_reader_that_goes_away_go_to_others",
            "test_splits_that_come_back_late_are_assigned_too",
            "test_an_enumerator_restored_at_any_moment_goes_on",
        ),
    )
    @pytest.mark.parametrize("restored", [False, True])
    def test_several_splits_that_come_back_take_no_place_of_those_that_wait(
        self, trial: SourceUnitTrial, restored: bool
    ) -> None:
        """Several splits wait, several return, and perhaps only the next snapshot survives."""
        trial.write_splits(_MANY_SPLITS)
        source = trial.source()
        life = Enumeration(source, 2).start()
        for subtask in (1, 0, 1, 1):
            life.request(subtask)
        kept = life.lose_reader(1)
        if restored:
            kept += life.splits
            life = Enumeration(source, 1, state=life.snapshot()).start()
        life.ask_on()
        assert_once(kept + life.splits)
        assert ids_of(kept + life.splits) == ids_of(all_splits(source)), "splits are lost"

    @case(
        Capability.UNBOUNDED,
        Capability.DISCOVERY,
        after=(
            "test_splits_that_appear_are_found_once",
            "test_an_enumerator_restored_at_any_moment_goes_on",
        ),
    )
    def test_discovery_goes_on_after_a_restart(self, trial: SourceUnitTrial) -> None:
        trial.write_splits(2)
        source = trial.source(Boundedness.CONTINUOUS_UNBOUNDED)
        life = Enumeration(source).start()
        life.ask_on()
        state = life.snapshot()
        trial.write_splits()  # while no enumerator runs
        restored = Enumeration(source, state=state).start()
        restored.ask_on()
        trial.write_splits()
        restored.ask_on()
        assert_once(life.splits + restored.splits)
        splits = restored.planned(life.splits + restored.splits)
        trial.assert_complete(source, trial.read(source, splits))

    @case(
        Capability.BOUNDED,
        since="1.3",
        after=(
            "test_nothing_happens_before_the_start",
            "test_every_reader_is_told_that_there_are_no_more",
            "test_an_enumerator_restored_at_any_moment_goes_on",
        ),
    )
    @pytest.mark.parametrize("requests", [1, SPLITS])
    def test_what_appears_behind_the_end_is_not_found_after_a_restart(
        self, trial: SourceUnitTrial, requests: int
    ) -> None:
        """The end of a bounded source is fixed at its start."""
        trial.write_splits(SPLITS)
        source = trial.source(Boundedness.BOUNDED)
        expected = ids_of(all_splits(source))
        life = Enumeration(source).start()
        for _ in range(requests):
            life.request()
        state = life.snapshot()
        trial.write_splits(2)
        restored = Enumeration(source, state=state).start()
        restored.ask_on()
        assert_once(life.splits + restored.splits)
        found = ids_of(life.splits + restored.splits)
        assert found == expected, (
            f"found {len(found)} splits, but {len(expected)} existed before the end"
        )
        assert_all_told(restored)

    @case(
        Capability.BOUNDED,
        since="1.4",
        after=(
            "test_what_appears_behind_the_end_is_not_found_after_a_restart",
            "test_another_source_can_follow_it",
        ),
    )
    @pytest.mark.parametrize("hybrid", [False, True])
    def test_a_batch_run_that_resumes_has_the_same_splits(
        self, trial: SourceUnitTrial, hybrid: bool
    ) -> None:
        """The next driver reads the other splits of an interrupted run, and hears all readers.

        A hybrid source reads it twice, and resumes both enumerators.
        """
        trial.write_splits(SPLITS)
        source = trial.source(Boundedness.BOUNDED)
        life = Enumeration(source, 2).start()
        if not isinstance(life.enumerator, SupportsBatchSnapshot):
            pytest.skip("its enumerator does not support batch snapshots")
        if hybrid:
            life.enumerator.close()
            source = HybridSource.builder(source).add_source(source).build()
            life = Enumeration(source, 2).start()
            life.ask_on()
            life.switch()
        life.ask_on()
        state = life.snapshot(SupportsBatchSnapshot.BATCH_CHECKPOINT_ID)
        events = read_to_the_end(trial, source, life.splits)[1]
        life.enumerator.close()
        trial.write_splits(2)
        resumed = Enumeration(source, 2, state=state, passed_over=ids_of(life.splits))
        with contextlib.closing(resumed.enumerator):
            resumed.start()
            resumed.ask_on()
            for event in events:
                resumed.enumerator.handle_source_event(0, event)
            assert not ids_of(resumed.splits), "the run reads more than when it began"
            assert_all_told(resumed)

    # --- Outages ----------------------------------------------------------------------------------

    @case(Capability.OUTAGES, since="1.3", after="test_several_readers_share_the_splits")
    @pytest.mark.parametrize("outage", Outage)
    def test_a_system_that_does_not_answer_is_not_an_empty_one(
        self, trial: SourceUnitTrial, outage: Outage
    ) -> None:
        """Discovery fails with a retryable error, or continues after the outage."""
        trial.write_splits(SPLITS)
        for boundedness in trial.boundednesses:
            source = trial.source(boundedness)
            with contextlib.ExitStack() as stack:
                error = None
                with self.outage(outage) as over:
                    life = Enumeration(source, 2)
                    stack.callback(life.enumerator.close)
                    try:
                        life.start()
                        life.ask_on()
                        over.wait()
                        life.ask_on()
                    except Exception as failure:
                        error = failure
                if error is not None:
                    assert_worth_another_attempt(error)
                    life = Enumeration(source, 2).start()
                    stack.callback(life.enumerator.close)
                life.ask_on()
                assert_once(life.splits)
                trial.assert_complete(source, trial.read(source, life.planned(life.splits)))

    @case(
        Capability.UNBOUNDED,
        Capability.DISCOVERY,
        Capability.OUTAGES,
        since="1.3",
        after=(
            "test_a_system_that_does_not_answer_is_not_an_empty_one",
            "test_discovery_goes_on_after_a_restart",
        ),
    )
    @pytest.mark.parametrize("outage", Outage)
    def test_an_outage_between_two_looks_loses_and_doubles_no_split(
        self, trial: SourceUnitTrial, outage: Outage
    ) -> None:
        trial.write_splits(2)
        source = trial.source(Boundedness.CONTINUOUS_UNBOUNDED)
        with contextlib.ExitStack() as stack:
            life = Enumeration(source, 2).start()
            stack.callback(life.enumerator.close)
            life.ask_on()
            found, state, error = life.splits, life.snapshot(), None
            with self.outage(outage) as over:
                trial.write_splits()
                try:
                    life.ask_on()
                    over.wait()
                    life.ask_on()
                except Exception as failure:
                    error = failure
            if error is None:
                found = []
            else:
                assert_worth_another_attempt(error)
                life = Enumeration(source, 2, state=state).start()
                stack.callback(life.enumerator.close)
            life.ask_on()
            assert_once(found + life.splits)
            splits = life.planned(found + life.splits)
            trial.assert_complete(source, trial.read(source, splits))

    @case(
        Capability.OUTAGES,
        since="1.3",
        after="test_a_system_that_does_not_answer_is_not_an_empty_one",
    )
    def test_a_look_that_fails_leaves_nothing(self, trial: SourceUnitTrial, tmp_path: Path) -> None:
        trial.write_splits(2)
        with nothing_left(tmp_path / "temporary"):
            for _ in self._failures(trial, LEAVING):
                pass  # a stored error keeps the resources of its frames open

    @case(
        Capability.OUTAGES,
        Capability.SECRETS,
        since="1.3",
        after="test_a_system_that_does_not_answer_is_not_an_empty_one",
    )
    def test_no_secret_is_shown_by_a_failure(
        self, trial: SourceUnitTrial, caplog: pytest.LogCaptureFixture, tmp_path: Path
    ) -> None:
        """The causes and notes of an error do not show it either."""
        caplog.set_level(logging.DEBUG)
        trial.write_splits(2)
        failures = self._failures(trial, FAILING)
        seen = [text for error in failures for text in error_texts(error)]
        assert_unseen(trial.context.secrets(), [*seen, caplog.text], tmp_path / "nowhere")

    def _failures(self, trial: SourceUnitTrial, outages: Sequence[Outage]) -> Iterator[Exception]:
        """Return the errors of discovery during outages."""
        for outage, boundedness in itertools.product(outages, trial.boundednesses):
            life = Enumeration(trial.source(boundedness))
            with contextlib.closing(life.enumerator), self.outage(outage):
                try:
                    life.start()
                    life.ask_on()
                except Exception as error:
                    yield error

    # --- Random orders ----------------------------------------------------------------------------

    @case(
        Capability.BOUNDED,
        after=("test_several_splits_that_come_back_take_no_place_of_those_that_wait",),
    )
    @pytest.mark.parametrize("walk", range(4))
    def test_a_random_walk_loses_and_doubles_nothing(
        self, trial: SourceUnitTrial, walk: int
    ) -> None:
        trial.write_splits(_MOST_SPLITS_IN_A_WALK)
        source = trial.source(Boundedness.BOUNDED)
        _Walk(trial, source, random.Random(f"{self.seed}/{walk}")).go()

    @case(
        Capability.UNBOUNDED,
        Capability.DISCOVERY,
        after=(
            "test_a_run_to_what_is_available_now_ends",
            "test_discovery_goes_on_after_a_restart",
            "test_splits_that_come_back_late_are_assigned_too",
            "test_a_random_walk_loses_and_doubles_nothing",
        ),
    )
    @pytest.mark.parametrize("walk", range(4))
    def test_a_random_walk_while_splits_appear_loses_and_doubles_nothing(
        self, trial: SourceUnitTrial, walk: int
    ) -> None:
        trial.write_splits(SPLITS)
        source = trial.source(Boundedness.CONTINUOUS_UNBOUNDED)
        _Walk(trial, source, random.Random(f"{self.seed}/{walk}"), appear=True).go()

    # --- Errors and the end -----------------------------------------------------------------------

    @case()
    def test_an_error_of_a_discovery_reaches_the_coordinator(self, trial: SourceUnitTrial) -> None:
        trial.write_splits()
        failure = PermissionError("the external system rejects the call")
        calls = 0
        for boundedness in trial.boundednesses:
            life = Enumeration(trial.source(boundedness))
            life.context.failure = failure
            heard: Exception | None = None
            try:
                life.start()
                for _ in range(_ROUNDS_OF_FAILURE):
                    life.context.let_time_pass()
            except Exception as error:
                heard = error
            calls += life.context.calls
            if life.context.calls:
                assert heard is not None, "it fails repeatedly without reporting an error"
                assert failure in chain_of(heard), f"the error hides its cause: {heard!r}"
        if not calls:
            pytest.skip("it looks on the coordinator's own thread, where no error is lost")

    @case()
    def test_closing_twice_does_nothing(self, trial: SourceUnitTrial) -> None:
        trial.write_splits()
        life = Enumeration(trial.source()).start()
        life.enumerator.close()
        life.enumerator.close()

    @case()
    def test_an_enumerator_that_never_started_can_be_closed(self, trial: SourceUnitTrial) -> None:
        trial.write_splits()
        Enumeration(trial.source()).enumerator.close()


class _Walk:
    """Actions in random order, with crashes, which record the reader of each split.

    The test acts as the coordinator, in its order. It skips splits assigned since the last
    snapshot, and returns the unread splits of lost readers.
    """

    def __init__(
        self,
        trial: SourceUnitTrial,
        source: AnySource,
        chance: random.Random,
        *,
        appear: bool = False,
    ) -> None:
        self._trial = trial
        self._source = source
        self._chance = chance
        self._appear = appear
        self._held: dict[str, tuple[int, Any]] = {}
        self._finished: set[str] = set()
        self._since_snapshot: set[str] = set()
        self._life = Enumeration(source, 2).start()
        self._stored = self._life.snapshot()
        self._take()

    def go(self) -> None:
        """Run to the end, and compare the splits with all existing ones."""
        actions = [self.request] * 4 + [self.restart] * 3
        actions += [self.snapshot, self.snapshot, self.finish, self.let_time_pass]
        if self._appear:
            actions.append(self.write)
        for _ in range(_STEPS):
            action = self._chance.choice(actions)
            print(action.__name__, end=" ")
            action()
            self._take()
        if self._appear:
            freeze_end(self._life)
        else:
            self._life.ask_on()
        self._take()
        assert_all_told(self._life)
        found = self._held.keys() | self._finished
        lost = sorted(set(ids_of(all_splits(self._source))) - found)
        assert not lost, f"a new enumerator finds splits that this one never assigned: {lost}"

    def request(self) -> None:
        context = self._life.context
        hungry = sorted(context.registered_readers - context.no_more)
        if hungry:
            self._life.request(self._chance.choice(hungry))

    def let_time_pass(self) -> None:
        self._life.context.let_time_pass()

    def finish(self) -> None:
        if self._held:
            split_id = self._chance.choice(sorted(self._held))
            del self._held[split_id]
            self._finished.add(split_id)

    def snapshot(self) -> None:
        self._stored = self._life.snapshot()
        self._since_snapshot = set(self._life.context.passed_over)
        self._life.enumerator.notify_checkpoint_complete(1)

    def write(self) -> None:
        if len(self._trial.written) < _MOST_SPLITS_IN_A_WALK:
            self._trial.write_splits()

    def restart(self) -> None:
        parallelism = self._chance.randint(1, 3)
        returned: dict[int, list[Any]] = {}
        for split_id, (subtask, split) in list(self._held.items()):
            if subtask >= parallelism and split_id not in self._since_snapshot:
                returned.setdefault(subtask, []).append(split)
                del self._held[split_id]
            else:
                self._held[split_id] = subtask % parallelism, split
        self._life = Enumeration(
            self._source,
            parallelism,
            state=self._stored,
            returned=returned,
            passed_over=self._since_snapshot,
        ).start()
        self._take()
        self.snapshot()  # every start begins with such a plan

    def _take(self) -> None:
        for subtask, split in self._life.context.assigned:
            known = self._held.keys() | self._finished
            assert split.split_id not in known, f"assigned twice: {split.split_id!r}"
            self._held[split.split_id] = subtask, split
            self._since_snapshot.add(split.split_id)
        self._life.context.assigned.clear()
