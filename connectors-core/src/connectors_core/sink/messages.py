# SPDX-License-Identifier: Apache-2.0
"""Messages between writers, topologies and committers (Flink's FLIP-191)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from connectors_core.errors import FatalError

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


def messages_of(
    committables: Iterable[tuple[int, CommT]],
    *,
    checkpoint_id: int,
    number_of_subtasks: int,
    committed: bool = False,
) -> tuple[CommittableMessage[CommT], ...]:
    """Return the messages of an epoch in order: each writer's summary, then its committables.

    Args:
        committables: Number of the writer and committable, for all committables in any order.
        checkpoint_id: The epoch.
        number_of_subtasks: Number of writers; a writer without committables also has a summary.
        committed: Whether the committables are committed, so that none is pending.

    Raises:
        FatalError: A committable has a writer beyond their number.
    """
    by_subtask: dict[int, list[CommT]] = {subtask: [] for subtask in range(number_of_subtasks)}
    for subtask, committable in committables:
        if subtask not in by_subtask:
            raise FatalError(
                f"a committable of epoch {checkpoint_id} comes from a writer that does not exist",
                expected=f"a number below {number_of_subtasks}",
                found=str(subtask),
            )
        by_subtask[subtask].append(committable)
    messages: list[CommittableMessage[CommT]] = []
    for subtask, own in by_subtask.items():
        messages.append(
            CommittableSummary(
                subtask_id=subtask,
                number_of_subtasks=number_of_subtasks,
                checkpoint_id=checkpoint_id,
                number_of_committables=len(own),
                number_of_pending_committables=0 if committed else len(own),
            )
        )
        messages += [
            CommittableWithLineage(
                committable=each, checkpoint_id=checkpoint_id, subtask_id=subtask
            )
            for each in own
        ]
    return tuple(messages)


def committables_of(messages: Iterable[CommittableMessage[CommT]]) -> list[CommT]:
    """Return the committables of an epoch in order, for a topology that needs only these.

    Args:
        messages: All messages of the epoch.

    Raises:
        FatalError: The committables are not as many as the summaries say.
    """
    found: list[CommT] = []
    missing: Counter[int] = Counter()
    for each in messages:
        if isinstance(each, CommittableSummary):
            missing[each.subtask_id] += each.number_of_committables
        else:
            found.append(each.committable)
            missing[each.subtask_id] -= 1
    wrong = [subtask for subtask, number in missing.items() if number]
    if wrong:
        raise FatalError(
            "the messages of an epoch are incomplete",
            expected="as many committables as the summary of each writer says",
            found=f"other numbers from writers {', '.join(map(str, wrong))}",
            hint="pass all messages of the epoch, and create messages with messages_of",
        )
    return found


def messages_in_order(
    committables: Sequence[CommittableWithLineage[CommT]],
    *,
    checkpoint_id: int,
    number_of_subtasks: int,
) -> Iterator[CommittableMessage[CommT]]:
    """Return the messages of committables that already have their lineage; see `messages_of`.

    Args:
        committables: All committables of the epoch, in any order.
        checkpoint_id: The epoch.
        number_of_subtasks: Number of writers.

    Raises:
        FatalError: A committable belongs to another epoch, or has a writer beyond their number.
    """
    for each in committables:
        if each.checkpoint_id != checkpoint_id:
            raise FatalError(
                "a committable belongs to another epoch than its messages",
                expected=str(checkpoint_id),
                found=str(each.checkpoint_id),
            )
    yield from messages_of(
        ((each.subtask_id, each.committable) for each in committables),
        checkpoint_id=checkpoint_id,
        number_of_subtasks=number_of_subtasks,
    )
