# SPDX-License-Identifier: Apache-2.0
"""Tests vector searches on a real server, in this process and without Spark."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from connector_elasticsearch import (
    ElasticsearchRequestError,
    ElasticsearchSource,
    ElasticsearchTable,
)
from connector_elasticsearch.catalog import ElasticsearchCatalog
from connector_elasticsearch.testing import ElasticsearchServer
from connector_elasticsearch.testing.plugins import Plugin
from connectors_core.catalog import FileCatalogStore, ObjectPath
from connectors_core.errors import BadRecordError, ConfigurationError, InvalidOptionError
from connectors_core.lookup import AsyncVectorSearchFunction, FunctionContext
from connectors_core.table import CatalogTable, PhysicalColumn, TableSchema, VectorSearchContext

pytestmark = pytest.mark.line("3.5")  # these tests do not use Spark
Floats = npt.NDArray[np.float32]

SCRIPTS = Plugin("vector-scripts", Path(__file__).parents[1] / "vector_scripts")
DIMENSIONS = 6
# Elasticsearch's documented scores.
SCORES = {
    "cosine": lambda query, vectors: (
        (1 + vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)) / 2
    ),
    "dot_product": lambda query, vectors: (1 + vectors @ query) / 2,
    "l2_norm": lambda query, vectors: 1 / (1 + np.sum((vectors - query) ** 2, axis=1)),
    "max_inner_product": lambda query, vectors: np.where(
        vectors @ query < 0, 1 / (1 - vectors @ query), vectors @ query + 1
    ),
}


def vectors_of(count: int, *, seed: int, length: float | None = None) -> Floats:
    """Return vectors, of this length or any."""
    drawn = np.random.default_rng(seed).normal(size=(count, DIMENSIONS))
    if length is not None:
        drawn *= length / np.linalg.norm(drawn, axis=1, keepdims=True)
    vectors: Floats = drawn.astype(np.float32)
    return vectors


def fill(
    server: ElasticsearchServer, name: str, vectors: Floats, **parameters: Any
) -> list[dict[str, Any]]:
    """Create an index with a document for each vector, and return them."""
    embedding = {"type": "dense_vector", "dims": DIMENSIONS, **parameters}
    fields = {"number": {"type": "long"}, "name": {"type": "keyword"}, "embedding": embedding}
    server.request("PUT", f"/{name}", {"mappings": {"properties": fields}})
    documents = [
        {"number": number, "name": f"row {number}", "embedding": vector.tolist()}
        for number, vector in enumerate(vectors)
    ]
    write(server, name, documents)
    return documents


def write(server: ElasticsearchServer, name: str, documents: Sequence[Mapping[str, Any]]) -> None:
    lines: list[Any] = []
    for number, document in enumerate(documents):
        lines += [{"index": {"_id": f"id-{number}"}}, document]
    body = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    assert not server.request("POST", f"/{name}/_bulk?refresh=true", body)["errors"]


def context_of(table: ElasticsearchTable, *columns: str, top_k: int = 3) -> VectorSearchContext:
    schema = pa.schema([table.schema().field(name) for name in columns])
    return VectorSearchContext(search_column="embedding", schema=schema, top_k=top_k)


def search(
    table: ElasticsearchTable,
    queries: Floats | Sequence[Any],
    columns: Sequence[str] = ("number",),
    *,
    top_k: int = 3,
) -> list[dict[str, Any]]:
    """Return the matches of some vectors."""
    function = table.get_search_runtime_provider(context_of(table, *columns, top_k=top_k)).function
    vectors = pa.array([list(map(float, each)) for each in queries], pa.list_(pa.float32()))
    if isinstance(function, AsyncVectorSearchFunction):
        with asyncio.Runner() as runner:
            found = runner.run(function.async_vector_search(top_k, vectors))
            runner.run(function.close())
    else:
        with closing(function):
            function.open(FunctionContext(uid="table"))
            found = function.vector_search(top_k, vectors)
    assert len(found.counts) == len(queries)
    return found.rows.append_column("score", found.scores).to_pylist()


@pytest.fixture(scope="module")
def scripted() -> Iterator[ElasticsearchServer]:
    """Start a server that runs scripts, which the common one cannot."""
    with ElasticsearchServer(plugins=[SCRIPTS]) as server:
        yield server


@contextmanager
def counted_searches(server: ElasticsearchServer, index: str) -> Iterator[dict[str, int]]:
    """Yield a mapping that has the number of searches of the index after the context."""
    counts: dict[str, int] = {}
    before = queries(server, index)
    yield counts
    counts["searches"] = queries(server, index) - before


def queries(server: ElasticsearchServer, index: str) -> int:
    stats = server.request("GET", f"/{index}/_stats/search")
    return int(stats["_all"]["primaries"]["search"]["query_total"])


@pytest.mark.parametrize("similarity", sorted(SCORES))
def test_scores_are_those_of_the_similarity(
    server: ElasticsearchServer, index: str, similarity: str
) -> None:
    vectors = vectors_of(100, seed=1, length=1.0 if similarity == "dot_product" else None)
    (query,) = vectors_of(1, seed=2, length=1.0)
    fill(server, index, vectors, similarity=similarity, index_options={"type": "hnsw"})
    table = ElasticsearchTable(server.url, index, num_candidates=100)
    found = search(table, [query], top_k=10)
    scores = SCORES[similarity](query, vectors)
    assert [row["number"] for row in found] == np.argsort(-scores)[:10].tolist()
    assert np.allclose([row["score"] for row in found], np.sort(scores)[::-1][:10], atol=1e-5)


@pytest.mark.parametrize("similarity", sorted(SCORES))
def test_an_exact_search_compares_all_documents(
    scripted: ElasticsearchServer, similarity: str
) -> None:
    """Even if the index of the vectors is too coarse to find the nearest ones."""
    index = f"exact-{similarity}"
    vectors = vectors_of(300, seed=1, length=1.0 if similarity == "dot_product" else None)
    queries = vectors_of(5, seed=2, length=1.0)
    fill(scripted, index, vectors, similarity=similarity, index_options={"type": "int4_flat"})
    write(scripted, index, [{"number": 500}])  # a document without a vector, instead of the first
    late = {"range": {"number": {"gte": 100}}}
    table = ElasticsearchTable(scripted.url, index, exact=True, query=late)
    found = search(table, queries, top_k=20)
    for number, query in enumerate(queries):
        rows = found[number * 20 :][:20]
        scores = SCORES[similarity](query, vectors)[100:]
        assert [row["number"] - 100 for row in rows] == np.argsort(-scores)[:20].tolist()
        assert np.allclose([row["score"] for row in rows], -np.sort(-scores)[:20], atol=1e-5)


def test_an_exact_search_needs_no_index_of_the_vectors(scripted: ElasticsearchServer) -> None:
    vectors = vectors_of(50, seed=1)
    fill(scripted, "not-indexed", vectors, index=False)
    (query,) = vectors_of(1, seed=2)
    found = search(ElasticsearchTable(scripted.url, "not-indexed", exact=True), [query])
    scores = SCORES["cosine"](query, vectors)
    assert [row["number"] for row in found] == np.argsort(-scores)[:3].tolist()


def test_a_quantized_index_is_searched(server: ElasticsearchServer, index: str) -> None:
    vectors = vectors_of(200, seed=1)
    fill(server, index, vectors, similarity="cosine", index_options={"type": "int8_hnsw"})
    (query,) = vectors_of(1, seed=2)
    exact = np.argsort(-SCORES["cosine"](query, vectors))[:10].tolist()
    found = search(ElasticsearchTable(server.url, index, num_candidates=200), [query], top_k=10)
    assert len({row["number"] for row in found} & set(exact)) >= 8


def test_only_documents_that_match_the_query_are_found(
    server: ElasticsearchServer, index: str
) -> None:
    vectors = vectors_of(60, seed=1)
    fill(server, index, vectors, index_options={"type": "hnsw"})
    late = {"range": {"number": {"gte": 30}}}
    table = ElasticsearchTable(server.url, index, query=late, num_candidates=100)
    (query,) = vectors_of(1, seed=2)
    scores = SCORES["cosine"](query, vectors)[30:]
    found = search(table, [query], top_k=5)
    assert [row["number"] - 30 for row in found] == np.argsort(-scores)[:5].tolist()


def test_ids_and_vectors_can_be_columns(server: ElasticsearchServer, index: str) -> None:
    vectors = vectors_of(5, seed=1)
    documents = fill(server, index, vectors, index_options={"type": "hnsw"})
    table = ElasticsearchTable(server.url, index, id_column="id")
    (found,) = search(table, vectors[3:4], ["id", "embedding", "name"], top_k=1)
    assert found.pop("score") == pytest.approx(1.0, abs=1e-3)
    assert found.pop("embedding") == pytest.approx(documents[3]["embedding"])
    assert found == {"id": "id-3", "name": "row 3"}


@pytest.mark.parametrize("is_async", [False, True], ids=["waits", "async"])
@pytest.mark.parametrize(
    "limits", [{"max_searches": 7}, {"max_request_size": "1 kb"}, {"max_request_size": 1}], ids=str
)
def test_requests_have_limits(
    server: ElasticsearchServer, index: str, is_async: bool, limits: Mapping[str, Any]
) -> None:
    vectors = vectors_of(40, seed=1)
    fill(server, index, vectors, index_options={"type": "hnsw"})
    table = ElasticsearchTable(server.url, index, asynchronous=is_async, **limits)
    with counted_searches(server, index) as counts:
        found = search(table, vectors, top_k=1)
    assert [row["number"] for row in found] == list(range(40))
    assert counts["searches"] == 40


def test_a_document_of_another_spelling_is_read(server: ElasticsearchServer, index: str) -> None:
    """Elasticsearch accepts a number as a text. Arrow's parser does not."""
    vectors = vectors_of(3, seed=1)
    documents = fill(server, index, vectors)
    write(server, index, [{**documents[0], "number": "0"}, *documents[1:]])
    table = ElasticsearchTable(server.url, index)
    found = search(table, vectors, top_k=1)
    assert [row["number"] for row in found] == [0, 1, 2]
    write(server, index, [{**documents[0], "number": [1, 2]}, *documents[1:]])
    with pytest.raises(BadRecordError, match="array-fields"):
        search(table, vectors, top_k=1)


