# SPDX-License-Identifier: Apache-2.0
"""The compression of record batches, as Kafka's Java client writes and reads it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import cramjam
import lz4.frame

from connector_kafka.records.errors import MalformedError

__all__ = ["Compression", "compress", "decompress"]

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_INT32 = struct.Struct(">i")

# Anything with the buffer protocol.
_Buffer = Any


class Compression(IntEnum):
    """How the records of a batch are compressed: the low three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def decompress(data: _Buffer, compression: int) -> _Buffer:
    """Return the records of a batch as they were before compression; executor.

    Args:
        data: The compressed bytes, all of them; several frames may follow one another.
        compression: The low three bits of the attributes of the batch.

    Returns:
        Something with the buffer protocol.

    Raises:
        MalformedError: The codec is unknown, or the bytes are none of its.
    """
    codec = _DECOMPRESS.get(compression)
    if codec is None:
        raise MalformedError(f"its compression has the unknown number {compression}")
    try:
        return codec(data)
    except (cramjam.DecompressionError, MemoryError, OverflowError, struct.error) as error:
        name = Compression(compression).name.lower()
        raise MalformedError(f"its {name} data cannot be decompressed: {error}") from error


def compress(data: _Buffer, compression: Compression) -> bytes:
    """Return the records of a batch compressed so that every client and broker reads them.

    Args:
        data: The records.
        compression: What to compress with.

    Returns:
        The compressed bytes.
    """
    return _COMPRESS[compression](data)


def _snappy_decompress(data: _Buffer) -> _Buffer:
    view = memoryview(data)
    if bytes(view[:8]) != _XERIAL_MAGIC:
        return cramjam.snappy.decompress_raw(view)
    # The framing of xerial's Java library: blocks, each behind its length.
    blocks = []
    at = len(_XERIAL_HEADER)
    while at < len(view):
        (size,) = _INT32.unpack_from(view, at)
        at += _INT32.size
        if not 0 <= size <= len(view) - at:
            raise MalformedError(f"a snappy block has an impossible size of {size} bytes")
        blocks.append(cramjam.snappy.decompress_raw(view[at : at + size]))
        at += size
    return b"".join(blocks)


def _snappy_compress(data: _Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_BLOCK):
        block = cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK])
        parts += (_INT32.pack(len(block)), bytes(block))
    return b"".join(parts)


def _lz4_compress(data: _Buffer) -> bytes:
    # A broker refuses frames whose blocks depend on one another.
    return lz4.frame.compress(data, block_linked=False)  # type: ignore[no-any-return]


_DECOMPRESS: dict[int, Callable[[_Buffer], _Buffer]] = {
    Compression.NONE: lambda data: data,
    Compression.GZIP: cramjam.gzip.decompress,
    Compression.SNAPPY: _snappy_decompress,
    Compression.LZ4: cramjam.lz4.decompress,
    Compression.ZSTD: cramjam.zstd.decompress,
}
_COMPRESS: dict[Compression, Callable[[_Buffer], bytes]] = {
    Compression.NONE: bytes,
    Compression.GZIP: lambda data: bytes(cramjam.gzip.compress(data)),
    Compression.SNAPPY: _snappy_compress,
    Compression.LZ4: _lz4_compress,
    Compression.ZSTD: lambda data: bytes(cramjam.zstd.compress(data, 3)),
}
