# SPDX-License-Identifier: Apache-2.0
"""Writes definitions as the statements from which `parse_statement` reads them."""

from __future__ import annotations

from connectors_core.schema.ddl import quoted, type_text
from connectors_core.table.catalog_table import CatalogTable
from connectors_core.table.sql.statements import Name
from connectors_core.table.table_schema import Column, ComputedColumn, MetadataColumn, WatermarkSpec

__all__ = ["column_text", "create_table_text", "watermark_text"]


def create_table_text(name: Name, table: CatalogTable) -> str:
    """Return the statement that creates a table, with all its options."""
    schema = table.schema
    parts = [f"{quoted(each.name)} {column_text(each)}" for each in schema.columns]
    if schema.watermark is not None:
        parts.append(f"WATERMARK FOR {watermark_text(schema.watermark)}")
    if schema.primary_key:
        parts.append(f"PRIMARY KEY ({', '.join(map(quoted, schema.primary_key))}) NOT ENFORCED")
    lines = [f"CREATE TABLE {'.'.join(map(quoted, name))}" + (" (" if parts else "")]
    if parts:
        lines += [",\n".join(f"  {part}" for part in parts), ")"]
    if table.comment:
        lines.append(f"COMMENT {_text(table.comment)}")
    if table.partition_keys:
        lines.append(f"PARTITIONED BY ({', '.join(map(quoted, table.partition_keys))})")
    options = [f"  {_text(key)} = {_text(value)}" for key, value in table.options.items()]
    lines += ["WITH (", ",\n".join(options), ")"]
    return "\n".join(lines)


def column_text(column: Column) -> str:
    """Return the definition of a column after its name."""
    comment = f" COMMENT {_text(column.comment)}" if column.comment else ""
    if isinstance(column, ComputedColumn):
        return f"AS {column.expression}{comment}"
    kind = type_text(column.type, nullability=True)
    if isinstance(column, MetadataColumn):
        virtual = " VIRTUAL" if column.virtual else ""
        return f"{kind} METADATA FROM {_text(column.key)}{virtual}{comment}"
    return f"{kind}{'' if column.nullable else ' NOT NULL'}{comment}"


def watermark_text(spec: WatermarkSpec) -> str:
    """Return the definition of a watermark after its keywords."""
    column = quoted(spec.column)
    if spec.out_of_orderness is None:
        return f"{column} AS SOURCE_WATERMARK()"
    seconds = spec.out_of_orderness.total_seconds()
    late = f" - INTERVAL '{seconds:f}' SECOND" if seconds else ""
    return f"{column} AS {column}{late}"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
