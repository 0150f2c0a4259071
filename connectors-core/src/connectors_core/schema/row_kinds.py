# SPDX-License-Identifier: Apache-2.0
"""The kinds of changes of the rows of a changelog (Flink's `RowKind`)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["ROW_KIND_COLUMN", "RowKind"]

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
