# SPDX-License-Identifier: Apache-2.0
"""Hooks around writers and committers (Flink's FLIP-191)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Generic

from connectors_core.sink.held import HeldCommittable
from connectors_core.sink.messages import CommittableMessage, CommT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SupportsPreWriteTopology(ABC):
    """Ability of a sink: a DataFrame step before its writers, in a separate Spark job."""

    @abstractmethod
    def add_pre_write_topology(self, df: DataFrame) -> DataFrame:
        """Rearrange the epoch's rows, for example ``repartition``. Driver."""


class SupportsPreCommitTopology(ABC, Generic[CommT]):
    """Ability of a two-phase sink: rework its committables before the decision."""

    @abstractmethod
    def add_pre_commit_topology(
        self, messages: Iterable[CommittableMessage[CommT]]
    ) -> Sequence[CommT]:
        """Return the committables to decide, from the writers' messages in order. Driver.

        Runs again if it failed before the decision, never after it.
        """


@dataclass(frozen=True, kw_only=True)
class CombinedCommittables(Generic[CommT]):
    """Held committables, and the committables to commit in their place.

    Attributes:
        held: The held committables. The committer removes the staged data of those that are not
            among ``committables``.
        committables: The committables to commit, which can be new ones or some of the held ones.
    """

    held: tuple[HeldCommittable[CommT], ...]
    committables: tuple[CommT, ...]


class SupportsPreCommitTopologyOverEpochs(ABC, Generic[CommT]):
    """Ability of a two-phase sink: holds committables of an epoch for the decision of a later one.

    Each decision stores its held committables in the format of their serializer. The topology keeps
    no state, so a restart continues with the same committables. The committer must have
    the ability :class:`~connectors_core.sink.SupportsHeldCommittables`.

    If the sink also has a pre-commit topology within the epoch, that one comes first.
    """

    @abstractmethod
    def add_pre_commit_topology_over_epochs(
        self, held: Sequence[HeldCommittable[CommT]], checkpoint_id: int, *, everything: bool
    ) -> Sequence[CombinedCommittables[CommT]]:
        """Return the combinations to decide now; all other committables stay held. Driver.

        Runs again if it failed before the decision, never after it. Stage new data for the epoch
        ``checkpoint_id``, so that it is swept with this epoch.

        Args:
            held: The held committables, oldest first. The last ones are those of this epoch.
            checkpoint_id: The epoch of the decision.
            everything: Whether all held committables must be combined: at the end of the input, if
                too many are held, or if one has waited too long.
        """

    def max_held_committables(self) -> int:
        """Return the number of held committables above which the core decides on all of them."""
        return 10_000

    def max_held_time(self) -> timedelta:
        """Return how long a committable may wait, even if no epoch follows."""
        return timedelta(hours=1)


class SupportsPostCommitTopology(ABC, Generic[CommT]):
    """Ability of a two-phase sink: a step after its commits."""

    @abstractmethod
    def add_post_commit_topology(self, messages: Iterable[CommittableMessage[CommT]]) -> None:
        """Process the committed data. Idempotent: a retry or a restart runs it again. Driver.

        Raises:
            RetryableError: It is not finished: the core runs it again, with the retries of commits.
        """


TOPOLOGIES: Final[tuple[tuple[type, str], ...]] = (
    (SupportsPreWriteTopology, "rearranges rows before its writers"),
    (SupportsPreCommitTopology, "reworks committables before the decision"),
    (SupportsPreCommitTopologyOverEpochs, "holds committables over epochs"),
    (SupportsPostCommitTopology, "has a step after its commits"),
)
"""The abilities of topologies, and how errors describe a sink with each of them."""
