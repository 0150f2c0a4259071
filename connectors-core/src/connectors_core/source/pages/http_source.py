# SPDX-License-Identifier: Apache-2.0
"""The base of sources that read the pages of an HTTP API, after `RESTStream` of `singer_sdk`."""

from __future__ import annotations

import hashlib
import logging
import math
import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import HTTPMessage
from typing import Any, ClassVar, Final, Literal

import orjson

from connectors_core.annotations import experimental
from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.clients.http import (
    Authenticator,
    HttpClient,
    Paginator,
    Request,
    Response,
    SinglePage,
)
from connectors_core.clients.http.messages import value_at
from connectors_core.clients.retries import RetryLog
from connectors_core.errors import ConfigurationError, FatalError
from connectors_core.lineage import LineageDataset, LineageVertexProvider
from connectors_core.options import DURATION, Configured, Setting, not_empty, option, positive
from connectors_core.secrets import mask_url
from connectors_core.serialization import JsonDataclassSerializer, VersionedSerializer
from connectors_core.source.enumerator import SplitEnumerator, SplitEnumeratorContext
from connectors_core.source.pages.enumerator import PageEnumerator, PageEnumeratorState
from connectors_core.source.pages.reader import RETRIES, Page, PageReader, Pages
from connectors_core.source.pages.split import PageSplit
from connectors_core.source.reader import SourceReader, SourceReaderContext
from connectors_core.source.source import Boundedness, Source
from connectors_core.source.split import SplitTraits

__all__ = ["HttpSource"]

_logger = logging.getLogger(__name__)
# The header `Date` has seconds. A smaller difference is not a wrong clock.
_CLOCK_SECONDS: Final = timedelta(seconds=2)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROS_PER_UNIT: Final = {
    "s": Decimal(10**6),
    "ms": Decimal(1000),
    "us": Decimal(1),
    "ns": Decimal("0.001"),
}


