# SPDX-License-Identifier: Apache-2.0
"""Builds requests for the documents of keys, and decodes the rows of the responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from connector_elasticsearch.client import ElasticsearchConnection, meaningless, path_of
from connector_elasticsearch.client.errors import explained, type_of
from connector_elasticsearch.documents import (
    WHOLE,
    Damaged,
    DocumentRows,
    check_whole,
    loaded,
)
from connector_elasticsearch.errors import ElasticsearchRequestError, ElasticsearchRetryableError
from connector_elasticsearch.lookup.key_field import KeyField
from connectors_core.errors import BadRecordError

__all__ = ["Question", "Questions", "TooManyError"]

MOST_IN_ANSWER: Final = 10_000  # the default of index.max_result_window
_KEYS: Final = 5_000
# Maximum number of terms in a query, by the server's default.
_CLAUSES: Final = 1_000
# Errors of one document, which have no status.
_TEMPORARY: Final = frozenset(
    {
        "circuit_breaking_exception",
        "cluster_block_exception",
        "connect_transport_exception",
        "es_rejected_execution_exception",
        "illegal_index_shard_state_exception",
        "no_shard_available_action_exception",
        "node_closed_exception",
        "node_disconnected_exception",
        "node_not_connected_exception",
        "receive_timeout_transport_exception",
        "shard_not_found_exception",
        "timeout_exception",
        "unavailable_shards_exception",
    }
)


class TooManyError(Exception):
    """A response contains the maximum number of documents, so there can be more."""


@dataclass(frozen=True)
class Question:
    """One request.

    Attributes:
        path: The path of the request.
        body: The body of the request, an object.
        parameters: The query parameters.
        keys: The number of requested keys.
    """

    path: str
    body: Mapping[str, Any]
    parameters: Mapping[str, str]
    keys: int


@dataclass(frozen=True, kw_only=True)
class Questions:
    """Builds requests for documents by key. Picklable. No I/O.

    Attributes:
        connection: The connection to the servers.
        index: Indices, aliases, or patterns, separated by commas.
        rows: The rows, including the keys.
        fields: The field to compare with each key.
        query: A query for the documents of the table, or None for all.
        gets: Whether to get documents by ID, which returns their current state.
        retry_timeout: How long to read a key page by page that has more documents than fit one
            response.
    """

    connection: ElasticsearchConnection
    index: str
    rows: DocumentRows
    fields: tuple[KeyField, ...]
    query: Mapping[str, Any] | None = field(hash=False)
    gets: bool
    retry_timeout: timedelta

    @property
    def doing(self) -> str:
        """The operation, for errors."""
        return f"looking up documents of {self.index}"

    def of(self, keys: pa.RecordBatch) -> Iterator[Question]:
        """Return the requests for those keys that a document can have.

        Args:
            keys: Distinct keys, without nulls.
        """
        columns = [
            compared.values(column)
            for compared, column in zip(self.fields, keys.columns, strict=True)
        ]
        possible = [each for each in zip(*columns, strict=True) if None not in each]
        most = _KEYS if len(self.fields) == 1 else _CLAUSES // len(self.fields)
        for start in range(0, len(possible), most):
            yield self._question(possible[start : start + most])

    def _query_of(self, keys: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
        """Return the query for the documents of some keys."""
        if len(self.fields) == 1:
            found = self.fields[0].query([value for (value,) in keys])
        else:
            combinations = [
                {"bool": {"filter": [f.query([v]) for f, v in zip(self.fields, each, strict=True)]}}
                for each in keys
            ]
            found = {"bool": {"should": combinations}}
        both = [found] if self.query is None else [found, dict(self.query)]
        return {"bool": {"filter": both}}

    def found(self, question: Question, answer: bytes) -> pa.Table:
        """Return the rows of a response.

        Args:
            question: The request.
            answer: The server's response.

        Raises:
            TooManyError: There can be more documents.
            BadRecordError: A document cannot be decoded.
            ConnectorError: The server could not return all documents.
        """
        if not self.gets:
            check_whole(answer, self.doing)
        batch = None
        with suppress(pa.ArrowInvalid):
            batch = self._all_at_once(answer, question.keys)
        if batch is None:  # Arrow's error, which contains values, is no context of the next one
            batch = self._one_by_one(loaded(answer), question.keys)
        if not self.gets and batch.num_rows >= MOST_IN_ANSWER:
            raise TooManyError
        return self.rows.finished(pa.Table.from_batches([batch]))

    @cached_property
    def _answers(self) -> pa.Schema:
        """The parser's schema of a response."""
        hit = self.rows.decoder.hit_type
        if self.gets:
            flags = [("found", pa.bool_()), ("error", pa.struct([("type", pa.string())]))]
            return pa.schema([("docs", pa.list_(pa.struct([*hit.fields, *map(_field, flags)])))])
        return pa.schema([("hits", pa.struct([("hits", pa.list_(hit))]))])

    def _question(self, keys: Sequence[tuple[Any, ...]]) -> Question:
        wanted = self.rows.decoder.hit_names
        if self.gets:
            ids = [name for (name,) in keys]
            paths = self.rows.decoder.paths
            includes = {"_source_includes": ",".join(paths)} if paths else {"_source": "false"}
            if not self.rows.decoder.filters:
                includes = {}
            names = [f"docs.{name}" for name in ("found", "error", *wanted)]
            return Question(
                path_of(self.index, "_mget"),
                {"ids": ids},
                {**self.rows.decoder.filter_path(*names), **includes},
                len(keys),
            )
        body = {
            "size": MOST_IN_ANSWER,
            "track_total_hits": False,
            "sort": ["_doc"],
            "query": self._query_of(keys),
            **self.rows.decoder.search(),
        }
        names = [*WHOLE, *(f"hits.hits.{name}" for name in wanted)]
        return Question(
            path_of(self.index, "_search"),
            body,
            {"allow_partial_search_results": "false", **self.rows.decoder.filter_path(*names)},
            len(keys),
        )

    def _all_at_once(self, answer: bytes, keys: int) -> pa.RecordBatch:
        read = self.rows.decoder.parsed(answer, self._answers)
        if not self.gets:
            hits = read["hits"].combine_chunks().field("hits").flatten()
            return self.rows.decoder.columns(hits)
        documents = read["docs"].combine_chunks().flatten()
        self._check_count(len(documents), keys)
        if documents.field("error").null_count < len(documents):
            raise pa.ArrowInvalid("an error instead of a document")
        return self.rows.decoder.columns(
            documents.filter(pc.fill_null(documents.field("found"), False))
        )

    def _one_by_one(self, answer: Mapping[str, Any], keys: int) -> pa.RecordBatch:
        if self.gets:
            hits = answer.get("docs", [])
            self._check_count(len(hits), keys)
        else:
            hits = answer.get("hits", {}).get("hits", [])
        rows = []
        for hit in hits:
            if "error" in hit:
                raise _refused(hit["error"], self.doing)
            if not hit.get("found", True):
                continue
            row = self.rows.decoder.row(hit)
            if isinstance(row, Damaged):
                raise BadRecordError(row.reason, position=row.document, raw=row.raw)
            rows.append(row)
        return self.rows.decoder.batch(rows)

    def _check_count(self, documents: int, keys: int) -> None:
        """For each ID, the server returns a document, or states that it does not exist."""
        if documents != keys:
            raise meaningless(self.doing, found=f"{documents} results for {keys} ids")


def _refused(error: Any, doing: str) -> ElasticsearchRequestError | ElasticsearchRetryableError:
    if type_of(error) in _TEMPORARY:
        return ElasticsearchRetryableError(
            f"Elasticsearch is temporarily unable to do this: {doing}", found=explained(error)
        )
    return ElasticsearchRequestError(
        f"the server rejected the request: {doing}", found=explained(error), option="index"
    )


def _field(named: tuple[str, pa.DataType]) -> pa.Field:
    return pa.field(*named)
