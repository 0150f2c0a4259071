# SPDX-License-Identifier: Apache-2.0
"""Splits of an API: windows of the streams, read page by page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from connectors_core.annotations import experimental
from connectors_core.clients.http import Request
from connectors_core.source.split import SourceSplit, SplitState

__all__ = ["PageSplit", "PageSplitState"]


@experimental
@dataclass(frozen=True, kw_only=True)
class PageSplit(SourceSplit):
    """The records of a stream in a window of its cursor.

    Attributes:
        split_id: The stream and the start of the window.
        stream: The name of the stream.
        since: The start of the window, inclusive; None for the first record.
        until: The end of the window, exclusive; None for a stream without a cursor.
        page: The request for the next page; None for the first page.
        digest: A hash of the records of the last page, if the paginator counts pages.
        steps: The number of pages read.
        mark: An earlier page, which must not come again; see `moved_to`.
    """

    split_id: str
    stream: str
    since: datetime | None = None
    until: datetime | None = None
    page: Request | None = None
    digest: str = ""
    steps: int = 0
    mark: Request | None = None

    def moved_to(self, page: Request | None, digest: str = "") -> PageSplit:
        """Return the split at another page, before which all records were read.

        After each power of two, the mark moves to the page. So each cycle of pages meets it.
        """
        steps = self.steps + 1
        mark = page if steps & (steps - 1) == 0 else self.mark
        return replace(self, page=page, digest=digest, steps=steps, mark=mark)

    @classmethod
    def of(cls, stream: str, since: datetime | None, until: datetime | None) -> PageSplit:
        """Return the split of a window."""
        start = "" if since is None else since.isoformat()
        return cls(split_id=f"{stream}/{start}", stream=stream, since=since, until=until)


class PageSplitState(SplitState[PageSplit]):
    """The mutable position of a split in a reader.

    Args:
        split: The start position.
    """

    def __init__(self, split: PageSplit) -> None:
        self._split = split

    def move_to(self, page: Request | None, digest: str = "") -> None:
        """Advance to a page, before which all records were emitted."""
        self._split = self._split.moved_to(page, digest)

    def to_split(self) -> PageSplit:
        """Return the split to resume from."""
        return self._split
