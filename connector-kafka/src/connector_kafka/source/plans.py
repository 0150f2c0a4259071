# SPDX-License-Identifier: Apache-2.0
"""Plans how far each partition is read. Pure functions. Driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from connector_kafka.client.metadata import TopicPartition
from connector_kafka.source.split import KafkaPartitionSplit
from connectors_core.source import PlannedRead, ReadLimits

__all__ = ["plan", "shares"]


def plan(
    splits: Sequence[KafkaPartitionSplit],
    ends: Mapping[TopicPartition, int] | None,
    limits: ReadLimits,
    pauses: Mapping[TopicPartition, int] = MappingProxyType({}),
    epochs: Mapping[TopicPartition, int] = MappingProxyType({}),
) -> dict[str, PlannedRead[KafkaPartitionSplit]]:
    """Set the stops of splits, in the given order if the limits do not suffice for all.

    Args:
        splits: Splits at their positions.
        ends: The current end offsets of the partitions. A partition without one is not known yet,
            and is omitted. None means that all splits have a last stop and that all records before
            it exist.
        limits: The maximum amount to read. Offsets count as rows.
        pauses: The ends of partitions that pause there, or at their position if it is later.
        epochs: The epochs of the leaders that returned the ends.

    Returns:
        The splits to read, by ID. Those beyond the limits are omitted.
    """
    reads: dict[str, PlannedRead[KafkaPartitionSplit]] = {}
    stops: dict[str, tuple[KafkaPartitionSplit, int, int | None]] = {}
    for split in splits:
        end = split.last_stop if ends is None else ends.get(split.topic_partition)
        if end is not None and split.last_stop is not None:
            end = min(end, split.last_stop)
        pause = pauses.get(split.topic_partition)
        if pause is not None:
            end = pause if end is None else min(end, pause)
        last = _last_stop(split, pause)
        if last is not None and split.offset >= last:
            done = replace(
                split,
                stop=split.offset,
                pauses=last != split.last_stop,
                stop_epoch=split.leader_epoch,
            )
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
            epoch = split.stop_epoch if ends is None else epochs.get(split.topic_partition, -1)
            now = replace(
                split,
                stop=stop,
                pauses=is_last and last != split.last_stop,
                stop_epoch=epoch,
            )
            then = replace(split.moved_to(stop, epoch), stop=None, pauses=False)
            reads[split_id] = PlannedRead(split=now, then=None if is_last else then)
    return reads


def _last_stop(split: KafkaPartitionSplit, pause: int | None) -> int | None:
    """Return the end of a split, permanently or for this run."""
    known = [each for each in (split.last_stop, pause) if each is not None]
    return min(known, default=None)


def shares(available: Sequence[int], limit: int | None) -> list[int]:
    """Divide a limit among the partitions with records, in proportion to their lag.

    The remainder goes to the first ones, so that even the smallest gets its turn.
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
