# SPDX-License-Identifier: Apache-2.0
"""A slice of a point in time, and the position within it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source import SourceSplit, SplitState

__all__ = ["SliceSplit", "SliceSplitState", "split_serializer"]


@dataclass(frozen=True, kw_only=True)
class SliceSplit(SourceSplit):
    """One of the slices that the documents of a point in time are parted into.

    Attributes:
        split_id: The number of the slice, and of how many.
        point_in_time: What the server calls the point in time.
        slice: Its number.
        slices: How many there are.
        documents: Estimated number of its documents.
        after: What the last document that was read was sorted by; empty before the first.
        read: Documents that were read.
        limit: Most documents that are read in all; None for no limit.
    """

    split_id: str
    point_in_time: str
    slice: int
    slices: int
    documents: int
    after: tuple[int | float | str, ...] = ()
    read: int = 0
    limit: int | None = None

    def weight(self) -> int:
        """Estimated documents left."""
        return max(self.documents - self.read, 1)

    @property
    def left(self) -> int | None:
        """Documents that may still be read, None for no limit."""
        return None if self.limit is None else self.limit - self.read

    def behind(
        self, point_in_time: str, after: tuple[int | float | str, ...], documents: int
    ) -> SliceSplit:
        """The split to go on from.

        Args:
            point_in_time: What the server calls the point in time now.
            after: What the last document that was read was sorted by.
            documents: How many were read since.
        """
        return replace(self, point_in_time=point_in_time, after=after, read=self.read + documents)


class SliceSplitState(SplitState[SliceSplit]):
    """The moving position of a split within a reader.

    Args:
        split: Where it begins.
    """

    def __init__(self, split: SliceSplit) -> None:
        self._split = split

    def move_to(self, split: SliceSplit) -> None:
        """All before the position of this split was emitted."""
        self._split = split

    def to_split(self) -> SliceSplit:
        """The split to go on from."""
        return self._split


def split_serializer() -> JsonDataclassSerializer[SliceSplit]:
    """JSON."""
    return JsonDataclassSerializer(SliceSplit, version=1)
