# SPDX-License-Identifier: Apache-2.0
"""Tests the datasets of inputs that Spark reads itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pipeline_support import new_pipeline

from connectors_core import NumberSequenceSource
from connectors_core.lineage import LineageDataset
from connectors_core.spark.spark_inputs import spark_inputs
from connectors_core.testing.directory_sink import DirectorySink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECRET = "canary-83d2"  # pragma: allowlist secret


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a table `t`, files `days/1/a.txt` to `days/3/a.txt`, and others."""
    folder = tmp_path_factory.mktemp("inputs")
    spark.range(3).toDF("n").write.parquet(str(folder / "t"))
    for day in range(1, 4):
        (folder / "days" / str(day)).mkdir(parents=True)
        (folder / "days" / str(day) / "a.txt").write_text("1\n")
    return folder


def datasets(df: DataFrame) -> list[tuple[str, str]]:
    return [(each.namespace, each.name) for read in spark_inputs(df) for each in read.datasets]


def test_files_are_named_by_their_folders(spark: SparkSession, folder: Path) -> None:
    def files(*names: str) -> list[tuple[str, str]]:
        return [("file", str(folder / name)) for name in names]

    days = [f"{folder}/days/{day}" for day in (1, 2)]
    assert datasets(spark.read.parquet(f"{folder}/t")) == files("t")
    assert datasets(spark.read.text(days)) == files("days/1", "days/2")
    assert datasets(spark.read.text(f"{folder}/days/1/a.txt")) == files("days/1")
    assert datasets(spark.read.text(f"{folder}/days/*/*.txt")) == files(
        "days/1", "days/2", "days/3"
    )
    assert datasets(spark.readStream.text(f"{folder}/days/*")) == files("days")


def test_a_table_of_the_catalog_is_named_by_its_location(spark: SparkSession, folder: Path) -> None:
    spark.sql(f"CREATE TABLE located (n BIGINT) USING parquet LOCATION '{folder}/t'")
    try:
        for read in (spark.table("located").where("n > 0"), spark.readStream.table("located")):
            assert datasets(read) == [("file", f"{folder}/t")]
    finally:
        spark.sql("DROP TABLE located")


@pytest.fixture
def database(spark: SparkSession) -> Iterator[str]:
    """Return the address of a database in memory with a table `sa.t`."""
    url = f"jdbc:derby:memory:lineage;create=true;user=sa;password={SECRET}"
    spark.range(3).toDF("n").write.jdbc(url, "t", mode="overwrite")
    catalog = "spark.sql.catalog.derby"
    jdbc = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
    driver = spark._jvm.java.sql.DriverManager.getDriver(url).getClass().getName()  # type: ignore[union-attr]
    for key, value in {catalog: jdbc, f"{catalog}.url": url, f"{catalog}.driver": driver}.items():
        spark.conf.set(key, value)
    yield url
    for key in (f"{catalog}.driver", f"{catalog}.url", catalog):
        spark.conf.unset(key)


def test_a_table_of_a_database_is_named_without_credentials(
    spark: SparkSession, database: str
) -> None:
    table = spark.read.jdbc(database, "t")
    (read,) = spark_inputs(table)
    assert read.datasets == (LineageDataset(namespace="derby:memory:lineage", name="t"),)
    assert list(read.columns.values()) == ["n"]
    query = 'SELECT a."n" AS m FROM t AS a JOIN sa.t AS b ON a."n" = b."n"'
    (joined,) = spark_inputs(spark.read.jdbc(database, f"({query}) q"))
    assert [each.name for each in joined.datasets] == ["t", "sa.t"]
    assert joined.columns == {}
    assert [name for _, name in datasets(spark.table("derby.SA.T"))] == ["SA.T"]
    assert SECRET not in f"{read} {joined}"


def test_an_input_of_another_kind_has_no_datasets(spark: SparkSession) -> None:
    rows = spark.createDataFrame(spark.sparkContext.parallelize([(1,)]), "n INT")
    stream = spark.readStream.format("rate").load()
    found = [*spark_inputs(rows.selectExpr("n + 1 AS m")), *spark_inputs(stream)]
    assert [(each.uid, each.datasets) for each in found] == [
        ("@LogicalRDD(n)", ()),
        ("@rate(timestamp, value)", ()),
    ]


def test_an_input_of_spark_is_part_of_the_lineage(
    spark: SparkSession, tmp_path: Path, folder: Path
) -> None:
    pipeline = new_pipeline(spark, tmp_path, streaming=None)
    rows = pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers").toDF("m")
    table = spark.read.parquet(f"{folder}/t")
    unknown = spark.createDataFrame(spark.sparkContext.parallelize([(1,)]), "x BIGINT")
    joined = (
        rows.join(table, rows.m == table.n)
        .selectExpr("m", "n + 1 AS n")
        .union(unknown.selectExpr("x", "x"))
    )
    pipeline.sink_to(joined, DirectorySink(tmp_path / "out"), uid="out")
    graph = pipeline._frames.lineage()
    uid = f"@file{folder}/t"
    assert graph.datasets == {
        "numbers": (),
        uid: (LineageDataset(namespace="file", name=f"{folder}/t"),),
        "@LogicalRDD(x)": (),
        "out": (LineageDataset(namespace="file", name=f"{tmp_path}/out"),),
    }
    assert graph.schemas[uid].names == ["n"]
    (edge,) = graph.edges
    assert edge.inputs == ("numbers", uid, "@LogicalRDD(x)")
    assert {(each.uid, each.column, each.transformation.value) for each in edge.columns["n"]} == {
        (uid, "n", "TRANSFORMATION"),
        ("@LogicalRDD(x)", "x", "IDENTITY"),
    }
    assert {(each.uid, each.column, each.transformation.value) for each in edge.row_origins} == {
        ("numbers", "value", "JOIN"),
        (uid, "n", "JOIN"),
    }
