# SPDX-License-Identifier: Apache-2.0
"""Decimals in texts: numbers that only a decimal can represent, and numbers that none can.

Whole numbers of more than 64 bits are decimals; Arrow would infer doubles, which change them. Other
texts crash Arrow (at least up to version 26): it looks up the power of ten of an exponent without a
range check, so 1e-999 becomes an arbitrary number, and 1e-999999999 kills the process. No decimal
has so many places, so such a text is bad. A cheap search in the bytes finds candidates; only then
are the values checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.formats.text.texts import data_of
from connectors_core.schema.misfits import MisfitError

__all__ = [
    "LONG_DECIMAL",
    "are_whole",
    "check_decimal_texts",
    "check_digits",
    "check_json_decimals",
    "decimals_from_bytes",
    "decimals_in",
    "may_be_long",
    "may_be_tiny",
]

_DECIMAL_BYTES: Final = 16
LONG_DECIMAL: Final = pa.decimal128(38, 0)
"""The inferred type of whole numbers of more than 64 bits."""
_LONG_BYTES: Final = re.compile(rb"[0-9]{19}")
_WHOLE: Final = r"^[+-]?0*[0-9]{1,38}$"

_TINY: Final = r"[eE]-0*[1-9][0-9][0-9]"
_TINY_BYTES: Final = re.compile(_TINY.encode())
# A JSON string may contain each character as such an escape.
_ESCAPED: Final = re.compile(rb"\\u00(?:3[0-9]|[46]5|2[dD])")
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DIGITS: Final = frozenset(b"+-.0123456789")
_BEFORE_NUMBER: Final = frozenset(b' \t\r\n:,["')


def may_be_long(data: bytes | pa.Buffer) -> bool:
    """Return whether a text may contain a whole number of more than 64 bits."""
    return _LONG_BYTES.search(data) is not None


def are_whole(texts: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether every non-null text is a whole number that fits `LONG_DECIMAL`."""
    return bool(pc.all(pc.match_substring_regex(texts, _WHOLE), min_count=1).as_py())


def decimals_in(fields: Iterable[pa.Field]) -> Iterator[pa.Field]:
    """Return the fields that contain decimals, at any depth."""
    for field in fields:
        kind = field.type
        while pa.types.is_list(kind) or pa.types.is_large_list(kind):
            kind = kind.value_type
        inside = list(kind) if pa.types.is_struct(kind) else []
        if pa.types.is_decimal(kind) or next(decimals_in(inside), None) is not None:
            yield field


def decimals_from_bytes(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the decimals whose unscaled values are big-endian bytes, as in Avro and Debezium.

    Args:
        column: A column of binary.
        kind: The decimal type, of at most 38 digits, with the scale of the values.

    Raises:
        pa.ArrowInvalid: A value is empty or has too many digits.
    """
    lengths = pc.fill_null(pc.binary_length(column), 1).to_numpy(zero_copy_only=False)
    if ((lengths < 1) | (lengths > _DECIMAL_BYTES)).any():
        raise MisfitError(f"the bytes are no number of {kind}")
    data = np.frombuffer(data_of(pc.fill_null(column, b"\0")), np.uint8)
    starts = np.cumsum(lengths) - lengths
    is_negative = data[starts] >= 0x80
    wide = np.where(is_negative[:, None], np.uint8(0xFF), np.uint8(0)).repeat(_DECIMAL_BYTES, 1)
    row = np.repeat(np.arange(len(column)), lengths)
    wide[row, np.arange(len(data)) - np.repeat(starts + lengths, lengths) + _DECIMAL_BYTES] = data
    buffers = [None, pa.py_buffer(np.ascontiguousarray(wide[:, ::-1]))]
    decimals = pa.Array.from_buffers(kind, len(column), buffers)
    try:
        decimals.validate(full=True)
    except pa.ArrowInvalid as error:  # its text contains the value
        raise MisfitError(f"a number has too many digits for {kind}") from error
    return pc.if_else(column.is_valid(), decimals, None)


def may_be_tiny(data: bytes | pa.Buffer) -> bool:
    """Return whether a text may contain a number with too many places."""
    return _TINY_BYTES.search(data) is not None


def check_decimal_texts(texts: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> None:
    """Refuse a text that Arrow must not convert to a decimal.

    Args:
        texts: A column of strings.
        kind: The target type.

    Raises:
        pa.ArrowInvalid: There is such a text.
    """
    if pc.any(pc.match_substring_regex(texts, _TINY)).as_py():
        raise _too_tiny(kind)


def check_digits(table: pa.Table, schema: pa.Schema) -> None:
    """Refuse decimals with more digits than their type, which Arrow's parsers accept.

    Args:
        table: The parsed table.
        schema: Its columns.

    Raises:
        pa.ArrowInvalid: There is such a decimal.
    """
    for field in decimals_in(schema):
        if field.name not in table.column_names:
            continue
        try:
            table.column(field.name).validate(full=True)
        except pa.ArrowInvalid as error:  # its text contains the value
            raise MisfitError(
                f"column {field.name}: a number has too many digits for its decimal"
            ) from error


def check_json_decimals(data: bytes | pa.Buffer, schema: pa.Schema) -> None:
    """Refuse JSON objects with a number that Arrow must not convert to a decimal.

    Args:
        data: Consecutive objects.
        schema: The fields to read.

    Raises:
        pa.ArrowInvalid: There is such a number, or a candidate is not in valid JSON.
    """
    fields = list(decimals_in(schema))
    if not fields or not _may_be_tiny_number(data):
        return
    try:
        text = memoryview(data).tobytes().decode()
        for value in _values(text):
            _check_object(value, fields)
    except (ValueError, RecursionError) as error:
        raise MisfitError("JSON parse error: not JSON") from error


def _may_be_tiny_number(data: bytes | pa.Buffer) -> bool:
    """Return whether a candidate may be a value; `4e-123` also occurs in the middle of a UUID."""
    view = memoryview(data)
    for found in _TINY_BYTES.finditer(data):
        at = found.start()
        while at and view[at - 1] in _DIGITS:
            at -= 1
        if at and view[at - 1] in _BEFORE_NUMBER:
            return True
    return _ESCAPED.search(data) is not None


def _values(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder(parse_float=str)
    at = _behind_space(text, 0)
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        yield value
        at = _behind_space(text, at)


def _behind_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None  # it also matches nothing
    return found.end()


def _check_object(value: Any, fields: Iterable[pa.Field]) -> None:
    if isinstance(value, dict):
        for field in fields:
            _check_value(value.get(field.name), field.type)


def _check_value(value: Any, kind: pa.DataType) -> None:
    if isinstance(value, list):
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            for each in value:
                _check_value(each, kind.value_type)
    elif pa.types.is_struct(kind):
        _check_object(value, kind)
    elif pa.types.is_decimal(kind) and isinstance(value, str) and re.search(_TINY, value):
        raise _too_tiny(kind)


def _too_tiny(kind: pa.DataType) -> pa.ArrowInvalid:
    return MisfitError(f"conversion to {kind} failed: the number has too many decimal places")
