# SPDX-License-Identifier: Apache-2.0
"""Hooks around writers and committers (Flink's FLIP-191)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Generic

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


class SupportsPostCommitTopology(ABC, Generic[CommT]):
    """Ability of a two-phase sink: a step after its commits."""

    @abstractmethod
    def add_post_commit_topology(self, messages: Iterable[CommittableMessage[CommT]]) -> None:
        """Process the committed data. Idempotent: a retry or a restart runs it again. Driver.

        Raises:
            RetryableError: It is not finished: the core runs it again, with the retries of commits.
        """
