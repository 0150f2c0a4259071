# SPDX-License-Identifier: Apache-2.0
"""The requests of a source: one point in time, and pages of its slices."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypeVar

import orjson
import pyarrow as pa

from connector_elasticsearch.client import (
    ElasticsearchClient,
    ElasticsearchConnection,
    path_of,
    told,
)
from connector_elasticsearch.client.retries import retrying
from connector_elasticsearch.documents import (
    WHOLE,
    DocumentDecoder,
    MetadataColumn,
    check_whole,
)
from connector_elasticsearch.errors import ElasticsearchRequestError
from connector_elasticsearch.source.errors import PointInTimeLostError
from connector_elasticsearch.source.split import SliceSplit

__all__ = ["PointInTime", "SearchSettings", "Searcher", "with_point_in_time"]

T = TypeVar("T")

_LOST: Final = "search_context_missing_exception"
_NOT_FOUND: Final = 404


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """What is read, and how; travels to the executors.

    Attributes:
        connection: How the servers are reached.
        index: Indices, aliases, data streams or patterns, separated by commas.
        schema: Columns from the source of documents.
        metadata_columns: Further columns, and their names.
        formatted: Paths of moments that the server is asked to write in its own format.
        query: Documents that are read; None for all.
        selects: Whether the server is to send no more than the columns.
        sort_field: Field whose values order the documents for good; None for the server's order.
        slice_field: The same, where the slices can be made by it too.
        page_size: Documents of a page.
        keep_alive: How long the point in time is kept behind a request.
        retry_timeout: How long a request is repeated that may succeed later.
    """

    connection: ElasticsearchConnection
    index: str
    schema: pa.Schema
    metadata_columns: tuple[tuple[MetadataColumn, str], ...] = ()
    formatted: tuple[str, ...] = ()
    query: Mapping[str, Any] | None = field(default=None, hash=False)
    selects: bool = False
    sort_field: str | None = None
    slice_field: str | None = None
    page_size: int
    keep_alive: timedelta
    retry_timeout: timedelta

    @property
    def kept(self) -> str:
        """The time that the point in time is kept, as Elasticsearch spells it."""
        return f"{self.keep_alive // timedelta(milliseconds=1)}ms"

    def decoder(self) -> DocumentDecoder:
        """What makes columns of documents."""
        return DocumentDecoder(
            self.schema,
            metadata_columns=self.metadata_columns,
            formatted=self.formatted,
        )


@dataclass(frozen=True)
class PointInTime:
    """A point in time.

    Attributes:
        id: What the server calls it.
        documents: How many documents the query finds in it.
    """

    id: str
    documents: int


class Searcher:
    """Asks for points in time and pages. Belongs to one thread; no I/O in the constructor.

    Args:
        settings: What is read.
        ended: Set when nobody waits for an answer any more: what failed is not repeated then.
    """

    def __init__(self, settings: SearchSettings, ended: threading.Event | None = None) -> None:
        self._settings = settings
        self._client = ElasticsearchClient(settings.connection)
        self._retrying = retrying(settings.retry_timeout, ended)
        decoder = settings.decoder()
        self._fixed = {
            "track_total_hits": False,
            "sort": [settings.sort_field or "_shard_doc"],
            **({} if settings.query is None else {"query": settings.query}),
            **decoder.search(whole=not settings.selects),
        }
        wanted = [*decoder.hit_names, "sort"]
        self._parameters = {
            "allow_partial_search_results": "false",
            **decoder.filter_path("pit_id", *WHOLE, *(f"hits.hits.{name}" for name in wanted)),
        }

    def open(self) -> PointInTime:
        """Open a point in time, and count what is in it.

        Raises:
            ConnectorError: There is no such index, or the server cannot be asked.
        """
        doing = f"opening a point in time of {self._settings.index}"

        def opened() -> str:
            answer = self._client.request(
                "POST",
                path_of(self._settings.index, "_pit"),
                params={"keep_alive": self._settings.kept},
                doing=doing,
            )
            return told(answer, "id", kind=str, doing=doing)

        name = self._asked(opened)
        body = {"size": 0, "track_total_hits": True, "pit": self._point_in_time(name)}
        if self._settings.query is not None:
            body["query"] = self._settings.query

        def counted() -> PointInTime:
            answer = self._client.request(
                "POST", "/_search", body, params={"filter_path": "pit_id,hits.total"}, doing=doing
            )
            documents = told(answer, "hits", "total", "value", kind=int, doing=doing)
            return PointInTime(answer.get("pit_id", name), documents)

        return self._asked(counted)

    def keep(self, point_in_time: str) -> None:
        """Let the server keep a point in time for longer.

        Raises:
            PointInTimeLostError: The server does not have it any more.
            ConnectorError: The server cannot be asked.
        """
        body = {"size": 0, "track_total_hits": False, "pit": self._point_in_time(point_in_time)}
        self._asked(
            lambda: self._client.request("POST", "/_search", body, doing="keeping a point in time")
        )

    def close_point_in_time(self, point_in_time: str) -> None:
        """Let the server forget a point in time; nothing happens where it has done so.

        Raises:
            ConnectorError: The server cannot be asked.
        """
        try:
            self._client.request(
                "DELETE", "/_pit", {"id": point_in_time}, doing="closing a point in time"
            )
        except ElasticsearchRequestError as error:
            if error.status != _NOT_FOUND:
                raise

    def page(self, split: SliceSplit, read: Callable[[bytes], T]) -> T:
        """The documents of a slice behind a position.

        Args:
            split: The slice.
            read: Reads what the server sends.

        Raises:
            PointInTimeLostError: The server does not have the point in time any more.
            ConnectorError: The server cannot be asked.
        """
        size = self._settings.page_size
        body = self._fixed | {
            "size": size if split.left is None else min(size, split.left),
            "pit": self._point_in_time(split.point_in_time),
        }
        if split.slices > 1:
            body["slice"] = {"id": split.slice, "max": split.slices}
            if self._settings.slice_field is not None:
                body["slice"]["field"] = self._settings.slice_field
        if split.after:
            body["search_after"] = list(split.after)
        doing = f"reading {self._settings.index}, slice {split.slice} of {split.slices}"
        encoded = orjson.dumps(body)

        def asked() -> T:
            answer = self._client.request_bytes(
                "POST", "/_search", encoded, params=self._parameters, doing=doing
            )
            check_whole(answer, doing)
            return read(answer)

        return self._asked(asked)

    def cancel(self) -> None:
        """Let a request that waits for its answer fail now. Any thread."""
        self._client.cancel()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return self._retrying.copy()(ask)
        except ElasticsearchRequestError as error:
            if error.error_type == _LOST:
                raise _lost(self._settings, error) from error
            raise

    def _point_in_time(self, name: str) -> dict[str, str]:
        return {"id": name, "keep_alive": self._settings.kept}


def with_point_in_time(settings: SearchSettings, act: Callable[[Searcher], T]) -> T:
    """Ask with connections of one's own, which are closed behind it."""
    with closing(Searcher(settings)) as searcher:
        return act(searcher)


def _lost(settings: SearchSettings, error: ElasticsearchRequestError) -> PointInTimeLostError:
    return PointInTimeLostError(
        f"the point in time of {settings.index} is gone",
        expected=f"that it is kept for {settings.keep_alive} behind each request",
        found=error.error_type,
        option="source.keep-alive",
        hint="keep it for longer than a pipeline stands still, or name a `source.sort-field` to go "
        "on in a new one; this one has to begin anew, with another checkpoint",
    )
