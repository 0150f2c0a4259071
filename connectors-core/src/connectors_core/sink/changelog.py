# SPDX-License-Identifier: Apache-2.0
"""Tells the rows of a changelog apart by their kind of change."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.schema.row_kinds import ROW_KIND_COLUMN, RowKind

__all__ = ["ROW_KIND_COLUMN", "is_deletion", "is_unknown_row_kind", "is_update_before"]

_KINDS: Final = pa.array([each.value for each in RowKind])


def is_update_before(kinds: pa.Array) -> pa.Array:
    """Return which rows are the previous version of an update; the next row has the same key."""
    return pc.fill_null(pc.equal(kinds, RowKind.UPDATE_BEFORE.value), False)


def is_deletion(kinds: pa.Array) -> pa.Array:
    """Return which rows are deletions."""
    return pc.fill_null(pc.equal(kinds, RowKind.DELETE.value), False)


def is_unknown_row_kind(kinds: pa.Array) -> pa.Array:
    """Return which rows have an unknown kind, or none."""
    return pc.invert(pc.is_in(kinds, value_set=_KINDS.cast(kinds.type)))
