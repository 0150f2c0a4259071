# SPDX-License-Identifier: Apache-2.0
"""Compaction: committables of several epochs are held back, merged, and committed (FLIP-191)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Generic

from connectors_core.errors import ConfigurationError
from connectors_core.metrics import MetricGroup
from connectors_core.sink.held import HeldCommittable
from connectors_core.sink.messages import CommT


@dataclass(frozen=True, kw_only=True)
class CompactRequest(Generic[CommT]):
    """Held committables to merge.

    Attributes:
        held: The committables in order. A single one is committed as it is, without a compactor.
    """

    held: tuple[HeldCommittable[CommT], ...]


class CompactCoordinator(ABC, Generic[CommT]):
    """Decides which held committables to merge, over all writers and epochs. Driver.

    It keeps no state: a restart calls it with the same committables.
    """

    @abstractmethod
    def requests(
        self, held: Sequence[HeldCommittable[CommT]], checkpoint_id: int, *, everything: bool
    ) -> Sequence[CompactRequest[CommT]]:
        """Return the requests to record in a decision.

        Args:
            held: The committables that are in no request yet, oldest first.
            checkpoint_id: The epoch of the decision.
            everything: Every committable must be in a request: at the end of the input, and if
                too many are held.
        """


@dataclass(frozen=True, kw_only=True)
class CompactContext:
    """The context of one attempt to run a request. Executor.

    Attributes:
        pipeline_id: The pipeline.
        sink_uid: The sink.
        request_id: The request, unique within the sink.
        attempt_number: Spark's attempt of this task.
        nonce: Unique for every attempt. Name staged output by request, attempt, and nonce.
        metric_group: Metrics of this attempt.
    """

    pipeline_id: str
    sink_uid: str
    request_id: str
    attempt_number: int
    nonce: str
    metric_group: MetricGroup = field(default_factory=MetricGroup)


class Compactor(ABC, Generic[CommT]):
    """Merges committables. Executor; picklable."""

    @abstractmethod
    def compact(self, committables: Sequence[CommT], context: CompactContext) -> Sequence[CommT]:
        """Stage the merged output and return its committables.

        The originals stay as they are. Several attempts can run at a time, and only one counts.

        Args:
            committables: The committables of a request, in order.
            context: The attempt.
        """


@dataclass(frozen=True, kw_only=True)
class Compaction(Generic[CommT]):
    """How a sink compacts.

    Attributes:
        coordinator: Decides what to merge.
        compactor: Merges it.
        compactors: Maximum number of tasks that merge at a time.
        max_held: If more committables are held, everything is merged, and the epochs wait for it.
        max_wait: Committables that wait longer for a request are merged, even if no epoch follows.
        holds: False while a sink only drains: new committables are committed with their epoch, and
            those that earlier drivers held are committed as they are.
        whole_epochs: Commit all committables of an epoch together. Results wait until nothing of
            their epochs or of earlier ones is held. A coordinator ends the wait if it requests
            everything from time to time.

    Raises:
        ConfigurationError: There are no compactors.
    """

    coordinator: CompactCoordinator[CommT]
    compactor: Compactor[CommT]
    compactors: int = 1
    max_held: int = 10_000
    max_wait: timedelta = timedelta(hours=1)
    holds: bool = True
    whole_epochs: bool = False

    def __post_init__(self) -> None:
        if self.compactors < 1:
            raise ConfigurationError(
                "the number of compactors is out of range",
                expected="at least 1",
                found=self.compactors,
            )


class SupportsCompaction(ABC, Generic[CommT]):
    """Ability of a two-phase sink: merges committables of several epochs before their commit.

    A decision holds committables back, and a later decision commits the result of their merge. Its
    committer must have the ability :class:`SupportsHeldCommittables`.
    """

    @abstractmethod
    def create_compaction(self) -> Compaction[CommT] | None:
        """Return how the sink compacts, or None if it does not. Driver and executor."""
