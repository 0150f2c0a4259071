# SPDX-License-Identifier: Apache-2.0
"""Tests that memory usage does not depend on the decompressed size of a batch."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_batches import Record, batch, rows_of, sealed
from record_reference import RefusedError, reference_rows

from connector_kafka.errors import CorruptRecordsError
from connector_kafka.records import decoder, sections, varints
from connector_kafka.records.batches import HEADER
from connector_kafka.records.compression import Compression, compress

CODECS = list(Compression)[1:]
PROGRAM = Path(__file__).parents[1] / "decode_limited.py"
MIB = 1 << 20
PLAIN = [Record(delta, b"key", b"value %d" % delta) for delta in range(10)]


def decoded(codec: Compression, records: int, size: int) -> dict[str, Any]:
    """Decode a batch in another process, and return the result and the memory that it used."""
    done = subprocess.run(
        [sys.executable, PROGRAM, codec.name, str(records), str(size)],
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("codec", "size"),
    [
        *((codec, 384 * MIB) for codec in CODECS),
        *(pytest.param(codec, 3 << 30, marks=pytest.mark.slow) for codec in CODECS),
    ],
)
def test_a_batch_that_expands_to_more_than_the_memory_limit_is_read_in_pieces(codec, size):
    count = size // 100_000
    found = decoded(codec, count, 100_000)
    assert (found["rows"], found["bytes"]) == (count, count * 100_000)
    assert found["mebibytes"] < 256


def test_the_many_small_records_of_a_batch_are_located_in_sections():
    fields = list(HEADER.unpack_from(batch(PLAIN)))
    # Each offset within the batch takes three bytes, so that all records have the same size.
    deltas = np.arange(1 << 13, 1 << 20)
    sizes = varints.write(deltas).sizes
    assert set(sizes) == {3}
    records = np.tile(np.frombuffer(b"\x10\0\0...\x01\x01\0", np.uint8), (len(deltas), 1))
    records[:, 3:6] = varints.write(deltas).bytes
    fields[5:7], fields[-1] = (Compression.ZSTD, int(deltas[-1])), len(deltas)
    raw = sealed(fields, compress(records.tobytes(), Compression.ZSTD))
    with patch.object(decoder, "locate", wraps=decoder.locate) as locate:
        rows = sum(
            part.records.num_rows
            for part in decoder.decode(raw, topic="t", partition=0, start_offset=0)
        )
    assert rows == len(deltas)
    assert max(call.args[1][0].record_count for call in locate.mock_calls) <= 1 << 17


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_above_the_size_limit_is_refused(codec):
    found = decoded(codec, 1, 200 * MIB)
    assert "the record batch at offset 0 of t-0 cannot be read" in found["refused"]
    assert "more than the limit of 134217728" in found["refused"]
    assert "source.max-record-size" in found["refused"]
    assert found["mebibytes"] < 256


def test_a_false_snappy_length_is_refused():
    fields = list(HEADER.unpack_from(batch(PLAIN)))
    fields[5] = Compression.SNAPPY
    for block in (
        b"\xff\xff\xff\xff\x0f",  # 4 GiB
        b"\xff\xff\xff\x7f\x00",  # 256 MiB
        b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x64\x00a",  # more than three bytes can expand to
        b"\x05\x00a",  # more than these bytes expand to
    ):
        for content in (block, b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(block)) + block):
            with pytest.raises(CorruptRecordsError, match=r"at offset 0 of topic-0 .*snappy"):
                rows_of(sealed(fields, content))


def test_a_batch_with_too_many_headers_is_split_and_a_record_with_too_many_is_refused():
    headers = [("", None)] * 7
    rows, _ = rows_of(batch([Record(delta, headers=headers) for delta in range(10)]))
    with patch.object(decoder, "_MAX_HEADERS", 15):
        cut, _ = rows_of(batch([Record(delta, headers=headers) for delta in range(10)]))
    assert cut == rows
    with patch.object(decoder, "_MAX_HEADERS", 6), pytest.raises(CorruptRecordsError, match="head"):
        rows_of(batch([Record(0, headers=headers)]))


records_of_any_size = st.lists(st.integers(0, 3000), min_size=1, max_size=12).map(
    lambda sizes: [
        Record(delta, b"%d" % delta, bytes([delta]) * size) for delta, size in enumerate(sizes)
    ]
)


@given(
    st.lists(st.tuples(records_of_any_size, st.sampled_from(Compression)), min_size=1, max_size=4),
    st.integers(1, 5000),
    st.sampled_from([1, 2, 1 << 17]),
    st.integers(0, 50),
)
def test_the_buffer_size_does_not_change_the_rows(batches, max_bytes, most, start):
    raw, whole = b"", []
    for records, codec in batches:
        base = len(whole)
        raw += batch(records, base_offset=base, compression=codec)
        whole += [(base + each.delta, each.value) for each in records]
    start = min(start, len(batches[0][0]) - 1)
    with patch.object(sections, "MAX_RECORDS", most), patch.object(decoder, "MAX_RECORDS", most):
        rows, position = rows_of(raw, start_offset=start, max_bytes=max_bytes)
    assert [(row["offset"], row["value"]) for row in rows] == whole[start:]
    assert position == len(whole)


@given(
    records_of_any_size,
    st.sampled_from(Compression),
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), max_size=3),
    st.integers(1, 5000),
    st.sampled_from([1, 2]),
)
def test_damaged_records_are_refused_regardless_of_the_buffer_size(
    records, codec, changes, max_bytes, most
):
    plain = batch(records)
    fields, content = list(HEADER.unpack_from(plain)), bytearray(plain[HEADER.size :])
    for at, byte in changes:
        content[at % len(content)] = byte
    try:
        expected = reference_rows(sealed(fields, bytes(content)), [])
    except RefusedError:
        expected = None
    fields[5] = codec
    with patch.object(sections, "MAX_RECORDS", most), patch.object(decoder, "MAX_RECORDS", most):
        try:
            found = rows_of(sealed(fields, compress(bytes(content), codec)), max_bytes=max_bytes)[0]
        except CorruptRecordsError:
            found = None
    assert found == expected
