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
        metric_group: Metrics of this committer.
    """

    pipeline_id: str
    sink_uid: str
    metric_group: MetricGroup = field(default_factory=MetricGroup)


class CommitOutcome(enum.Enum):
    """How a request to commit ended; a request nobody touched is committed."""

    COMMITTED = "committed"
    ALREADY_COMMITTED = "already committed"
    RETRY = "retry"
    FAILED = "failed"


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

    def next_try(self) -> CommitRequest[CommT]:
        """The request for the next try."""
        return CommitRequest(self._committable, self._number_of_retries + 1)


class Committer(ABC, Generic[CommT]):
    """Commits what a decision names; idempotent, since a restart commits it again."""

    @abstractmethod
    def commit(self, requests: Sequence[CommitRequest[CommT]]) -> None:
        """Commit each request, or say on it what happened instead.

        Raises:
            RetryableError: Nothing is known of any request: all are tried again.
        """

    def sweep(self, checkpoint_id: int) -> None:
        """Remove whatever attempts staged for this epoch and no decision names.

        Called after the epoch's commit, when an epoch is rolled back, and again later: an attempt
        that was killed may write for some seconds more. Idempotent.
        """

    def recover(self, last_decided: int) -> None:
        """Fence and roll back what epochs after ``last_decided`` staged.

        Once, before the first epoch. Decided epochs were committed before this is called.
        """

    def close(self) -> None:
        """Release what the committer holds."""
