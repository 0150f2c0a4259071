# SPDX-License-Identifier: Apache-2.0
"""Tests that the encoder turns Arrow columns into record batches that decode to the same rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch
from record_batches import START, rows_of

from connector_kafka.records import Encoder, halves, refused_rows
from connector_kafka.records.batches import HEADER
from connector_kafka.records.compression import Compression

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
NOW = START + 1


def records_of(rows, **types):
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "timestamp": pa.timestamp("ms", "UTC"),
        "headers": HEADERS,
    } | types
    names = [name for name in types if any(name in row for row in rows)] or ["value"]
    columns = {name: pa.array([row.get(name) for row in rows], types[name]) for name in names}
    return pa.RecordBatch.from_pydict(columns)


def encode(records, partitions=None, encoder=None, **options):
    if partitions is None:
        partitions = np.zeros(records.num_rows, np.int32)
    return (encoder or Encoder()).encode(records, partitions, now=NOW, **options)


def read(batches):
    """Assign offsets to the batches as a broker does, and return their rows."""
    raw, offset = bytearray(), 0
    for batch in batches:
        data = bytearray(batch.data)
        data[:8] = offset.to_bytes(8, "big")
        offset += batch.records
        raw += data
    rows, position = rows_of(raw)
    assert position == offset == len(rows)
    return rows


def fields_of(batch):
    names = ("base", "length", "epoch", "magic", "crc", "attributes", "last", "first_time")
    names += ("max_time", "producer", "producer_epoch", "sequence", "count")
    return dict(zip(names, HEADER.unpack_from(batch.data), strict=True))


texts = st.binary(max_size=300) | st.none()
rows_to_write = st.lists(
    st.fixed_dictionaries(
        {
            "key": texts,
            "value": texts,
            "timestamp": st.integers(0, 2**45),
            "headers": st.lists(
                st.fixed_dictionaries({"key": st.text(max_size=70), "value": texts}), max_size=4
            ),
            "partition": st.integers(0, 2),
        }
    ),
    min_size=1,
    max_size=40,
)


@given(rows_to_write, st.sampled_from(Compression), st.sampled_from([1, 500, 1 << 20]))
def test_encoded_rows_are_decoded_unchanged(rows, compression, batch_size):
    partitions = np.array([row["partition"] for row in rows], np.int32)
    encoder = Encoder(compression=compression, batch_size=batch_size)
    batches = encode(records_of(rows, timestamp=pa.int64()), partitions, encoder)
    assert set(batches) == set(partitions.tolist())
    for partition, written in batches.items():
        found = read(written)
        assert [row.pop("offset") for row in found] == list(range(len(found)))
        assert found == [{**row, "timestamp_type": 0} for row in without_partition(rows, partition)]


@given(rows_to_write.filter(lambda rows: len(rows) > 1), st.sampled_from(Compression))
def test_the_halves_of_a_batch_have_its_rows_and_its_sequence_numbers(rows, compression):
    encoder = Encoder(compression=compression, producer_id=7, producer_epoch=2, transactional=True)
    records = records_of(rows, timestamp=pa.int64())
    (whole,) = encode(records, encoder=encoder, next_sequence=lambda _: 2**31 - 1)[0]
    first, second = halves(whole)
    assert read([first, second]) == read([whole])
    heads = [fields_of(each) for each in (whole, first, second)]
    assert [each["sequence"] for each in heads] == [2**31 - 1, 2**31 - 1, len(rows) // 2 - 1]
    assert max(each["max_time"] for each in heads[1:]) == heads[0]["max_time"]
    for name in ("producer", "producer_epoch"):
        assert len({each[name] for each in heads}) == 1
    assert all(each["attributes"] & 0x10 for each in heads)


def without_partition(rows, partition):
    return [
        {name: value for name, value in row.items() if name != "partition"}
        for row in rows
        if row["partition"] == partition
    ]


@given(rows_to_write)
def test_kafka_python_reads_the_encoded_rows(rows):
    (batches,) = encode(records_of(rows, timestamp=pa.int64())).values()
    seen = []
    for batch in batches:
        parsed = DefaultRecordBatch(batch.data)
        assert parsed.validate_crc()
        seen += list(parsed)
    assert [
        (record.key, record.value, record.timestamp, list(record.headers)) for record in seen
    ] == [
        (
            row["key"],
            row["value"],
            row["timestamp"],
            [(header["key"], header["value"]) for header in row["headers"]],
        )
        for row in rows
    ]


def test_missing_columns_get_default_values():
    (batches,) = encode(records_of([{"value": b"a"}, {"value": None}])).values()
    rows = read(batches)
    assert [(row["key"], row["value"], row["headers"]) for row in rows] == [
        (None, b"a", []),
        (None, None, []),
    ]
    assert {row["timestamp"] for row in rows} == {NOW}


def test_null_timestamps_become_now_and_microseconds_are_truncated():
    rows = [{"value": b"a", "timestamp": START * 1000 + 999}, {"value": b"b", "timestamp": None}]
    (batches,) = encode(records_of(rows, timestamp=pa.timestamp("us", "UTC"))).values()
    assert [row["timestamp"] for row in read(batches)] == [START, NOW]
    assert fields_of(batches[0])["max_time"] == NOW


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary()])
def test_strings_and_large_types_are_written(kind):
    records = pa.RecordBatch.from_pydict(
        {
            "key": pa.array(["k", None], kind),
            "value": pa.array(["v", "\N{EURO SIGN}"], kind),
        }
    )
    (batches,) = encode(records).values()
    assert [(row["key"], row["value"]) for row in read(batches)] == [
        (b"k", b"v"),
        (None, b"\xe2\x82\xac"),
    ]


def test_a_slice_of_an_arrow_batch_is_written():
    rows = [
        {"value": b"%d" % n, "key": b"k", "headers": [{"key": "n", "value": b"%d" % n}] * (n % 3)}
        for n in range(10)
    ]
    (batches,) = encode(records_of(rows).slice(4, 3)).values()
    found = read(batches)
    assert [row["value"] for row in found] == [b"4", b"5", b"6"]
    assert [row["headers"] for row in found] == [row["headers"] for row in rows[4:7]]


def test_null_headers_become_an_empty_list():
    (batches,) = encode(records_of([{"value": b"a", "headers": None}])).values()
    assert [row["headers"] for row in read(batches)] == [[]]


def test_no_rows_produce_no_batch():
    assert encode(records_of([{"value": b""}]).slice(1)) == {}


def test_batches_are_limited_in_size_and_a_larger_record_gets_its_own_batch():
    rows = [{"value": bytes(size)} for size in (100, 100, 5_000, 100, 100)]
    (batches,) = encode(records_of(rows), encoder=Encoder(batch_size=1_000)).values()
    assert [batch.records for batch in batches] == [2, 1, 2]
    assert [len(batch.data) <= 1_000 + HEADER.size for batch in batches] == [True, False, True]


def test_each_batch_has_its_producer_and_sequence_number():
    encoder = Encoder(batch_size=1, producer_id=77, producer_epoch=5, transactional=True)
    partitions = np.array([4, 0, 4, 4], np.int32)
    batches = encode(
        records_of([{"value": b"%d" % n} for n in range(4)]),
        partitions,
        encoder,
        next_sequence={0: 10, 4: 2**31 - 2}.__getitem__,
    )
    fields = [fields_of(batch) for partition in (0, 4) for batch in batches[partition]]
    assert [each["sequence"] for each in fields] == [10, 2**31 - 2, 2**31 - 1, 0]
    assert {(each["producer"], each["producer_epoch"], each["attributes"]) for each in fields} == {
        (77, 5, 0x10)
    }
    assert {fields_of(batch)["sequence"] for batch in encode(records_of([{"value": b""}]))[0]} == {
        -1
    }


def test_a_batch_that_would_grow_is_not_compressed():
    noise = np.random.default_rng(1).bytes(1_000)
    for compression in Compression:
        encoder = Encoder(compression=compression)
        (batches,) = encode(records_of([{"value": noise}]), encoder=encoder).values()
        assert fields_of(batches[0])["attributes"] == 0
        (batches,) = encode(records_of([{"value": bytes(1_000)}]), encoder=encoder).values()
        assert fields_of(batches[0])["attributes"] == compression


def test_lz4_blocks_are_independent_as_brokers_require():
    encoder = Encoder(compression=Compression.LZ4)
    (batches,) = encode(records_of([{"value": bytes(200_000)}]), encoder=encoder).values()
    flags = batches[0].data[HEADER.size + 4]
    assert flags & 0x20


def test_records_that_kafka_would_reject_are_reported_by_row():
    rows = [
        {"value": b"fine", "timestamp": 0},
        {"value": bytes(2_000)},
        {"value": b"", "timestamp": -1},
        {"value": b"", "headers": [{"key": "ok", "value": b""}, {"key": None, "value": b""}]},
        {"value": b"", "headers": [{"key": "ok", "value": bytes(3_000)}]},
        {"value": None},
    ]
    records = records_of(rows, timestamp=pa.int64())
    assert refused_rows(records, max_request_size=2_000) == {
        1: "it can take 2086 bytes, more than 2000",
        2: "the timestamp -1 is before 1970",
        3: "a header has no key",
        4: "it can take 3090 bytes, more than 2000",
    }
    assert refused_rows(records_of(rows[:2]), max_request_size=2_086) == {}
