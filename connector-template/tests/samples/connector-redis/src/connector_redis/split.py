# SPDX-License-Identifier: Apache-2.0
"""Splits: streams, each with the position of its next entry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from connectors_core.source import SourceEvent, SourceSplit, SplitState

__all__ = ["START", "Extent", "Position", "StreamEnds", "StreamSplit", "StreamSplitState", "order"]

START: Final = "0-0"
"""The ID before the first entry of every stream."""


def order(entry_id: str) -> tuple[int, int]:
    """Return the order of an entry by its ID."""
    time, _, sequence = entry_id.partition("-")
    return int(time), int(sequence)


@dataclass(frozen=True)
class Position:
    """A position between two entries of a stream.

    Attributes:
        id: The ID of the entry before it.
        entry: The number of entries before it since the stream exists. It reveals removed entries.
    """

    id: str
    entry: int


@dataclass(frozen=True)
class Extent:
    """The positions before the first and after the last entry of a stream."""

    start: Position
    end: Position


@dataclass(frozen=True, kw_only=True)
class StreamSplit(SourceSplit):
    """The entries of a stream from a position.

    Attributes:
        split_id: The key of the stream and the ID before the first entry.
        key: The key of the stream.
        position: The position of the next entry.
        end: The position after the last entry, or None if the split has no end.
    """

    split_id: str
    key: str
    position: Position
    end: Position | None = None

    @classmethod
    def of(cls, key: str, start: Position, end: Position | None) -> StreamSplit:
        """Return the split of a stream that starts at a position."""
        return cls(split_id=f"{key}/{start.id}", key=key, position=start, end=end)

    @property
    def is_read(self) -> bool:
        """Whether all entries were read."""
        return self.end is not None and order(self.position.id) >= order(self.end.id)

    def weight(self) -> int:
        """Return the number of remaining entries, or 1 if it is unknown."""
        return 1 if self.end is None else max(1, self.end.entry - self.position.entry)


class StreamSplitState(SplitState[StreamSplit]):
    """The mutable position of a split in a reader.

    Args:
        split: The start position.
    """

    def __init__(self, split: StreamSplit) -> None:
        self._split = split

    def move_to(self, position: Position) -> None:
        """Advance to this position, before which all rows were emitted."""
        self._split = replace(self._split, position=position)

    def to_split(self) -> StreamSplit:
        """Return the split to resume from."""
        return self._split


@dataclass(frozen=True)
class StreamEnds(SourceEvent):
    """The ends of splits that were assigned without an end, by key.

    The enumerator sends this event to the readers. A reader sends it when it reaches an end.
    """

    ends: dict[str, Position]
