# SPDX-License-Identifier: Apache-2.0
"""The rows of an INSERT in the columns of its table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from connectors_core.errors import ConfigurationError, UnsupportedError
from connectors_core.schema import ROW_KIND_COLUMN, RowKind, type_text
from connectors_core.schema.ddl import quoted
from connectors_core.spark.internals.arrow_types import arrow_type, check_writable, spark_type
from connectors_core.spark.tables.updating_queries import check_takes_updates, is_updating
from connectors_core.spark.writing_job import OutputMode
from connectors_core.table import (
    CatalogTable,
    ComputedColumn,
    DynamicTableContext,
    DynamicTableSink,
    PhysicalColumn,
)
from connectors_core.table.factory import factory_named
from connectors_core.table.sql.statements import Insert

__all__ = ["declared_columns", "output_mode_of", "rows_for", "shared", "sink_of"]

_DIGITS: Final = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
# The types that hold all values of another one, besides decimals.
_WIDER: Final = {
    pa.int8(): (pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    pa.int16(): (pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    pa.int32(): (pa.int64(), pa.float64()),
    pa.float32(): (pa.float64(),),
}


def sink_of(name: str, table: CatalogTable) -> DynamicTableSink:
    """Return the sink of a table."""
    return factory_named(table, name).create_sink(DynamicTableContext.of(name, table))


def output_mode_of(sink: DynamicTableSink, name: str, rows: DataFrame) -> OutputMode:
    """Return the output mode of rows for the sink of a table.

    Raises:
        UnsupportedError: The rows are a changelog or updated, and the sink only adds rows.
    """
    if ROW_KIND_COLUMN in rows.columns and not sink.changelog_mode.contains(RowKind.DELETE):
        raise UnsupportedError(
            f"the table {name} cannot take the updates and deletions of a changelog",
            expected="a table whose rows are replaced and deleted by key",
            found=f"changes {sink.changelog_mode}",
            hint="declare a PRIMARY KEY, or an upserting sink such as 'sink.upsert' of Kafka",
        )
    if not is_updating(rows):
        return "append"
    check_takes_updates(sink, name, rows)
    return "update"


def shared(rows: DataFrame, others: Iterable[DataFrame]) -> DataFrame:
    """Return one of the other DataFrames if it has the same rows, so that Spark plans them once."""
    for each in others:
        if each.schema == rows.schema and each.sameSemantics(rows):
            return each
    return rows


def rows_for(insert: Insert, name: str, table: CatalogTable, rows: DataFrame) -> DataFrame:
    """Return rows with the names and types of a table's written columns.

    The columns of a query match those of the table by place, or those that the INSERT lists. A null
    in a NOT NULL column fails the job.

    Raises:
        ConfigurationError: The number of columns differs, or a type does not fit.
    """
    declared = declared_columns(table)
    if not declared:
        if insert.columns or insert.partition:
            raise UnsupportedError(
                f"the table {name} declares no columns",
                expected="INSERT INTO table SELECT ..., with the names of the columns",
                found=", ".join([*insert.columns, *insert.partition]),
            )
        return rows
    changes = [each for each in rows.columns if each == ROW_KIND_COLUMN]
    given = [each for each in rows.schema.fields if each.name != ROW_KIND_COLUMN]
    check_writable(StructType(given))
    fixed = {key.lower(): value for key, value in insert.partition.items()}
    wanted = [each.lower() for each in insert.columns or declared if each.lower() not in fixed]
    unknown = {*wanted, *fixed} - {each.lower() for each in declared}
    if unknown or len(wanted) != len(given):
        names = ", ".join(each.name for each in given)
        raise ConfigurationError(
            f"the columns of the query do not fit the table {name}",
            expected=f"{len(wanted)} columns: {', '.join(wanted)}",
            found=", ".join(sorted(unknown)) or f"{len(given)} columns: {names}",
        )
    required = {
        each.name
        for each in table.schema.columns
        if isinstance(each, PhysicalColumn) and not each.nullable
    }
    numbered = rows.toDF(*(f"_{number}" for number in range(len(given))), *changes)
    columns = []
    for column, kind in declared.items():
        if column.lower() in fixed:
            value = sf.expr(fixed[column.lower()])
        elif column.lower() in wanted:
            place = wanted.index(column.lower())
            _check(name, column, arrow_type(given[place].dataType), kind)
            value = sf.col(f"_{place}")
        elif column in required:
            raise ConfigurationError(
                f"the table {name} needs a value for the column {column!r}, which is NOT NULL"
            )
        else:
            value = sf.lit(None)
        columns.append(value.cast(spark_type(kind)).alias(column))
    # Sinks that use the key refuse null in it.
    checked = required.intersection(declared).difference(table.schema.primary_key)
    return _not_null(name, numbered.select(*columns, *changes), sorted(checked))


def _not_null(table: str, rows: DataFrame, columns: Iterable[str]) -> DataFrame:
    """Return rows that fail the job if a column is null, except in those that are taken back."""
    taken_back = (
        sf.col(ROW_KIND_COLUMN).isin(RowKind.DELETE.value, RowKind.UPDATE_BEFORE.value)
        if ROW_KIND_COLUMN in rows.columns
        else sf.lit(False)
    )
    for column in columns:
        if rows.schema[column].nullable:
            value = sf.col(quoted(column))
            error = sf.raise_error(sf.lit(f"null for the NOT NULL column {column} of {table}"))
            checked = sf.when(value.isNotNull() | taken_back, value).otherwise(error)
            rows = rows.withColumn(column, checked)
    return rows


def declared_columns(table: CatalogTable) -> dict[str, pa.DataType]:
    """Return the types of the written columns."""
    written = set(table.schema.written)
    return {
        each.name: each.type
        for each in table.schema.columns
        if not isinstance(each, ComputedColumn) and each.name in written
    }


def _check(table: str, column: str, found: pa.DataType, wanted: pa.DataType) -> None:
    """Refuse a conversion that can lose a value; the query can do it with CAST."""
    if found == wanted or pa.types.is_null(found):
        return
    if wanted in _WIDER.get(found, ()):
        return
    if pa.types.is_decimal(wanted) and (found in _DIGITS or pa.types.is_decimal(found)):
        scale = found.scale if pa.types.is_decimal(found) else 0
        digits = _DIGITS.get(found) or found.precision - scale
        if wanted.scale >= scale and wanted.precision - wanted.scale >= digits:
            return
    if pa.types.is_date(found) and pa.types.is_timestamp(wanted):
        return
    expected, actual = type_text(wanted), type_text(found)
    if expected == actual:  # they differ only in what can be null
        return
    raise ConfigurationError(
        f"the query has another type for the column {column!r} of the table {table}",
        expected=expected,
        found=actual,
        hint=f"use CAST(... AS {expected.upper()}) in the query",
    )
