# SPDX-License-Identifier: Apache-2.0
"""Splits: the parts of the system that are read side by side, each with its own position."""

from __future__ import annotations

from dataclasses import dataclass, replace

from connectors_core.source import SourceEvent, SourceSplit, SplitState

__all__ = ["PartitionEnds", "PartitionSplit", "PartitionSplitState"]


@dataclass(frozen=True, kw_only=True)
class PartitionSplit(SourceSplit):
    """A partition from an offset on.

    Replace the fields by what says where a part of your system begins, ends, and was read to. A
    part must have the same id whenever it is found: an id that was assigned before is passed over.

    Attributes:
        split_id: Topic, partition and first offset.
        partition: The partition.
        offset: The next row to read.
        end: The offset behind the last row; None for a split that has no end (yet).
    """

    split_id: str
    partition: int
    offset: int
    end: int | None = None

    @classmethod
    def of(cls, topic: str, partition: int, start: int, end: int | None) -> PartitionSplit:
        """The split of a partition that begins at an offset."""
        split_id = f"{topic}/{partition}/{start}"
        return cls(split_id=split_id, partition=partition, offset=start, end=end)

    @property
    def is_read(self) -> bool:
        """Whether nothing is left."""
        return self.end is not None and self.offset >= self.end

    def weight(self) -> int:
        """Rows left, where that is known."""
        return 1 if self.end is None else max(1, self.end - self.offset)


class PartitionSplitState(SplitState[PartitionSplit]):
    """The moving position of a split within a reader.

    Args:
        split: Where it begins.
    """

    def __init__(self, split: PartitionSplit) -> None:
        self._split = split

    def move_to(self, offset: int) -> None:
        """All rows before this offset were emitted."""
        self._split = replace(self._split, offset=offset)

    def to_split(self) -> PartitionSplit:
        """The split to go on from."""
        return self._split


@dataclass(frozen=True)
class PartitionEnds(SourceEvent):
    """Where splits end that were assigned without an end, by partition.

    The enumerator tells the readers, and a reader tells the enumerator when it came to an end.
    """

    ends: dict[int, int]
