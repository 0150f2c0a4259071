# SPDX-License-Identifier: Apache-2.0
"""Definitions of tables as text and as rows."""

from __future__ import annotations

from dataclasses import replace

from connectors_core.catalog.catalog_manager import FullName
from connectors_core.schema.ddl import quoted, type_text
from connectors_core.secrets import masked
from connectors_core.spark.tables.results import TableResult
from connectors_core.table import CatalogTable, CatalogView, ComputedColumn, PhysicalColumn
from connectors_core.table.factory import factory_named
from connectors_core.table.references import is_reference
from connectors_core.table.sql.writing import column_text, create_table_text, watermark_text
from connectors_core.table.table_schema import Column

__all__ = ["create_statement", "described"]


def create_statement(name: FullName, table: CatalogTable | CatalogView) -> str:
    """Return the statement that creates a table or view, without its secrets."""
    if isinstance(table, CatalogView):
        columns = f" ({', '.join(map(quoted, table.columns))})" if table.columns else ""
        return f"CREATE VIEW {'.'.join(map(quoted, name.parts))}{columns} AS {table.query}"
    return create_table_text(name.parts, replace(table, options=shown_options(str(name), table)))


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
        kind = "" if isinstance(each, ComputedColumn) else type_text(each.type)
        key = "PRI" if each.name in schema.primary_key else ""
        watermark = ""
        if schema.watermark is not None and schema.watermark.column == each.name:
            watermark = watermark_text(schema.watermark).partition(" AS ")[2]
        rows.append((each.name, kind, key, _extras(each), watermark))
    return TableResult(columns=("name", "type", "key", "extras", "watermark"), rows=rows)


def _extras(column: Column) -> str:
    match column:
        case PhysicalColumn():
            return ""
        case ComputedColumn():
            return column_text(column)
        case _:
            return (
                column_text(column).removeprefix(type_text(column.type, nullability=True)).strip()
            )
