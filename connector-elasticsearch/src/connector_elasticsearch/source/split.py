# SPDX-License-Identifier: Apache-2.0
"""A slice of a point in time, and the position in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source import SourceSplit, SplitState

__all__ = ["SliceSplit", "SliceSplitState", "split_serializer"]


@dataclass(frozen=True, kw_only=True)
class SliceSplit(SourceSplit):
    """One of the slices of the documents of a point in time.

    Attributes:
        split_id: The number of the slice and the number of slices.
        point_in_time: The server's ID of the point in time.
        slice: The number of the slice.
        slices: The number of slices.
        documents: The estimated number of its documents.
        after: The sort values of the last document read, or an empty sequence at the start.
        read: The number of documents read.
        limit: The maximum number of documents to read in all, or None for no limit.
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
        """The estimated number of documents left."""
        return max(self.documents - self.read, 1)

    @property
    def left(self) -> int | None:
        """The number of documents that can still be read, or None for no limit."""
        return None if self.limit is None else self.limit - self.read

    def behind(
        self, point_in_time: str, after: tuple[int | float | str, ...], documents: int
    ) -> SliceSplit:
        """Return the split to resume from.

        Args:
            point_in_time: The server's current ID of the point in time.
            after: The sort values of the last document read.
            documents: The number of documents read since.
        """
        return replace(self, point_in_time=point_in_time, after=after, read=self.read + documents)


class SliceSplitState(SplitState[SliceSplit]):
    """The mutable position of a split in a reader.

    Args:
        split: The start position.
    """

    def __init__(self, split: SliceSplit) -> None:
        self._split = split

    def move_to(self, split: SliceSplit) -> None:
        """Advance to the position of this split, whose documents were emitted."""
        self._split = split

    def to_split(self) -> SliceSplit:
        """Return the split to resume from."""
        return self._split


def split_serializer() -> JsonDataclassSerializer[SliceSplit]:
    """JSON."""
    return JsonDataclassSerializer(SliceSplit, version=1)
