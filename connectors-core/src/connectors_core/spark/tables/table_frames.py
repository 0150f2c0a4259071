# SPDX-License-Identifier: Apache-2.0
"""The rows of a table as a DataFrame of a pipeline."""

from __future__ import annotations

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from connectors_core.engine.coordinator.identity import uid_of
from connectors_core.errors import ConfigurationError
from connectors_core.schema import ROW_KIND_COLUMN
from connectors_core.schema.ddl import quoted
from connectors_core.spark.internals.arrow_types import spark_type
from connectors_core.spark.pipeline import Pipeline
from connectors_core.table import (
    CatalogTable,
    ChangelogMode,
    ComputedColumn,
    MetadataColumn,
    ScanTableSource,
    TableAbility,
)
from connectors_core.table.abilities import require
from connectors_core.table.catalog_table import CONNECTOR
from connectors_core.table.watermark_options import watermark_strategy

__all__ = ["scan"]


def scan(pipeline: Pipeline, name: str, table: CatalogTable, source: ScanTableSource) -> DataFrame:
    """Return the rows of a table with its declared columns, in their order.

    The rows of a changelog also have the column `_row_kind`.

    Args:
        pipeline: The pipeline that reads them.
        name: The full name of the table, from which the uid of the source is made.
        table: Its definition.
        source: Its source.

    Raises:
        ConfigurationError: The source lacks a declared column.
        UnsupportedError: The watermark is that of the source.
    """
    schema, watermark = table.schema, table.schema.watermark
    if watermark is not None and watermark.out_of_orderness is None:
        require(
            TableAbility.SOURCE_WATERMARK,
            source.abilities - {TableAbility.SOURCE_WATERMARK},  # a pipeline makes all watermarks
            table=name,
            connector=table.options.get(CONNECTOR, ""),
            hint=f"declare WATERMARK FOR {watermark.column} AS {watermark.column} - INTERVAL "
            "'5' SECOND, or without an interval",
        )
    strategy = watermark_strategy(table)
    rows = pipeline.from_source(
        source.source,
        uid=uid_of(name),
        watermark_strategy=strategy,
        record_policy=source.record_policy,
    )
    rows = rows.withColumns({key: sf.expr(value) for key, value in source.computed.items()})
    if source.changelog_mode != ChangelogMode.insert_only() and ROW_KIND_COLUMN not in rows.columns:
        raise ConfigurationError(
            f"the table {name} is a changelog, and its source has no kinds of changes",
            expected=f"the column {ROW_KIND_COLUMN}",
            found=", ".join(rows.columns),
        )
    if not schema.columns:
        return rows
    rows = rows.select(*_columns(rows, name, table, source.abilities))
    if watermark is not None and watermark.out_of_orderness is not None and strategy is None:
        seconds = watermark.out_of_orderness.total_seconds()
        rows = rows.withWatermark(quoted(watermark.column), f"{seconds} seconds")
    return rows


def _columns(
    rows: DataFrame, name: str, table: CatalogTable, abilities: frozenset[TableAbility]
) -> list[SparkColumn]:
    found: list[SparkColumn] = []
    for each in table.schema.columns:
        if isinstance(each, ComputedColumn):
            # Computed columns see the others by name, also other computed ones before them.
            found.append(sf.expr(each.expression).alias(each.name))
            continue
        if each.name not in rows.columns:
            if isinstance(each, MetadataColumn):
                require(
                    TableAbility.READING_METADATA,
                    abilities,
                    table=name,
                    connector=table.options.get(CONNECTOR, ""),
                    hint=f"remove the metadata column {each.name!r}",
                )
            raise ConfigurationError(
                f"the source of the table {name} has no column {each.name!r}",
                expected=f"one of {', '.join(rows.columns)}",
            )
        column = sf.col(quoted(each.name))
        if isinstance(each, MetadataColumn):
            column = column.cast(spark_type(each.type)).alias(each.name)
        found.append(column)
    if ROW_KIND_COLUMN in rows.columns:
        found.append(sf.col(ROW_KIND_COLUMN))
    return found
