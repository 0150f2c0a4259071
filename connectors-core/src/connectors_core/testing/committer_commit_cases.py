# SPDX-License-Identifier: Apache-2.0
"""Cases of a committer: commits and sweeps."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Final

import pytest

from connectors_core.errors import ConnectorError
from connectors_core.sink import CommitOutcome, CommitRequest, Committer, SupportsRewriting
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.data import make_rows
from connectors_core.testing.outages import assert_worth_another_attempt
from connectors_core.testing.sink_unit import SinkUnitTrial, commit
from connectors_core.testing.trial import PipelineSuite

LATE_ROWS: Final = 500
DONE: Final = (CommitOutcome.COMMITTED, CommitOutcome.ALREADY_COMMITTED)


class CommitterCommitCases(PipelineSuite, part=True):
    """Cases of the commits and sweeps of a committer."""

    # --- Commits ----------------------------------------------------------------------------------

    @case(Capability.EXACTLY_ONCE)
    def test_nothing_is_visible_before_the_commit(self, trial: SinkUnitTrial) -> None:
        trial.stage(1, writers=2)
        assert trial.context.read_back().num_rows == 0

    @case(Capability.EXACTLY_ONCE, after="test_nothing_is_visible_before_the_commit")
    def test_a_commit_makes_rows_visible(self, trial: SinkUnitTrial) -> None:
        staged = trial.stage(1, writers=2)
        with contextlib.closing(trial.committer()) as committer:
            assert_done(commit(committer, staged))
            trial.assert_visible(1)

    @case(Capability.EXACTLY_ONCE, after="test_a_commit_makes_rows_visible")
    def test_rows_stay_when_the_committer_is_closed(self, trial: SinkUnitTrial) -> None:
        with contextlib.closing(trial.committer()) as committer:
            assert_done(commit(committer, trial.stage(1)))
        trial.assert_visible(1)

    @case(Capability.EXACTLY_ONCE, after="test_a_commit_makes_rows_visible")
    def test_a_second_commit_changes_nothing(self, trial: SinkUnitTrial) -> None:
        staged = trial.stage(1, writers=2)
        committer = trial.committer()
        commit(committer, staged)
        assert_done(commit(committer, staged))
        trial.assert_visible(1)

    @case(Capability.EXACTLY_ONCE, after="test_a_second_commit_changes_nothing")
    @pytest.mark.parametrize("committed", [0, 1, 2])
    def test_another_life_commits_the_rest(self, trial: SinkUnitTrial, committed: int) -> None:
        """The driver dies before, during, or after a commit, and the next driver repeats it."""
        staged = trial.stage(1, writers=2)
        if committed:
            commit(trial.committer(), staged[:committed])
        assert_done(commit(trial.committer(), staged))
        trial.assert_visible(1)

    @case(
        Capability.EXACTLY_ONCE,
        after="test_a_commit_makes_rows_visible",
        unless=Capability.LEASES,
    )
    @pytest.mark.parametrize("order", [(1, 2), (2, 1)])
    def test_epochs_are_committed_in_any_order(
        self, trial: SinkUnitTrial, order: tuple[int, int]
    ) -> None:
        staged = {epoch: trial.stage(epoch) for epoch in (1, 2)}
        committer = trial.committer()
        for number, epoch in enumerate(order, 1):
            assert_done(commit(committer, staged[epoch]))
            trial.assert_visible(*order[:number])

    @case(Capability.EXACTLY_ONCE, after="test_a_commit_makes_rows_visible")
    def test_committables_are_committed_as_they_were_stored(self, trial: SinkUnitTrial) -> None:
        serializer = trial.sink.committable_serializer()
        stored = [serializer.serialize(each) for each in trial.stage(1)]
        read = [serializer.deserialize(serializer.version, data) for data in stored]
        assert_done(commit(trial.committer(), read))
        trial.assert_visible(1)

    @case(Capability.EXACTLY_ONCE, after="test_a_commit_makes_rows_visible")
    def test_an_epoch_without_rows_is_committed(self, trial: SinkUnitTrial) -> None:
        committer = trial.committer()
        assert_done(commit(committer, trial.stage(1, rows=0)))
        assert_done(commit(committer, []))
        assert trial.context.read_back().num_rows == 0

    # --- Commits in tasks -------------------------------------------------------------------------

    @case(
        Capability.EXACTLY_ONCE,
        since="1.4",
        after=("test_a_second_commit_changes_nothing", "test_a_sweep_leaves_committed_rows"),
    )
    def test_copies_of_a_task_that_commits_change_nothing(self, trial: SinkUnitTrial) -> None:
        """A copy commits beside the task, and a killed attempt commits after the sweep."""
        task, copy, late = (trial.task_committer() for _ in range(3))
        staged = trial.stage(1, writers=2)
        assert_done(commit(task, staged[:1]))
        assert_done(commit(copy, staged))
        assert_done(commit(task, staged[1:]))
        trial.committer().sweep(1)
        trial.assert_visible(1)
        with contextlib.suppress(ConnectorError):
            commit(late, staged)
        trial.assert_visible(1)
        trial.assert_nothing_left()

    # --- Sweeps -----------------------------------------------------------------------------------

    @case(Capability.EXACTLY_ONCE, after="test_a_commit_makes_rows_visible")
    def test_a_sweep_removes_what_nobody_decided_on(self, trial: SinkUnitTrial) -> None:
        staged = trial.stage(1)
        decided = list(trial.rows[1])
        trial.stage(1, first=1)  # of a losing attempt
        trial.fail_writer(1)
        trial.rows[1] = decided
        committer = trial.committer()
        assert_done(commit(committer, staged))
        committer.sweep(1)
        trial.assert_nothing_left()

    @case(Capability.EXACTLY_ONCE, after="test_a_commit_makes_rows_visible")
    def test_a_sweep_leaves_committed_rows(self, trial: SinkUnitTrial) -> None:
        committer = trial.committer()
        for epoch in (1, 2):
            commit(committer, trial.stage(epoch))
        committer.sweep(1)
        trial.assert_visible(1, 2)

    @case(
        Capability.EXACTLY_ONCE,
        since="1.5",
        after=("test_a_commit_makes_rows_visible", "test_a_sweep_leaves_committed_rows"),
    )
    def test_rows_of_other_writers_stay(self, trial: SinkUnitTrial) -> None:
        """Another sink has written to the same place, under the same numbers of epochs."""
        others = trial.committer(uid="other")
        for epoch in (1, 2):
            assert_done(commit(others, trial.stage(epoch, uid="other")))
        with contextlib.closing(trial.committer()) as committer:
            committer.recover(-1)
            trial.assert_visible(1, 2)
            assert_done(commit(committer, trial.stage(2)))
            for epoch in (1, 2):
                committer.sweep(epoch)
        trial.assert_visible(1, 2)

    @case(
        Capability.EXACTLY_ONCE,
        after="test_a_commit_makes_rows_visible",
        unless=Capability.LEASES,
    )
    def test_a_sweep_leaves_other_epochs(self, trial: SinkUnitTrial) -> None:
        staged = {epoch: trial.stage(epoch) for epoch in (1, 2, 10)}
        committer = trial.committer()
        committer.sweep(1)
        for epoch in (2, 10):
            assert_done(commit(committer, staged[epoch]))
        trial.assert_visible(2, 10)

    @case(Capability.EXACTLY_ONCE, after="test_a_sweep_removes_what_nobody_decided_on")
    def test_a_sweep_can_be_repeated(self, trial: SinkUnitTrial) -> None:
        trial.stage(1)
        committer = trial.committer()
        for _ in range(2):
            committer.sweep(1)
            committer.sweep(7)  # without any staged data
        with contextlib.suppress(ConnectorError):  # it may have been fenced
            trial.stage(1)  # of a killed attempt that continued
        committer.sweep(1)
        trial.assert_nothing_left()

    @case(
        Capability.EXACTLY_ONCE,
        after=("test_a_sweep_removes_what_nobody_decided_on", "test_a_sweep_leaves_other_epochs"),
        unless=Capability.LEASES,
    )
    def test_what_was_swept_fails_alone(self, trial: SinkUnitTrial) -> None:
        swept = trial.stage(1)
        staged = trial.stage(2)
        committer = trial.committer()
        committer.sweep(1)
        requests = commit(committer, [*swept, *staged])
        rewriting = isinstance(trial.sink, SupportsRewriting)
        gone = CommitOutcome.LOST if rewriting else CommitOutcome.FAILED
        for request in requests[: len(swept)]:
            assert request.outcome is gone, (
                f"the outcome is {request.outcome.value}, but its rows are lost"
            )
            assert rewriting or isinstance(request.error, ConnectorError), repr(request.error)
        assert_done(requests[len(swept) :])
        trial.assert_visible(2)

    @case(
        Capability.EXACTLY_ONCE,
        after=("test_a_sweep_can_be_repeated", "test_a_sweep_leaves_committed_rows"),
    )
    def test_an_attempt_that_lost_changes_nothing(self, trial: SinkUnitTrial) -> None:
        """A late duplicate: a copy of a task continues after the decision on another copy."""
        late = trial.writer(1, 0)
        (rows,) = make_rows(1, 0, LATE_ROWS, self.seed).to_batches()
        late.write(rows.slice(0, 1))
        staged = trial.stage(1)
        late.write(rows.slice(1))
        committer = trial.committer()
        assert_done(commit(committer, staged))
        committer.sweep(1)
        with contextlib.suppress(Exception):  # its staged data may be gone
            late.flush()
            late.prepare_commit()
        late.close()
        committer.sweep(1)
        trial.assert_visible(1)
        trial.assert_nothing_left()


def commit_during_fault(committer: Committer[Any], committables: Sequence[Any]) -> list[Any]:
    """Commit during a fault, and return the committables to commit again.

    Raises:
        AssertionError: The commit fails for good.
    """
    try:
        requests = commit(committer, committables)
    except Exception as error:
        assert_worth_another_attempt(error)
        return list(committables)
    for request in requests:
        assert request.outcome in (*DONE, CommitOutcome.RETRY), (
            f"a temporary fault has the outcome {request.outcome.value}: {request.error!r}"
        )
    return [request.committable for request in requests if request.outcome is CommitOutcome.RETRY]


def assert_done(requests: Sequence[CommitRequest[Any]]) -> None:
    """Check that all requests are committed."""
    for request in requests:
        assert request.outcome in DONE, f"{request.outcome.value}: {request.error!r}"
