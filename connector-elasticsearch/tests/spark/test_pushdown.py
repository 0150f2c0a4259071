# SPDX-License-Identifier: Apache-2.0
"""Tests that a query on Spark gets the same rows with and without pushdown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from connector_elasticsearch import ElasticsearchSource
from connector_elasticsearch.testing import ElasticsearchServer
from connectors_core import ConnectorError, Pipeline
from connectors_core.testing import DirectorySink, Fault, FaultAction, injected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.line("4.3")

MAPPING = {
    "properties": {
        "number": {"type": "long"},
        "name": {"type": "text"},
        "aircraft": {"properties": {"maker": {"type": "keyword"}, "seats": {"type": "short"}}},
    }
}


def test_a_query_gets_the_same_rows_with_and_without_pushdown(
    spark: SparkSession, server: ElasticsearchServer, index: str, tmp_path: Path
) -> None:
    server.request("PUT", f"/{index}", {"mappings": MAPPING})
    makers = ["AIRBUS", None, "BOEING"]
    lines = [
        json.dumps({"index": {}})
        + "\n"
        + json.dumps(
            {
                "number": number,
                "name": f"Flight {number}",
                "aircraft": {"maker": makers[number % 3], "seats": number},
            }
            if number % 7
            else {"name": "nothing else"}
        )
        + "\n"
        for number in range(60)
    ]
    server.request("POST", f"/{index}/_bulk?refresh=true", "".join(lines).encode())
    source = ElasticsearchSource(server.url, index)
    found, explained, counted = {}, {}, {}
    for pushdown in ("true", "false"):
        sink = DirectorySink(tmp_path / pushdown)
        spark.conf.set("spark.connectors.pushdown", pushdown)
        try:
            location = str(tmp_path / f"of-{pushdown}")
            with Pipeline(spark, pushdown, checkpoint_location=location) as pipeline:
                rows = pipeline.from_source(source, uid="index")
                rows = rows.where("number >= 10 AND aircraft.maker = 'BOEING'")
                pipeline.sink_to(rows.selectExpr("number", "aircraft.maker"), sink, uid="out")
                explained[pushdown] = pipeline.explain()
                assert pipeline.run()
                (status,) = pipeline.status().sources
                counted[pushdown] = status.rows
        finally:
            spark.conf.unset("spark.connectors.pushdown")
        rows_of_sink = sink.read().select(["number", "maker"]).to_pylist()
        found[pushdown] = sorted((row["number"], row["maker"]) for row in rows_of_sink)
    expected = [number for number in range(10, 60) if number % 3 == 2 and number % 7]
    assert found["true"] == [(number, "BOEING") for number in expected]
    assert found["false"] == found["true"]
    assert counted == {"true": len(expected), "false": 60}  # the server returns only these
    assert "the source reads: aircraft.maker, number" in explained["true"]
    assert "condition: number >= 10 (the source skips rows)" in explained["true"]
    assert "spark.connectors.pushdown is false" in explained["false"]


@pytest.mark.parametrize("first", ["number >= 50", "true"])
def test_a_restart_with_another_query_reads_the_documents_that_the_first_one_left_out(
    spark: SparkSession, server: ElasticsearchServer, index: str, tmp_path: Path, first: str
) -> None:
    server.request("PUT", f"/{index}-1", {"mappings": MAPPING})
    server.request("PUT", f"/{index}-2", {"mappings": MAPPING})
    lines = [
        f'{{"index":{{"_index":"{index}-{1 + number // 40}"}}}}\n{{"number":{number}}}\n'
        for number in range(60)
    ]
    server.request("POST", "/_bulk?refresh=true", "".join(lines).encode())
    sink = DirectorySink(tmp_path / "rows")

    def run(condition: str) -> None:
        source = ElasticsearchSource(server.url, f"{index}-*", slices=3, page_size=7)
        with Pipeline(spark, "restarts", checkpoint_location=str(tmp_path / "c")) as pipeline:
            rows = pipeline.from_source(source, uid="index").where(condition)
            pipeline.sink_to(rows.select("number"), sink, uid="out")
            assert pipeline.run()

    fault = Fault("before_decision", action=FaultAction.RAISE)
    with injected(fault), pytest.raises(ConnectorError):
        run(first)
    run("number < 20 OR number IN (45, 52)")
    assert sorted(sink.read()["number"].to_pylist()) == [*range(20), 45, 52]


def test_a_nested_field_is_read_alone_even_if_the_query_uses_every_column(
    spark: SparkSession, server: ElasticsearchServer, index: str, tmp_path: Path
) -> None:
    server.request("PUT", f"/{index}", {"mappings": MAPPING})
    document = {"aircraft": {"maker": "BOEING", "seats": [1, 2]}}  # two seats are a bad record
    server.request("POST", f"/{index}/_doc?refresh=true", document)
    source = ElasticsearchSource(server.url, index, fields=["aircraft"])
    sink = DirectorySink(tmp_path / "rows")
    with Pipeline(spark, "nested", checkpoint_location=str(tmp_path / "nested")) as pipeline:
        rows = pipeline.from_source(source, uid="index")
        pipeline.sink_to(rows.selectExpr("aircraft.maker"), sink, uid="out")
        assert "the source reads: aircraft.maker" in pipeline.explain()
        assert pipeline.run()
    assert sink.read()["maker"].to_pylist() == ["BOEING"]
