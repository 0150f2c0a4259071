# SPDX-License-Identifier: Apache-2.0
"""Encodes documents in SMILE, Jackson's binary JSON, which bulk requests may have instead of JSON.

No maintained Python library writes it. This is the part of its specification (version 1.0.5) that
the documents of the benchmark need, without shared names or values. The server refuses CBOR in bulk
requests, because it has no separator.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

SEPARATOR = b"\xff"
_HEADER = b":)\n\x00"
_START, _END = b"\xfa", b"\xfb"


def document(row: Mapping[str, Any]) -> bytes:
    """Return the SMILE of a row. All names and texts are ASCII, names up to 64 characters."""
    return _HEADER + _object(row)


def _object(row: Mapping[str, Any]) -> bytes:
    parts = [_START]
    for name, value in row.items():
        parts += (bytes([0x7F + len(name)]), name.encode(), _value(value))
    parts.append(_END)
    return b"".join(parts)


def _value(value: Any) -> bytes:
    match value:
        case None:
            return b"\x21"
        case bool():
            return b"\x23" if value else b"\x22"
        case int() if -16 <= value <= 15:
            return bytes([0xC0 + _zigzag(value)])
        case int():
            return (b"\x24" if -(2**31) <= value < 2**31 else b"\x25") + _varint(_zigzag(value))
        case float():
            (bits,) = struct.unpack(">Q", struct.pack(">d", value))
            return b"\x29" + bytes(bits >> 7 * at & 0x7F for at in range(9, -1, -1))
        case str():
            return _text(value.encode("ascii"))
        case _:
            return _object(value)


def _text(data: bytes) -> bytes:
    if not data:
        return b"\x20"
    if len(data) <= 32:
        return bytes([0x3F + len(data)]) + data
    if len(data) <= 64:
        return bytes([0x60 + len(data) - 33]) + data
    return b"\xe0" + data + b"\xfc"


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _varint(value: int) -> bytes:
    """Return seven bits in each byte, but six in the last, which the highest bit marks."""
    found = [0x80 | value & 0x3F]
    value >>= 6
    while value:
        found.append(value & 0x7F)
        value >>= 7
    return bytes(reversed(found))
