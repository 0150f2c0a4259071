# SPDX-License-Identifier: Apache-2.0
"""The kinds of changes of the rows of a changelog (Flink's `RowKind`)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["ROW_KIND_COLUMN", "RowKind", "is_deletion", "is_unknown_row_kind"]

ROW_KIND_COLUMN: Final = "_row_kind"
"The column with the kind of change of a changelog row; without it, rows are inserted."


class RowKind(StrEnum):
    """The kind of change of a row."""

    INSERT = "+I"
    """A new row."""
    UPDATE_BEFORE = "-U"
    """The previous version of an updated row; the next row with the same key is the new one."""
    UPDATE_AFTER = "+U"
    """The new version of an updated row."""
    DELETE = "-D"
    """A deleted row."""


_KINDS: Final = pa.array([each.value for each in RowKind])


def is_deletion(kinds: pa.Array) -> pa.Array:
    """Return which rows are deletions: deleted rows, and previous versions of updates.

    Leave out the replaced previous versions first; see `is_replaced`.
    """
    gone = pa.array([RowKind.DELETE.value, RowKind.UPDATE_BEFORE.value], kinds.type)
    return pc.is_in(kinds, value_set=gone)


def is_unknown_row_kind(kinds: pa.Array) -> pa.Array:
    """Return which rows have an unknown kind, or none."""
    return pc.invert(pc.is_in(kinds, value_set=_KINDS.cast(kinds.type)))