@experimental
class HttpSource(
    Configured,
    Pages,
    Source[PageSplit, PageEnumeratorState],
    SupportsConnectionCheck,
    LineageVertexProvider,
    since="1.1.0",
):
    """Reads streams of records from the pages of an API.

    A stream without a cursor is one split, which is read once. With a cursor, the source divides a
    stream into windows of the cursor. A window is half open, so a record at a boundary is in one
    window, even if the API returns it in both.

    Attributes:
        paginator: Finds the next page.
        records_path: The path of the records in a response; empty if the response is the list.
        cursor: The path of the cursor in a record, a timestamp that the server sets. See
            `cursor_of`.
        cursor_unit: The unit of a cursor that is a number since 1970 (UTC); None if it is a text in
            ISO 8601.
        ascending: Whether the API sorts a stream by its cursor. The source then skips the pages
            after the window.
        immutable: Whether records never change, move, or disappear. Only then is the source
            exactly-once.
    """

    paginator: ClassVar[Paginator] = SinglePage()
    records_path: ClassVar[str] = ""
    cursor: ClassVar[str | None] = None
    cursor_unit: ClassVar[Literal["s", "ms", "us", "ns"] | None] = None
    ascending: ClassVar[bool] = False
    immutable: ClassVar[bool] = False

    url: Setting[str] = option(
        "url", str, kw_only=False, validator=not_empty, doc="URL of the API."
    )
    timeout: Setting[timedelta, timedelta | str] = option(
        "http.timeout",
        DURATION,
        default=timedelta(seconds=30),
        validator=positive,
        doc="Timeout for the connection, and for each part of a response. The whole response may "
        "take ten times as long.",
    )
    discovery_interval: Setting[timedelta | None, timedelta | str | None] = option(
        "source.discovery-interval",
        DURATION,
        default=None,
        validator=positive,
        doc="Interval of the discovery of new records, which makes the source unbounded. By "
        "default, the source ends with the records that exist when it starts.",
    )
    settle: Setting[timedelta, timedelta | str] = option(
        "source.settle",
        DURATION,
        default=timedelta(seconds=10),
        doc="Time after which a record with an earlier cursor can no longer appear.",
    )

    def __post_init__(self) -> None:
        if self.discovery_interval is not None and self.cursor is None:
            raise ConfigurationError(
                "a stream without a cursor has no new records to discover",
                option="source.discovery-interval",
                hint="remove source.discovery-interval",
            )

    # --- To implement ---

    @abstractmethod
    def request(self, stream: str, since: datetime | None) -> Request:
        """Return the request for the records of a stream. Driver and executor.

        Args:
            stream: The name of the stream.
            since: The smallest cursor, inclusive, or None. If the API cannot filter by it, each
                window reads the stream from its start.
        """

    def authenticator(self) -> Authenticator | None:
        """Return the authenticator, or None. Driver and executor."""
        return None

    def streams(self, client: HttpClient) -> Sequence[str]:
        """Return the names of the streams, by default one. Driver, on a worker thread."""
        return ("records",)

    def records(self, response: Response) -> Sequence[Any]:
        """Return the records of a response. Executor, and driver for the discovery.

        Raises:
            FatalError: There are none at `records_path`, and the status is not 204.
        """
        if response.status == HTTPStatus.NO_CONTENT:
            return ()
        found = value_at(response.json, self.records_path)
        if not isinstance(found, list):
            raise FatalError(
                "the response has no list of records",
                expected=f"a list at {self.records_path!r}",
                found=type(found).__name__,
            )
        return found

    def cursor_of(self, record: Any) -> datetime:
        """Return the cursor of a record. Executor, and driver for the discovery.

        Override it for a cursor in another form. A time without a zone is UTC.

        Raises:
            ValueError: The cursor cannot be read, so the record is bad in each window in which the
                API returns it. `LookupError`, `TypeError`, and `ArithmeticError` mean the same.
        """
        assert self.cursor is not None
        found = value_at(record, self.cursor)
        if self.cursor_unit is None:
            return datetime.fromisoformat(found)
        if isinstance(found, bool):
            raise TypeError("a boolean is not a number since 1970")
        exact = Decimal(found) * _MICROS_PER_UNIT[self.cursor_unit]
        return _EPOCH + timedelta(microseconds=math.floor(exact))

    # --- The API, for the reader ---

    def page(self, client: HttpClient, split: PageSplit) -> Page:
        """Read the next page of a split. See `Pages`."""
        request = split.page or self._first(split)
        response = client.get(request)
        records = self.records(response)
        moments = [self._moment(each) for each in records]
        inside = [at for at, each in enumerate(moments) if self._is_inside(each, split)]
        unreadable = frozenset(
            number
            for number, at in enumerate(inside)
            if self.cursor is not None and moments[at] is None
        )
        digest = _digest(records) if self.paginator.counts and records else ""
        if digest and digest == split.digest:
            _logger.warning(
                "%s repeats the records of the page before, so the stream %s ends there",
                request.path,
                split.stream,
            )
            return Page([], None, len(response.body))
        following = client.next_page(self.paginator, request, response, len(records))
        if following is not None and following == split.mark:
            raise FatalError(
                "the pages of the API form a cycle",
                found=f"{request.path} again after {split.steps} pages",
                hint="check the paginator of the connector",
            )
        if moments and self._is_past(moments[-1], split):
            following = None
        found = [records[at] for at in inside]
        return Page(found, following, len(response.body), unreadable, digest)

    def client(self, timeout: float | None = None) -> HttpClient:
        """Return a client for one thread. Driver and executor.

        Args:
            timeout: Seconds; by default the setting.
        """
        seconds = self.timeout.total_seconds() if timeout is None else timeout
        return HttpClient(self.url, authenticator=self.authenticator(), timeout=seconds)

    def _first(self, split: PageSplit) -> Request:
        return self.paginator.first(self.request(split.stream, split.since))

    def _is_inside(self, moment: datetime | None, split: PageSplit) -> bool:
        """Return whether a record is in the window. One whose cursor is unreadable is in each."""
        if moment is None:
            return True
        return (split.since is None or split.since <= moment) and (
            split.until is None or moment < split.until
        )

    def _is_past(self, last: datetime | None, split: PageSplit) -> bool:
        """Return whether the pages after a page are after the window, given its last cursor."""
        if not self.ascending or last is None or split.until is None:
            return False
        return last >= split.until

    def _moment(self, record: Any) -> datetime | None:
        """Return the cursor of a record; None without one, or if it cannot be read."""
        if self.cursor is None:
            return None
        try:
            moment = self.cursor_of(record)
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return None
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    # --- Discovery ---

    def _discover(
        self, ends: Mapping[str, datetime | None], closed: threading.Event
    ) -> Sequence[PageSplit]:
        with closing(self.client()) as client:
            retrying = RETRIES.retrying(RetryLog("the discovery"), ended=closed)
            streams = retrying(self.streams, client)
            windows = (retrying(self._window, client, each, ends) for each in streams)
            return [split for split in windows if split is not None]

    def _window(
        self, client: HttpClient, stream: str, ends: Mapping[str, datetime | None]
    ) -> PageSplit | None:
        """Return the next window of a stream, or None if it has no records."""
        if self.cursor is None:
            return None if stream in ends else PageSplit.of(stream, None, None)
        since = ends.get(stream)
        request = self._first(PageSplit.of(stream, since, None))
        response = client.get(request)
        records = self.records(response)
        until = _time_of(response.headers) - self.settle
        if since is not None and until <= since:
            return None
        split = PageSplit.of(stream, since, until)
        moments = [self._moment(each) for each in records]
        if any(self._is_inside(each, split) for each in moments):
            return split
        if moments and self._is_past(moments[-1], split):
            return None
        # Records of the window can be on a later page.
        more = client.next_page(self.paginator, request, response, len(records))
        return None if more is None else split

    # --- The source ---

    def check_connection(self, timeout: float) -> None:
        """See `SupportsConnectionCheck`."""
        with closing(self.client(timeout / 2)) as client:
            client.check()

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """Return the API. Driver, without I/O."""
        return (LineageDataset(namespace=mask_url(self.url), name="records"),)

    def boundedness(self) -> Boundedness:
        """Return `BOUNDED`, unless records are discovered at intervals."""
        if self.discovery_interval is None:
            return Boundedness.BOUNDED
        return Boundedness.CONTINUOUS_UNBOUNDED

    def split_traits(self) -> SplitTraits:
        """Splits end and are read one after another."""
        return SplitTraits(end=True, ordered=True, replayable=self.immutable)

    def create_enumerator(
        self, context: SplitEnumeratorContext[PageSplit]
    ) -> SplitEnumerator[PageSplit, PageEnumeratorState]:
        """Discover windows from the start."""
        return self.restore_enumerator(context, PageEnumeratorState())

    def restore_enumerator(
        self, context: SplitEnumeratorContext[PageSplit], state: PageEnumeratorState
    ) -> SplitEnumerator[PageSplit, PageEnumeratorState]:
        """Resume the discovery."""
        return PageEnumerator(
            context, discover=self._discover, interval=self.discovery_interval, state=state
        )

    def create_reader(self, context: SourceReaderContext) -> SourceReader[PageSplit]:
        """Create a reader of pages."""
        return PageReader(context, self, self.client)

    def split_serializer(self) -> VersionedSerializer[PageSplit]:
        """Return JSON."""
        return JsonDataclassSerializer(PageSplit, version=1)

    def enumerator_state_serializer(self) -> VersionedSerializer[PageEnumeratorState]:
        """Return JSON."""
        return JsonDataclassSerializer(PageEnumeratorState, version=1)


def _digest(records: Sequence[Any]) -> str:
    return hashlib.blake2b(orjson.dumps(records, default=repr), digest_size=16).hexdigest()


def _time_of(headers: HTTPMessage) -> datetime:
    """Return the server's time, because the server sets the cursors."""
    now = datetime.now(UTC)
    try:
        there = parsedate_to_datetime(headers.get("Date", ""))
    except ValueError:
        return now
    if there.tzinfo is None or there <= now < there + _CLOCK_SECONDS:
        return now
    return there
