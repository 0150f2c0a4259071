# SPDX-License-Identifier: Apache-2.0
"""Converts Arrow columns to text; shared by the text formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.schema.nested_columns import rows_with

__all__ = [
    "concat_texts",
    "data_of",
    "dates_without_text",
    "is_binary",
    "is_plain",
    "is_string",
    "max_rows_of",
    "plain_texts",
    "replace_bytes",
    "text_bytes",
    "zone_sign",
]

# ISO 8601 and all readers have the years 1 to 9999. Beyond these, Arrow's cast to text does not
# fail: it returns years without a sign, or a message.
_FIRST_DAY: Final = -719_162
_LAST_DAY: Final = 2_932_896
_PER_DAY: Final = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}

# Limits the intermediate columns. Measurements show no gain from more rows at once.
_SLICE_ROWS: Final = 32_768
# An Arrow string column addresses 2 GiB. Lines are longer than their columns, and escapes are up to
# six times as long.
_SLICE_BYTES: Final = 32 * 1024 * 1024


def max_rows_of(batch: pa.RecordBatch) -> int:
    """Return how many rows of a batch may be converted at once."""
    size: int = max(1, batch.nbytes)
    return max(1, min(_SLICE_ROWS, int(batch.num_rows) * _SLICE_BYTES // size))


def is_plain(kind: pa.DataType) -> bool:
    """Return whether every text format writes values of the type as one text."""
    types = pa.types
    return bool(
        types.is_null(kind)
        or types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_date(kind)
        or types.is_time(kind)
        or types.is_timestamp(kind)
        or is_string(kind)
    )


def is_string(kind: pa.DataType) -> bool:
    """Return whether the values are texts."""
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Return whether the values are bytes."""
    types = pa.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind)
    )


def data_of(texts: pa.Array) -> pa.Buffer:
    """Return the concatenated data of a column of texts or bytes, without a copy."""
    wide = pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type)
    if not len(texts):
        return pa.py_buffer(b"")
    offsets = np.frombuffer(texts.buffers()[1], np.int64 if wide else np.int32)
    start, end = int(offsets[texts.offset]), int(offsets[texts.offset + len(texts)])
    data = texts.buffers()[2]
    return pa.py_buffer(b"") if data is None else data.slice(start, end - start)


def text_bytes(texts: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the bytes of a string column; in UTF-8, a byte below 0x80 is one character."""
    return np.frombuffer(data_of(texts), np.uint8)


def replace_bytes(texts: pa.Array, replacements: Sequence[tuple[int, str]]) -> pa.Array:
    """Replace ASCII characters, one after another; fast if the text has none of them."""
    data = text_bytes(texts)
    for code, replacement in replacements:
        if (data == code).any():
            texts = pc.replace_substring(texts, chr(code), replacement)
    return texts


def concat_texts(parts: Sequence[pa.Array | str], *, null: str | None = None) -> pa.Array:
    """Join columns and literals, row by row.

    Args:
        parts: The pieces; at least one is a column.
        null: The text of a null; None makes the whole row null.
    """
    large = any(isinstance(part, pa.Array) and part.type == pa.large_string() for part in parts)
    kind = pa.large_string() if large else pa.string()
    pieces: list[Any] = [
        pa.scalar(part, kind) if isinstance(part, str) else pc.cast(part, kind) for part in parts
    ]
    empty = pa.scalar("", kind)
    if null is None:
        return pc.binary_join_element_wise(*pieces, empty)
    return pc.binary_join_element_wise(
        *pieces, empty, null_handling="replace", null_replacement=null
    )


def dates_without_text(batch: pa.RecordBatch) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """Yield the columns with dates or times outside the years 1 to 9999, and their rows.

    A text format has no texts for these, at any depth.
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        rows = rows_with(column, _without_text)
        if rows is not None:
            yield name, rows


def _without_text(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    kind = column.type
    if pa.types.is_date32(kind):
        unit, numbers = 1, column.view(pa.int32())
    elif pa.types.is_date64(kind) or pa.types.is_timestamp(kind):
        unit = _PER_DAY["ms" if pa.types.is_date64(kind) else kind.unit]
        numbers = column.view(pa.int64())
    else:
        return None
    least, most = _FIRST_DAY * unit, (_LAST_DAY + 1) * unit - 1
    ends = pc.min_max(numbers)
    if ends["min"].as_py() is None or least <= ends["min"].as_py() <= ends["max"].as_py() <= most:
        return None
    values = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False)
    return np.asarray((values < least) | (values > most), np.bool_)


def plain_texts(
    column: pa.Array, *, nan: str = "NaN", infinity: str = "Infinity", minus: str = "-Infinity"
) -> pa.Array:
    """Return numbers, booleans, dates, times, and timestamps as texts; nulls remain null.

    Timestamps are ISO 8601 in UTC without a zone; the caller appends `zone_sign` at no extra cost.

    Args:
        column: The values.
        nan: Text of NaN.
        infinity: Text of infinity.
        minus: Text of minus infinity.
    """
    kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string())
    if pa.types.is_floating(kind):
        return _floats(column, nan, infinity, minus)
    if not pa.types.is_timestamp(kind):
        return pc.cast(column, pa.string())
    # The values are UTC. Without the zone, the cast does not look it up for each row.
    texts = pc.cast(column.view(pa.timestamp(kind.unit)), pa.string())
    return pc.replace_substring(texts, " ", "T", max_replacements=1)


def zone_sign(kind: pa.DataType) -> str:
    """Return the suffix of a timestamp's text: `Z` if its type has a time zone."""
    return "Z" if pa.types.is_timestamp(kind) and kind.tz is not None else ""


def _floats(column: pa.Array, nan: str, infinity: str, minus: str) -> pa.Array:
    # orjson writes the shortest text that reads back as the same number, and a whole one as 1.0.
    if not len(column):
        return pa.array([], pa.string())
    numbers = column.fill_null(0.0) if column.null_count else column
    values = numbers.to_numpy(zero_copy_only=False)
    if values.dtype == np.float16:
        values = values.astype(np.float32)
    listed = orjson.dumps(np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY)
    texts = pc.list_flatten(pc.split_pattern(pa.array([listed[1:-1]], pa.string()), ","))
    if not np.isfinite(values).all():
        texts = pc.if_else(pa.array(np.isnan(values)), nan, texts)
        texts = pc.if_else(pa.array(np.isposinf(values)), infinity, texts)
        texts = pc.if_else(pa.array(np.isneginf(values)), minus, texts)
    if column.null_count:
        texts = pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string()))
    return texts
