# SPDX-License-Identifier: Apache-2.0
"""Tests that Spark has the internals that `connectors_core.spark.internals` uses."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkContext, worker
from pyspark.sql.pandas import types
from pyspark.sql.types import LongType
from pyspark.sql.udf import UserDefinedFunction

from connectors_core.spark import internals
from connectors_core.spark.internals.hadoop_folder import HadoopFolder
from connectors_core.spark.internals.memory_stream import EntryStream, verify_contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PRIVATE = {
    "SparkSession": {"_jvm", "_jsparkSession"},
    "SparkContext": {"_jvm", "_jsc", "_gateway"},
    "DataFrame": {"_jdf"},
    "JavaClass": {"_fqn"},
    "JVMView": {"_gateway_client"},
    "UserDefinedFunction": {"_judf"},
    "sys": {"_getframe"},
}
"""Private attributes by their owner."""

METHODS = {
    "session": {"sessionState", "internalCreateDataFrame", "sqlContext", "udf"},
    "session state": {"newHadoopConf"},
    "dataset": {"queryExecution", "schema"},
    "query execution": {"analyzed", "logical", "toRdd"},
    "rows": {"getNumPartitions"},
    "plan": {"nodeName", "isStreaming", "children", "schema"},
    "alias": {"identifier"},
    "alias identifier": {"name"},
    "aggregate": {"groupingExpressions"},
    "event time watermark": {"delay"},
    "rows as a plan": {"rdd"},
    "expression": {"dataType", "references"},
    "references": {"toSeq"},
    "column": {"metadata"},
    "sequence": {"size", "apply"},
    "spark context": {"statusStore"},
    "java spark context": {"sc", "statusTracker"},
    "status store": {"job", "lastStageAttempt", "taskList"},
    "status tracker": {"getActiveJobIds", "getJobInfo"},
    "memory stream": {
        "addData", "batches", "commit", "currentOffset", "currentOffset_$eq",
        "lastOffsetCommitted_$eq", "planInputPartitions", "reset", "toDF",
    },
}  # fmt: skip
"""Methods of objects in the JVM."""

_DATA_SOURCES = "org.apache.spark.sql.execution.datasources"
CLASSES = {
    "java.lang.System": {"getProperty"},
    "org.apache.commons.io.IOUtils": {"toString"},
    "org.apache.hadoop.fs.FileSystem": {"create", "exists", "listStatus", "open", "rename"},
    "org.apache.hadoop.fs.FileUtil": {"stat2Paths"},
    "org.apache.hadoop.fs.Path": {"getFileSystem"},
    "org.apache.spark.api.python.PythonUtils": {"toSeq"},
    "org.apache.spark.sql.Encoders": {"STRING"},
    "org.apache.spark.sql.catalyst.catalog.CatalogTable": {"location"},
    "org.apache.spark.sql.catalyst.catalog.HiveTableRelation": {"tableMeta"},
    "org.apache.spark.sql.catalyst.expressions.InSet": {"child", "children", "hset"},
    "org.apache.spark.sql.catalyst.plans.logical.Filter": {"condition"},
    "org.apache.spark.sql.catalyst.streaming.StreamingRelationV2": {"extraOptions", "sourceName"},
    f"{_DATA_SOURCES}.HadoopFsRelation": {"location"},
    f"{_DATA_SOURCES}.InMemoryFileIndex": {"leafFiles", "rootPaths"},
    f"{_DATA_SOURCES}.LogicalRelation": {"catalogTable", "relation"},
    f"{_DATA_SOURCES}.jdbc.JDBCOptions": {"tableOrQuery", "url"},
    f"{_DATA_SOURCES}.jdbc.JDBCRelation": {"jdbcOptions"},
    f"{_DATA_SOURCES}.v2.DataSourceV2Relation": {"table"},
    f"{_DATA_SOURCES}.v2.jdbc.JDBCTable": {"jdbcOptions"},
    "org.apache.spark.status.api.v1.JobData": {"jobTags"},
    "org.apache.spark.status.api.v1.StageData": {"attemptId", "status"},
    "org.apache.spark.status.api.v1.TaskData": {"attempt", "errorMessage", "index"},
    "org.apache.spark.status.api.v1.TaskSorting": {"ID"},
    "org.apache.spark.status.api.v1.TaskStatus": {"FAILED"},
    "org.apache.spark.SparkJobInfo": {"stageIds"},
    "org.apache.spark.util.Utils": {"classForName"},
    "scala.runtime.ScalaRunTime": {"stringOf"},
}
"""Classes of the JVM, with methods and constants."""


@pytest.fixture(scope="module")
def objects(spark: SparkSession) -> dict[str, Any]:
    df: Any = spark.range(1).alias("a")
    stream: Any = spark.readStream.format("rate").load()
    watermarked = stream.withWatermark("timestamp", "1 second")
    execution = df._jdf.queryExecution()
    rows = execution.toRdd()
    session: Any = spark
    java_context: Any = spark.sparkContext._jsc
    aggregate = watermarked.groupBy("timestamp").count()._jdf.queryExecution().analyzed()
    keys = aggregate.groupingExpressions()
    fixed = session._jsparkSession.internalCreateDataFrame(rows, df._jdf.schema(), False)
    return {
        "session": session._jsparkSession,
        "session state": session._jsparkSession.sessionState(),
        "dataset": df._jdf,
        "query execution": execution,
        "rows": rows,
        "plan": execution.analyzed(),
        "alias": execution.analyzed(),
        "alias identifier": execution.analyzed().identifier(),
        "aggregate": aggregate,
        "event time watermark": watermarked._jdf.queryExecution().analyzed(),
        "rows as a plan": fixed.queryExecution().logical(),
        "expression": keys.apply(0),
        "references": keys.apply(0).references(),
        "column": keys.apply(0).references().toSeq().apply(0),
        "sequence": keys,
        "spark context": java_context.sc(),
        "java spark context": java_context,
        "status store": java_context.sc().statusStore(),
        "status tracker": java_context.statusTracker(),
        "memory stream": EntryStream(spark, 1).java,
    }


def members(spark: Any, java_class: Any) -> set[str]:
    """Return names of methods and fields. One call per class is enough for hundreds of names."""
    show = spark._jvm.scala.runtime.ScalaRunTime.stringOf
    text = f"{show(java_class.getMethods())} {show(java_class.getFields())}"
    return set(re.findall(r"\.([\w$]+)(?=[(,) ]|$)", text))


@pytest.mark.parametrize("owner", METHODS)
def test_jvm_objects_have_the_methods(
    spark: SparkSession, objects: dict[str, Any], owner: str
) -> None:
    assert METHODS[owner] <= members(spark, objects[owner].getClass())


@pytest.mark.parametrize("name", CLASSES)
def test_jvm_classes_have_the_methods(spark: Any, name: str) -> None:
    java_class = spark._jvm.org.apache.spark.util.Utils.classForName(name, True, True)
    assert CLASSES[name] <= members(spark, java_class)


def test_pyspark_has_the_private_attributes(spark: SparkSession) -> None:
    owners = {
        "SparkSession": spark,
        "SparkContext": spark.sparkContext,
        "DataFrame": spark.range(1),
        "JVMView": spark._jvm,
        "UserDefinedFunction": UserDefinedFunction(str, LongType()),
    }
    for name, owner in owners.items():
        for attribute in PRIVATE[name]:
            assert getattr(owner, attribute) is not None, f"{name}.{attribute}"
    assert SparkContext._gateway.proc.poll() is None  # type: ignore[union-attr]


def test_the_list_of_private_attributes_is_complete() -> None:
    used = {
        node.attr
        for path in Path(internals.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    }
    assert used == set().union(*PRIVATE.values())


def test_types_are_converted_by_pyspark() -> None:
    assert "prefer_timestamp_ntz" in inspect.signature(types.from_arrow_type).parameters
    assert callable(types.to_arrow_type)
    assert callable(types.to_arrow_schema)


def test_a_worker_reads_its_task_from_infile() -> None:
    assert "infile" in inspect.unwrap(worker.main).__code__.co_varnames


def test_a_missing_hadoop_file_is_no_error(spark: SparkSession, tmp_path: Path) -> None:
    folder = HadoopFolder(spark, str(tmp_path / "missing"))
    assert folder.read("file") is None
    assert folder.listing("folder") == ""


def test_a_memory_stream_counts_plans(spark: SparkSession) -> None:
    verify_contract(spark)
