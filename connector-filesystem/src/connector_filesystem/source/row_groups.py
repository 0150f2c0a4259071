# SPDX-License-Identifier: Apache-2.0
"""Excludes row groups of Parquet by their statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from connectors_core.source import FieldPath, Predicate, ValueRange

__all__ = ["RowGroupFilter"]


class RowGroupFilter:
    """Decides which row groups of a file may have rows that satisfy conditions.

    It uses the statistics of columns whose type in the file is the wanted one, so that both order
    their values in the same way.

    Args:
        filters: The conditions. A row must satisfy all of them.
        metadata: The footer of the file.
        found: The columns of the file.
        wanted: The columns that the conditions refer to.
    """

    def __init__(
        self, filters: Sequence[Predicate], metadata: Any, found: pa.Schema, wanted: pa.Schema
    ) -> None:
        self._filters = [
            each
            for each in filters
            if all(_comparable(path, found, wanted) for path in each.fields())
        ]
        self._metadata = metadata
        paths = {path for each in self._filters for path in each.fields()}
        texts = {".".join(path): path for path in paths}
        self._columns: dict[int, FieldPath] = {}
        if texts and metadata.num_row_groups:
            first = metadata.row_group(0)
            for at in range(first.num_columns):
                name = first.column(at).path_in_schema
                if name in texts:
                    self._columns[at] = texts[name]

    def may_match(self, number: int) -> bool:
        """Return whether a row group may have such a row."""
        if not self._columns:
            return True
        group = self._metadata.row_group(number)
        ranges = {
            path: _range(group.column(at).statistics, group.num_rows)
            for at, path in self._columns.items()
        }
        return all(each.may_match(ranges) for each in self._filters)


def _comparable(path: FieldPath, found: pa.Schema, wanted: pa.Schema) -> bool:
    if len(path) > 1 or path[0] not in found.names or path[0] not in wanted.names:
        return False
    kind: pa.DataType = found.field(path[0]).type
    return bool(kind.equals(wanted.field(path[0]).type)) and not pa.types.is_nested(kind)


def _range(statistics: Any, rows: int) -> ValueRange:
    if statistics is None:
        return ValueRange()
    nulls = statistics.null_count if statistics.has_null_count else None
    low, high = (statistics.min, statistics.max) if statistics.has_min_max else (None, None)
    return ValueRange(low=low, high=high, has_nulls=nulls != 0, has_values=nulls != rows)
