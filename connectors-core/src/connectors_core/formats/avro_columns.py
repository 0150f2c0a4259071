# SPDX-License-Identifier: Apache-2.0
"""Decodes Avro records of plain fields into columns, without a Python object for each record.

A plain field is a number, a text, a moment, or a record of plain fields. It reads one field of all
records at a time. It gives up on everything unusual: damaged records, lists, values outside of
their type's range. Avro's library then reads the same records, and finds the bad ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["decoded_columns", "same_header"]

_Bytes: TypeAlias = npt.NDArray[np.uint8]
_Longs: TypeAlias = npt.NDArray[np.int64]
_Mask: TypeAlias = npt.NDArray[np.bool_]

_PADDING: Final = 16  # no read starts after the end of a record, and none is longer
_MOST_BYTES_OF_LONG: Final = 10
_DAY_MILLIS: Final = 86_400_000
_MICROS: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)  # the range of datetime
_DAYS: Final = (-719_162, 2_932_896)
# By logical type: the type of the column, and the lowest and highest value that the library reads.
_LOGICAL: Final[Mapping[str, tuple[pa.DataType, int, int]]] = {
    "date": (pa.date32(), *_DAYS),
    "time-millis": (pa.time32("ms"), 0, _DAY_MILLIS - 1),
    "time-micros": (pa.time64("us"), 0, _DAY_MILLIS * 1000 - 1),
    "timestamp-millis": (pa.timestamp("ms", "UTC"), *(each // 1000 for each in _MICROS)),
    "timestamp-micros": (pa.timestamp("us", "UTC"), *_MICROS),
    "local-timestamp-millis": (pa.timestamp("ms"), *(each // 1000 for each in _MICROS)),
    "local-timestamp-micros": (pa.timestamp("us"), *_MICROS),
}
_FLOATS: Final[Mapping[str, np.dtype[Any]]] = {"float": np.dtype("<f4"), "double": np.dtype("<f8")}
_TEXTS: Final = {"string": pa.string(), "bytes": pa.binary()}
_CHECKED: Final = pa.null()  # the wanted type of a field that is only read to be checked


class _UnusualError(Exception):
    """The records are not what this module decodes."""


def same_header(messages: pa.BinaryArray, size: int) -> bytes | None:
    """Return the first bytes of all messages; None if they differ or a message is shorter.

    Args:
        messages: At least one message, none of them null.
        size: The number of bytes.
    """
    data, starts, ends = _bytes_of(messages)
    if not size:
        return b""
    if (ends - starts < size).any():
        return None
    heads = data[starts[:, None] + np.arange(size)]
    return heads[0].tobytes() if (heads == heads[0]).all() else None


def decoded_columns(
    messages: pa.BinaryArray, written: Any, schema: pa.Schema, *, skip: int, narrow: bool
) -> pa.RecordBatch | None:
    """Decode records that have all been written with one schema.

    Args:
        messages: At least one record, none of them null.
        written: Their schema, as from `parsed_schema`.
        schema: The wanted columns. A column that is no field of the records is null.
        skip: The number of bytes before each record.
        narrow: Whether the values of other fields are not even checked.

    Returns:
        The columns; None if Avro's library must read these records.
    """
    try:
        return _decoded(messages, written, schema, skip, narrow)
    except (_UnusualError, pa.ArrowException):
        return None


def _decoded(
    messages: pa.BinaryArray, written: Any, schema: pa.Schema, skip: int, narrow: bool
) -> pa.RecordBatch:
    data, starts, ends = _bytes_of(messages)
    padded = np.concatenate([data, np.zeros(_PADDING, np.uint8)])
    named = written.get("__named_schemas", {})
    records = _Records(padded, starts + skip, ends, named, narrow=narrow)
    found = records.read_fields(written, np.arange(len(messages)), schema)
    if (records.at != ends).any():
        raise _UnusualError
    for column in found.values():
        column.validate(full=True)  # the texts are valid UTF-8
    return pa.RecordBatch.from_arrays(
        [_converted(found.get(each.name), each, len(messages)) for each in schema], schema=schema
    )


def _converted(column: pa.Array | None, field: pa.Field, rows: int) -> pa.Array:
    if column is None:
        column = pa.nulls(rows, field.type)
    if column.null_count and not field.nullable:
        raise _UnusualError
    if pa.types.is_struct(column.type) and pa.types.is_struct(field.type):
        found = dict(zip((each.name for each in column.type), column.flatten(), strict=True))
        return pa.StructArray.from_arrays(
            [_converted(found.get(each.name), each, rows) for each in field.type],
            fields=list(field.type),
            mask=column.is_null(),
        )
    if column.type != field.type and not _is_wider(column.type, field.type):
        raise _UnusualError
    return column.cast(field.type)


def _is_wider(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a checked cast has the result of the conversion from objects of Python."""
    types = pa.types
    if types.is_timestamp(kind) and types.is_timestamp(wanted):
        return bool(wanted.unit in ("ms", "us", "ns") and (kind.tz is None) == (wanted.tz is None))
    return bool(
        (types.is_integer(kind) and types.is_integer(wanted))
        or (types.is_float32(kind) and types.is_float64(wanted))
        or (types.is_string(kind) and types.is_large_string(wanted))
        or (types.is_binary(kind) and types.is_large_binary(wanted))
        or (types.is_time(kind) and wanted == pa.time64("us"))
    )


def _bytes_of(messages: pa.BinaryArray) -> tuple[_Bytes, _Longs, _Longs]:
    """Return the bytes of all messages, without a copy, and where each is."""
    _, offsets, data = messages.buffers()
    bounds = np.frombuffer(offsets, np.int32)[messages.offset : messages.offset + len(messages) + 1]
    bounds = bounds.astype(np.int64)
    used = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]]
    bounds = bounds - bounds[0]
    return used, bounds[:-1], bounds[1:]


