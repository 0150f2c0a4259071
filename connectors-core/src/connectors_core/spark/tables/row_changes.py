# SPDX-License-Identifier: Apache-2.0
"""Plans DELETE and UPDATE as changes that the sink of a table applies by its primary key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from connectors_core.errors import ConfigurationError, UnsupportedError
from connectors_core.schema import ROW_KIND_COLUMN, RowKind
from connectors_core.schema.ddl import quoted
from connectors_core.spark.tables.table_sinks import declared_columns, rows_for, sink_of
from connectors_core.table import CatalogTable, DynamicTableSink, TableAbility
from connectors_core.table.abilities import require
from connectors_core.table.catalog_table import CONNECTOR
from connectors_core.table.sql.statements import NEW_VALUE, ChangeRows, Insert

__all__ = ["changed_rows", "current_rows", "sink_of_changes"]

_PLACE: Final = "_connectors_place"
_ROW: Final = "_connectors_row"


def sink_of_changes(change: ChangeRows, name: str, table: CatalogTable) -> DynamicTableSink:
    """Return the sink that applies changes of a table's rows.

    Raises:
        UnsupportedError: The table lacks the ability.
        ConfigurationError: The statement sets a column that is unknown, or a part of the key.
    """
    sink = sink_of(name, table)
    deleting, updating = TableAbility.ROW_LEVEL_DELETE, TableAbility.ROW_LEVEL_UPDATE
    require(
        deleting if change.is_delete else updating,
        sink.abilities,
        table=name,
        connector=table.options.get(CONNECTOR, ""),
        hint="declare a PRIMARY KEY, and use 'elasticsearch', 'upsert-kafka', or Parquet files",
    )
    key = {each.lower() for each in sink.key}
    columns = {each.lower() for each in declared_columns(table)}
    for each in change.assigned:
        if each.lower() in key:
            raise ConfigurationError(
                f"UPDATE cannot change the column {each!r} of the primary key of {name}",
                expected="a column that is no part of the primary key",
                found=each,
                hint="DELETE the row, and INSERT it with another key",
            )
        if each.lower() not in columns:
            raise ConfigurationError(
                f"the table {name} has no column {each!r} to update",
                expected=", ".join(declared_columns(table)),
                found=each,
            )
    return sink


def changed_rows(change: ChangeRows, name: str, table: CatalogTable, found: DataFrame) -> DataFrame:
    """Return the changes of rows, with their kind.

    Args:
        change: The statement.
        name: The full name of its table.
        table: The definition.
        found: The rows of its query.
    """
    values = {each.lower(): f"{NEW_VALUE}{at}" for at, each in enumerate(change.assigned)}
    columns = [
        sf.col(quoted(values.get(each.lower(), each))).alias(each)
        for each in declared_columns(table)
    ]
    kind = RowKind.DELETE if change.is_delete else RowKind.UPDATE_AFTER
    changes = found.select(*columns, sf.lit(kind.value).alias(ROW_KIND_COLUMN))
    return rows_for(Insert(target=change.target, query=change.query), name, table, changes)


def current_rows(rows: DataFrame, name: str, key: Sequence[str]) -> DataFrame:
    """Return the rows that a changelog leaves, for which all its changes are read.

    Args:
        rows: The changes. Those of a key are in one partition, in their order.
        name: The full name of the table, for errors.
        key: Its primary key.

    Raises:
        UnsupportedError: The table has no primary key.
    """
    if not key:
        raise UnsupportedError(
            f"the table {name} is a changelog without a key, so its current rows are unknown",
            expected="PRIMARY KEY (...) NOT ENFORCED",
        )
    placed = rows.withColumn(_PLACE, sf.monotonically_increasing_id())
    whole = sf.struct(*(sf.col(quoted(each)) for each in rows.columns))
    last = placed.groupBy(*map(quoted, key)).agg(sf.max_by(whole, sf.col(_PLACE)).alias(_ROW))
    gone = sf.col(ROW_KIND_COLUMN).isin(RowKind.DELETE.value, RowKind.UPDATE_BEFORE.value)
    return last.select(f"{_ROW}.*").where(~gone).drop(ROW_KIND_COLUMN)
