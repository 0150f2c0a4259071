# SPDX-License-Identifier: Apache-2.0
"""Tests how fetched record batches become Arrow columns."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pytest
from record_batches import START, Record, batch, marker, rows_of, rows_of_kafka_python, sealed

from connector_kafka.errors import CorruptRecordsError
from connector_kafka.records import COLUMNS, decode
from connector_kafka.records.batches import HEADER
from connector_kafka.records.compression import Compression, compress, decompress
from connector_kafka.records.errors import MalformedError

PLAIN = [Record(delta, b"key", b"value %d" % delta, START + delta) for delta in range(10)]


def offsets_of(raw, **options):
    rows, position = rows_of(raw, columns=["offset"], **options)
    return [row["offset"] for row in rows], position


def test_a_row_has_all_fields_of_its_record():
    record = Record(0, b"key", b"value", START + 5, [("a", b"1"), ("b", None), ("a", b"")])
    rows, position = rows_of(batch([record], base_offset=41), start_offset=41)
    assert position == 42
    assert rows == [
        {
            "key": b"key",
            "value": b"value",
            "offset": 41,
            "timestamp": START + 5,
            "timestamp_type": 0,
            "headers": [
                {"key": "a", "value": b"1"},
                {"key": "b", "value": None},
                {"key": "a", "value": b""},
            ],
        }
    ]


def test_the_requested_columns_have_the_declared_types():
    (part,) = decode(batch(PLAIN), topic="t", partition=0, start_offset=0, columns=["value", "key"])
    assert part.records.schema == pa.schema([COLUMNS.field("value"), COLUMNS.field("key")])
    (nothing,) = decode(b"", topic="t", partition=0, start_offset=7)
    assert (nothing.records.num_rows, nothing.next_offset) == (0, 7)
    assert nothing.records.schema.names == list(COLUMNS.names[:5])


def test_nulls_and_empty_strings_stay_distinct():
    records = [Record(0), Record(1, b"", b""), Record(2, None, b"v"), Record(3, b"k", None)]
    rows, _ = rows_of(batch(records))
    assert [(row["key"], row["value"], row["headers"]) for row in rows] == [
        (None, None, []),
        (b"", b"", []),
        (None, b"v", []),
        (b"k", None, []),
    ]


@pytest.mark.parametrize("compression", Compression)
def test_every_codec_is_read(compression):
    raw = b"".join(
        batch(PLAIN, base_offset=base, compression=compression) for base in range(0, 50, 10)
    )
    plain = b"".join(batch(PLAIN, base_offset=base) for base in range(0, 50, 10))
    assert rows_of(raw) == rows_of(plain)


def test_codecs_may_change_from_batch_to_batch():
    raw = b"".join(
        batch(PLAIN, base_offset=10 * number, compression=compression)
        for number, compression in enumerate(Compression)
    )
    assert offsets_of(raw) == (list(range(50)), 50)


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_several_compressed_frames_can_follow_one_another(compression):
    frames = compress(b"one ", compression) + compress(b"two", compression)
    assert bytes(decompress(frames, compression, limit=7)) == b"one two"
    with pytest.raises(MalformedError, match="more than the limit of 6 bytes"):
        decompress(frames, compression, limit=6)


def test_snappy_without_javas_framing_is_read():
    import cramjam

    plain = bytes(cramjam.snappy.compress_raw(b"a" * 100))
    assert bytes(decompress(plain, Compression.SNAPPY, limit=100)) == b"a" * 100


def test_the_append_time_of_the_broker_replaces_the_timestamps_of_the_records():
    rows, _ = rows_of(batch(PLAIN, log_append_time=START + 500))
    assert {(row["timestamp"], row["timestamp_type"]) for row in rows} == {(START + 500, 1)}


def test_records_before_the_start_and_from_the_stop_offset_are_skipped():
    raw = batch(PLAIN, base_offset=100) + batch(PLAIN, base_offset=110)
    assert offsets_of(raw, start_offset=104, stop_offset=113) == (list(range(104, 113)), 113)
    assert offsets_of(raw, start_offset=104, stop_offset=110) == (list(range(104, 110)), 110)


def test_a_stop_offset_that_compaction_removed_is_reached():
    raw = batch(PLAIN, base_offset=100) + batch(PLAIN, base_offset=200)
    assert offsets_of(raw, start_offset=100, stop_offset=150) == (list(range(100, 110)), 150)


def test_compacted_batches_keep_their_offsets():
    raw = batch([PLAIN[2], PLAIN[7]], base_offset=100, last_offset_delta=9)
    raw += batch(PLAIN[:1], base_offset=300)
    assert offsets_of(raw, start_offset=100) == ([102, 107, 300], 301)


def test_an_empty_batch_moves_the_position():
    raw = batch([], base_offset=100, last_offset_delta=9)
    assert offsets_of(raw, start_offset=100) == ([], 110)


def test_a_truncated_batch_is_left_for_the_next_fetch():
    whole, cut = batch(PLAIN), batch(PLAIN, base_offset=10)
    for size in range(len(cut)):
        assert offsets_of(whole + cut[:size]) == (list(range(10)), 10)


def test_a_fetch_without_a_complete_batch_is_an_error():
    with pytest.raises(CorruptRecordsError, match="no complete one in 60 bytes") as caught:
        rows_of(batch(PLAIN)[:60], start_offset=5)
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("topic", 0, 5)


def test_transaction_markers_do_not_become_rows():
    raw = batch(PLAIN[:2], producer_id=9, transactional=True)
    raw += marker(base_offset=2, producer_id=9, commit=True)
    assert offsets_of(raw) == ([0, 1], 3)
    assert offsets_of(raw, aborted=[]) == ([0, 1], 3)


def test_read_committed_skips_aborted_records():
    def part(base, producer_id):
        return batch(PLAIN[:2], base_offset=base, producer_id=producer_id, transactional=True)

    raw = b"".join(
        [
            part(0, 1),  # aborted
            part(2, 2),  # committed
            batch(PLAIN[:2], base_offset=4),  # not in a transaction
            part(6, 1),  # aborted
            marker(base_offset=8, producer_id=1, commit=False),
            part(9, 1),  # the next transaction of the same producer, committed
            marker(base_offset=11, producer_id=2, commit=True),
            marker(base_offset=12, producer_id=1, commit=True),
            part(13, 1),  # aborted again
            marker(base_offset=15, producer_id=1, commit=False),
        ]
    )
    assert offsets_of(raw, aborted=[(1, 13), (1, 0)]) == ([2, 3, 4, 5, 9, 10], 16)
    assert offsets_of(raw) == ([0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 13, 14], 16)


def test_arrow_batches_are_limited_by_rows_and_bytes():
    raw = b"".join(batch(PLAIN, base_offset=base) for base in range(0, 100, 10))
    options = {"topic": "t", "partition": 0, "start_offset": 0}
    parts = list(decode(raw, max_rows=7, **options))
    assert max(part.records.num_rows for part in parts) == 7
    assert [part.next_offset for part in parts if part.records.num_rows] == [
        part.records.column("offset")[-1].as_py() + 1 for part in parts if part.records.num_rows
    ]
    tiny = list(decode(raw, max_bytes=1, **options))
    assert [part.records.num_rows for part in tiny] == [1] * 100
    assert pa.Table.from_batches(p.records for p in parts) == pa.Table.from_batches(
        p.records for p in tiny
    )


@pytest.mark.parametrize("batches", [1, 60, 150])
@pytest.mark.parametrize("size", [0, 50, 5_000])
def test_records_are_found_in_a_single_batch_and_in_many_batches(batches, size):
    records = [Record(delta, None, bytes(size + delta)) for delta in range(20)]
    one = batch(records)
    raw = b"".join((20 * number).to_bytes(8, "big") + one[8:] for number in range(batches))
    rows, position = rows_of(raw, columns=["offset", "value"])
    assert position == len(rows) == 20 * batches
    assert all(len(row["value"]) == size + row["offset"] % 20 for row in rows)


@pytest.mark.parametrize(
    "text",
    [
        bytes(100),  # only zeros
        b"\x0c\0" * 50,  # resembles the length and attributes of records
        b"\x0c" + bytes(6),  # resembles a record within a record
        b"\x81" * 40,
        b"\x10\0\0\0\1\1\1\0\0" * 9,
    ],
)
def test_data_that_resembles_records_is_not_decoded_as_records(text):
    records = [
        Record(delta, text, text * (delta % 3), headers=[("a", text)] * (delta % 2))
        for delta in range(50)
    ]
    rows, _ = rows_of(batch(records) + batch(records, base_offset=50))
    assert [(row["key"], row["value"]) for row in rows] == [
        (record.key, record.value) for record in records
    ] * 2


def test_any_number_of_headers_is_read():
    records = [
        Record(delta, headers=[(f"{delta}-{n}", b"x" * n) for n in range(delta % 90)])
        for delta in range(200)
    ]
    rows, _ = rows_of(batch(records))
    assert [[(header["key"], header["value"]) for header in row["headers"]] for row in rows] == [
        list(record.headers) for record in records
    ]


def test_a_header_key_with_invalid_utf8_is_read_as_java_reads_it():
    raw = bytearray(batch([Record(0, headers=[("key", b"")]), Record(1, headers=[("ok", b"")])]))
    at = raw.index(b"key")
    raw[at : at + 3] = b"k\xffy"
    rows, _ = rows_of(sealed(HEADER.unpack_from(raw), bytes(raw[HEADER.size :])))
    assert [row["headers"][0]["key"] for row in rows] == ["k\N{REPLACEMENT CHARACTER}y", "ok"]


def test_rows_equal_those_of_kafka_python():
    record = Record(3, b"k" * 200, b"v" * 20_000, START - 10_000, [("h" * 100, b"x" * 300)])
    raw = batch([Record(0), record], base_offset=2**40)
    rows, _ = rows_of(raw, start_offset=2**40)
    assert rows == rows_of_kafka_python(raw)


# --- Damage -------------------------------------------------------------------------------------


def test_records_before_a_damaged_batch_are_read():
    damaged = bytearray(batch(PLAIN, base_offset=20))
    damaged[-1] ^= 1
    raw = batch(PLAIN) + batch(PLAIN, base_offset=10) + damaged
    parts = decode(raw, topic="t", partition=3, start_offset=0)
    assert next(parts).records.column("offset").to_pylist() == list(range(20))
    with pytest.raises(CorruptRecordsError, match=r"at offset 20 of t-3 .* checksum") as caught:
        next(parts)
    assert caught.value.offset == 20
    assert "UID=t:3=30" in caught.value.hint, "the broker returns a batch for each of its offsets"


def test_damage_with_a_valid_checksum_is_reported_with_its_batch():
    first, second = batch(PLAIN), batch(PLAIN, base_offset=10)
    content = bytearray(second[HEADER.size :])
    content[0] += 2  # the length of the first record
    raw = first + sealed(HEADER.unpack_from(second), bytes(content))
    with pytest.raises(CorruptRecordsError, match="at offset 10 of topic-0") as caught:
        rows_of(raw)
    assert "UID=topic:0=20" in caught.value.hint


@pytest.mark.parametrize("change", [-1, 1, 2**31 - 11, -11])
def test_a_wrong_record_count_is_refused(change):
    raw = batch(PLAIN)
    fields = list(HEADER.unpack_from(raw))
    fields[-1] += change
    with pytest.raises(CorruptRecordsError):
        rows_of(sealed(fields, raw[HEADER.size :]))


def test_offsets_that_do_not_ascend_are_refused():
    with pytest.raises(CorruptRecordsError, match="ascend"):
        rows_of(batch([PLAIN[0], PLAIN[0]], last_offset_delta=3))
    with pytest.raises(CorruptRecordsError, match="ascend"):
        rows_of(batch(PLAIN, last_offset_delta=3))
    with pytest.raises(CorruptRecordsError, match="ends at offset 9, and the next one starts at 9"):
        rows_of(batch(PLAIN) + batch(PLAIN, base_offset=9))


def test_an_unknown_codec_is_refused():
    raw = batch(PLAIN)
    fields = list(HEADER.unpack_from(raw))
    fields[5] = 6
    with pytest.raises(CorruptRecordsError, match="unknown number 6"):
        rows_of(sealed(fields, raw[HEADER.size :]))


@pytest.mark.parametrize("compression", list(Compression)[1:])
def test_truncated_compressed_data_is_refused(compression):
    raw = batch(PLAIN, compression=compression)
    fields, content = HEADER.unpack_from(raw), raw[HEADER.size :]
    for damaged in (content[:-1], content[: len(content) // 2], b"", content + b"\x07"):
        with pytest.raises(CorruptRecordsError):
            rows_of(sealed(fields, damaged))


def test_more_headers_than_bytes_are_refused():
    raw = bytearray(batch([Record(0, value=b"v")]))
    raw[-1] = 0x7E  # 63 headers
    with pytest.raises(CorruptRecordsError, match="do not fill"):
        rows_of(sealed(HEADER.unpack_from(raw), bytes(raw[HEADER.size :])))


def test_gzip_of_other_libraries_is_read():
    raw = batch(PLAIN, compression=Compression.GZIP)
    content = decompress(raw[HEADER.size :], Compression.GZIP, limit=1000)
    again = sealed(HEADER.unpack_from(raw), gzip.compress(bytes(content)))
    assert rows_of(again) == rows_of(batch(PLAIN))
