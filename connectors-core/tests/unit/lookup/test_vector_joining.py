# SPDX-License-Identifier: Apache-2.0
"""Tests vectors as keys, and the join of rows with their matches."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.engine.execution.lookup_task import LookupTask, close_lookups
from connectors_core.errors import (
    BadRecordError,
    ConfigurationError,
    FatalError,
    InvalidOptionError,
)
from connectors_core.lookup import (
    DefaultLookupCache,
    LookupOptions,
    VectorMatches,
    VectorSearchFunction,
)
from connectors_core.lookup.vector_join import VectorJoin, keys_of, vectors_of
from connectors_core.metrics import LookupMetric
from connectors_core.table import VectorSearchRuntimeProvider

VECTORS = pa.list_(pa.float32())
ROWS = pa.schema([("id", pa.int64()), ("query", VECTORS)])
TABLE = pa.schema([("name", pa.string()), ("embedding", VECTORS), ("size", pa.int64())])
floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


def joining(**changes):
    arguments = {"vector_column": "query", "search_column": "embedding", "top_k": 2}
    return VectorJoin.searching(ROWS, TABLE, **(arguments | changes))


def rows_of(*vectors):
    return pa.record_batch([pa.array(range(len(vectors)), pa.int64()), list(vectors)], schema=ROWS)


@dataclass
class Found(VectorSearchFunction):
    """Finds one row for each element of a vector, named after it, but at most `top_k`."""

    asked: list[list[list[float]]] = field(default_factory=list)

    def vector_search(self, top_k, vectors):
        self.asked.append(vectors.to_pylist())
        names = [[f"{number:g}" for number in vector[:top_k]] for vector in self.asked[-1]]
        flat = [name for each in names for name in each]
        scores = [1 / (1 + place) for each in names for place in range(len(each))]
        return VectorMatches(
            pa.array([len(each) for each in names], pa.int64()),
            pa.table({"name": pa.array(flat, pa.string())}),
            pa.array(scores, pa.float64()),
        )


def search(function, batches, *, cache=None, **changes):
    join = joining(columns=["name"], **changes)
    provider = join.provider(VectorSearchRuntimeProvider(function, cache=cache))
    task = LookupTask(pipeline_id="p", uid="s", life="1", join=join, provider=provider)
    numbers = []
    try:
        rows = pa.Table.from_batches(task.run(batches, numbers.append), join.schema)
    finally:
        close_lookups()
    return rows.to_pylist(), numbers


@given(st.lists(st.none() | st.lists(floats, max_size=4), max_size=20), st.data())
def test_a_vector_is_its_bytes(vectors, data):
    column = pa.array(vectors, VECTORS)
    first = data.draw(st.integers(0, len(vectors)))
    keys = keys_of(column.slice(first), "query")
    keys.validate(full=True)
    assert keys.is_valid().to_pylist() == [each is not None for each in vectors[first:]]
    known = keys.drop_null()
    start = data.draw(st.integers(0, len(known)))
    expected = [each for each in vectors[first:] if each is not None][start:]
    assert vectors_of(known.slice(start)).to_pylist() == expected


@given(
    st.lists(st.none() | st.lists(st.integers(0, 3).map(float), max_size=3), max_size=300),
    st.integers(1, 3),
    st.sampled_from(["left", "inner"]),
)
def test_each_row_gets_the_matches_of_its_vector(vectors, top_k, how):
    found, _ = search(Found(), [rows_of(*vectors)], top_k=top_k, how=how)
    expected = []
    for number, vector in enumerate(vectors):
        row = {"id": number, "query": vector}
        names = [f"{each:g}" for each in (vector or [])[:top_k]]
        expected += [row | {"name": n, "score": 1 / (1 + at)} for at, n in enumerate(names)]
        if not names and how == "left":
            expected.append(row | {"name": None, "score": None})
    assert found == expected


def test_equal_vectors_are_searched_once():
    function = Found()
    found, _ = search(function, [rows_of([1.0], [2.0], [1.0], None)], top_k=1)
    assert function.asked == [[[1.0], [2.0]]]
    assert [row["name"] for row in found] == ["1", "2", "1", None]


def test_doubles_are_searched_as_floats():
    rows = pa.schema([("query", pa.list_(pa.float64()))])
    join = VectorJoin.searching(
        rows, TABLE, vector_column="query", search_column="embedding", top_k=1
    )
    keys = join.distinct_keys(pa.record_batch([[[0.1], [0.1 + 1e-12]]], schema=rows))
    assert vectors_of(keys.column(0)).to_pylist() == [[float(np.float32(0.1))]]


def test_a_cache_keeps_the_matches_of_a_vector():
    function = Found()
    batches = [rows_of([1.0, 2.0]), rows_of([1.0, 2.0], [3.0])]
    found, (numbers,) = search(function, batches, cache=DefaultLookupCache())
    assert function.asked == [[[1.0, 2.0]], [[3.0]]]
    assert [row["name"] for row in found] == ["1", "2", "1", "2", "3"]
    assert numbers.counters[LookupMetric.HIT_COUNT] == 1
    assert numbers.counters[LookupMetric.MISS_COUNT] == 2


def test_the_matches_of_a_request_are_limited():
    function = Found()
    search(function, [rows_of(*([float(number)] for number in range(1000)))])
    assert sum(map(len, function.asked)) == 1000
    assert max(map(len, function.asked)) == 256
    function.asked.clear()
    wide = [[float(number)] + [0.0] * 4095 for number in range(8)]
    search(function, [rows_of(*wide)], top_k=500)
    assert [len(each) for each in function.asked] == [2, 2, 2, 2]


@pytest.mark.parametrize("element", [None, math.nan, math.inf, -math.inf])
def test_an_element_without_a_number_is_refused(element):
    with pytest.raises(BadRecordError, match="'query' cannot be searched: an element is"):
        search(Found(), [rows_of([1.0, element])])


def test_a_double_that_is_no_float_is_refused():
    with pytest.raises(BadRecordError, match="not a finite 32-bit float"):
        keys_of(pa.array([[1e300]], pa.list_(pa.float64())), "query")


@pytest.mark.parametrize(
    ("counts", "names", "scores"),
    [([1], ["a"], [1.0]), ([1, 1], ["a"], [1.0]), ([0, 3], ["a"] * 3, [1.0] * 3), ([1, 1], [], [])],
)
def test_matches_that_do_not_fit_the_vectors_are_a_bug_of_the_connector(counts, names, scores):
    @dataclass
    class Wrong(VectorSearchFunction):
        def vector_search(self, top_k, vectors):
            rows = pa.table({"name": pa.array(names, pa.string())})
            return VectorMatches(pa.array(counts), rows, pa.array(scores, pa.float64()))

    with pytest.raises(FatalError, match="do not fit its request"):
        search(Wrong(), [rows_of([1.0], [2.0])])


def test_the_searched_column_is_not_added_unless_it_is_named():
    assert joining().schema.names == ["id", "query", "name", "size", "score"]
    assert joining(columns=["embedding"], score="similar").schema.names == [
        "id",
        "query",
        "embedding",
        "similar",
    ]
    context = joining(columns={"size": "bytes"}).context
    assert context.schema.names == ["size"]
    assert (context.search_column, context.top_k) == ("embedding", 2)


def test_lineage_names_columns_of_the_table():
    join = joining()
    assert [join.origin_of(name) for name, _ in join.columns] == ["name", "size", "embedding"]
    assert [join.origin_of(key) for key in join.keys] == ["embedding"]
    assert join.read.names == ["name", "size"]


@pytest.mark.parametrize(
    ("changes", "option", "why"),
    [
        ({"vector_column": "id"}, "vector_column", "has no vectors"),
        ({"vector_column": "other"}, "vector_column", "exactly one column 'other'"),
        ({"search_column": "size"}, "search_column", "has no vectors"),
        ({"search_column": None}, "search_column", "exactly one column 'query'"),
        ({"top_k": 0}, "top_k", "top_k"),
        ({"columns": "name"}, "columns", "list or a mapping"),
        ({"columns": ["none"]}, "columns", "exactly one column 'none'"),
        ({"columns": {"name": "id"}}, "columns", "duplicate"),
        ({"score": "name"}, "columns", "duplicate"),
        ({"how": "right"}, "how", "invalid"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(changes, option, why):
    with pytest.raises(ConfigurationError, match=why) as error:
        joining(**changes)
    assert error.value.option == option


def test_a_search_cannot_cache_the_whole_table():
    with pytest.raises(InvalidOptionError, match="fully cached") as error:
        LookupOptions(cache="full").vector_search_provider(function=Found)
    assert error.value.option == "lookup.cache"
    with pytest.raises(ConfigurationError, match="does not support"):
        LookupOptions(asynchronous=True).vector_search_provider(function=Found)
