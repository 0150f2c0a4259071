# SPDX-License-Identifier: Apache-2.0
"""Tests the requests of vector searches, and responses that lack documents."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector_elasticsearch import (
    ElasticsearchConnection,
    ElasticsearchRequestError,
    ElasticsearchRetryableError,
    ElasticsearchTable,
)
from connector_elasticsearch.documents import DocumentRows
from connector_elasticsearch.vector_search import VectorField, VectorSearches
from connectors_core.errors import InvalidOptionError, UnsupportedError

FIELD = VectorField("embedding", 2, "float", "cosine", is_indexed=True)
FILTER = {"terms": {"number": [], "vector": "[]"}}
HIT = {"_index": "i", "_id": "a", "_score": 0.5, "_source": {"number": 7}}
floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


def searches(
    *, top_k: int = 1, exact: bool = False, max_searches: int = 64, max_size: int = 1 << 20
) -> VectorSearches:
    return VectorSearches(
        connection=ElasticsearchConnection("http://127.0.0.1:9"),
        index="i",
        rows=DocumentRows(schema=pa.schema([("number", pa.int64())]), id_column=None, formatted=()),
        search=FIELD.search(
            top_k, query=FILTER, exact=exact, num_candidates=None, result_window=10_000
        ),
        max_searches=max_searches,
        max_size=max_size,
    )


def column(*vectors: list[float]) -> pa.ListArray:
    return pa.array(vectors, pa.list_(pa.float32()))


def response(*hits: Any, total: Any = 2, successful: Any = 2, timed_out: Any = False) -> Any:
    shards = {"total": total, "successful": successful}
    found = {"hits": {"hits": hits}} if hits else {}
    return {"timed_out": timed_out, "_shards": shards, **found, "status": 200}


def answer(*responses: Any) -> bytes:
    return json.dumps({"responses": responses}).encode()


def refused(status: int, kind: str) -> dict[str, Any]:
    cause = {"type": kind, "reason": "no. Preview of invalid vector: [7.5]", "index": "i"}
    error = {"type": "search_phase_execution_exception", "reason": "all", "root_cause": [cause]}
    return {"error": error, "status": status}


@given(
    st.lists(st.lists(floats, min_size=2, max_size=2), min_size=1, max_size=30),
    st.integers(1, 9),
    st.integers(1, 2_000),
    st.booleans(),
)
def test_requests_are_the_lines_of_a_search_per_vector(
    vectors: list[list[float]], max_searches: int, max_size: int, exact: bool
) -> None:
    asked = searches(exact=exact, max_searches=max_searches, max_size=max_size)
    sent = []
    for count, body in asked.requests(column([0.0, 0.0], *vectors)[1:]):
        lines = [json.loads(line) for line in body.splitlines()]
        assert body.endswith(b"\n")
        assert len(lines) == 2 * count
        assert count <= max_searches
        assert count == 1 or len(body) <= max_size
        assert all(not line["allow_partial_search_results"] for line in lines[::2])
        sent += lines[1::2]
    for vector, search in zip(vectors, sent, strict=True):
        if exact:
            given = search["query"]["script_score"]["script"]["params"].pop("vector")
        else:
            given = search["knn"].pop("query_vector")
        assert np.array_equal(np.float32(given), np.float32(vector))
        assert json.dumps(search).count(json.dumps(FILTER)) == 1
        assert search["size"] == 1


def test_a_response_holds_a_limited_number_of_documents() -> None:
    vectors = column(*([float(number), 1.0] for number in range(10)))
    counts = [count for count, _ in searches(top_k=4_000).requests(vectors)]
    assert counts == [2] * 5


def test_a_retry_asks_the_same_copies_of_the_shards() -> None:
    first, second = column([1.0, 2.0]), column([1.0, 3.0])
    (one,), (again,), (other,) = (
        list(searches().requests(each)) for each in (first, first, second)
    )
    assert one == again
    assert one[1].splitlines()[0] != other[1].splitlines()[0]


def test_the_matches_of_each_vector_are_counted() -> None:
    whole = answer(response(HIT, HIT), response(), response(HIT))
    for body in (whole, whole.replace(b'"number": 7', b'"number": "7"')):
        counts, rows, scores = searches().matches(3, body)
        assert counts.to_pylist() == [2, 0, 1]
        assert rows["number"].to_pylist() == [7] * 3
        assert scores.to_pylist() == [0.5] * 3
    assert searches().matches(1, answer(response())).rows.num_rows == 0


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b"<html>",
        answer(),
        answer(response(HIT), response(HIT)),
        answer(response(HIT, successful=1)),
        answer(response(HIT, timed_out=True)),
        answer({"hits": {"hits": [HIT]}}),
        answer(response(HIT))[:-3],
        answer({**response({**HIT, "_source": {"number": "7"}}, successful=1)}),
    ],
    ids=bytes.decode,
)
def test_an_incomplete_response_does_not_mean_that_a_vector_has_no_matches(body: bytes) -> None:
    with pytest.raises(ElasticsearchRetryableError, match="unreadable"):
        searches().matches(1, body)


@pytest.mark.parametrize("status", [429, 503])
def test_a_search_that_the_server_cannot_do_now_is_retried(status: int) -> None:
    with pytest.raises(ElasticsearchRetryableError, match="temporarily"):
        searches().matches(2, answer(response(HIT), refused(status, "es_rejected_exception")))


def test_a_search_that_the_server_rejects_is_not_retried() -> None:
    with pytest.raises(ElasticsearchRequestError, match="query_shard_exception: no") as error:
        searches().matches(2, answer(response(HIT), refused(400, "query_shard_exception")))
    assert error.value.error_type == "query_shard_exception"
    assert error.value.status == 400
    assert "7.5" not in str(error.value)


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match="no effect on an exact search"):
        ElasticsearchTable("http://127.0.0.1:9", "i", exact=True, num_candidates=5)
    with pytest.raises(InvalidOptionError, match="candidate for each row"):
        FIELD.search(10, query=None, exact=False, num_candidates=9, result_window=10)
    bytes_field = VectorField("embedding", 2, "byte", "cosine", is_indexed=True)
    with pytest.raises(UnsupportedError, match="exact search cannot compare"):
        bytes_field.search(10, query=None, exact=True, num_candidates=None, result_window=10)


@pytest.mark.parametrize(
    ("exact", "window", "most", "hint"),
    [
        (False, 5, 5, "raise index.max_result_window"),
        (False, 20_000, 10_000, "vector-search.exact=true"),
        (True, 20_000, 20_000, "raise index.max_result_window"),
    ],
)
def test_more_rows_than_the_server_returns_are_refused(
    exact: bool, window: int, most: int, hint: str
) -> None:
    def search(top_k: int) -> dict[str, Any]:
        return FIELD.search(
            top_k, query=None, exact=exact, num_candidates=None, result_window=window
        )

    assert search(most)["size"] == most
    with pytest.raises(InvalidOptionError, match=f"at most {most}") as raised:
        search(most + 1)
    assert raised.value.option == "top_k"
    assert hint in str(raised.value.hint)
