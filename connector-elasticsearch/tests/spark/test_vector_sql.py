# SPDX-License-Identifier: Apache-2.0
"""Tests VECTOR_SEARCH in statements, on tables of an index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from connector_elasticsearch.testing import ElasticsearchServer
from connectors_core import TableEnvironment
from connectors_core.errors import ConfigurationError, UnsupportedError

POINTS = {"a": [1.0, 0.0], "b": [0.8, 0.6], "c": [0.0, 1.0], "d": [-1.0, 0.0]}
SEARCH = "TABLE(VECTOR_SEARCH(TABLE {}, DESCRIPTOR(embedding), q.vector, 2))"


@pytest.fixture
def environment(
    server: ElasticsearchServer, index: str, spark: SparkSession, tmp_path: Path
) -> Iterator[TableEnvironment]:
    """Yield tables: `points` with vectors, the questions `asked`, and the target `found`."""
    with TableEnvironment(spark, checkpoint_location=tmp_path) as tables:
        tables.execute_sql(
            f"CREATE CATALOG es WITH ('type'='elasticsearch', 'hosts'='{server.url}')"
        )
        vector = '{"dims": 2, "similarity": "cosine", "index_options": {"type": "hnsw"}}'
        for name, key in (("points", "name STRING"), ("asked", "id STRING")):
            column = "embedding" if name == "points" else "vector"
            tables.execute_sql(
                f"CREATE TABLE es.default.`{index}-{name}` ({key}, {column} ARRAY<FLOAT>) "
                f"""WITH ('vector-fields' = '{{"{column}": {vector}}}')"""
            )
        for name, point in POINTS.items():
            document: dict[str, Any] = {"name": name, "embedding": point}
            server.request("POST", f"/{index}-points/_doc?refresh=true", document)
        for name, point in {"one": [1.0, 0.1], "two": [0.1, 1.0], "none": None}.items():
            document = {"id": name, "vector": point}
            server.request("POST", f"/{index}-asked/_doc?refresh=true", document)
        tables.execute_sql(
            "CREATE TABLE found (id STRING, name STRING, score DOUBLE) WITH ("
            f"'connector'='elasticsearch', 'hosts'='{server.url}', 'index'='{index}-found', "
            "'sink.bulk-flush.max-actions'='100')"
        )
        yield tables


def rows(server: ElasticsearchServer, index: str) -> list[tuple[str, str | None]]:
    server.request("POST", f"/{index}-found/_refresh")
    found = [hit["_source"] for hit in server.documents(f"{index}-found")]
    found.sort(key=lambda row: (row["id"], -(row["score"] or 0)))
    server.request("DELETE", f"/{index}-found")
    return [(row["id"], row["name"]) for row in found]


def test_statements_search_vectors(
    environment: TableEnvironment, server: ElasticsearchServer, index: str
) -> None:
    asked, points = f"es.default.`{index}-asked`", f"es.default.`{index}-points`"
    nearest = [("one", "a"), ("one", "b"), ("two", "c"), ("two", "b")]
    search = SEARCH.format(points)
    for query, expected in (
        (
            f"SELECT q.id, name, score FROM {asked} AS q LEFT JOIN LATERAL {search} AS s ON TRUE",
            [("none", None), *nearest],
        ),
        (
            f"SELECT id, name, round(score, 9) FROM (SELECT * FROM {asked}) AS q, LATERAL {search} "
            "WHERE score > 0.99",
            [("one", "a"), ("two", "c")],
        ),
    ):
        assert environment.execute_sql(f"INSERT INTO found {query}").await_termination(60)
        assert rows(server, index) == expected


def test_a_search_that_no_pipeline_can_run_is_refused(
    environment: TableEnvironment, index: str
) -> None:
    asked, search = f"es.default.`{index}-asked`", SEARCH.format(f"es.default.`{index}-points`")
    with pytest.raises(UnsupportedError, match="belongs to a pipeline"):
        environment.sql_query(f"SELECT q.id, s.score FROM {asked} AS q, LATERAL {search} AS s")
    for query, why in (
        (
            f"SELECT q.id, s.name, s.score FROM {asked} q, LATERAL "
            f"{search.replace('q.vector', 'shuffle(q.vector)')} AS s",
            "needs a column with the vector",
        ),
        (
            f"SELECT q.id, s.name, s.score FROM {asked} q, LATERAL "
            f"{search.replace('(embedding)', '(name)')} AS s",
            "has no vectors",
        ),
        (f"SELECT q.id, s.title, s.score FROM {asked} q, LATERAL {search} AS s", "no column"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            environment.execute_sql(f"INSERT INTO found {query}")
