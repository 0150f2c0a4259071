# SPDX-License-Identifier: Apache-2.0
"""Tests that incomplete or meaningless search responses never end a read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from treating_server import Answer, TreatingServer

from connector_elasticsearch import ElasticsearchConnection, ElasticsearchRetryableError
from connector_elasticsearch.documents import DocumentOptions
from connector_elasticsearch.lookup.questions import Questions
from connector_elasticsearch.source.pages import Page, PageDecoder
from connector_elasticsearch.source.searcher import PointInTime, Searcher, SearchSettings
from connector_elasticsearch.source.split import SliceSplit
from connectors_core.testing import RequestFault

pytestmark = pytest.mark.cell

SCHEMA = pa.schema([("n", pa.int64())])
SPLIT = SliceSplit(split_id="0/1", point_in_time="p", slice=0, slices=1, documents=1)
SOON = timedelta(milliseconds=50)
IN_TIME = timedelta(seconds=20)


def page(*hits: Any, total: Any = 2, successful: Any = 2, timed_out: Any = False) -> bytes:
    """An answer, in the server's order."""
    answer = {
        "pit_id": "p",
        "timed_out": timed_out,
        "_shards": {"total": total, "successful": successful},
        **({"hits": {"hits": hits}} if hits else {}),
    }
    return json.dumps(answer, separators=(",", ":")).encode()


HIT = {"_index": "i", "_id": "a", "_source": {"n": 1}, "sort": [0]}
MEANINGLESS = [
    b"{}",
    b"[]",
    b"null",
    b"<html>",
    b'{"hits":{"hits":[]}}',
    b'{"pit_id":"p"}',
    page(HIT)[:-1],
    page(HIT)[:-30] + b"}",
    page(HIT, successful=1),
    page(HIT, timed_out=True),
    page(HIT, total=None),
    page(HIT, successful="2"),
    page()[:-2] + b"}",
]


class Scripted(TreatingServer):
    """Answers the same to everyone, or the next of several."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[bytes] = []

    def answer(
        self, path: str, headers: Mapping[str, str], body: bytes, fault: RequestFault | None
    ) -> Answer:
        last = len(self.answers) == 1
        return Answer(200, data=self.answers[0] if last else self.answers.pop(0))


@pytest.fixture
def server() -> Iterator[Scripted]:
    with Scripted() as server:
        yield server


def settings(server: Scripted, retry_timeout: timedelta = IN_TIME) -> SearchSettings:
    return SearchSettings(
        connection=ElasticsearchConnection(server.url),
        index="i",
        schema=SCHEMA,
        page_size=10,
        keep_alive=timedelta(minutes=1),
        retry_timeout=retry_timeout,
    )


def read(server: Scripted, retry_timeout: timedelta = IN_TIME) -> Page:
    found = settings(server, retry_timeout)
    with closing(Searcher(found)) as searcher:
        return searcher.page(SPLIT, PageDecoder(found.decoder()).decode)


@pytest.mark.parametrize("answer", MEANINGLESS, ids=bytes.decode)
def test_a_page_that_is_not_whole_is_asked_for_again(server: Scripted, answer: bytes) -> None:
    server.answers = [answer, page(HIT)]
    assert read(server).hits == 1


@pytest.mark.parametrize("answer", MEANINGLESS, ids=bytes.decode)
def test_a_page_that_is_never_whole_is_an_error_and_no_end(server: Scripted, answer: bytes) -> None:
    server.answers = [answer]
    with pytest.raises(ElasticsearchRetryableError, match="unreadable"):
        read(server, SOON)


def test_a_whole_page_without_documents_is_the_end_of_a_slice(server: Scripted) -> None:
    server.answers = [page()]
    assert read(server).hits == 0


def test_a_page_says_that_it_is_whole_in_any_order(server: Scripted) -> None:
    whole = json.loads(page(HIT))
    server.answers = [json.dumps(dict(reversed(whole.items()))).encode()]
    assert read(server).hits == 1


@pytest.mark.parametrize("answer", [b"{}", b"null", b'{"id":1}'])
def test_a_point_in_time_without_a_name_is_asked_for_again(server: Scripted, answer: bytes) -> None:
    counted = b'{"hits":{"total":{"value":3}}}'
    server.answers = [answer, b'{"id":"p"}', b"{}", counted]
    with closing(Searcher(settings(server))) as searcher:
        assert searcher.open() == PointInTime("p", 3)


@pytest.mark.parametrize("answer", [b"[]", b'{"i":{}}', b'{"i":7}', b"{"])
def test_a_mapping_that_says_nothing_is_asked_for_again(server: Scripted, answer: bytes) -> None:
    server.answers = [answer, b'{"i":{"mappings":{"properties":{"n":{"type":"long"}}}}}']
    selection = DocumentOptions(server.url, "i").selection(IN_TIME)
    assert selection.layout.schema == SCHEMA


def questions(*, gets: bool) -> Questions:
    return Questions(
        connection=ElasticsearchConnection("http://127.0.0.1:9"),
        index="i",
        schema=pa.schema([("id", pa.string()), ("n", pa.int64())]),
        id_column="id",
        fields=(None,) if gets else ("n",),
        formatted=(),
        query=None,
        gets=gets,
        retry_timeout=SOON,
    )


@pytest.mark.parametrize("answer", MEANINGLESS[:4] + MEANINGLESS[6:10], ids=bytes.decode)
def test_what_is_looked_up_is_not_missing_because_an_answer_is(answer: bytes) -> None:
    asked = questions(gets=False)
    (question,) = asked.of(pa.record_batch({"n": [1, 2]}))
    assert asked.rows(question, page(HIT)).num_rows == 1
    assert asked.rows(question, page()).num_rows == 0
    with pytest.raises(ElasticsearchRetryableError, match="unreadable"):
        asked.rows(question, answer)


FOUND = {"_index": "i", "_id": "a", "found": True, "_source": {"n": 1}}
MISSING = {"_index": "i", "_id": "b", "found": False}


@pytest.mark.parametrize(
    "answer",
    [
        b"{}",
        b"[]",
        b"<html>",
        b'{"docs":[]}',
        json.dumps({"docs": [FOUND]}).encode(),
        json.dumps({"docs": [{**FOUND, "_source": {"n": "1"}}]}).encode(),
        json.dumps({"docs": [FOUND, MISSING]}).encode()[:-2],
    ],
    ids=bytes.decode,
)
def test_a_document_is_not_missing_because_the_answer_does_not_tell_of_it(answer: bytes) -> None:
    asked = questions(gets=True)
    (question,) = asked.of(pa.record_batch({"id": ["a", "b"]}))
    whole = json.dumps({"docs": [FOUND, MISSING]}).encode()
    assert asked.rows(question, whole).to_pylist() == [{"id": "a", "n": 1}]
    with pytest.raises(ElasticsearchRetryableError, match="unreadable"):
        asked.rows(question, answer)
