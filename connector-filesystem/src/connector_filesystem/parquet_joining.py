# SPDX-License-Identifier: Apache-2.0
"""Joins Parquet files by their bytes, so that every value, type, and statistic stays as it is.

The pages and indexes of a file are copied, and the new footer lists the row groups of all files. A
reader that decodes and encodes rows would lose types that it does not know, such as INT96.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import pyarrow as pa

from connector_filesystem.thrift_structs import (
    I32,
    I64,
    LIST,
    STRUCT,
    TEXT,
    Struct,
    decode_struct,
    encode_struct,
)

__all__ = ["MAGIC", "ParquetFooter", "joined_footer", "read_footer", "shifted"]

MAGIC: Final = b"PAR1"
_MAGIC_END: Final = len(MAGIC)
_TAIL_BYTES: Final = 8

# The numbers of fields in parquet.thrift.
_NUM_ROWS, _ROW_GROUPS, _KEY_VALUES, _ENCRYPTION, _SIGNING_KEY = 3, 4, 5, 8, 9
_COLUMNS, _GROUP_ROWS, _GROUP_OFFSET, _ORDINAL = 1, 3, 5, 7
_OTHER_FILE, _CHUNK_OFFSET, _CHUNK, _CRYPTO, _ENCRYPTED_CHUNK = 1, 2, 3, 8, 9
_OFFSET_INDEX, _OFFSET_INDEX_SIZE, _COLUMN_INDEX = 4, 5, 6
_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE, _BLOOM_FILTER = 9, 10, 11, 14
_LOCATIONS, _PAGE_OFFSET = 1, 1
_KEY, _VALUE = 1, 2

_PANDAS: Final = b"pandas"
_GEO: Final = b"geo"
_ARROW: Final = b"ARROW:schema"


@dataclass(frozen=True)
class ParquetFooter:
    """The footer of a Parquet file.

    Attributes:
        struct: All fields.
        body_end: The position of the first byte after the pages and indexes.
    """

    struct: Struct
    body_end: int

    @property
    def rows(self) -> int:
        """The number of rows."""
        found: int = self.struct[_NUM_ROWS][1]
        return found

    @property
    def layout(self) -> bytes:
        """What files must share to be joined: all but rows, row groups, and what they describe."""
        layout = {
            number: field
            for number, field in self.struct.items()
            if number not in (_NUM_ROWS, _ROW_GROUPS, _KEY_VALUES)
        }
        pairs = [
            (key, value if value is None else _describing(key, value, 0, bounds=False))
            for key, value in _pairs(self.struct)
        ]
        return encode_struct(layout) + repr(pairs).encode()


def read_footer(source: BinaryIO, size: int) -> ParquetFooter:
    """Return the footer of a file.

    Raises:
        ValueError: The file is not one of Parquet, or cannot be joined. The text has the reason.
    """
    if size < _MAGIC_END + _TAIL_BYTES:
        raise ValueError("it is too short for a Parquet file")
    source.seek(size - _TAIL_BYTES)
    tail = source.read(_TAIL_BYTES)
    if tail[4:] != MAGIC:
        encrypted = tail[4:] == b"PARE"
        raise ValueError("its footer is encrypted" if encrypted else "it is not a Parquet file")
    length = int.from_bytes(tail[:4], "little")
    body_end = size - _TAIL_BYTES - length
    if body_end < _MAGIC_END:
        raise ValueError("its footer is damaged")
    source.seek(body_end)
    data = source.read(length)
    struct, end = decode_struct(data)
    if encode_struct(struct) != data[:end]:
        raise ValueError("its footer has an unusual encoding")
    footer = ParquetFooter(struct, body_end)
    _check(footer)
    return footer


def shifted(footer: ParquetFooter, source: BinaryIO, by: int) -> tuple[list[Struct], list[bytes]]:
    """Return row groups for pages and indexes that begin later, and their indexes of page offsets.

    Args:
        footer: The footer of a file.
        source: The file, for its indexes of page offsets.
        by: The number of bytes.

    Returns:
        The row groups, and the bytes of the index of each column chunk that has one. The position
        of an index is not yet set.
    """
    groups, indexes = [], []
    for group in _row_groups(footer.struct):
        group = _moved(group, by, _GROUP_OFFSET)
        group.pop(_ORDINAL, None)  # optional, and too small a number for many files
        chunks = []
        for chunk in group[_COLUMNS][1][1]:
            if _OFFSET_INDEX in chunk:
                indexes.append(_moved_index(source, chunk, by))
            chunk = _moved(chunk, by, _CHUNK_OFFSET, _COLUMN_INDEX)
            column = chunk[_CHUNK][1]
            moved = _moved(column, by, _DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE, _BLOOM_FILTER)
            chunks.append({**chunk, _CHUNK: (STRUCT, moved)})
        groups.append({**group, _COLUMNS: (LIST, (STRUCT, chunks))})
    return groups, indexes


def joined_footer(
    footers: Sequence[ParquetFooter], groups: Sequence[Struct], indexes: Sequence[int]
) -> bytes:
    """Return the footer of a joined file, with its length and the end of the file.

    Args:
        footers: The footers of the files, of one layout.
        groups: Their shifted row groups.
        indexes: The sizes of their indexes of page offsets and, first, the position of the first.
    """
    at, *sizes = indexes
    waiting = iter(sizes)
    for group in groups:
        for chunk in group[_COLUMNS][1][1]:
            if _OFFSET_INDEX in chunk:
                size = next(waiting)
                chunk[_OFFSET_INDEX] = I64, at
                chunk[_OFFSET_INDEX_SIZE] = I32, size
                at += size
    rows = sum(each.rows for each in footers)
    struct: Struct = dict(footers[0].struct)
    struct[_NUM_ROWS] = I64, rows
    struct[_ROW_GROUPS] = LIST, (STRUCT, list(groups))
    if _KEY_VALUES in struct:
        # Files of one layout have the same keys in the same order.
        pairs = zip(*(_pairs(each.struct) for each in footers), strict=True)
        struct[_KEY_VALUES] = LIST, (STRUCT, [_joined_pair(each, rows) for each in pairs])
    data = encode_struct(struct)
    return data + len(data).to_bytes(4, "little") + MAGIC


def _check(footer: ParquetFooter) -> None:
    struct = footer.struct
    if not {_NUM_ROWS, _ROW_GROUPS} <= struct.keys():
        raise ValueError("its footer is damaged")
    if _ENCRYPTION in struct or _SIGNING_KEY in struct:
        raise ValueError("its columns are encrypted")
    if sum(each[_GROUP_ROWS][1] for each in _row_groups(struct)) != footer.rows:
        raise ValueError("its footer is damaged: the rows of its row groups are not all its rows")
    for chunk in _chunks(struct):
        if _CRYPTO in chunk or _ENCRYPTED_CHUNK in chunk:
            raise ValueError("its columns are encrypted")
        if _OTHER_FILE in chunk:
            raise ValueError("its columns are in other files")
        if not _MAGIC_END <= chunk[_CHUNK][1][_DATA_PAGE][1] <= footer.body_end:
            raise ValueError("its footer is damaged: a column is elsewhere")


def _row_groups(struct: Struct) -> list[Struct]:
    groups: list[Struct] = struct[_ROW_GROUPS][1][1]
    return groups


def _chunks(struct: Struct) -> Iterator[Struct]:
    for group in _row_groups(struct):
        yield from group[_COLUMNS][1][1]


def _moved(struct: Struct, by: int, *offsets: int) -> Struct:
    """Return a struct with later offsets; some writers set an offset that they lack to zero."""
    moved = dict(struct)
    for number in offsets:
        if number in moved and moved[number][1] > 0:
            moved[number] = moved[number][0], moved[number][1] + by
    return moved


def _moved_index(source: BinaryIO, chunk: Struct, by: int) -> bytes:
    source.seek(chunk[_OFFSET_INDEX][1])
    index, _ = decode_struct(source.read(chunk[_OFFSET_INDEX_SIZE][1]))
    kind, (element, locations) = index[_LOCATIONS]
    moved = [_moved(each, by, _PAGE_OFFSET) for each in locations]
    return encode_struct({**index, _LOCATIONS: (kind, (element, moved))})


# --- The metadata that describes rows ---


def _pairs(struct: Struct) -> list[tuple[bytes, bytes | None]]:
    if _KEY_VALUES not in struct:
        return []
    pairs = struct[_KEY_VALUES][1][1]
    return [(each[_KEY][1], each[_VALUE][1] if _VALUE in each else None) for each in pairs]


def _joined_pair(pairs: Sequence[tuple[bytes, bytes | None]], rows: int) -> Struct:
    key, value = pairs[0]
    if value is None:
        return {_KEY: (TEXT, key)}
    joined = _describing(key, value, rows, bounds=len(set(pairs)) == 1)
    return {_KEY: (TEXT, key), _VALUE: (TEXT, joined)}


def _describing(key: bytes, value: bytes, rows: int, *, bounds: bool) -> bytes:
    """Return a value of the metadata for other rows.

    Args:
        key: Its key.
        value: The value for the rows of one file.
        rows: The number of rows, where a range of pandas ends.
        bounds: Whether the bounds and the types of geometries stay.
    """
    if key == _PANDAS:
        return _pandas_with_rows(value, rows)
    if key == _GEO:
        return value if bounds else _geo_without_bounds(value)
    if key == _ARROW:
        try:
            schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(value, validate=True)))
        except (pa.ArrowException, binascii.Error, OSError):
            return value
        metadata = schema.metadata or {}
        described = {
            each: _describing(each, metadata[each], rows, bounds=bounds) for each in metadata
        }
        if described == metadata:
            return value
        return base64.b64encode(schema.with_metadata(described).serialize().to_pybytes())
    return value


def _geo_without_bounds(value: bytes) -> bytes:
    try:
        found: Any = json.loads(value)
        for column in found["columns"].values():
            column.pop("bbox", None)
            column["geometry_types"] = []  # any
    except (ValueError, KeyError, AttributeError, TypeError):
        return value
    return json.dumps(found).encode()


def _pandas_with_rows(value: bytes, rows: int) -> bytes:
    try:
        found: Any = json.loads(value)
        ranges = [each for each in found["index_columns"] if isinstance(each, dict)]
    except (ValueError, KeyError, TypeError):
        return value
    if not ranges:
        return value
    for each in ranges:
        each.update(start=0, stop=rows, step=1)
    return json.dumps(found).encode()
