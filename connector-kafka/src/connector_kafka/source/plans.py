# SPDX-License-Identifier: Apache-2.0
"""How far each partition is read in the next plan. Pure functions. Driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from connector_kafka.client.metadata import TopicPartition
from connector_kafka.source.split import KafkaPartitionSplit
from connectors_core.source import PlannedRead, ReadLimits

__all__ = ["plan", "shares"]


def plan(
    splits: Sequence[KafkaPartitionSplit],
    ends: Mapping[TopicPartition, int] | None,
    limits: ReadLimits,
    pauses: Mapping[TopicPartition, int] | None = None,
) -> dict[str, PlannedRead[KafkaPartitionSplit]]:
    """Give splits their stops, in the order given where not all can be read.

    Args:
        splits: Splits at their positions.
        ends: Where the partitions end now. One that is not here is not known yet, and left out.
            None: all splits have a last stop, and all before it is there.
        limits: Most that is read. Offsets count as rows.
        pauses: Where a run to what is available ends; other partitions end where they are.

    Returns:
        By split id what is read; what a limit leaves out is not in it.
    """
    reads: dict[str, PlannedRead[KafkaPartitionSplit]] = {}
    stops: dict[str, tuple[KafkaPartitionSplit, int, int | None]] = {}
    for split in splits:
        end = split.last_stop if ends is None else ends.get(split.topic_partition)
        if end is not None and split.last_stop is not None:
            end = min(end, split.last_stop)
        pause = None if pauses is None else pauses.get(split.topic_partition, split.offset)
        if pause is not None:
            end = pause if end is None else min(end, pause)
        last = _last_stop(split, pause)
        if last is not None and split.offset >= last:
            done = replace(split, stop=split.offset, pauses=last != split.last_stop)
            reads[split.split_id] = PlannedRead(split=done, then=None, empty=True)
        elif end is None:
            continue
        elif end <= split.offset:
            reads[split.split_id] = PlannedRead(split=split, then=split, empty=True)
        else:
            stops[split.split_id] = (split, end, last)
    chosen = list(stops.items())[: limits.splits]
    counts = shares([end - split.offset for _, (split, end, _) in chosen], limits.rows)
    for (split_id, (split, _, last)), count in zip(chosen, counts, strict=True):
        if count:
            stop = split.offset + count
            is_last = stop == last
            now = replace(split, stop=stop, pauses=is_last and last != split.last_stop)
            then = None if is_last else replace(split, offset=stop, stop=None, pauses=False)
            reads[split_id] = PlannedRead(split=now, then=then)
    return reads


def _last_stop(split: KafkaPartitionSplit, pause: int | None) -> int | None:
    """Where a split ends, for good or for this run."""
    known = [each for each in (split.last_stop, pause) if each is not None]
    return min(known, default=None)


def shares(available: Sequence[int], limit: int | None) -> list[int]:
    """Divide a limit among those who have something, by how much they have.

    What does not divide goes to the first ones, so that even the smallest has its turn.
    """
    total = sum(available)
    if limit is None or total <= limit:
        return list(available)
    parts = [limit * each // total for each in available]
    left = limit - sum(parts)
    for index, each in enumerate(available):
        if left and parts[index] < each:
            parts[index] += 1
            left -= 1
    return parts