def test_indices_with_the_same_vectors_are_searched_together(
    server: ElasticsearchServer, index: str
) -> None:
    vectors = vectors_of(6, seed=1)
    fill(server, f"{index}-1", vectors[:3])
    fill(server, f"{index}-2", vectors[3:])
    table = ElasticsearchTable(server.url, f"{index}-*", num_candidates=10)
    assert [row["number"] for row in search(table, vectors[4:5], top_k=1)] == [1]
    fill(server, f"{index}-3", vectors[3:], similarity="l2_norm")
    table = ElasticsearchTable(server.url, f"{index}-*")
    with pytest.raises(InvalidOptionError, match="differ between the indices"):
        search(table, vectors[:1])


def test_a_search_that_the_server_rejects_names_no_value(
    server: ElasticsearchServer, index: str
) -> None:
    fill(server, index, vectors_of(3, seed=1), similarity="cosine")
    table = ElasticsearchTable(server.url, index)
    with pytest.raises(ElasticsearchRequestError, match="zero magnitude") as error:
        search(table, [*vectors_of(1, seed=2), [0.0] * DIMENSIONS])
    assert "0.0" not in str(error.value)
    server.request("DELETE", f"/{index}")
    with pytest.raises(ConfigurationError, match="no such index"):
        search(table, vectors_of(1, seed=2))


