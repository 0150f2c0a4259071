# SPDX-License-Identifier: Apache-2.0
"""Committers: the second phase (Flink's FLIP-191). Driver only."""

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
    """What a committer knows of itself.

    Attributes:
        pipeline_id: The pipeline, for all its restarts.
        sink_uid: The sink within the pipeline.
        incarnation: Number of the driver, higher than that of every driver of the pipeline before.
        trigger_interval: Least seconds between two epochs; None in a batch run.
        metric_group: Metrics of this committer.
    """

    pipeline_id: str
    sink_uid: str
    incarnation: int = 0
    trigger_interval: float | None = None
    metric_group: MetricGroup = field(default_factory=MetricGroup)


class CommitOutcome(enum.Enum):
    """How a request to commit ended; a request nobody touched is committed."""

    COMMITTED = "committed"
    ALREADY_COMMITTED = "already committed"
    RETRY = "retry"
    FAILED = "failed"
    LOST = "lost"


class CommitRequest(Generic[CommT]):
    """One committable on its way; the committer says here what did not simply succeed."""

    def __init__(self, committable: CommT, number_of_retries: int = 0) -> None:
        self._committable = committable
        self._number_of_retries = number_of_retries
        self._outcome = CommitOutcome.COMMITTED
        self._error: BaseException | None = None

    @property
    def committable(self) -> CommT:
        """What to commit."""
        return self._committable

    @property
    def number_of_retries(self) -> int:
        """How often this was tried before."""
        return self._number_of_retries

    @property
    def outcome(self) -> CommitOutcome:
        """How it ended."""
        return self._outcome

    @property
    def error(self) -> BaseException | None:
        """Why it failed."""
        return self._error

    def retry_later(self) -> None:
        """Try again with a growing delay."""
        self._outcome = CommitOutcome.RETRY

    def update_and_retry_later(self, committable: CommT) -> None:
        """Try again with this committable, for example what is left of it."""
        self._committable = committable
        self.retry_later()

    def signal_already_committed(self) -> None:
        """It is there already: an earlier life of the driver committed it."""
        self._outcome = CommitOutcome.ALREADY_COMMITTED

    def signal_failed(self, error: BaseException) -> None:
        """It can never be committed; the pipeline fails with this error."""
        self._outcome = CommitOutcome.FAILED
        self._error = error

    def signal_lost(self) -> None:
        """What it stood for is gone and was never visible: its rows must be written again.

        For sinks with the ability :class:`~connectors_core.sink.SupportsRewriting` only. Whoever
        says so is certain that nobody can make it visible any more.
        """
        self._outcome = CommitOutcome.LOST

    def next_try(self) -> CommitRequest[CommT]:
        """The request for the next try."""
        return CommitRequest(self._committable, self._number_of_retries + 1)


class Committer(ABC, Generic[CommT]):
    """Commits what a decision names; idempotent, since a restart commits it again.

    The calls come in an order that an author can rely on. At start: :meth:`commit` of the epochs
    that are decided and not done, :meth:`sweep` of these, of the ones before, and of those that
    former drivers staged and can no longer decide on; then :meth:`recover`.
    Then, for each epoch: ``lease`` where the committer has the ability
    :class:`~connectors_core.sink.SupportsLeases`, the writers, the decision, :meth:`commit`,
    :meth:`sweep`. No epoch is written before the one before is committed and swept. An epoch that
    fails before its decision is swept at once; it is written again after another ``lease``, by the
    same driver under the same number, by the next driver under another one. An epoch whose
    committables are lost is committed but for these and swept; then come a ``lease``, the writers,
    and :meth:`commit` of what they made, for the same epoch.

    Where a sink has several committers (``committer_parallelism``), the first of them is asked for
    leases, sweeps and recovery.

    A driver that was frozen, and taken for gone, may resume at any point of this, beside the one
    that took over. The two never stage under the same epoch. Both may commit the same epoch at the
    same time. What the older one sweeps or rolls back is of its own epochs, or of earlier ones. So
    no call may touch what is staged for a later epoch than the one it is for.
    """

    @abstractmethod
    def commit(self, requests: Sequence[CommitRequest[CommT]]) -> None:
        """Commit each request, or say on it what happened instead.

        Raises:
            RetryableError: Nothing is known of any request: all are tried again.
        """

    def sweep(self, checkpoint_id: int) -> None:
        """Remove whatever attempts staged for this epoch and did not come to be committed.

        What was decided on is committed, or lost, by then: what is staged for the epoch is over.
        Called right after the epoch's commit, when an epoch is rolled back, and again later: an
        attempt that was killed may write for some seconds more. Idempotent. It may go on in the
        background, but not past the next lease of this committer, nor past :meth:`close`.
        """

    def recover(self, last_decided: int) -> None:
        """Fence the writers of former drivers, where the target allows it, and tidy up.

        Once, before the first epoch and the first lease. All epochs of former drivers are
        committed, lost or swept by then, those too that they did not decide on.

        Args:
            last_decided: The newest epoch of former drivers, -1 for none. What is staged for a
                later one belongs to a driver that took over from this one: leave it alone.
        """

    def close(self) -> None:
        """End what a sweep left to be done, and release what the committer holds."""
