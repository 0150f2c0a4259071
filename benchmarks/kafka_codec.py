# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.kafka_codec`: records decoded and encoded per CPU second, in memory.

The peer is kafka-python's own parser and builder, with our checksum, because its own checksum is in
pure Python. The result is the best of several runs, because other load only slows a run down. No
broker is involved.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import google_crc32c
import numpy as np
import pyarrow as pa
import typer
from kafka.record import default_records
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from rich.console import Console
from rich.table import Table

from connector_kafka.records import Compression, EncodedBatch, Encoder, decode

RECORDS = 20_000
NOW = 1_700_000_000_000
# The codecs that kafka-python supports without additional packages.
CODECS = (Compression.NONE, Compression.LZ4, Compression.ZSTD)


def records_of(size: int) -> pa.RecordBatch:
    """Return keys of 10 bytes, and values that compress about as well as text."""
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"k%09d" % number for number in range(RECORDS)]),
            "value": pa.array([b"%0*d" % (size, number * 7919**3) for number in range(RECORDS)]),
        }
    )


def as_kept(batches: list[EncodedBatch]) -> bytes:
    """Return the batches with the offsets that a broker would assign."""
    raw, offset = bytearray(), 0
    for batch in batches:
        raw += offset.to_bytes(8, "big") + batch.data[8:]
        offset += batch.records
    return bytes(raw)


def build_with_kafka_python(keys: list[bytes], values: list[bytes], codec: int, size: int) -> None:
    builder, offset = None, 0
    for key, value in zip(keys, values, strict=True):
        if builder is None or builder.append(offset, NOW, key, value, []) is None:
            if builder is not None:
                builder.build()
            builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, size)
            offset = 0
            builder.append(offset, NOW, key, value, [])
        offset += 1
    builder.build()


def read_with_kafka_python(raw: bytes) -> None:
    for batch in MemoryRecords(raw):
        batch.validate_crc()
        for record in batch:
            record.key, record.value, record.offset, record.timestamp  # noqa: B018


def rate(action: Callable[[], object], runs: int) -> float:
    """Return millions of records per CPU second."""
    best = float("inf")
    for _ in range(runs):
        start = time.process_time()
        action()
        best = min(best, time.process_time() - start)
    return RECORDS / best / 1e6


def main(runs: Annotated[int, typer.Option(help="Runs of each side.")] = 5) -> None:
    """Run the measurements and print the results."""
    default_records.calc_crc32c = lambda data: google_crc32c.value(bytes(data))
    table = Table(
        "", "codec", "value", "batch", "ours", "kafka-python", "ratio", title="M records/s"
    )
    partitions = np.zeros(RECORDS, np.int32)
    for codec, size, batch_size in [
        (codec, size, batch_size)
        for codec in CODECS
        for size in (100, 1_000)
        for batch_size in (16_384, 131_072)
    ]:
        records = records_of(size)
        encoder = Encoder(compression=codec, batch_size=batch_size)
        raw = as_kept(encoder.encode(records, partitions, now=NOW)[0])
        keys, values = (records.column(name).to_pylist() for name in ("key", "value"))
        pairs = {
            "decode": (
                lambda raw=raw: list(decode(raw, topic="t", partition=0, start_offset=0)),
                lambda raw=raw: read_with_kafka_python(raw),
            ),
            "encode": (
                lambda encoder=encoder, records=records: encoder.encode(
                    records, partitions, now=NOW
                ),
                lambda data=(keys, values, codec, batch_size): build_with_kafka_python(*data),
            ),
        }
        for what, (ours, peer) in pairs.items():
            mine, theirs = rate(ours, runs), rate(peer, max(runs // 2, 1))
            table.add_row(
                what,
                codec.name.lower(),
                f"{size} B",
                f"{batch_size // 1024} KiB",
                f"{mine:.2f}",
                f"{theirs:.2f}",
                f"{mine / theirs:.1f}",
            )
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
