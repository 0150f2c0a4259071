# SPDX-License-Identifier: Apache-2.0
"""Messages between writers, topologies and committers (Flink's FLIP-191)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

CommT = TypeVar("CommT")


@dataclass(frozen=True, kw_only=True)
class CommittableSummary:
    """Summary of a writer's output in one epoch; precedes its committables.

    Attributes:
        subtask_id: Number of the writer.
        number_of_subtasks: Number of writers of the sink in this epoch.
        checkpoint_id: The epoch.
        number_of_committables: Number of committables of this writer that follow.
        number_of_pending_committables: How many of them wait for their commit.
    """

    subtask_id: int
    number_of_subtasks: int
    checkpoint_id: int
    number_of_committables: int
    number_of_pending_committables: int = 0


@dataclass(frozen=True, kw_only=True)
class CommittableWithLineage(Generic[CommT]):
    """A committable and its origin."""

    committable: CommT
    checkpoint_id: int
    subtask_id: int


CommittableMessage = CommittableSummary | CommittableWithLineage[CommT]
"""A message of a topology: the summary of a writer, or one of its committables."""


def messages_in_order(
    committables: Sequence[CommittableWithLineage[CommT]],
    *,
    checkpoint_id: int,
    number_of_subtasks: int,
) -> Iterator[CommittableMessage[CommT]]:
    """Return the messages of an epoch in order: each writer's summary, then its committables.

    Args:
        committables: All committables of the epoch, in any order.
        checkpoint_id: The epoch.
        number_of_subtasks: Number of writers; a writer without committables also has a summary.
    """
    by_subtask: dict[int, list[CommittableWithLineage[CommT]]] = {
        subtask: [] for subtask in range(number_of_subtasks)
    }
    for message in committables:
        by_subtask.setdefault(message.subtask_id, []).append(message)
    for subtask, own in sorted(by_subtask.items()):
        yield CommittableSummary(
            subtask_id=subtask,
            number_of_subtasks=number_of_subtasks,
            checkpoint_id=checkpoint_id,
            number_of_committables=len(own),
            number_of_pending_committables=len(own),
        )
        yield from own
