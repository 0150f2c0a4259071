# SPDX-License-Identifier: Apache-2.0
"""Joins a batch of rows with the lookup results of its keys, on columns. No I/O, any thread.

The join compares keys by their positions among the distinct keys. Null never matches, as in SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.errors import ConfigurationError, UnsupportedError

__all__ = ["JoinType", "LookupJoin", "pairs_of", "positions_among"]

JoinType = Literal["inner", "left"]
Positions = npt.NDArray[np.int64]

_OUTPUT_ROWS: Final = 16_384
_NOWHERE: Final = -1
_KEY_TYPES: Final = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_decimal,
)


@dataclass(frozen=True, kw_only=True)
class LookupJoin:
    """A join of rows with a table; created by :meth:`of`.

    Attributes:
        rows: Schema of the rows.
        table: Schema of the lookup results: the keys first.
        on: Columns of the rows to compare with the keys, in the order of the keys.
        columns: Columns of the table and their names in the result.
        how: Whether the result keeps a row without a match.
    """

    rows: pa.Schema
    table: pa.Schema
    on: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    how: JoinType

    @classmethod
    def of(
        cls,
        rows: pa.Schema,
        table: pa.Schema,
        *,
        on: Sequence[str] | Mapping[str, str],
        columns: Sequence[str] | Mapping[str, str] | None = None,
        how: JoinType = "left",
    ) -> LookupJoin:
        """Validate and complete the arguments of a join.

        Args:
            rows: Schema of the rows.
            table: Schema of the whole table.
            on: Columns that both have, or a mapping from the rows' columns to the table's.
            columns: Columns of the table to add, or a mapping from these to their names in the
                result; by default all but the keys.
            how: "left" keeps rows without a match, "inner" does not.

        Raises:
            ConfigurationError: Columns are missing, duplicate, or of different types.
            UnsupportedError: The type of a key cannot be compared.
        """
        if how not in ("left", "inner"):
            raise ConfigurationError(
                "the type of a lookup join is invalid",
                expected="left or inner",
                found=how,
                option="how",
            )
        pairs = pairs_of(on, "on")
        if not pairs:
            raise ConfigurationError("a lookup join needs at least one key", option="on")
        for name, key in pairs:
            _check_key(_field(rows, name, "the rows", "on"), _field(table, key, "the table", "on"))
        keys = [key for _, key in pairs]
        if columns is None:
            columns = [name for name in table.names if name not in keys]
        added = pairs_of(columns, "columns")
        names = [*rows.names, *(name for _, name in added)]
        if doubled := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigurationError(
                "the result of a lookup join would have duplicate column names",
                found=", ".join(doubled),
                option="columns",
                hint="select columns of the table, or rename them: columns={'name': 'other_name'}",
            )
        needed = [*keys, *(name for name, _ in added if name not in keys)]
        return cls(
            rows=rows,
            table=pa.schema([_field(table, name, "the table", "columns") for name in needed]),
            on=tuple(name for name, _ in pairs),
            columns=tuple(added),
            how=how,
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns of the table."""
        return tuple(self.table.names[: len(self.on)])

    @property
    def read(self) -> pa.Schema:
        """The columns of `table` that the external table has."""
        return pa.schema([each for each in self.table if self.origin_of(each.name) == each.name])

    def origin_of(self, name: str) -> str:
        """Return the column of the external table that a column of `table` comes from."""
        return name

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the result."""
        added = [
            pa.field(name, field.type, field.nullable or self.how == "left")
            for field, name in ((self.table.field(column), name) for column, name in self.columns)
        ]
        return pa.schema([*self.rows, *added])

    def pieces(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches whose keys are requested together."""
        yield rows

    def key_columns(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Return the columns of some rows that are compared with the keys."""
        return [rows.column(name) for name in self.on]

    def distinct_keys(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the distinct keys of some rows, without nulls."""
        keys = pa.Table.from_arrays(self.key_columns(rows), names=self.keys)
        keys = keys.drop_null()
        if len(self.on) == 1:
            distinct = [pc.unique(keys.column(0))]
        else:
            grouped = keys.group_by(list(self.keys), use_threads=False).aggregate([])
            distinct = [_one(grouped.column(name)) for name in self.keys]
        return pa.RecordBatch.from_arrays(distinct, names=list(self.keys))

    def join(
        self, rows: pa.RecordBatch, keys: pa.RecordBatch, found: pa.Table
    ) -> Iterator[pa.RecordBatch]:
        """Join rows with lookup results.

        Args:
            rows: The rows.
            keys: Their distinct keys.
            found: Rows of the table, in its schema.

        Yields:
            The joined rows in input order, one for each match. The number of rows in a batch is
            limited, however many matches there are.
        """
        asked = positions_among(self.key_columns(rows), keys.columns)
        matched = positions_among([_one(found.column(name)) for name in self.keys], keys.columns)
        order = np.argsort(matched, kind="stable")
        order = order[np.count_nonzero(matched == _NOWHERE) :]
        matches = np.bincount(matched[order], minlength=keys.num_rows + 1)
        first = np.cumsum(matches) - matches
        # A row without a match points past the end.
        asked = np.where(asked == _NOWHERE, keys.num_rows, asked)
        times = matches[asked] if self.how == "inner" else np.maximum(matches[asked], 1)
        left = np.repeat(np.arange(rows.num_rows), times)
        nth = np.arange(len(left)) - np.repeat(np.cumsum(times) - times, times)
        has_match = matches[asked[left]] > 0
        right = np.full(len(left), _NOWHERE)
        right[has_match] = order[(first[asked[left]] + nth)[has_match]]
        added = found.select([column for column, _ in self.columns])
        unchanged = len(left) == rows.num_rows and bool((times == 1).all())
        for start in range(0, len(left), _OUTPUT_ROWS):
            part = slice(start, start + _OUTPUT_ROWS)
            kept = rows.slice(start, _OUTPUT_ROWS) if unchanged else rows.take(left[part])
            fetched = added.take(pa.array(right[part], mask=right[part] == _NOWHERE))
            yield pa.RecordBatch.from_arrays(
                [*kept.columns, *map(_one, fetched.columns)], schema=self.schema
            )


def positions_among(values: Sequence[pa.Array], distinct: Sequence[pa.Array]) -> Positions:
    """Return the position of each key among distinct keys, -1 if it is missing.

    Args:
        values: Columns of the keys.
        distinct: Columns of the distinct keys, of the same types, without nulls.
    """
    if not len(distinct[0]):
        return np.full(len(values[0]), _NOWHERE)
    if len(distinct) == 1:
        return _index_in(values[0], distinct[0])
    codes = np.zeros(len(values[0]), np.int64)
    known = np.zeros(len(distinct[0]), np.int64)
    for column, among in zip(values, distinct, strict=True):
        parts = pc.unique(among)
        own = _index_in(column, parts)
        codes = np.where((codes < 0) | (own < 0), _NOWHERE, codes * len(parts) + own)
        known = known * len(parts) + _index_in(among, parts)
        # Renumber for the next column, since the product of all columns would overflow.
        smaller, known = np.unique(known, return_inverse=True)
        codes = _index_in(pa.array(codes), pa.array(smaller))
    place = np.empty(len(known), np.int64)
    place[known] = np.arange(len(known))
    return np.where(codes == _NOWHERE, _NOWHERE, place[codes])


def _index_in(values: pa.Array, among: pa.Array) -> Positions:
    found = pc.index_in(values, value_set=among).cast(pa.int64())
    positions: Positions = pc.fill_null(found, _NOWHERE).to_numpy(zero_copy_only=False)
    return positions


def pairs_of(names: Sequence[str] | Mapping[str, str], option: str) -> list[tuple[str, str]]:
    """Return names with their counterparts, which are the same for a sequence.

    Raises:
        ConfigurationError: The names are one string.
    """
    if isinstance(names, Mapping):
        return list(names.items())
    if isinstance(names, str):
        raise ConfigurationError(
            f"{option!r} of a lookup join must be a list or a mapping",
            expected=f"[{names!r}]",
            found=repr(names),
            option=option,
        )
    return [(name, name) for name in names]


def _field(schema: pa.Schema, name: str, where: str, option: str) -> pa.Field:
    if schema.names.count(name) != 1:
        raise ConfigurationError(
            f"{where} of a lookup join must have exactly one column {name!r}",
            expected=f"one of {', '.join(schema.names)}",
            found=name,
            option=option,
        )
    return schema.field(name)


def _check_key(mine: pa.Field, theirs: pa.Field) -> None:
    if not any(is_type(mine.type) for is_type in _KEY_TYPES):
        raise UnsupportedError(
            f"column {mine.name!r} cannot be the key of a lookup join",
            expected="whole numbers, decimals, booleans, texts, binaries, dates or timestamps",
            found=str(mine.type),
            option="on",
        )
    if not mine.type.equals(theirs.type):
        raise ConfigurationError(
            f"the key {mine.name!r} of a lookup join has a different type in the table",
            expected=f"{theirs.type} as column {theirs.name!r} of the table",
            found=str(mine.type),
            option="on",
            hint=f"cast column {mine.name!r} before the join",
        )


def _one(column: Any) -> pa.Array:
    """Return a column as one contiguous array."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column
