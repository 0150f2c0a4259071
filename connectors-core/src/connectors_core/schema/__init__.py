# SPDX-License-Identifier: Apache-2.0
"""Schemas as text in Spark's DDL, and casts of nested columns."""

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
        },
    )

__all__ = [
    "SCHEMA",
    "CastValues",
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
