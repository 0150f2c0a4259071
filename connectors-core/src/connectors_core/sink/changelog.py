# SPDX-License-Identifier: Apache-2.0
"""Rows with a kind of change (Flink's `RowKind`): `+I`, `-U`, `+U`, `-D`."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["ROW_KIND_COLUMN", "is_deletion", "is_unknown_row_kind", "is_update_before"]

ROW_KIND_COLUMN: Final = "_row_kind"
"The column with the kind of change of a changelog row; without it, rows are inserted."

_KINDS: Final = pa.array(["+I", "-U", "+U", "-D"])


def is_update_before(kinds: pa.Array) -> pa.Array:
    """Return which rows are the previous version of an update; the next row has the same key."""
    return pc.fill_null(pc.equal(kinds, "-U"), False)


def is_deletion(kinds: pa.Array) -> pa.Array:
    """Return which rows are deletions."""
    return pc.fill_null(pc.equal(kinds, "-D"), False)


def is_unknown_row_kind(kinds: pa.Array) -> pa.Array:
    """Return which rows have an unknown kind, or none."""
    return pc.invert(pc.is_in(kinds, value_set=_KINDS.cast(kinds.type)))