class _Records:
    """The bytes of records, and the position in each.

    Attributes:
        at: The position of the next field of each record.
    """

    def __init__(
        self, data: _Bytes, at: _Longs, ends: _Longs, named: Mapping[str, Any], *, narrow: bool
    ) -> None:
        self._data = data
        self._ends = ends
        self._named = named
        self._narrow = narrow
        self.at = at
        self._check(slice(None))

    def read_fields(
        self, record: Any, rows: _Longs, wanted: Iterable[pa.Field]
    ) -> dict[str, pa.Array]:
        """Read all fields of some records; return the values of those that are kept.

        Args:
            record: The schema of the records.
            rows: The numbers of the records.
            wanted: The wanted fields. Others are only kept to be checked.
        """
        kinds = {each.name: each.type for each in wanted}
        found = {}
        for field in record["fields"]:
            name = field["name"]
            kind = kinds.get(name, None if self._narrow else _CHECKED)
            column = self._read(field["type"], rows, kind)
            if kind is not None:
                found[name] = column
        return found

    def _read(self, kind: Any, rows: _Longs, wanted: pa.DataType | None) -> pa.Array | None:
        """Read the next field of some records; return its values if they are wanted."""
        if isinstance(kind, list):
            kind, null = self._branch(kind, rows)
            values = self._read(kind, rows[~null], wanted)
            return None if wanted is None else _spread(values, null)
        if isinstance(kind, str):
            kind = self._named.get(kind, kind)
        name = kind["type"] if isinstance(kind, dict) else kind
        logical = kind.get("logicalType") if isinstance(kind, dict) else None
        kept = wanted is not None
        if name in ("int", "long") and (logical is None or logical in _LOGICAL):
            longs = self._longs(rows)
            return _of_longs(longs, logical) if kept else None
        if logical is not None:
            raise _UnusualError
        if name in _FLOATS:
            return pa.array(self._fixed(rows, _FLOATS[name]))
        if name == "boolean":
            values = self._fixed(rows, np.dtype(np.uint8))
            if (values > 1).any():
                raise _UnusualError
            return pa.array(values.astype(np.bool_))
        if name in _TEXTS:
            return self._texts(rows, _TEXTS[name], kept)
        if name == "record":
            fields = wanted if wanted is not None and pa.types.is_struct(wanted) else ()
            found = self.read_fields(kind, rows, fields)
            return _struct(found, len(rows)) if kept else None
        raise _UnusualError

    def _branch(self, kinds: Sequence[Any], rows: _Longs) -> tuple[Any, _Mask]:
        """Return the type that is not null, and which records are null."""
        if len(kinds) != 2 or kinds.count("null") != 1:
            raise _UnusualError
        null_at = kinds.index("null")
        chosen = self._longs(rows)
        if ((chosen != 0) & (chosen != 1)).any():
            raise _UnusualError
        return kinds[1 - null_at], chosen == null_at

    def _longs(self, rows: _Longs) -> _Longs:
        """Read a number of variable length, 7 bits in each byte."""
        at = self.at[rows]
        values = np.zeros(len(rows), np.uint64)
        open_ = np.arange(len(rows))
        for count in range(_MOST_BYTES_OF_LONG):
            byte = self._data[at[open_]].astype(np.uint64)
            if count == _MOST_BYTES_OF_LONG - 1 and (byte > 1).any():
                raise _UnusualError
            values[open_] |= (byte & np.uint64(0x7F)) << np.uint64(7 * count)
            at[open_] += 1
            open_ = open_[byte >= 0x80]
            if not len(open_):
                break
        self.at[rows] = at
        self._check(rows)
        # Zigzag: 0, -1, 1, -2, ... are 0, 1, 2, 3, ...
        decoded: _Longs = ((values >> np.uint64(1)) ^ -(values & np.uint64(1))).view(np.int64)
        return decoded

    def _fixed(self, rows: _Longs, kind: np.dtype[Any]) -> npt.NDArray[Any]:
        size = kind.itemsize
        found = self._data[self.at[rows][:, None] + np.arange(size)]
        self.at[rows] += size
        self._check(rows)
        return np.ascontiguousarray(found).view(kind).reshape(len(rows))

    def _texts(self, rows: _Longs, kind: pa.DataType, kept: bool) -> pa.Array | None:
        lengths = self._longs(rows)
        starts = self.at[rows]
        if ((lengths < 0) | (lengths > len(self._data))).any():
            raise _UnusualError
        self.at[rows] = starts + lengths
        self._check(rows)
        if not kept:
            return None
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        buffers = [pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(self._data[places])]
        return pa.Array.from_buffers(kind, len(lengths), [None, *buffers])

    def _check(self, rows: _Longs | slice) -> None:
        """Raise an error if a field continues after the end of its record."""
        if (self.at[rows] > self._ends[rows]).any():
            raise _UnusualError


def _of_longs(values: _Longs, logical: str | None) -> pa.Array:
    if logical is None:
        return pa.array(values)
    kind, low, high = _LOGICAL[logical]
    if len(values) and (values.min() < low or values.max() > high):
        raise _UnusualError
    return pa.array(values.astype(np.int32 if kind.bit_width == 32 else np.int64)).view(kind)


def _struct(columns: Mapping[str, pa.Array], rows: int) -> pa.StructArray:
    kind = pa.struct([(name, column.type) for name, column in columns.items()])
    return pa.Array.from_buffers(kind, rows, [None], children=[*columns.values()])


def _spread(values: pa.Array, null: _Mask) -> pa.Array:
    """Return the values with nulls between them."""
    if not null.any():
        return values
    return values.take(pa.array(np.cumsum(~null) - 1, mask=null))
