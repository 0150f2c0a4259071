# SPDX-License-Identifier: Apache-2.0
"""The unit suite of committers: the second phase, repeated, restarted, swept."""

from __future__ import annotations

import contextlib
import logging
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from connectors_core.errors import ConnectorError
from connectors_core.sink import CommitOutcome, CommitRequest, SupportsRewriting
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.context import SinkExternalContext
from connectors_core.testing.data import make_rows
from connectors_core.testing.outages import FAILING, LEAVING, Outage, assert_worth_another_attempt
from connectors_core.testing.sink_unit import SinkUnitTrial, commit
from connectors_core.testing.traces import assert_unseen, error_texts, nothing_left
from connectors_core.testing.trial import PipelineSuite

LATE_ROWS: Final = 500
_DONE: Final = (CommitOutcome.COMMITTED, CommitOutcome.ALREADY_COMMITTED)


class CommitterTestSuite(PipelineSuite):
    """Cases for the committer of a sink, without a pipeline. Derive as from `SinkTestSuite`."""

    @abstractmethod
    def external_context(self, folder: Path) -> SinkExternalContext:
        """A new external system for one case; ``folder`` is its own."""

    @pytest.fixture
    def trial(self, tmp_path: Path) -> Iterator[SinkUnitTrial]:
        """One case's external system and sink."""
        folder = tmp_path / "external"
        folder.mkdir()
        print(f"seed: {self.seed}")
        with (
            contextlib.closing(self.external_context(folder)) as context,
            contextlib.closing(SinkUnitTrial(context, self.seed)) as trial,
        ):
            yield trial

    # --- Committing -----------------------------------------------------------------------------

    @case(Capability.EXACTLY_ONCE)
    def test_nothing_is_visible_before_the_commit(self, trial: SinkUnitTrial) -> None:
        trial.stage(1, writers=2)
        assert trial.context.read_back().num_rows == 0

    @case(Capability.EXACTLY_ONCE, after="test_nothing_is_visible_before_the_commit")
    def test_a_commit_makes_rows_visible(self, trial: SinkUnitTrial) -> None:
        staged = trial.stage(1, writers=2)
        with contextlib.closing(trial.committer()) as committer:
            _assert_done(commit(committer, staged))
            trial.assert_visible(1)

    @case(Capability.EXACTLY_ONCE, after="test_a_commit_makes_rows_visible")
    def test_rows_stay_when_the_committer_is_closed(self, trial: SinkUnitTrial) -> None:
        with contextlib.closing(trial.committer()) as committer:
            _assert_done(commit(committer, trial.stage(1)))
        trial.assert_visible(1)

    @case(Capability.EXACTLY_ONCE, after="test_a_commit_makes_rows_visible")
    def test_a_second_commit_changes_nothing(self, trial: SinkUnitTrial) -> None:
        staged = trial.stage(1, writers=2)
        committer = trial.committer()
        commit(committer, staged)
        _assert_done(commit(committer, staged))
        trial.assert_visible(1)

    @case(Capability.EXACTLY_ONCE, after="test_a_second_commit_changes_nothing")
    @pytest.mark.parametrize("committed", [0, 1, 2])
    def test_another_life_commits_the_rest(self, trial: SinkUnitTrial, committed: int) -> None:
        """The driver dies before, in the middle of, or after a commit; the next one repeats it."""
        staged = trial.stage(1, writers=2)
        if committed:
            commit(trial.committer(), staged[:committed])
        _assert_done(commit(trial.committer(), staged))
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
            _assert_done(commit(committer, staged[epoch]))
            trial.assert_visible(*order[:number])

    @case(Capability.EXACTLY_ONCE, after="test_a_commit_makes_rows_visible")
    def test_committables_are_committed_as_they_were_stored(self, trial: SinkUnitTrial) -> None:
        serializer = trial.sink.committable_serializer()
        stored = [serializer.serialize(each) for each in trial.stage(1)]
        read = [serializer.deserialize(serializer.version, data) for data in stored]
        _assert_done(commit(trial.committer(), read))
        trial.assert_visible(1)

    @case(Capability.EXACTLY_ONCE, after="test_a_commit_makes_rows_visible")
    def test_an_epoch_without_rows_is_committed(self, trial: SinkUnitTrial) -> None:
        committer = trial.committer()
        _assert_done(commit(committer, trial.stage(1, rows=0)))
        _assert_done(commit(committer, []))
        assert trial.context.read_back().num_rows == 0

    # --- Sweeping -------------------------------------------------------------------------------

    @case(Capability.EXACTLY_ONCE, after="test_a_commit_makes_rows_visible")
    def test_a_sweep_removes_what_nobody_decided_on(self, trial: SinkUnitTrial) -> None:
        staged = trial.stage(1)
        decided = list(trial.rows[1])
        trial.stage(1, first=1)  # of an attempt that lost
        trial.fail_writer(1)
        trial.rows[1] = decided
        committer = trial.committer()
        _assert_done(commit(committer, staged))
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
        after="test_a_commit_makes_rows_visible",
        unless=Capability.LEASES,
    )
    def test_a_sweep_leaves_other_epochs(self, trial: SinkUnitTrial) -> None:
        staged = {epoch: trial.stage(epoch) for epoch in (1, 2, 10)}
        committer = trial.committer()
        committer.sweep(1)
        for epoch in (2, 10):
            _assert_done(commit(committer, staged[epoch]))
        trial.assert_visible(2, 10)

    @case(Capability.EXACTLY_ONCE, after="test_a_sweep_removes_what_nobody_decided_on")
    def test_a_sweep_can_be_repeated(self, trial: SinkUnitTrial) -> None:
        trial.stage(1)
        committer = trial.committer()
        for _ in range(2):
            committer.sweep(1)
            committer.sweep(7)  # of which there was never anything
        with contextlib.suppress(ConnectorError):  # it may have been fenced
            trial.stage(1)  # of an attempt that was killed and did not know
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
            assert request.outcome is gone, f"it is {request.outcome.value}, and its rows are gone"
            assert rewriting or isinstance(request.error, ConnectorError), repr(request.error)
        _assert_done(requests[len(swept) :])
        trial.assert_visible(2)

    @case(
        Capability.EXACTLY_ONCE,
        after=("test_a_sweep_can_be_repeated", "test_a_sweep_leaves_committed_rows"),
    )
    def test_an_attempt_that_lost_changes_nothing(self, trial: SinkUnitTrial) -> None:
        """A late duplicate: a copy of a task goes on after another copy of it was decided on."""
        late = trial.writer(1, 0)
        (rows,) = make_rows(1, 0, LATE_ROWS, self.seed).to_batches()
        late.write(rows.slice(0, 1))
        staged = trial.stage(1)
        late.write(rows.slice(1))
        committer = trial.committer()
        _assert_done(commit(committer, staged))
        committer.sweep(1)
        with contextlib.suppress(Exception):  # what it staged may be gone
            late.flush()
            late.prepare_commit()
        late.close()
        committer.sweep(1)
        trial.assert_visible(1)
        trial.assert_nothing_left()

    # --- Recovery -------------------------------------------------------------------------------

    @case(
        Capability.EXACTLY_ONCE,
        after=("test_a_commit_makes_rows_visible", "test_a_sweep_removes_what_nobody_decided_on"),
    )
    def test_recovery_removes_what_was_not_decided(self, trial: SinkUnitTrial) -> None:
        commit(trial.committer(), trial.stage(1))
        for epoch in (2, 11):
            trial.stage(epoch)
        committer = trial.committer()
        for epoch in (2, 11):  # as the next driver does with what it has fenced
            committer.sweep(epoch)
        committer.recover(11)
        trial.assert_nothing_left()

    @case(
        Capability.EXACTLY_ONCE,
        since="1.3",
        after="test_a_commit_makes_rows_visible",
        unless=Capability.LEASES,
    )
    def test_recovery_leaves_what_a_later_driver_staged(self, trial: SinkUnitTrial) -> None:
        """A driver froze while it started, another took over, and the first one resumes."""
        staged = trial.stage(4)
        committer = trial.committer()
        committer.recover(1)
        _assert_done(commit(committer, staged))
        trial.assert_visible(4)

    @case(
        Capability.EXACTLY_ONCE,
        after="test_a_commit_makes_rows_visible",
        unless=Capability.LEASES,
    )
    def test_recovery_leaves_what_was_decided(self, trial: SinkUnitTrial) -> None:
        staged = {epoch: trial.stage(epoch) for epoch in (1, 2, 3)}
        _assert_done(commit(trial.committer(), staged[1]))
        committer = trial.committer()
        committer.recover(2)
        _assert_done(commit(committer, staged[2]))
        trial.assert_visible(1, 2)

    @case(Capability.EXACTLY_ONCE)
    def test_recovery_where_there_was_never_anything(self, trial: SinkUnitTrial) -> None:
        committer = trial.committer()
        committer.recover(-1)
        trial.assert_nothing_left()
        assert trial.context.read_back().num_rows == 0

    @case(
        Capability.EXACTLY_ONCE,
        after=("test_a_sweep_can_be_repeated", "test_recovery_where_there_was_never_anything"),
    )
    def test_other_sinks_are_left_alone(self, trial: SinkUnitTrial) -> None:
        staged = trial.stage(1, uid="other")
        with contextlib.closing(trial.committer()) as committer:
            committer.recover(0)
            committer.sweep(1)
        _assert_done(commit(trial.committer(uid="other"), staged))
        trial.assert_visible(1)

    # --- Leases ---------------------------------------------------------------------------------

    @case(
        Capability.LEASES,
        since="1.1",
        after=("test_a_commit_makes_rows_visible", "test_a_sweep_removes_what_nobody_decided_on"),
    )
    def test_attempts_of_one_number_have_leases_of_their_own(self, trial: SinkUnitTrial) -> None:
        """Spark counts attempts from 0 again when it runs a stage again, beside the old ones."""
        (rows,) = make_rows(1, 0, LATE_ROWS, self.seed).to_batches()
        writers = [trial.writer(1, 0, attempt_number=0) for _ in range(2)]
        for writer, part in zip(writers, (rows.slice(0, 300), rows.slice(300)), strict=True):
            writer.write(part)
        staged = []
        for writer in writers:
            writer.flush()
            staged.append(writer.prepare_commit())
            writer.close()
        trial.rows[1] = [pa.Table.from_batches([rows.slice(0, 300)])]
        committer = trial.committer()
        _assert_done(commit(committer, staged[0]))
        committer.sweep(1)
        trial.assert_visible(1)
        trial.assert_nothing_left()

    @case(Capability.LEASES, since="1.1", after="test_another_life_commits_the_rest")
    @pytest.mark.parametrize("epoch", [1, 2])
    def test_a_commit_is_known_after_another_lease(self, trial: SinkUnitTrial, epoch: int) -> None:
        """What a driver committed before it died is committed again by the next one.

        Between the two its epoch was leased anew, since something else of it was lost, or the next
        one was.
        """
        staged = trial.stage(1, writers=2)
        with contextlib.closing(trial.committer()) as committer:  # a sweep may end with its life
            _assert_done(commit(committer, staged))
            committer.sweep(1)
        trial.new_job(1)
        decided = list(trial.rows[1])
        trial.stage(epoch, first=2)
        trial.rows[1] = decided
        committer = trial.committer()
        _assert_done(commit(committer, staged))
        committer.sweep(1)
        committer.recover(1)
        trial.assert_visible(1)
        trial.assert_nothing_left()

    @case(
        Capability.LEASES, since="1.1", after="test_attempts_of_one_number_have_leases_of_their_own"
    )
    def test_an_attempt_of_the_driver_before_changes_nothing(self, trial: SinkUnitTrial) -> None:
        """It goes on to write while the next driver writes the same epoch."""
        late = trial.writer(1, 0)
        (rows,) = make_rows(1, 0, LATE_ROWS, self.seed).to_batches()
        late.write(rows.slice(0, 1))
        committer = trial.committer()
        committer.recover(0)
        trial.new_job(1)
        staged = trial.stage(1)
        with contextlib.suppress(Exception):  # it may have been fenced
            late.write(rows.slice(1))
            late.flush()
            late.prepare_commit()
        late.close()
        _assert_done(commit(committer, staged))
        committer.sweep(1)
        trial.assert_visible(1)
        trial.assert_nothing_left()

    # --- What is lost ---------------------------------------------------------------------------

    @case(Capability.REWRITING, since="1.1", after="test_a_commit_is_known_after_another_lease")
    def test_what_is_lost_is_known_and_written_again(self, trial: SinkUnitTrial) -> None:
        staged = trial.stage(1, writers=2)
        lost, kept = trial.rows[1]
        trial.context.lose(staged[:1])
        with contextlib.closing(trial.committer()) as committer:  # a sweep may end with its life
            outcomes = [request.outcome for request in commit(committer, staged)]
            assert outcomes[0] is CommitOutcome.LOST, f"it is {outcomes[0].value}"
            assert outcomes[1] in _DONE, f"it is {outcomes[1].value}"
            committer.sweep(1)
        trial.rows[1] = [kept]
        trial.assert_visible(1)
        trial.new_job(1)
        trial.rows[1] = []
        again = trial.stage(1)  # the rows of the first writer
        committer = trial.committer()
        _assert_done(commit(committer, again))
        trial.rows[1] = [lost, kept]
        _assert_done(commit(trial.committer(), [*again, staged[1]]))
        committer.sweep(1)
        trial.assert_visible(1)
        trial.assert_nothing_left()

    @case(Capability.REWRITING, since="1.1", after="test_what_is_lost_is_known_and_written_again")
    def test_what_is_lost_is_lost_in_every_life(self, trial: SinkUnitTrial) -> None:
        staged = trial.stage(1)
        trial.context.lose(staged)
        for _ in range(2):
            (request,) = commit(trial.committer(), staged)
            assert request.outcome is CommitOutcome.LOST, f"it is {request.outcome.value}"
        assert trial.context.read_back().num_rows == 0

    # --- Outages --------------------------------------------------------------------------------

    @case(
        Capability.EXACTLY_ONCE,
        Capability.OUTAGES,
        since="1.3",
        after=("test_another_life_commits_the_rest", "test_a_sweep_removes_what_nobody_decided_on"),
    )
    @pytest.mark.parametrize("outage", Outage)
    def test_what_an_outage_keeps_from_being_committed_is_tried_again(
        self, trial: SinkUnitTrial, outage: Outage
    ) -> None:
        """Only what is visible counts as committed, and nothing is given up."""
        staged = trial.stage(1, writers=2)
        again = staged
        with contextlib.closing(trial.committer()) as committer:
            with self.outage(outage):
                try:
                    requests = commit(committer, staged)
                except Exception as error:
                    assert_worth_another_attempt(error)
                else:
                    for request in requests:
                        assert request.outcome in (*_DONE, CommitOutcome.RETRY), (
                            f"it is {request.outcome.value}, for an outage: {request.error!r}"
                        )
                    again = [r.committable for r in requests if r.outcome is CommitOutcome.RETRY]
            _assert_done(commit(committer, again))
            committer.sweep(1)
        trial.assert_visible(1)
        trial.assert_nothing_left()

    @case(
        Capability.EXACTLY_ONCE,
        Capability.OUTAGES,
        since="1.3",
        after="test_recovery_removes_what_was_not_decided",
    )
    @pytest.mark.parametrize("outage", Outage)
    def test_a_rollback_that_an_outage_interrupts_is_finished_by_the_next(
        self, trial: SinkUnitTrial, outage: Outage
    ) -> None:
        """What was not decided on must not stay because nobody was there to remove it."""
        trial.stage(2)
        with contextlib.closing(trial.committer()) as committer, self.outage(outage):
            try:
                committer.sweep(2)
                committer.recover(2)
            except Exception as error:
                assert_worth_another_attempt(error)
        with contextlib.closing(trial.committer()) as committer:  # a sweep may end with its life
            committer.sweep(2)
            committer.recover(2)
        trial.assert_nothing_left()

    @case(
        Capability.EXACTLY_ONCE,
        Capability.OUTAGES,
        since="1.3",
        after="test_what_an_outage_keeps_from_being_committed_is_tried_again",
    )
    def test_a_commit_that_fails_leaves_nothing(self, trial: SinkUnitTrial, tmp_path: Path) -> None:
        staged = trial.stage(1)
        with nothing_left(tmp_path / "temporary"):
            for outage in LEAVING:
                with (
                    contextlib.closing(trial.committer()) as committer,
                    self.outage(outage),
                    contextlib.suppress(ConnectorError),
                ):
                    commit(committer, staged)

    @case(
        Capability.EXACTLY_ONCE,
        Capability.OUTAGES,
        Capability.SECRETS,
        since="1.3",
        after="test_what_an_outage_keeps_from_being_committed_is_tried_again",
    )
    def test_no_secret_is_shown_by_a_failure(
        self, trial: SinkUnitTrial, caplog: pytest.LogCaptureFixture, tmp_path: Path
    ) -> None:
        """Nor by its causes and their notes."""
        caplog.set_level(logging.DEBUG)
        staged = trial.stage(1)
        errors: list[BaseException | None] = []
        for outage in FAILING:
            for recovers in (False, True):
                with contextlib.closing(trial.committer()) as committer, self.outage(outage):
                    try:
                        if recovers:
                            committer.recover(1)
                        else:
                            errors += [request.error for request in commit(committer, staged)]
                    except ConnectorError as error:
                        errors.append(error)
        seen = [text for error in errors if error is not None for text in error_texts(error)]
        assert_unseen(trial.context.secrets(), [*seen, caplog.text], tmp_path / "nowhere")

    # --- Closing --------------------------------------------------------------------------------

    @case(Capability.EXACTLY_ONCE, after="test_a_commit_makes_rows_visible")
    def test_closing_twice_does_nothing(self, trial: SinkUnitTrial) -> None:
        committer = trial.committer()
        commit(committer, trial.stage(1))
        committer.close()
        committer.close()

    @case(Capability.EXACTLY_ONCE, after="test_a_commit_makes_rows_visible")
    def test_closing_one_committer_leaves_the_others(self, trial: SinkUnitTrial) -> None:
        staged = trial.stage(1)
        trial.committer().close()
        _assert_done(commit(trial.committer(), staged))
        trial.assert_visible(1)

    # --- Beside a successor ---------------------------------------------------------------------

    @case(
        Capability.EXACTLY_ONCE,
        since="1.3",
        after=(
            "test_rows_stay_when_the_committer_is_closed",
            "test_a_second_commit_changes_nothing",
            "test_another_life_commits_the_rest",
            "test_a_sweep_leaves_committed_rows",
            "test_a_sweep_leaves_other_epochs",
            "test_a_sweep_can_be_repeated",
            "test_recovery_leaves_what_a_later_driver_staged",
            "test_closing_one_committer_leaves_the_others",
        ),
        unless=Capability.LEASES,
    )
    def test_a_committer_that_resumes_leaves_what_its_successor_prepared(
        self, trial: SinkUnitTrial
    ) -> None:
        """A driver froze before a commit; another one has taken over and writes the next epoch."""
        decided = trial.stage(1)
        former = trial.committer()
        successor = trial.committer()
        _assert_done(commit(successor, decided))
        successor.sweep(1)
        successor.recover(1)
        prepared = trial.stage(3)
        with contextlib.closing(former):
            _assert_done(commit(former, decided))
            former.sweep(1)
        _assert_done(commit(successor, prepared))
        trial.assert_visible(1, 3)


def _assert_done(requests: Sequence[CommitRequest[Any]]) -> None:
    for request in requests:
        assert request.outcome in _DONE, f"{request.outcome.value}: {request.error!r}"
