# SPDX-License-Identifier: Apache-2.0
"""The compression of record batches, compatible with Kafka's Java client.

The output is never larger than the buffer for it: a batch has no reliable output size, and a few
bytes can expand to gigabytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any, Final, Protocol

import cramjam
import lz4.frame
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connector_kafka.records.errors import MalformedError, TooLargeError

__all__ = ["Compression", "Decompressor", "compress", "decompress", "decompressor"]

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_INT32 = struct.Struct(">i")
# Three bytes of snappy expand to at most 64. A larger length is wrong in any case.
_SNAPPY_RATIO: Final = 22
# A snappy block is decompressed as a whole. Writers of blocks create far smaller ones.
_LARGEST_BLOCK: Final = 1 << 27

# Any object with the buffer protocol.
_Buffer = Any
_Bytes = npt.NDArray[np.uint8]


class Compression(IntEnum):
    """The compression of a batch's records: the low three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class Decompressor(Protocol):
    """Returns decompressed bytes piece by piece."""

    def read_into(self, buffer: _Bytes) -> int:
        """Fill a buffer with the next bytes.

        Returns:
            The number of bytes, which is less than the buffer's size only at the end.

        Raises:
            MalformedError: The data does not match the codec, or is cut off.
        """


def decompressor(data: _Buffer, compression: int) -> Decompressor:
    """Start decompressing the records of a batch. Executor.

    Args:
        data: The compressed bytes. Several frames can follow one another.
        compression: The low three bits of the batch's attributes, not 0.

    Raises:
        MalformedError: The codec is unknown.
    """
    if compression in _ARROW_CODECS:
        return _Frames(data, Compression(compression))
    if compression == Compression.SNAPPY:
        return _Snappy(data)
    raise MalformedError(f"its compression has the unknown number {compression}")


def decompress(data: _Buffer, compression: int, *, limit: int) -> _Bytes:
    """Return the decompressed bytes. Executor.

    Args:
        data: The compressed bytes.
        compression: The low three bits of the batch's attributes, not 0.
        limit: The maximum size of the output.

    Raises:
        MalformedError: The codec is unknown, or the bytes do not match it.
        TooLargeError: The output is too large.
    """
    source = decompressor(data, compression)
    buffer = np.empty(min(limit, 8 * len(data)) + 1, np.uint8)
    filled = 0
    while (filled := filled + source.read_into(buffer[filled:])) == len(buffer):
        if filled > limit:
            raise TooLargeError(f"it expands to more than the limit of {limit} bytes")
        larger = np.empty(min(limit, 2 * filled) + 1, np.uint8)
        larger[:filled] = buffer
        buffer = larger
    return buffer[:filled]


def compress(data: _Buffer, compression: Compression) -> bytes:
    """Compress the records of a batch in a form that every client and broker reads.

    Args:
        data: The records.
        compression: The codec.

    Returns:
        The compressed bytes.
    """
    return _COMPRESS[compression](data)


class _Frames:
    """gzip, lz4, and zstd, whose frames Arrow reads as a stream."""

    def __init__(self, data: _Buffer, compression: Compression) -> None:
        self._name = compression.name.lower()
        self._stream = pa.CompressedInputStream(pa.BufferReader(data), self._name)

    def read_into(self, buffer: _Bytes) -> int:
        filled = 0
        try:
            while filled < len(buffer) and (size := self._stream.readinto(buffer[filled:])):
                filled += size
        except (OSError, pa.ArrowException) as error:
            raise _not_of_codec(self._name, error) from error
        return filled


class _Snappy:
    """Blocks of snappy, each of which is decompressed as a whole."""

    def __init__(self, data: _Buffer) -> None:
        self._blocks = _snappy_blocks(memoryview(data))
        self._rest = np.empty(0, np.uint8)

    def read_into(self, buffer: _Bytes) -> int:
        filled = 0
        while filled < len(buffer):
            if not len(self._rest):
                block = next(self._blocks, None)
                if block is None:
                    break
                size = _snappy_size(block)
                if not size:
                    continue
                if size <= len(buffer) - filled:
                    filled += _snappy_into(block, buffer[filled : filled + size])
                    continue
                self._rest = np.empty(size, np.uint8)
                _snappy_into(block, self._rest)
            taken = min(len(self._rest), len(buffer) - filled)
            buffer[filled : filled + taken] = self._rest[:taken]
            self._rest = self._rest[taken:]
            filled += taken
        return filled


def _snappy_blocks(view: memoryview) -> Iterator[memoryview]:
    if bytes(view[:8]) != _XERIAL_MAGIC:
        yield view
        return
    # The framing of xerial's Java library: blocks, each after its length.
    at = len(_XERIAL_HEADER)
    if len(view) < at:
        raise MalformedError("its snappy data are cut off")
    while at < len(view):
        if len(view) - at < _INT32.size:
            raise MalformedError("its snappy data are cut off")
        (size,) = _INT32.unpack_from(view, at)
        at += _INT32.size
        if not 0 <= size <= len(view) - at:
            raise MalformedError(f"a snappy block has an impossible size of {size} bytes")
        yield view[at : at + size]
        at += size


def _snappy_size(block: memoryview) -> int:
    """Return the size that a block claims, before memory is allocated for it."""
    try:
        size = int(cramjam.snappy.decompress_raw_len(block))
    except cramjam.DecompressionError as error:
        raise _not_of_codec("snappy", error) from error
    if size > min(_SNAPPY_RATIO * len(block), _LARGEST_BLOCK):
        raise MalformedError(
            f"a snappy block of {len(block)} bytes has an impossible length of {size} bytes"
        )
    return size


def _snappy_into(block: memoryview, buffer: _Bytes) -> int:
    try:
        size = int(cramjam.snappy.decompress_raw_into(block, buffer.data))
    except cramjam.DecompressionError as error:
        raise _not_of_codec("snappy", error) from error
    if size != len(buffer):
        raise MalformedError("a snappy block has a different length than it claims")
    return size


def _not_of_codec(name: str, error: Exception) -> MalformedError:
    return MalformedError(f"its {name} data cannot be decompressed: {error}")


def _snappy_compress(data: _Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_BLOCK):
        block = cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK])
        parts += (_INT32.pack(len(block)), bytes(block))
    return b"".join(parts)


def _lz4_compress(data: _Buffer) -> bytes:
    # A broker rejects frames whose blocks depend on one another.
    return lz4.frame.compress(data, block_linked=False)  # type: ignore[no-any-return]


_ARROW_CODECS: Final = frozenset({Compression.GZIP, Compression.LZ4, Compression.ZSTD})
_COMPRESS: Final[dict[Compression, Callable[[_Buffer], bytes]]] = {
    Compression.NONE: bytes,
    Compression.GZIP: lambda data: bytes(cramjam.gzip.compress(data)),
    Compression.SNAPPY: _snappy_compress,
    Compression.LZ4: _lz4_compress,
    Compression.ZSTD: lambda data: bytes(cramjam.zstd.compress(data, 3)),
}
