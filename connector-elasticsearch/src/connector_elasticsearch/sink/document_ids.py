# SPDX-License-Identifier: Apache-2.0
"""Builds document IDs from columns (Flink's primary key)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from connectors_core.formats.text import concat_texts, is_string

__all__ = ["can_be_id", "document_ids"]


def can_be_id(kind: pa.DataType) -> bool:
    """Return whether the texts of a type's values are unambiguous."""
    types = pa.types
    return is_string(kind) or bool(
        types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_decimal(kind)
    )


def document_ids(columns: Sequence[pa.Array], delimiter: str) -> pa.Array:
    """Join the texts of some columns row by row, with null if one of them is null.

    Args:
        columns: At least one column. All of them satisfy `can_be_id`.
        delimiter: The separator between them.
    """
    first, *others = (column.cast(pa.string()) for column in columns)
    parts: list[pa.Array | str] = [first]
    for each in others:
        parts += [delimiter, each]
    return concat_texts(parts)
