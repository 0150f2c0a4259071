# SPDX-License-Identifier: Apache-2.0
"""Decodes a highly compressed batch with little memory. The tests run this program.

`python decode_limited.py CODEC RECORDS SIZE` builds a batch of RECORDS records with SIZE zero
bytes each. It decodes the batch and prints the result and the peak memory in MiB.
"""

from __future__ import annotations

import json
import resource
import sys
import zlib
from collections.abc import Callable, Iterable

import cramjam
import lz4.frame
import pyarrow as pa
from record_batches import START, sealed

from connector_kafka.errors import CorruptRecordsError
from connector_kafka.records import decode
from connector_kafka.records.compression import Compression, compress

_PIECE = 1 << 20
# Stop a decoder that uses this much, to protect the machine.
_FAR_TOO_MUCH = 1 << 10


def number(value: int) -> bytes:
    """Encode a non-negative number as a varint."""
    value <<= 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def pieces(records: int, size: int) -> Iterable[bytes]:
    """Yield records of zeros piece by piece."""
    zeros = bytes(min(size, _PIECE))
    for delta in range(records):
        head = bytes(2) + number(delta) + b"\x01" + number(size)
        yield number(len(head) + size + 1) + head
        for _ in range(size // len(zeros) if size else 0):
            yield zeros
        yield bytes(size % len(zeros) + 1 if size else 1)


def packed(compression: Compression, parts: Iterable[bytes]) -> bytes:
    """Compress the parts without holding all of them in memory."""
    begin, add, end = _begin(compression)
    return b"".join([begin, *(add(part) for part in parts), end()])


def _begin(
    compression: Compression,
) -> tuple[bytes, Callable[[bytes], bytes], Callable[[], bytes]]:
    if compression is Compression.GZIP:
        deflate = zlib.compressobj(wbits=31)
        return b"", deflate.compress, deflate.flush
    if compression is Compression.LZ4:
        lz4_frames = lz4.frame.LZ4FrameCompressor(block_linked=False)
        return lz4_frames.begin(), lz4_frames.compress, lz4_frames.flush
    if compression is Compression.ZSTD:
        zstd = cramjam.zstd.Compressor()

        def add(part: bytes) -> bytes:
            zstd.compress(part)
            return bytes(zstd.flush())

        return b"", add, lambda: bytes(zstd.finish())
    header = compress(b"", compression)
    return header, lambda part: compress(part, compression)[len(header) :], bytes


def batch_of_zeros(compression: Compression, records: int, size: int) -> bytes:
    """Build a batch of records that compress well."""
    content = packed(compression, pieces(records, size))
    fields = [0, 0, 0, 2, 0, compression, records - 1, START, START, -1, -1, -1, records]
    return sealed(fields, content)


def mebibytes(what: str) -> int:
    """Return a memory figure of this process: `VmSize`, `VmRSS`, or its peak `VmHWM`."""
    with open("/proc/self/status") as status:
        return int(status.read().split(f"{what}:")[1].split()[0]) // 1024


def main(codec: str, records: str, size: str) -> None:
    """Decode the batch and print the result; see the module."""
    raw = batch_of_zeros(Compression[codec], int(records), int(size))
    limit = (mebibytes("VmSize") + _FAR_TOO_MUCH) << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with open("/proc/self/clear_refs", "w") as references:
        references.write("5")  # resets the peak
    before = mebibytes("VmRSS")
    rows = content = 0
    try:
        for part in decode(raw, topic="t", partition=0, start_offset=0, columns=["value"]):
            rows += part.records.num_rows
            content += sum(pa.compute.binary_length(part.records.column("value")).to_pylist())
    except CorruptRecordsError as error:
        came = {"refused": str(error)}
    else:
        came = {"rows": rows, "bytes": content}
    print(json.dumps({**came, "mebibytes": mebibytes("VmHWM") - before}))


if __name__ == "__main__":
    main(*sys.argv[1:])
