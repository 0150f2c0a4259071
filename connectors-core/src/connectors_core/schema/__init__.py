# SPDX-License-Identifier: Apache-2.0
"""Schemas as text in Spark's DDL, casts of nested columns, and the kinds of changed rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors_core._lazy import lazily

if TYPE_CHECKING:
    from connectors_core.schema.ddl import SCHEMA, SchemaLike, parse_schema
    from connectors_core.schema.nested_columns import (
        CastValues,
        cast_column,
        is_any_list,
        map_entries,
        nullable_column,
        nullable_type,
    )
    from connectors_core.schema.projections import narrowed_schema, widened_column
    from connectors_core.schema.row_kinds import ROW_KIND_COLUMN, RowKind
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "connectors_core.schema.ddl": ("SCHEMA", "SchemaLike", "parse_schema"),
            "connectors_core.schema.nested_columns": (
                "CastValues",
                "cast_column",
                "is_any_list",
                "map_entries",
                "nullable_column",
                "nullable_type",
            ),
            "connectors_core.schema.projections": ("narrowed_schema", "widened_column"),
            "connectors_core.schema.row_kinds": ("ROW_KIND_COLUMN", "RowKind"),
        },
    )

__all__ = [
    "ROW_KIND_COLUMN",
    "SCHEMA",
    "CastValues",
    "RowKind",
    "SchemaLike",
    "cast_column",
    "is_any_list",
    "map_entries",
    "narrowed_schema",
    "nullable_column",
    "nullable_type",
    "parse_schema",
    "widened_column",
]
