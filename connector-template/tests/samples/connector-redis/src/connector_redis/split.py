# SPDX-License-Identifier: Apache-2.0
"""Splits: the streams that are read concurrently, each with its position."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from connectors_core.source import SourceEvent, SourceSplit, SplitState

__all__ = ["Extent", "PartEnds", "PartSplit", "PartSplitState", "Position"]


@dataclass(frozen=True, order=True)
class Position:
    """A position in a stream, after an entry, whose ID has two numbers.

    Attributes:
        time: The first number, or 0 for the position before all entries.
        sequence: The second number.
        entries: The number of entries before it since the stream exists. It shows which entries are
            gone.
    """

    time: int = 0
    sequence: int = 0
    entries: int = field(default=0, compare=False)

    @classmethod
    def after(cls, entry_id: bytes, entries: int) -> Position:
        """Return the position after an entry."""
        time, sequence = entry_id.split(b"-")
        return cls(int(time), int(sequence), entries)

    def __str__(self) -> str:
        """Return the ID of the entry."""
        return f"{self.time}-{self.sequence}"


@dataclass(frozen=True)
class Extent:
    """The rows that a part has.

    Attributes:
        start: The position of the first row.
        end: The position after the last row.
    """

    start: Position
    end: Position


@dataclass(frozen=True, kw_only=True)
class PartSplit(SourceSplit):
    """The rows of a part, which is a stream, from a position.

    Attributes:
        split_id: The part and the first position. The enumerator skips IDs that it has assigned, so
            a part must always have the same name.
        part: The name of the part.
        position: The position of the next row to read.
        end: The position after the last row, or None for a split without an end (yet).
    """

    split_id: str
    part: str
    position: Position
    end: Position | None = None

    @classmethod
    def of(cls, part: str, start: Position, end: Position | None) -> PartSplit:
        """Return the split of a part that starts at a position."""
        return cls(split_id=f"{part}/{start}", part=part, position=start, end=end)

    @property
    def is_read(self) -> bool:
        """Whether all rows were read."""
        return self.end is not None and self.position >= self.end

    def weight(self) -> int:
        """Return the number of remaining rows, or 1 if it is unknown."""
        return 1 if self.end is None else max(1, self.end.entries - self.position.entries)


class PartSplitState(SplitState[PartSplit]):
    """The mutable position of a split in a reader.

    Args:
        split: The start position.
    """

    def __init__(self, split: PartSplit) -> None:
        self._split = split

    def move_to(self, position: Position) -> None:
        """Advance to this position, before which all rows were emitted."""
        self._split = replace(self._split, position=position)

    def to_split(self) -> PartSplit:
        """Return the split to resume from."""
        return self._split


@dataclass(frozen=True)
class PartEnds(SourceEvent):
    """The ends of splits that were assigned without an end, by part.

    The enumerator sends this event to the readers. A reader sends it when it reaches an end.
    """

    ends: dict[str, Position]
