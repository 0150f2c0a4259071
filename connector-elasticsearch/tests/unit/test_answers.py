# SPDX-License-Identifier: Apache-2.0
"""Tests that an incomplete or invalid search response never looks like the end of the data."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from treating_server import Answer, TreatingServer

from connector_elasticsearch import (
    ElasticsearchConnection,
    ElasticsearchRequestError,
    ElasticsearchRetryableError,
)
from connector_elasticsearch.documents import DocumentOptions, DocumentRows
from connector_elasticsearch.lookup.key_field import KeyField
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
    """Return a response with its keys in the order of the server."""
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
    """Sends the next scripted response, and repeats the last one."""

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
def test_an_incomplete_page_is_requested_again(server: Scripted, answer: bytes) -> None:
    server.answers = [answer, page(HIT)]
    assert read(server).hits == 1


@pytest.mark.parametrize("answer", MEANINGLESS, ids=bytes.decode)
def test_a_page_that_stays_incomplete_is_an_error_and_not_the_end(
    server: Scripted, answer: bytes
) -> None:
    server.answers = [answer]
    with pytest.raises(ElasticsearchRetryableError, match="unreadable"):
        read(server, SOON)


def test_a_complete_page_without_documents_is_the_end_of_a_slice(server: Scripted) -> None:
    server.answers = [page()]
    assert read(server).hits == 0


def test_a_complete_page_can_have_its_keys_in_any_order(server: Scripted) -> None:
    whole = json.loads(page(HIT))
    server.answers = [json.dumps(dict(reversed(whole.items()))).encode()]
    assert read(server).hits == 1


@pytest.mark.parametrize("answer", [b"{}", b"null", b'{"id":1}'])
def test_a_point_in_time_without_an_id_is_requested_again(server: Scripted, answer: bytes) -> None:
    counted = b'{"hits":{"total":{"value":3}}}'
    server.answers = [answer, b'{"id":"p"}', b"{}", counted]
    with closing(Searcher(settings(server))) as searcher:
        assert searcher.open() == PointInTime("p", 3)


@pytest.mark.parametrize("answer", [b"[]", b'{"i":{}}', b'{"i":7}', b"{"])
def test_an_invalid_mapping_response_is_requested_again(server: Scripted, answer: bytes) -> None:
    server.answers = [answer, b'{"i":{"mappings":{"properties":{"n":{"type":"long"}}}}}']
    selection = DocumentOptions(server.url, "i").selection(IN_TIME)
    assert selection.layout.schema == SCHEMA


def questions(*, gets: bool) -> Questions:
    return Questions(
        connection=ElasticsearchConnection("http://127.0.0.1:9"),
        index="i",
        rows=DocumentRows(
            schema=pa.schema([("id", pa.string()), ("n", pa.int64())]), id_column="id", formatted=()
        ),
        fields=(KeyField(None if gets else "n", frozenset({"long"})),),
        query=None,
        gets=gets,
        retry_timeout=SOON,
    )


@pytest.mark.parametrize("answer", MEANINGLESS[:4] + MEANINGLESS[6:10], ids=bytes.decode)
def test_an_incomplete_lookup_response_does_not_mean_that_rows_are_missing(answer: bytes) -> None:
    asked = questions(gets=False)
    (question,) = asked.of(pa.record_batch({"n": [1, 2]}))
    assert asked.found(question, page(HIT)).num_rows == 1
    assert asked.found(question, page()).num_rows == 0
    with pytest.raises(ElasticsearchRetryableError, match="unreadable"):
        asked.found(question, answer)


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
def test_an_incomplete_response_does_not_mean_that_a_document_is_missing(answer: bytes) -> None:
    asked = questions(gets=True)
    (question,) = asked.of(pa.record_batch({"id": ["a", "b"]}))
    whole = json.dumps({"docs": [FOUND, MISSING]}).encode()
    assert asked.found(question, whole).to_pylist() == [{"id": "a", "n": 1}]
    with pytest.raises(ElasticsearchRetryableError, match="unreadable"):
        asked.found(question, answer)


def test_keys_of_types_without_a_test_server_are_possible_within_their_range() -> None:
    field = KeyField("n", frozenset({"unsigned_long"}))
    keys = pa.array([2**64 - 1, 2**64, -1], pa.decimal128(20, 0))
    assert field.values(keys) == [2**64 - 1, None, None]
    far = pa.array([10**18, 10**18 + 1, -(2**63)], pa.timestamp("us", tz="UTC"))
    assert KeyField("d", frozenset({"date"})).values(far) == [10**15, None, None]
    days = pa.array([0, 2**31 - 1], pa.date32())
    assert KeyField("d", frozenset({"date"})).values(days)[1] == (2**31 - 1) * 86_400_000


@pytest.mark.parametrize(
    ("kind", "keys", "values"),
    [
        ("long", [math.nan, math.inf, 2.0], [None, None, 2.0]),
        ("keyword", [math.nan, 2.0], [None, 2.0]),
        ("long", ["\u0661", "1", " 1"], [None, "1", None]),
        ("boolean", [0, 1], [None, None]),
        ("boolean", [True, False], [True, False]),
        ("ip", ["fe80::1%eth0", "fe80::1"], [None, "fe80::1"]),
    ],
)
def test_a_key_that_the_server_refuses_is_not_asked_for(
    kind: str, keys: list[object], values: list[object]
) -> None:
    assert KeyField("field", frozenset({kind})).values(pa.array(keys)) == values


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("es_rejected_execution_exception", ElasticsearchRetryableError),
        ("index_not_found_exception", ElasticsearchRequestError),
        ("security_exception", ElasticsearchRequestError),
        ("routing_missing_exception", ElasticsearchRequestError),
    ],
)
def test_only_a_temporary_error_of_a_document_is_retried(kind: str, error: type[Exception]) -> None:
    asked = questions(gets=True)
    (question,) = asked.of(pa.record_batch({"id": ["a"]}))
    refused = {"_index": "i", "_id": "a", "error": {"type": kind, "reason": "no"}}
    with pytest.raises(error):
        asked.found(question, json.dumps({"docs": [refused]}).encode())