def test_the_mapping_states_the_dimensions(server: ElasticsearchServer, index: str) -> None:
    fill(server, index, vectors_of(1, seed=1))
    table = ElasticsearchTable(server.url, index)
    assert table.get_search_runtime_provider(context_of(table)).dimensions == DIMENSIONS


def test_columns_without_vectors_are_refused(server: ElasticsearchServer, index: str) -> None:
    fields = {
        "words": {"type": "dense_vector", "dims": 8, "element_type": "bit"},
        "plain": {"type": "float"},
        "stored": {"type": "dense_vector", "dims": 8, "index": False},
    }
    server.request("PUT", f"/{index}", {"mappings": {"properties": fields}})
    table = ElasticsearchTable(
        server.url, index, schema="words ARRAY<FLOAT>, plain ARRAY<FLOAT>, stored ARRAY<FLOAT>"
    )
    for column, why in (
        ("words", "bit elements are not supported"),
        ("plain", "no vectors that the server can compare"),
        ("stored", r"needs an index(.|\n)*vector-search.exact=true"),
    ):
        context = VectorSearchContext(search_column=column, schema=pa.schema([]), top_k=1)
        with pytest.raises(ConfigurationError, match=why):
            table.get_search_runtime_provider(context)


def test_the_indices_determine_the_largest_number_of_rows(
    server: ElasticsearchServer, index: str
) -> None:
    names = [f"{index}-one", f"{index}-two"]
    for name in names:
        fill(server, name, vectors_of(1, seed=1))
    server.request("PUT", f"/{names[0]}/_settings", {"index.max_result_window": 20_000})
    for searched, is_exact, most in (
        (names[0], True, 20_000),
        (names[0], False, 10_000),
        (f"{index}-*", True, 10_000),
    ):
        table = ElasticsearchTable(server.url, searched, exact=is_exact)
        assert table.get_search_runtime_provider(context_of(table, top_k=most))
        with pytest.raises(ConfigurationError, match=f"at most {most}"):
            table.get_search_runtime_provider(context_of(table, top_k=most + 1))
    assert (
        len(search(ElasticsearchTable(server.url, names[0]), vectors_of(1, seed=1), top_k=10_000))
        == 1
    )


