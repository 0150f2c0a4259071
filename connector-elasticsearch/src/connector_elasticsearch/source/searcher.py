# SPDX-License-Identifier: Apache-2.0
"""The requests of a source: one point in time, and the pages of its slices."""

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
    DocumentMetadata,
    check_whole,
    moments_of,
)
from connector_elasticsearch.errors import ElasticsearchRequestError
from connector_elasticsearch.source.conditions import Condition
from connector_elasticsearch.source.errors import PointInTimeLostError
from connector_elasticsearch.source.projection import Projection
from connector_elasticsearch.source.split import SliceSplit

__all__ = ["PointInTime", "SearchSettings", "Searcher", "with_point_in_time"]

T = TypeVar("T")

_LOST: Final = "search_context_missing_exception"
_NOT_FOUND: Final = 404


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """The settings of the searches, which the source ships to the executors.

    Attributes:
        connection: The connection to the servers.
        index: Indices, aliases, data streams, or patterns, separated by commas.
        schema: The columns from the source of documents.
        metadata_columns: The metadata columns, and their names.
        formatted: Paths of timestamps that the server must write in its own format.
        query: A query for the documents to read, or None for all.
        selects: Whether the server sends only the columns.
        sort_field: The field whose values give documents a stable order, or None for the server's
            order.
        slice_field: The sort field, if slices can also use it.
        page_size: The number of documents in a page.
        keep_alive: How long the server keeps the point in time after a request.
        retry_timeout: How long to retry a request after temporary errors.
        projection: The columns that a query needs, or None for all.
        condition: Finds the documents of pages that a query needs, or None for all.
    """

    connection: ElasticsearchConnection
    index: str
    schema: pa.Schema
    metadata_columns: tuple[tuple[DocumentMetadata, str], ...] = ()
    formatted: tuple[str, ...] = ()
    query: Mapping[str, Any] | None = field(default=None, hash=False)
    selects: bool = False
    sort_field: str | None = None
    slice_field: str | None = None
    page_size: int
    keep_alive: timedelta
    retry_timeout: timedelta
    projection: Projection | None = None
    condition: Condition | None = field(default=None, hash=False)

    @property
    def kept(self) -> str:
        """The keep-alive time of the point in time, in Elasticsearch's notation."""
        return f"{self.keep_alive // timedelta(milliseconds=1)}ms"

    @property
    def queried(self) -> dict[str, Any]:
        """The part of a search body that selects the documents of pages."""
        parts = [each for each in (self.query, self.condition) if each is not None]
        if len(parts) > 1:
            return {"query": {"bool": {"filter": parts}}}
        return {"query": parts[0]} if parts else {}

    def decoder(self) -> DocumentDecoder:
        """The decoder of documents."""
        return DocumentDecoder(
            self.schema,
            metadata_columns=self.metadata_columns,
            formatted=self.formatted,
        )

    def projected_decoder(self) -> DocumentDecoder:
        """The decoder of the columns that a query needs."""
        projection = self.projection
        if projection is None:
            return self.decoder()
        moments = set(moments_of(list(projection.read)))
        return DocumentDecoder(
            projection.read,
            metadata_columns=projection.metadata_columns,
            formatted=[path for path in self.formatted if path in moments],
        )


@dataclass(frozen=True)
class PointInTime:
    """A point in time.

    Attributes:
        id: The server's ID.
        documents: The number of documents that match the query.
    """

    id: str
    documents: int


@dataclass(frozen=True)
class _Asking:
    """The fixed parts of requests for pages."""

    body: Mapping[str, Any]
    parameters: Mapping[str, str]


class Searcher:
    """Requests points in time and pages. Belongs to one thread. The constructor does no I/O.

    Args:
        settings: The settings of the searches.
        ended: Set when no one waits for a response. A failed request is then not repeated.
    """

    def __init__(self, settings: SearchSettings, ended: threading.Event | None = None) -> None:
        self._settings = settings
        self._client = ElasticsearchClient(settings.connection)
        self._retrying = retrying(settings.retry_timeout, ended)
        decoder = settings.decoder()
        self._pages = self._asking(decoder, decoder.search(whole=not settings.selects))
        self._projected_pages: _Asking | None = None
        if settings.projection is not None:
            decoder = settings.projected_decoder()
            source = {"_source": decoder.paths or False}
            self._projected_pages = self._asking(decoder, decoder.search() | source)

    def _asking(self, decoder: DocumentDecoder, documents: Mapping[str, Any]) -> _Asking:
        settings = self._settings
        body = {
            "track_total_hits": False,
            "sort": [settings.sort_field or "_shard_doc"],
            **settings.queried,
            **documents,
        }
        wanted = [*decoder.hit_names, "sort"]
        parameters = {
            "allow_partial_search_results": "false",
            **decoder.filter_path("pit_id", *WHOLE, *(f"hits.hits.{name}" for name in wanted)),
        }
        return _Asking(body, parameters)

    def open(self) -> PointInTime:
        """Open a point in time and count its documents.

        Raises:
            ConnectorError: The index does not exist, or the request failed.
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
        """Extend the time that the server keeps a point in time.

        Raises:
            PointInTimeLostError: The server no longer has it.
            ConnectorError: The request failed.
        """
        body = {"size": 0, "track_total_hits": False, "pit": self._point_in_time(point_in_time)}
        self._asked(
            lambda: self._client.request("POST", "/_search", body, doing="keeping a point in time")
        )

    def close_point_in_time(self, point_in_time: str) -> None:
        """Close a point in time. Closing it again has no effect.

        Raises:
            ConnectorError: The request failed.
        """
        try:
            self._client.request(
                "DELETE", "/_pit", {"id": point_in_time}, doing="closing a point in time"
            )
        except ElasticsearchRequestError as error:
            if error.status != _NOT_FOUND:
                raise

    def page(self, split: SliceSplit, read: Callable[[bytes], T], *, projected: bool = False) -> T:
        """Return the documents of a slice after a position.

        Args:
            split: The slice.
            read: Decodes the response.
            projected: Whether to request only the fields of the projection.

        Raises:
            PointInTimeLostError: The server no longer has the point in time.
            ConnectorError: The request failed.
        """
        size = self._settings.page_size
        asking = self._projected_pages if projected else None
        asking = asking or self._pages
        body: dict[str, Any] = {
            **asking.body,
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
                "POST", "/_search", encoded, params=asking.parameters, doing=doing
            )
            check_whole(answer, doing)
            return read(answer)

        return self._asked(asked)

    def cancel(self) -> None:
        """Cancel a request that waits for its response. Any thread."""
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
    """Call a function with a new searcher, and then close the searcher."""
    with closing(Searcher(settings)) as searcher:
        return act(searcher)


def _lost(settings: SearchSettings, error: ElasticsearchRequestError) -> PointInTimeLostError:
    return PointInTimeLostError(
        f"the point in time of {settings.index} is gone",
        expected=f"a point in time that is kept for {settings.keep_alive} after each request",
        found=error.error_type,
        option="source.keep-alive",
        hint="increase it beyond the time that a pipeline is down, or set `source.sort-field` to "
        "continue in a new point in time; restart this pipeline with a new checkpoint",
    )
