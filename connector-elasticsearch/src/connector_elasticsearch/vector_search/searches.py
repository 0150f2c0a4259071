# SPDX-License-Identifier: Apache-2.0
"""Builds requests for the documents nearest to vectors, and decodes the responses.

The lines of a request are built from the columns of the vectors, without an object per element.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from connector_elasticsearch.client import (
    ElasticsearchConnection,
    decoded,
    meaningless,
    path_of,
    told,
)
from connector_elasticsearch.client.errors import explained, is_refused_for_now, type_of
from connector_elasticsearch.documents import WHOLE, Damaged, DocumentRows, loaded, plain
from connector_elasticsearch.errors import ElasticsearchRequestError, ElasticsearchRetryableError
from connectors_core.errors import BadRecordError
from connectors_core.lookup import VectorMatches

__all__ = ["VectorSearches"]

_ANSWER: Final = ("status", "error", *WHOLE)
_SCORE: Final = "_score"
# The place of the vector in a search.
_VECTOR: Final = b"[]"
_MOST_HITS: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class VectorSearches:
    """Builds requests for the documents nearest to vectors. Picklable. No I/O.

    Attributes:
        connection: The connection to the servers.
        index: Indices, aliases, or patterns, separated by commas.
        rows: The rows of the documents.
        search: The query of a search, with an empty list in place of the vector.
        max_searches: The maximum number of vectors in a request.
        max_size: The maximum size of a request in bytes, unless a single vector is larger.
    """

    connection: ElasticsearchConnection
    index: str
    rows: DocumentRows
    search: Mapping[str, Any] = field(hash=False)
    max_searches: int
    max_size: int

    @property
    def path(self) -> str:
        """The path of all requests."""
        return path_of(self.index, "_msearch")

    @property
    def parameters(self) -> dict[str, str]:
        """The query parameters of all requests."""
        hits = [f"hits.hits.{name}" for name in (*self.rows.decoder.hit_names, _SCORE)]
        names = [f"responses.{name}" for name in (*_ANSWER, *hits)]
        return self.rows.decoder.filter_path(*names)

    @property
    def doing(self) -> str:
        """The operation, for errors."""
        return f"searching vectors of {self.index}"

    def requests(self, vectors: pa.ListArray) -> Iterator[tuple[int, bytes]]:
        """Yield the number of vectors of each request, and its body."""
        lines = self._lines(vectors)
        _, buffer, data = lines.buffers()
        ends = np.frombuffer(buffer, np.int32)[: len(lines) + 1]
        first = 0
        while first < len(lines):
            fitting = int(np.searchsorted(ends, ends[first] + self.max_size, "right")) - 1
            end = max(first + 1, min(fitting, first + self._most, len(lines)))
            yield end - first, data[int(ends[first]) : int(ends[end])].to_pybytes()
            first = end

    def matches(self, searches: int, answer: bytes) -> VectorMatches:
        """Return the rows of a response.

        Args:
            searches: The number of vectors in the request.
            answer: The server's response.

        Raises:
            BadRecordError: A document cannot be decoded.
            ConnectorError: The server could not search for all vectors.
        """
        found = None
        with suppress(pa.ArrowInvalid):
            found = self._all_at_once(searches, answer)
        if found is None:  # Arrow's error, which contains values, is no context of the next one
            found = self._one_by_one(searches, answer)
        counts, rows, scores = found
        return VectorMatches(counts, self.rows.finished(pa.Table.from_batches([rows])), scores)

    def joined(self, found: list[VectorMatches]) -> VectorMatches:
        """Return the rows of several requests, in their order."""
        return VectorMatches(
            pa.concat_arrays([each.counts for each in found]),
            pa.concat_tables([each.rows for each in found]),
            pa.concat_arrays([each.scores for each in found]),
        )

    @property
    def _most(self) -> int:
        """The maximum number of vectors in a request whose response has a limited size."""
        return max(1, min(self.max_searches, _MOST_HITS // int(self.search["size"])))

    def _lines(self, vectors: pa.ListArray) -> pa.StringArray:
        """Return the two lines of each search."""
        elements = vectors.flatten()
        # A retry asks the same copies of the shards, whose graphs can differ from the others'.
        preference = f"connectors-{zlib.crc32(elements.to_numpy())}"
        header = {"preference": preference, "allow_partial_search_results": False}
        body = {**self.search, "track_total_hits": False, **self.rows.decoder.search()}
        before, _, after = orjson.dumps(body).partition(_VECTOR)
        lengths = pc.list_value_length(vectors).to_numpy()
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        texts = pa.ListArray.from_arrays(pa.array(offsets), elements.cast(pa.string()))
        lines: pa.StringArray = pc.binary_join_element_wise(
            orjson.dumps(header).decode() + "\n" + before.decode() + "[",
            pc.binary_join(texts, ","),
            "]" + after.decode() + "\n",
            "",
        )
        return lines

    @cached_property
    def _answers(self) -> pa.Schema:
        """The parser's schema of a response."""
        hit = self.rows.decoder.hit_type
        fields = [
            ("timed_out", pa.bool_()),
            ("_shards", pa.struct([("total", pa.int64()), ("successful", pa.int64())])),
            ("error", pa.struct([("type", pa.string())])),
            ("hits", pa.struct([("hits", pa.list_(pa.struct([*hit, (_SCORE, pa.float64())])))])),
        ]
        return pa.schema([("responses", pa.list_(pa.struct(fields)))])

    def _all_at_once(
        self, searches: int, answer: bytes
    ) -> tuple[pa.Array, pa.RecordBatch, pa.Array]:
        read = self.rows.decoder.parsed(answer, self._answers)
        responses = read["responses"].combine_chunks().flatten()
        shards = responses.field("_shards")
        is_whole = pc.and_(
            pc.equal(shards.field("total"), shards.field("successful")),
            pc.invert(responses.field("timed_out")),
        )
        if len(responses) != searches or pc.sum(is_whole).as_py() != searches:
            self._check_whole(searches, answer)
        lists = responses.field("hits").field("hits")
        hits = lists.flatten()
        counts = pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int64())
        return counts, self.rows.decoder.columns(hits), hits.field(_SCORE)

    def _one_by_one(
        self, searches: int, answer: bytes
    ) -> tuple[pa.Array, pa.RecordBatch, pa.Array]:
        self._check_whole(searches, answer)
        lists = [each.get("hits", {}).get("hits", []) for each in loaded(answer)["responses"]]
        hits = [hit for found in lists for hit in found]
        rows = []
        for hit in hits:
            row = self.rows.decoder.row(hit)
            if isinstance(row, Damaged):
                raise BadRecordError(row.reason, position=row.document, raw=row.raw)
            rows.append(row)
        counts = pa.array(map(len, lists), pa.int64())
        scores = pa.array([float(plain(hit[_SCORE])) for hit in hits], pa.float64())
        return counts, self.rows.decoder.batch(rows), scores

    def _check_whole(self, searches: int, answer: bytes) -> None:
        """Refuse a response that lacks documents, and explain why."""
        doing = self.doing
        responses = told(decoded(answer, doing), "responses", kind=list, doing=doing)
        if len(responses) != searches:
            raise meaningless(doing, found=f"{len(responses)} responses for {searches} searches")
        for each in responses:
            found = told(each, kind=dict, doing=doing)
            if "error" in found:
                raise self._refused(told(found, "status", kind=int, doing=doing), found["error"])
            total = told(found, "_shards", "total", kind=int, doing=doing)
            successful = told(found, "_shards", "successful", kind=int, doing=doing)
            if told(found, "timed_out", kind=bool, doing=doing) or successful != total:
                raise meaningless(doing, found=f"{successful} of {total} shards")

    def _refused(
        self, status: int, error: Any
    ) -> ElasticsearchRequestError | ElasticsearchRetryableError:
        made: ElasticsearchRequestError | ElasticsearchRetryableError
        if is_refused_for_now(status, type_of(error)):
            made = ElasticsearchRetryableError(
                f"Elasticsearch is temporarily unable to do this: {self.doing}",
                found=explained(error),
            )
        else:
            made = ElasticsearchRequestError(
                f"the server rejected a search: {self.doing}", found=explained(error)
            )
        made.status, made.error_type = status, type_of(error)
        return made
