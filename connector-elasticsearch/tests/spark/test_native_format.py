# SPDX-License-Identifier: Apache-2.0
"""Tests the format `connector_elasticsearch` of Spark 4, which needs no pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from elasticsearch_sink_suites import IdFormatSuite
from source_suites import ElasticsearchSourceFormatSuite

from connector_elasticsearch.testing import ElasticsearchServer

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytest.importorskip("pyspark.sql.datasource")
pytestmark = pytest.mark.line("4.3")

FORMAT = "connector_elasticsearch"


class TestReading(ElasticsearchSourceFormatSuite):
    pass


class TestWriting(IdFormatSuite):
    pass


def options_of(server: ElasticsearchServer, index: str) -> dict[str, str]:
    return {
        "hosts": server.url,
        "index": index,
        "schema": "id STRING, n BIGINT",
        "document-id.columns": "id",
        "sink.refresh": "wait-for",
    }


def test_documents_are_written_and_read_in_batch(
    spark: SparkSession, server: ElasticsearchServer, index: str
) -> None:
    options = options_of(server, index)
    rows = spark.range(0, 50, 1, 2).selectExpr("concat('d', id) AS id", "id AS n")
    for _ in range(2):  # documents with the same id replace each other
        rows.write.format(FORMAT).options(**options).mode("append").save()
    frame = spark.read.format(FORMAT).options(**options).load()
    assert frame.selectExpr("count(*)", "sum(n)").first() == (50, sum(range(50)))


def test_a_view_reads_and_inserts(
    spark: SparkSession, server: ElasticsearchServer, index: str
) -> None:
    first = spark.createDataFrame([("a", 1)], "id STRING, n BIGINT")  # a view needs its index
    first.write.format(FORMAT).options(**options_of(server, index)).mode("append").save()
    options = ", ".join(f"`{k}` '{v}'" for k, v in options_of(server, index).items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW documents USING {FORMAT} OPTIONS ({options})")
    spark.sql("INSERT INTO documents VALUES ('b', 2)")
    assert spark.sql("SELECT n FROM documents WHERE id = 'b'").first() == (2,)
    spark.sql("DROP VIEW documents")


def test_a_stream_writes_documents(
    spark: SparkSession, server: ElasticsearchServer, index: str, tmp_path: Path
) -> None:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).load()
    query = (
        rows.selectExpr("concat('d', value) AS id", "value AS n")
        .writeStream.format(FORMAT)
        .options(**options_of(server, index), checkpointLocation=str(tmp_path))
        .start()
    )
    try:
        while not query.recentProgress and query.isActive:
            query.awaitTermination(1)
    finally:
        query.stop()
    assert query.exception() is None
    frame = spark.read.format(FORMAT).options(**options_of(server, index)).load()
    assert frame.count() >= 20
