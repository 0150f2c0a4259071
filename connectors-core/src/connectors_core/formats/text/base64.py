# SPDX-License-Identifier: Apache-2.0
"""Base64 of whole columns, because Arrow has no kernel for it."""

from __future__ import annotations

import binascii
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.formats.text.texts import data_of
from connectors_core.schema.misfits import MisfitError

__all__ = ["base64_bytes", "base64_texts"]

_PAD: Final = ord("=")
_ZERO: Final = ord("A")
_NOT_BASE64: Final = "a value is not base64"


def base64_texts(column: pa.Array) -> pa.Array:
    """Return a column of bytes as base64 texts; nulls remain null.

    It pads all values to multiples of three bytes, so that one call encodes them all.
    """
    values = pc.fill_null(pc.cast(column, pa.large_binary()), b"")
    missing = -pc.binary_length(values).to_numpy() % 3
    fillings = pa.array([b"", b"\0", b"\0\0"], pa.large_binary()).take(pa.array(missing))
    filled = pc.binary_join_element_wise(values, fillings, pa.scalar(b"", pa.large_binary()))
    ends = np.cumsum(pc.binary_length(filled).to_numpy()) // 3 * 4
    data = bytearray(binascii.b2a_base64(data_of(filled), newline=False))
    texts = np.frombuffer(data, np.uint8)
    texts[ends[missing > 0] - 1] = _PAD
    texts[ends[missing > 1] - 2] = _PAD
    offsets = np.concatenate(([0], ends)).astype(np.int64)
    encoded = pa.Array.from_buffers(
        pa.large_string(), len(column), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    return pc.if_else(column.is_valid(), encoded, pa.scalar(None, pa.large_string()))


def base64_bytes(texts: pa.Array) -> pa.Array:
    """Decode a column of base64 texts; nulls remain null.

    Raises:
        pa.ArrowInvalid: A text is not base64.
    """
    valid = texts.is_valid()
    texts = pc.fill_null(pc.cast(texts, pa.large_string()), "")
    lengths = pc.binary_length(texts).to_numpy()
    ends = np.cumsum(lengths)
    data = np.frombuffer(data_of(texts), np.uint8).copy()
    if (lengths % 4).any():
        raise MisfitError(_NOT_BASE64)
    pads = np.zeros(len(texts), np.int64)
    filled = np.flatnonzero(lengths)
    pads[filled] = data[ends[filled] - 1] == _PAD
    pads[filled] += (pads[filled] == 1) & (data[ends[filled] - 2] == _PAD)
    padding = data == _PAD
    if np.count_nonzero(padding) != pads.sum():
        raise MisfitError(_NOT_BASE64)
    data[padding] = _ZERO
    try:
        decoded = binascii.a2b_base64(data.tobytes(), strict_mode=True)
    except binascii.Error as exc:
        raise MisfitError(_NOT_BASE64) from exc
    # Each value and the padding after it; only the values are taken.
    offsets = np.zeros(2 * len(texts) + 1, np.int64)
    offsets[2::2] = ends // 4 * 3
    offsets[1::2] = offsets[2::2] - pads
    pieces = pa.Array.from_buffers(
        pa.large_binary(), 2 * len(texts), [None, pa.py_buffer(offsets), pa.py_buffer(decoded)]
    )
    taken = np.arange(0, 2 * len(texts), 2)
    return pieces.take(pa.array(taken, mask=~valid.to_numpy(zero_copy_only=False)))
