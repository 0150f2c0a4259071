# SPDX-License-Identifier: Apache-2.0
"""Plans the statements that write rows as the sinks of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from connectors_core.catalog import CatalogError
from connectors_core.catalog.catalog_manager import CatalogManager
from connectors_core.errors import ConfigurationError, UnsupportedError
from connectors_core.sink import SupportsOverwrite, SupportsPartitioning
from connectors_core.spark.internals.arrow_types import spark_type
from connectors_core.spark.tables.query_planner import QueryPlanner
from connectors_core.spark.tables.row_changes import changed_rows, sink_of_changes
from connectors_core.spark.tables.spark_inserts import refuse_target
from connectors_core.spark.tables.table_sinks import (
    declared_columns,
    output_mode_of,
    rows_for,
    shared,
    sink_of,
)
from connectors_core.table import CatalogTable, CatalogView, DynamicTableSink, TableAbility
from connectors_core.table.abilities import require
from connectors_core.table.catalog_table import CONNECTOR
from connectors_core.table.sql.statements import ChangeRows, Insert

__all__ = ["plan_writes", "refuse_streams", "statement_name"]


def plan_writes(planner: QueryPlanner, writes: Sequence[Insert | ChangeRows]) -> None:
    """Add the rows and the sinks of statements to the pipeline of a planner.

    Raises:
        ConnectorError: A query or a target does not fit.
    """
    planned: list[DataFrame] = []
    exclusive: set[str] = set()
    for each in writes:
        name = str(planner.catalog.full_name(each.target))
        try:
            table = planner.catalog.get(each.target)
        except CatalogError:
            refuse_target(planner.spark, each.target)
            raise
        if isinstance(table, CatalogView):
            raise UnsupportedError(f"{name} is a view, whose rows no statement writes")
        if isinstance(each, ChangeRows):
            sink = sink_of_changes(each, name, table)
            rows = changed_rows(each, name, table, planner.frame(each.query))
        else:
            # Before the query lists what it reads, so that it reads all rows to replace.
            sink = _overwriting(planner.spark, sink_of(name, table), each, name, table)
            rows = rows_for(each, name, table, planner.frame(each.query))
        if name in exclusive:
            raise UnsupportedError(
                f"two INSERTs of a statement set write the table {name}",
                expected="one INSERT, because it replaces the files of the other",
                hint="join their queries with UNION ALL",
            )
        if sink.is_exclusive:
            exclusive.add(name)
        mode = output_mode_of(sink, name, rows)
        rows = shared(rows, planned)
        planned.append(rows)
        planner.pipeline.sink_to(
            rows, sink.sink, uid=planner.unique_uid(f"into.{name}"), output_mode=mode
        )


def refuse_streams(
    writes: Sequence[Insert | ChangeRows], catalog: CatalogManager, reason: str
) -> None:
    """Refuse to replace and to change rows without an end, as Flink does.

    Args:
        writes: The statements, of which one is a stream.
        catalog: The tables.
        reason: The cause, such as a table without an end.

    Raises:
        UnsupportedError: A statement does not only add rows.
    """
    for each in writes:
        if isinstance(each, ChangeRows) or each.overwrite:
            verb = statement_name(each)
            raise UnsupportedError(
                f"{verb} of {catalog.full_name(each.target)} needs batch mode: a stream never "
                "completes its rows",
                expected="tables with an end, and 'execution.runtime-mode' = 'batch' or "
                "'automatic'",
                found=reason,
                hint="give the tables of the statement an end, such as with 'scan.bounded.mode'",
            )


def statement_name(write: Insert | ChangeRows) -> str:
    """Return the keywords with which a statement begins."""
    if isinstance(write, ChangeRows):
        return "DELETE" if write.is_delete else "UPDATE"
    return "INSERT OVERWRITE" if write.overwrite else "INSERT"


def _overwriting(
    spark: SparkSession,
    sink: DynamicTableSink,
    insert: Insert,
    name: str,
    table: CatalogTable,
) -> DynamicTableSink:
    """Return the sink of an INSERT, which replaces rows if it is an `INSERT OVERWRITE`.

    Args:
        spark: Evaluates the values in PARTITION.
        sink: The sink of the table.
        insert: The statement.
        name: The full name of the table.
        table: Its definition.

    Raises:
        UnsupportedError: The table lacks the ability.
        ConfigurationError: PARTITION names a column that is no partition column.
    """
    connector = table.options.get(CONNECTOR, "")
    keys = sink.sink.partition_columns() if isinstance(sink.sink, SupportsPartitioning) else ()
    if insert.partition or table.partition_keys:
        require(
            TableAbility.PARTITIONING,
            sink.abilities,
            table=name,
            connector=connector,
            hint="remove PARTITION and PARTITIONED BY, and select the values as columns",
        )
        _check_partition(insert, name, keys)
    if not insert.overwrite:
        return sink
    require(
        TableAbility.OVERWRITE,
        sink.abilities,
        table=name,
        connector=connector,
        hint="use INSERT INTO, or a table of files without a PRIMARY KEY",
    )
    assert isinstance(sink.sink, SupportsOverwrite)
    partition = _static_partition(spark, insert, table, keys)
    return replace(sink, sink=sink.sink.apply_overwrite(partition))


def _check_partition(insert: Insert, name: str, keys: Sequence[str]) -> None:
    known = {each.lower() for each in keys}
    for each in insert.partition:
        if each.lower() not in known:
            raise ConfigurationError(
                f"{each!r} is no partition column of the table {name}",
                expected=", ".join(keys) or "PARTITIONED BY in its definition",
                found=each,
            )


def _static_partition(
    spark: SparkSession, insert: Insert, table: CatalogTable, keys: Sequence[str]
) -> Mapping[str, pa.Scalar]:
    """Return the values of all partition columns, or nothing if the rows determine some."""
    given = {key.lower(): value for key, value in insert.partition.items()}
    if not keys or any(each.lower() not in given for each in keys):
        return {}
    types = declared_columns(table)
    values = [sf.expr(given[each.lower()]).cast(spark_type(types[each])) for each in keys]
    row = spark.range(1).select(*values).collect()[0]
    return {
        each: pa.scalar(_zoned(value, types[each]), types[each])
        for each, value in zip(keys, row, strict=True)
    }


def _zoned(value: Any, kind: pa.DataType) -> Any:
    """Return a moment with its zone, which Spark's rows lack."""
    if isinstance(value, datetime) and pa.types.is_timestamp(kind) and kind.tz is not None:
        return value.astimezone(UTC)
    return value
