# SPDX-License-Identifier: Apache-2.0
"""Cases of a committer and its writers in which a request takes effect and its response is lost."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Final

from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.committer_commit_cases import assert_done, commit_during_fault
from connectors_core.testing.outages import assert_worth_another_attempt
from connectors_core.testing.sink_unit import SinkUnitTrial, commit
from connectors_core.testing.trial import PipelineSuite

# The number of responses that a case loses at most, each in its own epoch.
_MOST: Final = 20
_NONE_LOST: Final = "no response was lost: does the sink connect to the address of the TestSystem?"


class CommitterResponseCases(PipelineSuite, part=True):
    """Cases that lose one response after another, of a commit or of a writer."""

    @case(
        Capability.OUTAGES,
        since="1.4",
        after=(
            "test_another_life_commits_the_rest",
            "test_a_sweep_removes_what_nobody_decided_on",
            "test_what_an_outage_keeps_from_being_committed_is_tried_again",
        ),
    )
    def test_a_lost_response_of_a_commit_loses_and_doubles_nothing(
        self, trial: SinkUnitTrial
    ) -> None:
        """Neither a commit that is not atomic nor one that is not idempotent survives this."""
        for epoch in range(1, _MOST + 1):
            staged = trial.stage(epoch, writers=2)
            with contextlib.closing(trial.committer()) as committer:
                with self.lost_response(epoch) as lost:
                    again = commit_during_fault(committer, staged)
                assert_done(commit(committer, again))
            _assert_committed(trial, epoch, staged)
            if not lost.is_set():
                break
        assert epoch > 1 or not staged, _NONE_LOST

    @case(
        Capability.OUTAGES,
        since="1.4",
        after=(
            "test_another_life_commits_the_rest",
            "test_a_sweep_removes_what_nobody_decided_on",
        ),
    )
    def test_a_lost_response_of_a_writer_loses_and_doubles_nothing(
        self, trial: SinkUnitTrial
    ) -> None:
        """The writer continues, or it fails and another attempt writes its rows."""
        for epoch in range(1, _MOST + 1):
            trial.lease(epoch)
            staged: list[Any] | None = None
            with self.lost_response(epoch) as lost:
                try:
                    staged = trial.stage(epoch)
                except Exception as error:
                    assert_worth_another_attempt(error)
            if staged is None:
                trial.rows[epoch].clear()
                staged = trial.stage(epoch)
            _assert_committed(trial, epoch, staged)
            if not lost.is_set():
                break
        assert epoch > 1, _NONE_LOST


def _assert_committed(trial: SinkUnitTrial, epoch: int, staged: Sequence[Any]) -> None:
    """Commit an epoch as the next driver does, and check all epochs so far."""
    print(f"lost response: {epoch}")
    with contextlib.closing(trial.committer()) as committer:  # closing may complete a sweep
        assert_done(commit(committer, staged))
        committer.sweep(epoch)
    trial.assert_visible(*range(1, epoch + 1))
    trial.assert_nothing_left()
