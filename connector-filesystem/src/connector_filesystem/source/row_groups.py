# SPDX-License-Identifier: Apache-2.0
"""Excludes row groups of Parquet by their statistics."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from connector_filesystem.source.calendars import LegacyCalendar
from connectors_core.source import FieldPath, Predicate, ValueRange

__all__ = ["RowGroupFilter", "leaves_in"]


class RowGroupFilter:
    """Decides which row groups of a file may have rows that satisfy conditions.

    It uses the statistics of columns whose type in the file is the wanted one, so that both order
    their values in the same way. It ignores floating-point numbers, whose statistics lack NaN.

    Args:
        filters: The conditions. A row must satisfy all of them.
        metadata: The footer of the file.
        found: The columns of the file.
        wanted: The columns that the conditions refer to.
        calendar: The calendar of the file.
    """

    def __init__(
        self,
        filters: Sequence[Predicate],
        metadata: Any,
        found: pa.Schema,
        wanted: pa.Schema,
        calendar: LegacyCalendar,
    ) -> None:
        self._filters = [
            each
            for each in filters
            if all(_comparable(path, found, wanted) for path in each.fields())
        ]
        self._metadata = metadata
        self._calendar = calendar
        self._columns: dict[int, FieldPath] = {}
        firsts = [0, *itertools.accumulate(leaves_in(each.type) for each in found)]
        if firsts[-1] == metadata.num_columns:
            names = {path[0] for each in self._filters for path in each.fields()}
            self._columns = {firsts[found.names.index(name)]: (name,) for name in names}

    def may_match(self, number: int) -> bool:
        """Return whether a row group may have such a row."""
        if not self._columns:
            return True
        group = self._metadata.row_group(number)
        ranges = {
            path: self._range(group.column(at), group.num_rows)
            for at, path in self._columns.items()
        }
        return all(each.may_match(ranges) for each in self._filters)

    def _range(self, column: Any, rows: int) -> ValueRange:
        statistics = column.statistics
        if statistics is None:
            return ValueRange()
        nulls = statistics.null_count if statistics.has_null_count else None
        low = high = None
        if statistics.has_min_max and column.physical_type != "INT96":
            try:
                low, high = statistics.min, statistics.max
            except (ValueError, OverflowError):  # such as a date after the year 9999
                low = high = None
        if self._calendar.may_shift(low):
            low = high = None
        return ValueRange(low=low, high=high, has_nulls=nulls != 0, has_values=nulls != rows)


def leaves_in(kind: pa.DataType) -> int:
    """Return the number of columns of Parquet that hold the values of a type."""
    if isinstance(kind, pa.BaseExtensionType):
        return leaves_in(kind.storage_type)
    if not kind.num_fields:
        return 1
    return sum(leaves_in(kind.field(at).type) for at in range(kind.num_fields))


def _comparable(path: FieldPath, found: pa.Schema, wanted: pa.Schema) -> bool:
    if len(path) > 1 or found.names.count(path[0]) != 1 or path[0] not in wanted.names:
        return False
    kind: pa.DataType = found.field(path[0]).type
    return bool(
        kind.equals(wanted.field(path[0]).type)
        and leaves_in(kind) == 1
        and not pa.types.is_nested(kind)
        and not pa.types.is_floating(kind)
    )
