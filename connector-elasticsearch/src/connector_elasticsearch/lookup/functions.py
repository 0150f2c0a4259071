# SPDX-License-Identifier: Apache-2.0
"""Lookup functions that request the documents of a batch of keys. Executor."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Final

import pyarrow as pa

from connector_elasticsearch.client import AsyncElasticsearchClient, ElasticsearchClient
from connector_elasticsearch.lookup.questions import Question, Questions, TooManyError
from connector_elasticsearch.source.pages import PageDecoder
from connector_elasticsearch.source.searcher import Searcher, SearchSettings
from connector_elasticsearch.source.split import SliceSplit
from connectors_core.errors import BadRecordError
from connectors_core.lookup import AsyncLookupFunction, FunctionContext, LookupFunction

__all__ = ["ElasticsearchAsyncLookupFunction", "ElasticsearchLookupFunction"]

_PAGE_SIZE: Final = 5_000
_KEEP_ALIVE: Final = timedelta(minutes=1)


class ElasticsearchLookupFunction(LookupFunction):
    """Sends requests and waits for each response.

    Args:
        questions: The builder of the requests.
    """

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._client: ElasticsearchClient | None = None

    def open(self, context: FunctionContext) -> None:
        """Create the client."""
        self._client = ElasticsearchClient(self._questions.connection)

    def lookup(self, keys: pa.RecordBatch) -> pa.Table:
        """Return the rows of some keys."""
        return _joined(self._questions, [self._ask(each) for each in self._questions.of(keys)])

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _ask(self, question: Question) -> pa.Table:
        assert self._client is not None  # `open` created it
        answer = self._client.request_bytes(
            "POST",
            question.path,
            question.body,
            params=question.parameters,
            doing=self._questions.doing,
        )
        try:
            return self._questions.found(question, answer)
        except TooManyError:
            return _all_pages(self._questions, question)


class ElasticsearchAsyncLookupFunction(AsyncLookupFunction):
    """Sends several requests concurrently.

    Args:
        questions: The builder of the requests.
    """

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._client: AsyncElasticsearchClient | None = None

    async def async_lookup(self, keys: pa.RecordBatch) -> pa.Table:
        """Return the rows of some keys."""
        if self._client is None:
            self._client = AsyncElasticsearchClient(self._questions.connection)
        asked = [self._ask(self._client, each) for each in self._questions.of(keys)]
        return _joined(self._questions, await asyncio.gather(*asked))

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _ask(self, client: AsyncElasticsearchClient, question: Question) -> pa.Table:
        answer = await client.request_bytes(
            "POST",
            question.path,
            question.body,
            params=question.parameters,
            doing=self._questions.doing,
        )
        try:
            return self._questions.found(question, answer)
        except TooManyError:
            return await asyncio.to_thread(_all_pages, self._questions, question)


def _joined(questions: Questions, found: list[pa.Table]) -> pa.Table:
    return pa.concat_tables([questions.rows.schema.empty_table(), *found])


def _all_pages(questions: Questions, question: Question) -> pa.Table:
    """Read a result larger than one response page by page from a point in time.

    Raises:
        BadRecordError: A document cannot be decoded.
        ConnectorError: The request failed.
    """
    settings = SearchSettings(
        connection=questions.connection,
        index=questions.index,
        schema=questions.rows.source_schema,
        metadata_columns=questions.rows.metadata_columns,
        formatted=questions.rows.formatted,
        query=question.body["query"],
        selects=True,
        page_size=_PAGE_SIZE,
        keep_alive=_KEEP_ALIVE,
        retry_timeout=questions.retry_timeout,
    )
    batches = list(_batches(settings))
    rows = pa.Table.from_batches(batches, settings.decoder().schema)
    return questions.rows.finished(rows)


def _batches(settings: SearchSettings) -> Iterator[pa.RecordBatch]:
    decoder = PageDecoder(settings.decoder())
    with closing(Searcher(settings)) as searcher:
        opened = searcher.open()
        split = SliceSplit(
            split_id="all", point_in_time=opened.id, slice=0, slices=1, documents=opened.documents
        )
        try:
            while True:
                page = searcher.page(split, decoder.decode)
                for piece in page.pieces:
                    if piece.damaged is not None:
                        raise BadRecordError(
                            piece.damaged.reason,
                            position=piece.damaged.document,
                            raw=piece.damaged.raw,
                        )
                    assert piece.batch is not None  # a piece has one of the two
                    yield piece.batch
                    name = page.point_in_time or split.point_in_time
                    split = split.behind(name, piece.after, piece.documents)
                if page.hits < settings.page_size:
                    return
        finally:
            searcher.close_point_in_time(split.point_in_time)
