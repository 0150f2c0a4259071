# SPDX-License-Identifier: Apache-2.0
"""How far a plan reads each stream. Pure functions. Driver."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from connector_nats.split import StreamSplit
from connectors_core.source import PlannedRead, ReadLimits

__all__ = ["plan"]


def plan(
    splits: Sequence[StreamSplit],
    ends: Mapping[str, int],
    last: Mapping[str, int],
    limits: ReadLimits,
) -> dict[str, PlannedRead[StreamSplit]]:
    """Set the stops of splits.

    A stream has gaps, so the number of sequences is the highest possible number of messages. A
    limit of rows counts sequences, and is divided equally.

    Args:
        splits: Splits at their positions.
        ends: The current ends of the streams. Those of other streams are not known yet.
        last: The ends of streams at which splits end permanently.
        limits: The limits of the plan.

    Returns:
        The reads by split ID, without splits beyond the limits.
    """
    reads: dict[str, PlannedRead[StreamSplit]] = {}
    to_read: list[tuple[StreamSplit, int]] = []
    for split in splits:
        split = _with_end(split, last.get(split.stream))
        stop = ends.get(split.stream) if split.end is None else split.end
        if split.end is not None and split.position >= split.end:
            reads[split.split_id] = PlannedRead(split=split, then=None, empty=True)
        elif stop is not None and stop <= split.position:
            reads[split.split_id] = PlannedRead(split=split, then=split, empty=True)
        elif stop is not None:
            to_read.append((split, stop))
    to_read = to_read[: limits.splits]
    left = sys.maxsize if limits.rows is None else limits.rows
    for number, (split, stop) in enumerate(to_read):
        share = -(-left // (len(to_read) - number))
        stop = min(stop, split.position + share)
        if stop > split.position:
            left -= stop - split.position
            then = None if stop == split.end else replace(split, position=stop, stop=None)
            reads[split.split_id] = PlannedRead(split=replace(split, stop=stop), then=then)
    return reads


def _with_end(split: StreamSplit, end: int | None) -> StreamSplit:
    if split.end is not None or end is None:
        return split
    end = max(end, split.position)
    return replace(split, stop=end, end=end)
