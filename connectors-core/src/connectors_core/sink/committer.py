# SPDX-License-Identifier: Apache-2.0
"""Committers: the second phase of a two-phase sink (Flink's FLIP-191)."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic

from connectors_core.metrics import MetricGroup
from connectors_core.sink.messages import CommT


@dataclass(frozen=True, kw_only=True)
class CommitterInitContext:
    """The context of a committer.

    Attributes:
        pipeline_id: The pipeline, stable across restarts.
        sink_uid: The sink within the pipeline.
        incarnation: Number of the driver, higher than that of every earlier driver of the
            pipeline.
        trigger_interval: Minimum seconds between two epochs; None in a batch run.
        metric_group: Metrics of this committer.
    """

    pipeline_id: str
    sink_uid: str
    incarnation: int = 0
    trigger_interval: float | None = None
    metric_group: MetricGroup = field(default_factory=MetricGroup)


class CommitOutcome(enum.Enum):
    """The result of a commit request; a request without a signal is committed."""

    COMMITTED = "committed"
    ALREADY_COMMITTED = "already committed"
    RETRY = "retry"
    FAILED = "failed"
    LOST = "lost"


class CommitRequest(Generic[CommT]):
    """One committable to commit; the committer signals any result other than success."""

    def __init__(self, committable: CommT, number_of_retries: int = 0) -> None:
        self._committable = committable
        self._number_of_retries = number_of_retries
        self._outcome = CommitOutcome.COMMITTED
        self._error: BaseException | None = None

    @property
    def committable(self) -> CommT:
        """The committable."""
        return self._committable

    @property
    def number_of_retries(self) -> int:
        """The number of previous attempts."""
        return self._number_of_retries

    @property
    def outcome(self) -> CommitOutcome:
        """The result."""
        return self._outcome

    @property
    def error(self) -> BaseException | None:
        """The reason for the failure or the retry."""
        return self._error

    def retry_later(self, error: BaseException | None = None) -> None:
        """Retry with an increasing delay.

        Args:
            error: The reason. The pipeline reports it if the retries are exhausted.
        """
        self._outcome = CommitOutcome.RETRY
        self._error = error

    def update_and_retry_later(
        self, committable: CommT, error: BaseException | None = None
    ) -> None:
        """Retry with this committable, for example the remaining part.

        Args:
            committable: The committable of the next attempt.
            error: The reason, as in :meth:`retry_later`.
        """
        self._committable = committable
        self.retry_later(error)

    def signal_already_committed(self) -> None:
        """An earlier driver has already committed it."""
        self._outcome = CommitOutcome.ALREADY_COMMITTED

    def signal_failed(self, error: BaseException) -> None:
        """It can never be committed; the pipeline fails with this error."""
        self._outcome = CommitOutcome.FAILED
        self._error = error

    def signal_lost(self) -> None:
        """Its data is lost and was never visible: the core must write its rows again.

        Only for sinks with the ability :class:`~connectors_core.sink.SupportsRewriting`. The caller
        must be certain that the data cannot become visible later.
        """
        self._outcome = CommitOutcome.LOST

    def next_try(self) -> CommitRequest[CommT]:
        """The request for the next attempt."""
        return CommitRequest(self._committable, self._number_of_retries + 1)


class Committer(ABC, Generic[CommT]):
    """Commits the committables of a decision; idempotent, because a restart commits them again.

    It runs on the driver. Tasks commit only for a sink with the ability
    :class:`~connectors_core.sink.SupportsCommitTasks`.

    The order of the calls is guaranteed:

    - At startup: :meth:`commit` for epochs that are decided and not done; :meth:`sweep` for
      these, for earlier ones, and for epochs that former drivers staged and can no longer decide;
      then :meth:`recover`, and ``newest_committed_epoch`` if the committer has the ability
      :class:`~connectors_core.sink.SupportsCommittedEpoch`.
    - For each epoch: ``lease`` if the committer has the ability
      :class:`~connectors_core.sink.SupportsLeases`, the writers, the decision, :meth:`commit`,
      :meth:`sweep`. An epoch is written only after the previous one is committed and swept.
    - If an epoch fails before its decision, it is swept immediately. After another ``lease``,
      the same driver writes it again under the same number, or the next driver under a new number.
    - If committables of an epoch are lost, the others are committed and the epoch is swept.
      Then follow a ``lease``, the writers, and :meth:`commit` of their output for the same epoch.

    If a sink has several committers (``committer_parallelism``), the core asks the first one for
    leases, sweeps, and recovery. Committers of tasks only commit.

    A driver that was frozen and replaced may resume at any point and run at the same time as its
    successor. The two never stage under the same epoch, but may commit the same epoch
    simultaneously. The older driver sweeps or rolls back only its own or earlier epochs. For this
    reason, no call may touch staged data of a later epoch than its own.
    """

    @abstractmethod
    def commit(self, requests: Sequence[CommitRequest[CommT]]) -> None:
        """Commit each request, or signal a different result on it.

        Raises:
            RetryableError: The result of every request is unknown: all are retried.
        """

    def sweep(self, checkpoint_id: int) -> None:
        """Remove everything staged for this epoch that was not committed.

        Decided data is committed or lost by then. The core calls this immediately after the epoch's
        commit, when an epoch is rolled back, and again later, because a killed attempt may keep
        writing for some seconds. Idempotent. It may continue in the background, but must finish
        before the next lease of this committer and before :meth:`close`.
        """

    def recover(self, last_decided: int) -> None:
        """Fence the writers of former drivers, if the target supports it, and clean up.

        Called once, before the first epoch and the first lease. By then, all epochs of former
        drivers are committed, lost, or swept, including those that they did not decide.

        Args:
            last_decided: The newest epoch of former drivers, -1 for none. Later staged data
                belongs to a driver that took over from this one: do not touch it.
        """

    def close(self) -> None:
        """Complete pending sweeps, and release resources."""
