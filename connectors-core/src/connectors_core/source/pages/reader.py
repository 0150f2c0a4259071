# SPDX-License-Identifier: Apache-2.0
"""The reader: a fetcher thread reads pages, and the task's thread emits their rows. Executor."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import pyarrow as pa

from connectors_core.annotations import experimental
from connectors_core.clients.http import HttpClient, Request
from connectors_core.clients.retries import RetryLog, RetryPolicy
from connectors_core.errors import RetryableError
from connectors_core.records import BadRecord
from connectors_core.schema.misfits import MisfitError
from connectors_core.schema.python_rows import columns_of
from connectors_core.source.base import (
    RecordEmitter,
    RecordsBySplits,
    SingleThreadSequentialFetcherManager,
    SourceReaderBase,
    SplitReader,
    SplitsAddition,
)
from connectors_core.source.pages.split import PageSplit, PageSplitState
from connectors_core.source.reader import SourceOutput, SourceReaderContext

__all__ = ["RETRIES", "Page", "PageReader", "Pages"]

# Quotas of an hour or a day are common.
RETRIES: Final = RetryPolicy(
    initial_backoff=0.2, max_backoff=60.0, timeout=600.0, longest_request=90_000.0
)

_UNREADABLE: Final = "the cursor of the record cannot be read; see cursor_unit and cursor_of"


@experimental
@dataclass(frozen=True)
class Page:
    """Records of a stream.

    Attributes:
        records: The records in the window of the split.
        next: The request for the next page, or None after the last page of the window.
        nbytes: The size of the response.
        unreadable: The indexes of the records whose cursor cannot be read, which are bad records.
        digest: A hash of all records of the response, if the paginator counts pages.
    """

    records: Sequence[Any]
    next: Request | None
    nbytes: int
    unreadable: frozenset[int] = frozenset()
    digest: str = ""


class Pages(ABC):
    """An API as its readers see it."""

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return the columns of the rows."""

    @abstractmethod
    def page(self, client: HttpClient, split: PageSplit) -> Page:
        """Read the next page of a split. Fetcher's thread."""

    @abstractmethod
    def row(self, stream: str, record: Any) -> Mapping[str, Any]:
        """Return the row of a record. Task's thread."""


class _PageSplitReader(SplitReader[Page, PageSplit]):
    """Reads a split page by page, then the next. Fetcher's thread.

    `wake_up` ends its pauses, because a server may request a long one.
    """

    def __init__(
        self, pages: Pages, client: HttpClient, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pages = pages
        self._client = client
        self._clock = clock
        self._split: PageSplit
        self._woken = threading.Event()
        self._log = RetryLog("reading a page", after=10.0)
        self._tries = 0
        self._failing_since = self._resume_at = 0.0

    def handle_splits_changes(self, change: SplitsAddition[PageSplit]) -> None:
        """Take the next split; the previous one is finished."""
        (self._split,) = change.splits

    def fetch(self) -> RecordsBySplits[Page]:
        """Read the next page, unless the server has requested a pause."""
        if self._tries and self._woken.wait(max(0.0, self._resume_at - self._clock())):
            self._woken.clear()
            return RecordsBySplits()
        try:
            page = self._pages.page(self._client, self._split)
        except RetryableError as error:
            self._pause(error)
            return RecordsBySplits()
        if self._tries:
            self._tries = 0
            self._log.succeeded()
        self._split = self._split.moved_to(page.next, page.digest)
        finished = frozenset([self._split.split_id] if page.next is None else [])
        return RecordsBySplits([(self._split.split_id, page)], finished)

    def _pause(self, error: RetryableError) -> None:
        now = self._clock()
        self._failing_since = self._failing_since if self._tries else now
        self._tries += 1
        elapsed = now - self._failing_since
        if RETRIES.is_over(self._tries, elapsed):
            raise error
        self._log.failed(error)
        self._resume_at = now + RETRIES.pause(self._tries, error, elapsed)
        self._failing_since += RETRIES.uncounted(error)

    def wake_up(self) -> None:
        """End a pause. A request ends by itself, with its response or a timeout."""
        self._woken.set()

    def close(self) -> None:
        """Close the client."""
        self._client.close()


class _PageRows(RecordEmitter[Page, PageSplitState]):
    """Converts records to rows. Task's thread."""

    def __init__(self, context: SourceReaderContext, pages: Pages) -> None:
        self._context = context
        self._pages = pages
        self._schema = pages.schema()

    def emit_record(self, element: Page, output: SourceOutput, split_state: PageSplitState) -> None:
        """Emit the rows of a page and advance past it."""
        split = split_state.to_split()
        try:
            if element.unreadable:
                raise ValueError(_UNREADABLE)
            rows = self._rows([self._pages.row(split.stream, each) for each in element.records])
        except (LookupError, TypeError, ValueError):
            rows = self._good_rows(element, split)
        output.collect(rows)
        split_state.move_to(element.next, element.digest)

    def _rows(self, rows: list[Mapping[str, Any]]) -> pa.RecordBatch:
        return columns_of(rows, self._schema)

    def _good_rows(self, page: Page, split: PageSplit) -> pa.RecordBatch:
        """Convert record by record. The record policy handles the bad ones."""
        good = [self._rows([])]
        for number, each in enumerate(page.records):
            try:
                if number in page.unreadable:
                    raise ValueError(_UNREADABLE)
                good.append(self._rows([self._pages.row(split.stream, each)]))
            except (LookupError, TypeError, ValueError) as exc:
                where = "first page" if split.page is None else f"page {split.page}"
                record = BadRecord(
                    reason=_reason(exc, number in page.unreadable),
                    source_uid="",  # the runtime knows it
                    split_id=split.split_id,
                    position=f"record {number} of the {where}",
                    raw=orjson.dumps(each),
                )
                self._context.record_errors.handle(record, cause=exc)
        return pa.concat_batches(good)


def _reason(error: Exception, is_unreadable: bool) -> str:
    if is_unreadable:
        return _UNREADABLE
    is_of_column = isinstance(error, MisfitError)  # others may quote the record
    return str(error) if is_of_column else "the record does not fit the columns"


class PageReader(SourceReaderBase[Page, PageSplit, PageSplitState]):
    """Reads one split after another, and asks for the next.

    Args:
        context: The context of the reader.
        pages: The API.
        client: Returns a client.
    """

    def __init__(
        self, context: SourceReaderContext, pages: Pages, client: Callable[[], HttpClient]
    ) -> None:
        fetcher: SingleThreadSequentialFetcherManager[Page, PageSplit] = (
            SingleThreadSequentialFetcherManager(
                lambda: _PageSplitReader(pages, client()), name="page-reader"
            )
        )
        super().__init__(context, fetcher, _PageRows(context, pages), request_splits=True)

    def initialized_state(self, split: PageSplit) -> PageSplitState:
        """Return the mutable position in a split."""
        return PageSplitState(split)
