# SPDX-License-Identifier: Apache-2.0
"""Splits: streams, each with the sequence of the next message."""

from __future__ import annotations

from dataclasses import dataclass, replace

from connectors_core.source import SourceEvent, SourceSplit, SplitState

__all__ = ["StreamRead", "StreamSplit", "StreamSplitState"]


@dataclass(frozen=True, kw_only=True)
class StreamSplit(SourceSplit):
    """The messages of a stream from a sequence.

    Attributes:
        split_id: The stream and its first sequence.
        stream: The name of the stream.
        position: The sequence of the next message to read.
        stop: The sequence at which the current plan stops, or None before it is planned.
        end: The sequence at which the split ends, or None if it has no end (yet).
    """

    split_id: str
    stream: str
    position: int
    stop: int | None = None
    end: int | None = None

    @classmethod
    def of(cls, stream: str, start: int, end: int | None) -> StreamSplit:
        """Return the split of a stream that starts at a sequence."""
        return cls(split_id=f"{stream}/{start}", stream=stream, position=start, stop=end, end=end)

    def weight(self) -> int:
        """Return the highest possible number of remaining messages, or 1 if it is unknown."""
        return 1 if self.stop is None else max(1, self.stop - self.position)


class StreamSplitState(SplitState[StreamSplit]):
    """The mutable position of a split in a reader.

    Args:
        split: The start position.
    """

    def __init__(self, split: StreamSplit) -> None:
        self._split = split

    def move_to(self, position: int) -> None:
        """Advance to this sequence, before which all messages were emitted."""
        self._split = replace(self._split, position=position)

    def to_split(self) -> StreamSplit:
        """Return the split to resume from."""
        return self._split


@dataclass(frozen=True)
class StreamRead(SourceEvent):
    """A reader has reached the end of a split. Later messages are another split.

    Attributes:
        stream: The name of the stream.
        position: The end.
    """

    stream: str
    position: int
