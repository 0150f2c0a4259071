# SPDX-License-Identifier: Apache-2.0
"""Structs of Thrift's compact protocol, read and written again byte by byte.

Footers of Parquet files are such structs. A field that this code does not know keeps its value.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

__all__ = ["I32", "I64", "LIST", "STRUCT", "TEXT", "Struct", "decode_struct", "encode_struct"]

_TRUE: Final = 1
_FALSE: Final = 2
_BYTE: Final = 3
_I16: Final = 4
I32: Final = 5
I64: Final = 6
_DOUBLE: Final = 7
TEXT: Final = 8
LIST: Final = 9
_SET: Final = 10
STRUCT: Final = 12
_UUID: Final = 13

_INTEGERS: Final = frozenset({_I16, I32, I64})
_SIZES: Final = {_TRUE: 1, _FALSE: 1, _BYTE: 1, _DOUBLE: 8, _UUID: 16}
_LONG_LIST: Final = 15

Struct: TypeAlias = dict[int, tuple[int, Any]]
"""The type and the value of each field, by its number and in the order of the bytes.

A list is a pair of the type of its elements and their values. A text is bytes, and so is each value
that is not a number, a list, or a struct.
"""


def decode_struct(data: bytes, at: int = 0) -> tuple[Struct, int]:
    """Return the struct that begins at a position, and the position after it.

    Raises:
        ValueError: The bytes are no struct.
    """
    try:
        return _struct(data, at)
    except IndexError as exc:
        raise ValueError("the struct is cut off") from exc


def encode_struct(struct: Struct) -> bytes:
    """Return the bytes of a struct."""
    output = bytearray()
    _write_struct(output, struct)
    return bytes(output)


def _struct(data: bytes, at: int) -> tuple[Struct, int]:
    found: Struct = {}
    number = 0
    while header := data[at]:
        at += 1
        kind, step = header & 15, header >> 4
        if step:
            number += step
        else:
            number, at = _integer(data, at)
        if kind in (_TRUE, _FALSE):
            found[number] = kind, b""
        else:
            value, at = _value(data, at, kind)
            found[number] = kind, value
    return found, at + 1


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in _INTEGERS:
        return _integer(data, at)
    if kind == TEXT:
        size, at = _unsigned(data, at)
        return _bytes(data, at, size)
    if kind == STRUCT:
        return _struct(data, at)
    if kind in (LIST, _SET):
        count, element = data[at] >> 4, data[at] & 15
        at += 1
        if count == _LONG_LIST:
            count, at = _unsigned(data, at)
        values = []
        for _ in range(count):
            value, at = _value(data, at, element)
            values.append(value)
        return (element, values), at
    if kind in _SIZES:
        return _bytes(data, at, _SIZES[kind])
    raise ValueError(f"the type {kind} is not known")


def _bytes(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    end = at + size
    if end > len(data):
        raise ValueError("a value is cut off")
    return data[at:end], end


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := data[at]) & 128:
        value |= (byte & 127) << shift
        shift += 7
        at += 1
    return value | byte << shift, at + 1


def _integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = _unsigned(data, at)
    return value >> 1 ^ -(value & 1), at


def _write_struct(output: bytearray, struct: Struct) -> None:
    former = 0
    for number, (kind, value) in struct.items():
        step = number - former
        if 0 < step <= 15:
            output.append(step << 4 | kind)
        else:
            output.append(kind)
            _write_integer(output, number)
        former = number
        _write_value(output, kind, value)
    output.append(0)


def _write_value(output: bytearray, kind: int, value: Any) -> None:
    if kind in _INTEGERS:
        _write_integer(output, value)
    elif kind == STRUCT:
        _write_struct(output, value)
    elif kind in (LIST, _SET):
        element, values = value
        short = len(values) < _LONG_LIST
        output.append((len(values) if short else _LONG_LIST) << 4 | element)
        if not short:
            _write_unsigned(output, len(values))
        for each in values:
            _write_value(output, element, each)
    else:
        if kind == TEXT:
            _write_unsigned(output, len(value))
        output += value


def _write_unsigned(output: bytearray, value: int) -> None:
    while value > 127:
        output.append(value & 127 | 128)
        value >>= 7
    output.append(value)


def _write_integer(output: bytearray, value: int) -> None:
    _write_unsigned(output, value << 1 if value >= 0 else (-value << 1) - 1)
