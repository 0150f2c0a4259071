# SPDX-License-Identifier: Apache-2.0
"""Definitions of tables as text and as rows."""

from __future__ import annotations

from connectors_core.catalog.catalog_manager import FullName
from connectors_core.secrets import masked
from connectors_core.spark.internals.arrow_types import spark_type
from connectors_core.spark.tables.results import TableResult
from connectors_core.spark.tables.text_edits import quoted
from connectors_core.table import (
    CatalogTable,
    CatalogView,
    ComputedColumn,
    MetadataColumn,
    WatermarkSpec,
)
from connectors_core.table.factory import factory_named
from connectors_core.table.references import is_reference
from connectors_core.table.table_schema import Column

__all__ = ["create_statement", "described"]


def create_statement(name: FullName, table: CatalogTable | CatalogView) -> str:
    """Return the statement that creates a table or view, without its secrets."""
    if isinstance(table, CatalogView):
        columns = f" ({', '.join(map(quoted, table.columns))})" if table.columns else ""
        return f"CREATE VIEW {_path(name)}{columns} AS {table.query}"
    schema = table.schema
    parts = [f"{quoted(each.name)} {_type(each)}{_commented(each)}" for each in schema.columns]
    if schema.watermark is not None:
        parts.append(f"WATERMARK FOR {_watermark(schema.watermark)}")
    if schema.primary_key:
        parts.append(f"PRIMARY KEY ({', '.join(map(quoted, schema.primary_key))}) NOT ENFORCED")
    lines = [f"CREATE TABLE {_path(name)}" + (" (" if parts else "")]
    if parts:
        lines += [",\n".join(f"  {part}" for part in parts), ")"]
    if table.comment:
        lines.append(f"COMMENT {_text(table.comment)}")
    if table.partition_keys:
        lines.append(f"PARTITIONED BY ({', '.join(map(quoted, table.partition_keys))})")
    options = [f"  {_text(k)} = {_text(v)}" for k, v in shown_options(str(name), table).items()]
    lines += ["WITH (", ",\n".join(options), ")"]
    return "\n".join(lines)


def shown_options(name: str, table: CatalogTable) -> dict[str, str]:
    """Return the options of a table with masked secrets; references are none."""
    factory = factory_named(table, name)
    references = {key: value for key, value in table.options.items() if is_reference(value)}
    secret = [key for key in table.options if factory.is_secret(key)]
    return masked(table.options, secret) | references


def described(table: CatalogTable) -> TableResult:
    """Return the columns of a table as rows."""
    schema = table.schema
    rows = []
    for each in schema.columns:
        key = "PRI" if each.name in schema.primary_key else ""
        extra = _type(each) if not hasattr(each, "nullable") else ""
        watermark = ""
        if schema.watermark is not None and schema.watermark.column == each.name:
            watermark = _watermark(schema.watermark).partition(" AS ")[2]
        kind = "" if isinstance(each, ComputedColumn) else _kind(each)
        rows.append((each.name, kind, key, extra.removeprefix(kind).strip(), watermark))
    return TableResult(columns=("name", "type", "key", "extras", "watermark"), rows=rows)


def _kind(column: Column) -> str:
    return "" if isinstance(column, ComputedColumn) else spark_type(column.type).simpleString()


def _type(column: Column) -> str:
    match column:
        case ComputedColumn():
            return f"AS {column.expression}"
        case MetadataColumn():
            virtual = " VIRTUAL" if column.virtual else ""
            return f"{_kind(column)} METADATA FROM {_text(column.key)}{virtual}"
        case _:
            return _kind(column) + ("" if column.nullable else " NOT NULL")


def _commented(column: Column) -> str:
    return f" COMMENT {_text(column.comment)}" if column.comment else ""


def _watermark(spec: WatermarkSpec) -> str:
    seconds = spec.out_of_orderness.total_seconds()
    column = quoted(spec.column)
    late = f" - INTERVAL '{seconds:f}' SECOND" if seconds else ""
    return f"{column} AS {column}{late}"


def _path(name: FullName) -> str:
    return ".".join(map(quoted, name.parts))


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