def test_a_table_of_the_catalog_holds_vectors(
    server: ElasticsearchServer, index: str, tmp_path: Path
) -> None:
    catalog = ElasticsearchCatalog("es", {"hosts": server.url})
    catalog.definitions = FileCatalogStore(tmp_path).tables_of("es")
    catalog.open()
    columns = (
        PhysicalColumn("number", pa.int64()),
        PhysicalColumn("embedding", pa.list_(pa.float32())),
    )
    parameters = {"dims": DIMENSIONS, "similarity": "l2_norm", "index_options": {"type": "hnsw"}}

    def declared(fields: Mapping[str, Any]) -> CatalogTable:
        options = {"connector": "elasticsearch", "vector-fields": json.dumps(fields)}
        return CatalogTable(schema=TableSchema(columns), options=options)

    path = ObjectPath("default", index)
    for wrong in ({"number": parameters}, {"other": parameters}, {"embedding": 6}):
        with pytest.raises(InvalidOptionError, match="cannot hold vectors"):
            catalog.create_table(path, declared(wrong))
    table = declared({"embedding": parameters})
    completed = catalog.completed(path, table)
    assert "vector-fields" not in completed.options
    catalog.create_table(path, table)
    assert catalog.get_table(path).options == completed.options
    mapping = server.request("GET", f"/{index}/_mapping")[index]["mappings"]["properties"]
    assert (
        mapping["embedding"].items()
        >= {
            "type": "dense_vector",
            "dims": DIMENSIONS,
            "similarity": "l2_norm",
        }.items()
    )
    assert ElasticsearchSource(server.url, index).schema().field("embedding").type == pa.list_(
        pa.float32()
    )
    catalog.close()
