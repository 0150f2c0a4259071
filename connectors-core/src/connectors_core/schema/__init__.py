# SPDX-License-Identifier: Apache-2.0
"""Schemas as text in Spark's DDL, their differences, casts of columns, and kinds of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors_core._lazy import lazily

if TYPE_CHECKING:
    from connectors_core.schema.comparison import FieldChange, schema_changes
    from connectors_core.schema.ddl import SCHEMA, SchemaLike, parse_schema, type_text
    from connectors_core.schema.misfits import MisfitError
    from connectors_core.schema.nested_columns import (
        CastValues,
        cast_column,
        is_any_list,
        map_entries,
        nullable_column,
        nullable_type,
        rows_with,
    )
    from connectors_core.schema.projections import narrowed_schema, widened_column
    from connectors_core.schema.row_kinds import ROW_KIND_COLUMN, RowKind
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "connectors_core.schema.comparison": ("FieldChange", "schema_changes"),
            "connectors_core.schema.ddl": ("SCHEMA", "SchemaLike", "parse_schema", "type_text"),
            "connectors_core.schema.misfits": ("MisfitError",),
            "connectors_core.schema.nested_columns": (
                "CastValues",
                "cast_column",
                "is_any_list",
                "map_entries",
                "nullable_column",
                "nullable_type",
                "rows_with",
            ),
            "connectors_core.schema.projections": ("narrowed_schema", "widened_column"),
            "connectors_core.schema.row_kinds": ("ROW_KIND_COLUMN", "RowKind"),
        },
    )

__all__ = [
    "ROW_KIND_COLUMN",
    "SCHEMA",
    "CastValues",
    "FieldChange",
    "MisfitError",
    "RowKind",
    "SchemaLike",
    "cast_column",
    "is_any_list",
    "map_entries",
    "narrowed_schema",
    "nullable_column",
    "nullable_type",
    "parse_schema",
    "rows_with",
    "schema_changes",
    "type_text",
    "widened_column",
]
