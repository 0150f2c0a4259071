# SPDX-License-Identifier: Apache-2.0
"""Tests Elasticsearch 9 if its Java version is installed. Each Spark line has its own client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import elasticsearch
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from connector_elasticsearch import ElasticsearchSink, ElasticsearchSource, ElasticsearchTable
from connector_elasticsearch.testing import ElasticsearchServer
from connectors_core import Pipeline
from connectors_core.errors import ConfigurationError
from connectors_core.testing.servers import find_java

CLIENTS = {"3.5": 8, "4.3": 9}
PLANES = [f"N{number}" for number in range(7)]
FLIGHTS = 500


@pytest.fixture(scope="module")
def newer() -> Iterator[ElasticsearchServer]:
    try:
        find_java(21)
    except ConfigurationError:
        pytest.skip("Elasticsearch 9 needs Java 21, and there is none")
    with ElasticsearchServer(version="9.5.3") as server:
        yield server


def fill(server: ElasticsearchServer, index: str, documents: dict[str, dict[str, Any]]) -> None:
    lines = []
    for name, document in documents.items():
        lines += [{"index": {"_id": name}}, document]
    body = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    assert not server.request("POST", f"/{index}/_bulk?refresh=true", body)["errors"]


@pytest.mark.parametrize(
    ("key", "lookup"),
    [
        ("id", {}),
        ("tailnum", {"asynchronous": True}),
        ("tailnum", {"cache": "full"}),
    ],
    ids=["by id", "by field", "full"],
)
@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "stream"])
def test_source_lookup_and_sink_work_with_elasticsearch_9(
    newer: ElasticsearchServer,
    spark: SparkSession,
    tmp_path: Path,
    key: str,
    lookup: dict[str, Any],
    streaming: bool,
) -> None:
    assert elasticsearch.__version__[0] == CLIENTS[spark.version.rpartition(".")[0]]
    (node,) = newer.request("GET", "/_nodes/process")["nodes"].values()
    assert node["version"] == "9.5.3"
    keyword = {"type": "keyword"}
    for name, other in (("flights", "number"), ("planes", "seats"), ("joined", "number")):
        properties = {"tailnum": keyword, other: {"type": "long"}}
        newer.request("PUT", f"/{name}", {"mappings": {"properties": properties}})
    try:
        flights = {
            str(number): {"number": number, "tailnum": PLANES[number % len(PLANES)]}
            for number in range(FLIGHTS)
        }
        planes = {name: {"tailnum": name, "seats": int(name[1:])} for name in PLANES[:-1]}
        fill(newer, "flights", flights)
        fill(newer, "planes", planes)
        location = str(tmp_path / "checkpoint")
        with Pipeline(spark, "p", checkpoint_location=location, streaming=streaming) as pipeline:
            rows = pipeline.from_source(
                ElasticsearchSource(newer.url, "flights", page_size=100), uid="flights"
            )
            table = ElasticsearchTable(newer.url, "planes", id_column="id", **lookup)
            joined = pipeline.lookup_join(rows, table, on={"tailnum": key}, columns=["seats"])
            sink = ElasticsearchSink(newer.url, "joined", id_columns=["number"])
            pipeline.sink_to(joined, sink, uid="joined")
            assert pipeline.run(timeout=120)
        found = {hit["_id"]: hit["_source"] for hit in newer.documents("joined")}
        assert found == {
            name: {**flight, "seats": planes.get(flight["tailnum"], {}).get("seats")}
            for name, flight in flights.items()
        }
    finally:
        newer.request("DELETE", "/flights,planes,joined")


def test_vectors_are_written_read_looked_up_and_searched_with_elasticsearch_9(
    newer: ElasticsearchServer, spark: SparkSession, tmp_path: Path
) -> None:
    """The server omits vectors from documents unless a request selects them."""
    vector = {"type": "dense_vector", "dims": 2, "similarity": "l2_norm"}
    fields = {"number": {"type": "long"}, "vector": vector}
    for name in ("points", "found"):
        newer.request("PUT", f"/{name}", {"mappings": {"properties": fields}})
    try:
        points = {str(number): {"number": number, "vector": [number, 1]} for number in range(4)}
        fill(newer, "points", points)
        table = ElasticsearchTable(newer.url, "points", id_column="id")
        with Pipeline(spark, "p", checkpoint_location=str(tmp_path / "checkpoint")) as pipeline:
            source = ElasticsearchSource(newer.url, "points", metadata_columns={"_id": "id"})
            rows = pipeline.from_source(source, uid="points")
            similar = pipeline.vector_search(
                rows, table, vector_column="vector", top_k=1, columns={"number": "nearest"}
            )
            again = pipeline.lookup_join(similar, table, on=["id"], columns={"vector": "again"})
            sink = ElasticsearchSink(newer.url, "found", id_columns=["number"])
            pipeline.sink_to(again, sink, uid="found")
            assert pipeline.run(timeout=120)
        read = ElasticsearchSource(newer.url, "found", array_fields=["again"])
        assert read.schema().field("vector").type == pa.list_(pa.float32())
        newer.request("POST", "/found/_refresh")
        fields_of_all = {"query": {"match_all": {}}, "fields": ["vector", "nearest", "again"]}
        hits = newer.request("POST", "/found/_search", fields_of_all)["hits"]["hits"]
        assert {hit["_id"]: hit["fields"] for hit in hits} == {
            name: {
                "vector": [float(each) for each in point["vector"]],
                "nearest": [point["number"]],
                "again": [float(each) for each in point["vector"]],
            }
            for name, point in points.items()
        }
    finally:
        newer.request("DELETE", "/points,found")
