# SPDX-License-Identifier: Apache-2.0
"""Committables that wait for a later epoch, for a topology or a compaction (FLIP-191)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from connectors_core.sink.messages import CommT


@dataclass(frozen=True, kw_only=True)
class HeldCommittable(Generic[CommT]):
    """A committable that a decision holds back, so that it can be combined with later ones.

    Attributes:
        committable: The committable.
        checkpoint_id: The epoch whose decision holds it.
        number: Its number within that decision.
        subtask_id: The writer that created it.
    """

    committable: CommT
    checkpoint_id: int
    number: int
    subtask_id: int = 0


class SupportsHeldCommittables(ABC, Generic[CommT]):
    """Ability of a committer: staged data of committed epochs can wait for a later epoch."""

    @abstractmethod
    def sweep_others(self, checkpoint_id: int, held: Sequence[CommT]) -> None:
        """Remove everything staged for an epoch except these committables.

        The core calls it instead of :meth:`~connectors_core.sink.Committer.sweep` as long as
        committables of the epoch are held, and again when the result of some of them is committed.
        """

    def sweep_request(self, request_id: str) -> None:
        """Remove everything that compactors staged for a request whose result is committed.

        A topology stages nothing for requests, so only committers of compacting sinks need it.
        """
