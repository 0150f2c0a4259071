# SPDX-License-Identifier: Apache-2.0
"""The unit suite of committers: repeated commits, restarts, and sweeps."""

from __future__ import annotations

import contextlib
import logging
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from connectors_core.errors import ConnectorError
from connectors_core.sink import CommitOutcome
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.committer_commit_cases import (
    DONE,
    LATE_ROWS,
    CommitterCommitCases,
    assert_done,
    commit_during_fault,
)
from connectors_core.testing.committer_response_cases import CommitterResponseCases
from connectors_core.testing.context import SinkExternalContext
from connectors_core.testing.data import make_rows
from connectors_core.testing.outages import FAILING, LEAVING, Outage, assert_worth_another_attempt
from connectors_core.testing.sink_unit import SinkUnitTrial, commit
from connectors_core.testing.traces import assert_unseen, error_texts, nothing_left


class CommitterTestSuite(CommitterCommitCases, CommitterResponseCases):
    """Cases for the committer of a sink, without a pipeline. Derive as from `SinkTestSuite`."""

    @abstractmethod
    def external_context(self, folder: Path) -> SinkExternalContext:
        """Return a new external system for one case. ``folder`` belongs to the case."""

    @pytest.fixture
    def trial(self, tmp_path: Path) -> Iterator[SinkUnitTrial]:
        """Return the external system and the sink of a case."""
        folder = tmp_path / "external"
        folder.mkdir()
        print(f"seed: {self.seed}")
        exactly_once = Capability.EXACTLY_ONCE in self.capabilities.can
        with contextlib.closing(self.external_context(folder)) as context:
            trial = SinkUnitTrial(context, self.seed, exactly_once=exactly_once)
            with contextlib.closing(trial):
                yield trial

    # --- Recovery ---------------------------------------------------------------------------------

    @case(
        Capability.EXACTLY_ONCE,
        after=("test_a_commit_makes_rows_visible", "test_a_sweep_removes_what_nobody_decided_on"),
    )
    def test_recovery_removes_what_was_not_decided(self, trial: SinkUnitTrial) -> None:
        former = trial.committer()
        commit(former, trial.stage(1))
        former.sweep(1)
        for epoch in (2, 11):
            trial.stage(epoch)
        committer = trial.committer()
        for epoch in (2, 11):  # as the next driver does with the fenced epochs
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
        """A driver freezes during its start, another one takes over, and the first one resumes."""
        staged = trial.stage(4)
        committer = trial.committer()
        committer.recover(1)
        assert_done(commit(committer, staged))
        trial.assert_visible(4)

    @case(
        Capability.EXACTLY_ONCE,
        after="test_a_commit_makes_rows_visible",
        unless=Capability.LEASES,
    )
    def test_recovery_leaves_what_was_decided(self, trial: SinkUnitTrial) -> None:
        staged = {epoch: trial.stage(epoch) for epoch in (1, 2, 3)}
        assert_done(commit(trial.committer(), staged[1]))
        committer = trial.committer()
        committer.recover(2)
        assert_done(commit(committer, staged[2]))
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
        assert_done(commit(trial.committer(uid="other"), staged))
        trial.assert_visible(1)

    # --- Leases -----------------------------------------------------------------------------------

    @case(
        Capability.LEASES,
        since="1.1",
        after=("test_a_commit_makes_rows_visible", "test_a_sweep_removes_what_nobody_decided_on"),
    )
    def test_attempts_of_one_number_have_leases_of_their_own(self, trial: SinkUnitTrial) -> None:
        """A rerun stage counts its attempts from 0 again, while old attempts still run."""
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
        assert_done(commit(committer, staged[0]))
        committer.sweep(1)
        trial.assert_visible(1)
        trial.assert_nothing_left()

    @case(Capability.LEASES, since="1.1", after="test_another_life_commits_the_rest")
    @pytest.mark.parametrize("epoch", [1, 2])
    def test_a_commit_is_known_after_another_lease(self, trial: SinkUnitTrial, epoch: int) -> None:
        """The next driver repeats the commits of a driver that died.

        Before that, another loss leads to a new lease for its epoch or for the next one.
        """
        staged = trial.stage(1, writers=2)
        with contextlib.closing(trial.committer()) as committer:  # closing may complete a sweep
            assert_done(commit(committer, staged))
            committer.sweep(1)
        trial.new_job(1)
        decided = list(trial.rows[1])
        trial.stage(epoch, first=2)
        trial.rows[1] = decided
        committer = trial.committer()
        assert_done(commit(committer, staged))
        committer.sweep(1)
        committer.recover(1)
        trial.assert_visible(1)
        trial.assert_nothing_left()

    @case(
        Capability.LEASES, since="1.1", after="test_attempts_of_one_number_have_leases_of_their_own"
    )
    def test_an_attempt_of_the_driver_before_changes_nothing(self, trial: SinkUnitTrial) -> None:
        """It continues to write while the next driver writes the same epoch."""
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
        assert_done(commit(committer, staged))
        committer.sweep(1)
        trial.assert_visible(1)
        trial.assert_nothing_left()

    # --- Losses -----------------------------------------------------------------------------------

    @case(Capability.REWRITING, since="1.1", after="test_a_commit_is_known_after_another_lease")
    def test_what_is_lost_is_known_and_written_again(self, trial: SinkUnitTrial) -> None:
        staged = trial.stage(1, writers=2)
        lost, kept = trial.rows[1]
        trial.context.lose(staged[:1])
        with contextlib.closing(trial.committer()) as committer:  # closing may complete a sweep
            outcomes = [request.outcome for request in commit(committer, staged)]
            assert outcomes[0] is CommitOutcome.LOST, f"the outcome is {outcomes[0].value}"
            assert outcomes[1] in DONE, f"the outcome is {outcomes[1].value}"
            committer.sweep(1)
        trial.rows[1] = [kept]
        trial.assert_visible(1)
        trial.new_job(1)
        trial.rows[1] = []
        again = trial.stage(1)  # the rows of the first writer
        committer = trial.committer()
        assert_done(commit(committer, again))
        trial.rows[1] = [lost, kept]
        assert_done(commit(trial.committer(), [*again, staged[1]]))
        committer.sweep(1)
        trial.assert_visible(1)
        trial.assert_nothing_left()

    @case(Capability.REWRITING, since="1.1", after="test_what_is_lost_is_known_and_written_again")
    def test_what_is_lost_is_lost_in_every_life(self, trial: SinkUnitTrial) -> None:
        staged = trial.stage(1)
        trial.context.lose(staged)
        for _ in range(2):
            (request,) = commit(trial.committer(), staged)
            assert request.outcome is CommitOutcome.LOST, f"the outcome is {request.outcome.value}"
        assert trial.context.read_back().num_rows == 0

    # --- Outages ----------------------------------------------------------------------------------

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
        """Only visible rows count as committed, and no committable fails."""
        staged = trial.stage(1, writers=2)
        with contextlib.closing(trial.committer()) as committer:
            with self.outage(outage):
                again = commit_during_fault(committer, staged)
            assert_done(commit(committer, again))
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
        """Undecided data must not remain if an outage prevented its removal."""
        trial.stage(2)
        with contextlib.closing(trial.committer()) as committer, self.outage(outage):
            try:
                committer.sweep(2)
                committer.recover(2)
            except Exception as error:
                assert_worth_another_attempt(error)
        with contextlib.closing(trial.committer()) as committer:  # closing may complete a sweep
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
        """The causes and notes of an error do not show it either."""
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

    # --- Close ------------------------------------------------------------------------------------

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
        assert_done(commit(trial.committer(), staged))
        trial.assert_visible(1)

    # --- Together with a successor ----------------------------------------------------------------

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
        assert_done(commit(successor, decided))
        successor.sweep(1)
        successor.recover(1)
        prepared = trial.stage(3)
        with contextlib.closing(former):
            assert_done(commit(former, decided))
            former.sweep(1)
        assert_done(commit(successor, prepared))
        trial.assert_visible(1, 3)
