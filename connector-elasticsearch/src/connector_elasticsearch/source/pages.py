# SPDX-License-Identifier: Apache-2.0
"""Pages of hits, in pieces that each end with a position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
import pyarrow as pa

from connector_elasticsearch.documents import Damaged, DocumentDecoder, loaded, plain

__all__ = ["Page", "PageDecoder", "Piece"]

_SORT: Final = b'"sort":['


@dataclass(frozen=True)
class Piece:
    """Consecutive documents of a page: rows, or a document that cannot be read.

    Attributes:
        after: The sort values of the last document.
        documents: The number of documents.
        batch: The rows, or None for a document that cannot be read.
        damaged: The document that cannot be read.
    """

    after: tuple[int | float | str, ...]
    documents: int
    batch: pa.RecordBatch | None = None
    damaged: Damaged | None = None


@dataclass(frozen=True)
class Page:
    """A response of the server.

    Attributes:
        point_in_time: The ID of the point in time from now on.
        hits: The number of documents in the response.
        pieces: The documents, in order.
    """

    point_in_time: str | None
    hits: int
    pieces: tuple[Piece, ...]


class PageDecoder:
    """Decodes responses to searches. Executor.

    Args:
        documents: The decoder of their hits.
    """

    def __init__(self, documents: DocumentDecoder) -> None:
        self._documents = documents
        hits = pa.struct([("hits", pa.list_(documents.hit_type))])
        self._schema = pa.schema([("pit_id", pa.string()), ("hits", hits)])

    def decode(self, body: bytes) -> Page:
        """Decode a page.

        Args:
            body: The response to a search.

        Raises:
            ConfigurationError: The index does not keep the source of its documents.
            ElasticsearchRetryableError: It is not a response to a search.
        """
        try:
            return self._all_at_once(body)
        except pa.ArrowInvalid:
            return self._one_by_one(body)

    def decode_at_once(self, body: bytes) -> Page | None:
        """Decode a page all at once. None means that its documents need `decode`."""
        try:
            return self._all_at_once(body)
        except pa.ArrowInvalid:
            return None

    def _all_at_once(self, body: bytes) -> Page:
        answer = self._documents.parsed(body, self._schema)
        point_in_time = answer["pit_id"][0].as_py()
        hits = answer["hits"].combine_chunks().field("hits").flatten()
        if not len(hits):
            return Page(point_in_time, 0, ())
        batch = self._documents.columns(hits)
        return Page(point_in_time, len(hits), (Piece(_last_sort(body), len(hits), batch),))

    def _one_by_one(self, body: bytes) -> Page:
        answer = loaded(body)
        hits = answer.get("hits", {}).get("hits", [])
        pieces: list[Piece] = []
        rows: list[dict[str, Any]] = []
        before: Mapping[str, Any] = {}
        for hit in hits:
            read = self._documents.row(hit)
            if isinstance(read, Damaged):
                pieces += self._piece(before, rows)
                pieces.append(Piece(_sort_of(hit), 1, damaged=read))
                rows = []
            else:
                rows.append(read)
            before = hit
        pieces += self._piece(before, rows)
        return Page(answer.get("pit_id"), len(hits), tuple(pieces))

    def _piece(self, last: Mapping[str, Any], rows: list[dict[str, Any]]) -> list[Piece]:
        """Yield a piece of consecutive rows, or nothing if there are none."""
        if not rows:
            return []
        return [Piece(_sort_of(last), len(rows), self._documents.batch(rows))]


def _sort_of(hit: Mapping[str, Any]) -> tuple[int | float | str, ...]:
    return tuple(map(plain, hit["sort"]))


def _last_sort(body: bytes) -> tuple[int | float | str, ...]:
    """Return the sort values of the last hit, which are at the very end of a page.

    Raises:
        pyarrow.ArrowInvalid: The page does not end with them.
    """
    end = body.removesuffix(b"]}}")
    try:
        return tuple(orjson.loads(b"{" + end[end.rindex(_SORT) :])["sort"])
    except ValueError as error:
        raise pa.ArrowInvalid("a page without sort values at its end") from error
