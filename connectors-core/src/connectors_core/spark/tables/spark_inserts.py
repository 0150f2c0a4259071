# SPDX-License-Identifier: Apache-2.0
"""INSERTs into tables of Spark that read tables of the environment: jobs of Spark, in batch."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from connectors_core.errors import UnsupportedError
from connectors_core.schema import ROW_KIND_COLUMN
from connectors_core.schema.ddl import quoted
from connectors_core.spark.tables.query_planner import QueryPlanner
from connectors_core.spark.tables.session_options import RuntimeMode
from connectors_core.spark.tables.spark_errors import sql_errors
from connectors_core.spark.tables.temporal_joins import refuse_lookup_joins
from connectors_core.table.sql.statements import Insert, Name

__all__ = ["explained", "insert_rows", "refuse_stream", "refuse_target"]


def refuse_stream(insert: Insert, endless: Sequence[str], mode: RuntimeMode) -> None:
    """Refuse an INSERT that is no batch.

    Raises:
        UnsupportedError: It reads tables without an end, or the session asks for streams.
    """
    if endless or mode is RuntimeMode.STREAMING:
        raise UnsupportedError(
            f"{'.'.join(insert.target)} is a table of Spark, into which only a batch inserts",
            found=", ".join(endless) or "streaming",
            hint="give the tables an end, or write with Pipeline.for_each_batch",
        )


def refuse_target(spark: SparkSession, target: Name) -> None:
    """Refuse a table of Spark as a target of a statement set, which is one pipeline.

    Raises:
        UnsupportedError: It is one.
    """
    if spark.catalog.tableExists(".".join(map(quoted, target))):
        raise UnsupportedError(
            f"{'.'.join(target)} is a table of Spark, which no statement set writes",
            expected="tables of the environment",
            hint="run its INSERT alone, outside of the statement set",
        )


def insert_rows(insert: Insert, planner: QueryPlanner) -> None:
    """Run an INSERT.

    Raises:
        SqlError: The query is wrong, or does not fit the table.
        UnsupportedError: The query has a lookup join, or reads a changelog.
    """
    statement = _statement(insert, planner)
    with sql_errors(None):
        planner.spark.sql(statement)


def explained(insert: Insert, planner: QueryPlanner) -> str:
    """Return Spark's plan of an INSERT; see `insert_rows`."""
    statement = _statement(insert, planner)
    with sql_errors(None):
        return str(planner.spark.sql(f"EXPLAIN {statement}").collect()[0][0])


def _statement(insert: Insert, planner: QueryPlanner) -> str:
    """Return an INSERT for Spark, which names views of the tables' rows."""
    name = ".".join(map(quoted, insert.target))
    refuse_lookup_joins(insert.query)
    if ROW_KIND_COLUMN in planner.frame(insert.query).columns:  # also names what Spark finds wrong
        raise UnsupportedError(
            f"{name} is a table of Spark, which takes no updates and deletions of a changelog",
            hint="insert into a table of a connector that replaces and deletes rows by key",
        )
    verb = "INSERT OVERWRITE TABLE" if insert.overwrite else "INSERT INTO"
    values = ", ".join(f"{quoted(key)} = {value}" for key, value in insert.partition.items())
    partition = f" PARTITION ({values})" if values else ""
    columns = f" ({', '.join(map(quoted, insert.columns))})" if insert.columns else ""
    return f"{verb} {name}{partition}{columns} {planner.rewritten(insert.query)}"
