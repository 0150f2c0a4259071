# SPDX-License-Identifier: Apache-2.0
"""Tests that files of all formats are read completely, in batches, and damage is reported."""

from __future__ import annotations

import gzip
import json
import logging
import os
import pickle
import random
from datetime import UTC, date, datetime
from decimal import Decimal

import fsspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import zstandard
from reading_files import Context, chunks_of, poll_all, rows_of, splits_of

from connector_filesystem import CsvOptions, FileSource, JsonOptions, SchemaChangedError
from connector_filesystem.formats import detect_format
from connector_filesystem.sink.json_lines import encode_json_lines
from connector_filesystem.source.reader import read_split
from connector_filesystem.source.text import ByteStream
from connectors_core.errors import (
    BadRecordError,
    ConfigurationError,
    DataLossError,
    FatalError,
    SplitChangedError,
)
from connectors_core.records import RecordPolicy

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("ok", pa.bool_()),
        ("x", pa.float64()),
    ]
)


def table(rows: int, seed: int = 7) -> pa.Table:
    rng = random.Random(seed)
    texts = ["", "plain", "with, comma", 'with "quotes"', "Grüße ✓", None]
    return pa.Table.from_pylist(
        [
            {
                "id": number,
                "name": rng.choice(texts),
                "price": rng.choice([None, Decimal("1.50"), Decimal("-0.01")]),
                "day": rng.choice([None, date(2013, 1, 31)]),
                "at": datetime(2013, 1, 1, 5, number % 60, tzinfo=UTC),
                "ok": rng.choice([True, False, None]),
                "x": rng.random(),
            }
            for number in range(rows)
        ],
        schema=SCHEMA,
    )


def encode(data: pa.Table, format: str) -> bytes:
    sink = pa.BufferOutputStream()
    if format == "csv":
        pyarrow.csv.write_csv(data, sink)
    elif format == "parquet":
        pq.write_table(data, sink, row_group_size=100)
    else:
        lines = [
            json.dumps({k: v for k, v in row.items() if v is not None}, default=str)
            for row in data.to_pylist()
        ]
        sink.write("".join(line + "\n" for line in lines).encode())
    return sink.getvalue().to_pybytes()


def squeeze(data: bytes, compression: str) -> bytes:
    if compression == "gzip":
        half = len(data) // 2
        return gzip.compress(data[:half]) + gzip.compress(data[half:])
    if compression == "zstd":
        return zstandard.ZstdCompressor().compress(data)
    return data


SUFFIX = {"csv": ".csv", "json": ".jsonl", "parquet": ".parquet"}
SQUEEZED = {"none": "", "gzip": ".gz", "zstd": ".zst"}
LAYOUTS = [
    (format, compression)
    for format in SUFFIX
    for compression in SQUEEZED
    if format != "parquet" or compression == "none"
]


@pytest.mark.parametrize("filesystem", ["local", "memory"])
@pytest.mark.parametrize(("format", "compression"), LAYOUTS)
def test_every_format_and_compression_is_read_in_full(tmp_path, format, compression, filesystem):
    data = table(333)
    name = "data" + SUFFIX[format] + SQUEEZED[compression]
    content = squeeze(encode(data, format), compression)
    if filesystem == "memory":
        folder = f"memory://reading-{os.getpid()}-{format}-{compression}"
        fsspec.filesystem("memory").pipe(f"{folder}/{name}", content)
    else:
        folder = str(tmp_path)
        (tmp_path / name).write_bytes(content)
    rng = random.Random(1)
    for _ in range(3):
        source = FileSource(
            folder,
            schema=SCHEMA,
            batch_rows=rng.randint(5, 300),
            block_size=rng.choice([300, 997, 20_000]),
            split_size=rng.choice([2000, 7919, 1 << 20]),
        )
        assert rows_of(source) == data.to_pylist()


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_the_reader_returns_all_rows_and_then_ends(tmp_path, format):
    data = table(500)
    for part in range(3):
        (tmp_path / f"{part}{SUFFIX[format]}").write_bytes(
            encode(data.slice(part * 200, 200), format)
        )
    source = FileSource(tmp_path, schema=SCHEMA, batch_rows=64, split_size=5000)
    context = Context()
    rows, rest = poll_all(pickle.loads(pickle.dumps(source)), context)
    assert rows == data.to_pylist()
    assert rest == []
    assert context.requests == 1
    assert context.metric_group.counters["filesRead"] == 3


@pytest.mark.parametrize(("format", "compression"), LAYOUTS)
def test_a_reader_returns_exactly_the_remaining_rows_from_every_position(
    tmp_path, format, compression
):
    data = table(230)
    (tmp_path / ("a" + SUFFIX[format] + SQUEEZED[compression])).write_bytes(
        squeeze(encode(data, format), compression)
    )
    source = FileSource(tmp_path, schema=SCHEMA, batch_rows=17, block_size=1500)
    (split,) = splits_of(source)
    expected = data.to_pylist()
    rows, rest = poll_all(source, Context())
    assert rows == expected
    seen = 0
    polls = 0
    serializer = source.split_serializer()
    while True:
        polls += 1
        rows, rest = poll_all(source, Context(), [split], polls)
        if not rest:
            break
        assert len(rows) > seen
        seen = len(rows)
        left = serializer.deserialize(serializer.version, serializer.serialize(rest[0]))
        # The sizes of blocks and batches differ from those before the restart.
        for other in (source, FileSource(tmp_path, schema=SCHEMA, batch_rows=23, block_size=700)):
            assert rows + rows_of(other, [left]) == expected
    assert polls > 5


def test_memory_depends_on_the_block_size_and_not_on_the_file_size(tmp_path, monkeypatch):
    with (tmp_path / "a.csv").open("w") as file:
        file.write("id,name\n")
        for number in range(100_000):
            file.write(f"{number},some text of a row\n")
    asked = []
    read = ByteStream.read
    monkeypatch.setattr(
        ByteStream, "read", lambda self, count: asked.append(count) or read(self, count)
    )
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    source = FileSource(tmp_path, schema=schema, block_size=50_000)
    settings = source.read_settings()
    (split,) = splits_of(source)
    held = [chunk.nbytes for chunk in read_split(settings, split)]
    assert max(asked) <= 65_536
    assert max(held) < 200_000
    assert len(held) > 40

    wide = pa.table({"text": ["x" * 10_000] * 5000})
    pq.write_table(wide, tmp_path / "b.parquet", use_dictionary=False)
    source = FileSource(tmp_path / "b.parquet")
    held = [chunk.nbytes for chunk in chunks_of(source)]
    assert max(held) < 20 << 20
    assert len(held) >= 3


# --- Types ---------------------------------------------------------------------------------------


def test_null_values_booleans_and_zones_of_csv(tmp_path):
    (tmp_path / "a.csv").write_text(
        'n,b,t,s\nNA,yes,2013-01-01 05:00:00,NA\n1,no,2013-07-01 05:00:00,"NA"\n,,,""\n'
    )
    schema = pa.schema(
        [
            ("n", pa.int32()),
            ("b", pa.bool_()),
            ("t", pa.timestamp("us", tz="UTC")),
            ("s", pa.string()),
        ]
    )
    source = FileSource(
        tmp_path,
        schema=schema,
        csv=CsvOptions(
            null_values=("", "NA"),
            true_values=("yes",),
            false_values=("no",),
            assume_time_zone="America/New_York",
        ),
    )
    assert rows_of(source) == [
        {"n": None, "b": True, "t": datetime(2013, 1, 1, 10, tzinfo=UTC), "s": None},
        {"n": 1, "b": False, "t": datetime(2013, 7, 1, 9, tzinfo=UTC), "s": "NA"},
        {"n": None, "b": None, "t": None, "s": ""},
    ]


def test_other_csv_dialects_are_read(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf'a;b';1\r\nx\\;y;2\r\n")
    source = FileSource(
        tmp_path,
        format="csv",
        schema="t STRING, n INT",
        csv=CsvOptions(delimiter=";", quote_char="'", escape_char="\\", header=False),
    )
    assert rows_of(source) == [{"t": "a;b", "n": 1}, {"t": "x;y", "n": 2}]


def test_the_error_of_a_bad_line_contains_no_value_for_any_number_of_columns(tmp_path):
    names = [f"c{number}" for number in range(12)]
    lines = [",".join(names), ",".join(["s3cret"] * 11), ",".join(["1"] * 12)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    source = FileSource(tmp_path, schema=pa.schema([(name, pa.string()) for name in names]))
    chunks = [chunk for chunk in chunks_of(source) if chunk.bad_records]
    [bad] = [bad for chunk in chunks for bad in chunk.bad_records]
    assert bad.reason == "the record has 11 fields instead of 12"


def test_binary_columns_of_json_are_base64_as_the_sink_writes_them(tmp_path):
    schema = pa.schema([("data", pa.binary()), ("parts", pa.list_(pa.binary()))])
    batch = pa.RecordBatch.from_pylist(
        [{"data": b"\0\xff", "parts": [b"", None, b"abc"]}, {"data": None, "parts": None}], schema
    )
    with (tmp_path / "a.jsonl").open("wb") as file:
        file.writelines(encode_json_lines(batch))
    source = FileSource(tmp_path, schema=schema)
    assert rows_of(source) == batch.to_pylist()


def test_inferred_schemas(tmp_path):
    (tmp_path / "a.csv").write_text("i,f,t,s,e\n1,1,2013-01-01T05:00:00Z,x,\n")
    (tmp_path / "b.csv").write_text("i,f,t,s,e\n2,1.5,2013-01-01T06:00:00Z,y,\n")
    source = FileSource(tmp_path)
    assert source.schema() == pa.schema(
        [
            ("i", pa.int64()),
            ("f", pa.float64()),
            ("t", pa.timestamp("us", tz="UTC")),
            ("s", pa.string()),
            ("e", pa.string()),
        ]
    )
    assert [row["f"] for row in rows_of(pickle.loads(pickle.dumps(source)))] == [1.0, 1.5]
    (tmp_path / "c.jsonl.gz").write_bytes(
        gzip.compress(b'{"i": 1, "d": {"t": "2013-01-01T05:00:00Z"}, "l": [1]}\n')
    )
    source = FileSource(tmp_path / "c.jsonl.gz")
    assert source.schema().names == ["i", "d", "l"]
    assert source.schema().field("i").type == pa.int64()
    pq.write_table(
        pa.table(
            {
                "u": pa.array([1], pa.uint32()),
                "d": pa.array(["a"]).dictionary_encode(),
                "t": pa.array([0], pa.timestamp("ns")),
            }
        ),
        tmp_path / "d.parquet",
    )
    source = FileSource(tmp_path / "d.parquet")
    assert source.schema().types == [pa.int64(), pa.string(), pa.timestamp("us")]
    assert rows_of(source) == [{"u": 1, "d": "a", "t": datetime(1970, 1, 1)}]


def test_schema_inference_names_the_columns_whose_types_differ(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"n": 1, "same": 1, "x": {"a": 1}}')
    (tmp_path / "b.jsonl").write_text('{"n": 2.5, "same": 2, "x": "text"}')
    with pytest.raises(ConfigurationError, match="different types") as refused:
        FileSource(tmp_path).schema()
    assert "x" in refused.value.found.split(", ")
    assert "same" not in refused.value.found


def test_schema_inference_without_a_file_fails(tmp_path):
    with pytest.raises(ConfigurationError, match="no file yet"):
        FileSource(tmp_path).schema()


def test_partition_and_metadata_columns(tmp_path):
    folder = tmp_path / "month=3" / "kind=__HIVE_DEFAULT_PARTITION__"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text("x\n1\n2\n")
    source = FileSource(
        tmp_path,
        schema="x INT",
        partition_columns={"month": pa.int32(), "kind": pa.string()},
        metadata_columns={"file.path": "_file_path", "file.name": "name", "file.size": ""},
    )
    row = {
        "x": 1,
        "month": 3,
        "kind": None,
        "_file_path": f"file://{folder}/a.csv",
        "name": "a.csv",
        "_file_size": 6,
    }
    assert rows_of(source) == [row, {**row, "x": 2}]
    named = FileSource(
        tmp_path,
        schema="x INT",
        path_regex=r"month=(?P<m>\d+)/.*",
        partition_columns=["m"],
        metadata_columns=["file.modification-time"],
    )
    assert named.schema().names == ["x", "m", "_file_modification_time"]
    assert rows_of(named)[0]["m"] == "3"


# --- Bad records ---------------------------------------------------------------------------------

BAD = {
    "csv": ("a.csv", b"n,s\n", [b"1,x\n", b"oops,y\n", b"2,z\n", b'3,"q\n', b"4\n", b"5,ok\n"]),
    "json": (
        "a.jsonl",
        b"",
        [b'{"n":1}\n', b"{bad\n", b'{"n":2}\n', b'{"n":"x"}\n', b'{"s":"\xff"}\n', b'{"n":5}'],
    ),
}


@pytest.mark.parametrize("format", ["csv", "json"])
@pytest.mark.parametrize("block_size", [10, 1 << 20])
def test_bad_records_are_reported_and_the_other_rows_are_read(tmp_path, format, block_size):
    name, header, records = BAD[format]
    (tmp_path / name).write_bytes(header + b"".join(records))
    source = FileSource(tmp_path, schema="n INT, s STRING", block_size=block_size)
    chunks = chunks_of(source)
    assert [n for c in chunks if c.batch is not None for n in c.batch.column(0).to_pylist()] == [
        1,
        2,
        5,
    ]
    bad = [each for chunk in chunks for each in chunk.bad_records]
    assert [each.raw for each in bad] == [
        record.rstrip(b"\n") for record in (records[1], records[3], records[4])
    ]
    offset = len(header) + len(records[0])
    assert bad[0].position == f"byte {offset}"
    assert "oops" not in bad[0].reason


@pytest.mark.parametrize(
    ("name", "records"),
    [
        ("a.csv", [b"n\n", b"1\n", b"1e-999999999\n", b"2\n"]),
        ("a.jsonl", [b'{"n":1}\n', b'{"n":1e-999999999}\n', b'{"n":2}\n']),
    ],
)
def test_a_number_too_large_for_any_decimal_is_a_bad_record(tmp_path, name, records):
    (tmp_path / name).write_bytes(b"".join(records))
    chunks = chunks_of(FileSource(tmp_path, schema="n DECIMAL(10, 2)"))
    bad = [each.raw for chunk in chunks for each in chunk.bad_records]
    assert bad == [records[-2].rstrip(b"\n")]
    assert [n for c in chunks if c.batch is not None for n in c.batch.column(0).to_pylist()] == [
        Decimal(1),
        Decimal(2),
    ]


@pytest.mark.parametrize("strict", [False, True])
def test_other_spellings_and_repeated_fields_of_json_are_bad_if_strict(tmp_path, strict):
    records = [b'{"n":1}', b'{"n":"2"}', b'{"n":2,"n":3}', b'{"n":1.5}', b'{"n":4}']
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(records))
    options = {"path": str(tmp_path), "schema": "n INT", "json.decode.strict": str(strict)}
    chunks = chunks_of(FileSource.from_options(options))
    batches = [chunk.batch for chunk in chunks if chunk.batch is not None]
    bad = [(each.raw, each.reason) for chunk in chunks for each in chunk.bad_records]
    assert [n for batch in batches for n in batch["n"].to_pylist()] == (
        [1, 4] if strict else [1, 2, 3, 4]
    )
    assert [raw for raw, _ in bad] == records[1:4] if strict else records[3:4]
    assert all("column n: " in reason for _, reason in bad)
    declared = FileSource(tmp_path, schema="n INT", json=JsonOptions(strict=strict))
    assert declared.read_settings().json.strict is strict


@pytest.mark.parametrize("block_size", [5, 1 << 20])
def test_lines_with_two_objects_or_a_partial_object_are_bad(tmp_path, block_size):
    bad = [b'{"n":2}{"n":3}', b'{"n":', b"4}", b'{"n":5} 6', b'{"n":7}\x00']
    (tmp_path / "a.jsonl").write_bytes(b"\n \r\n".join([b'{"n":1}', *bad, b' {"n":8}\t']))
    chunks = chunks_of(FileSource(tmp_path, schema="n INT", block_size=block_size))
    batches = [chunk.batch for chunk in chunks if chunk.batch is not None]
    assert [n for batch in batches for n in batch["n"].to_pylist()] == [1, 8]
    found = [each for chunk in chunks for each in chunk.bad_records]
    assert [each.raw for each in found] == bad
    assert found[0].reason == "the line is not exactly one JSON object"
    assert found[1].reason == "the line is not a JSON object"


def test_an_unclosed_quote_keeps_the_rows_before_it(tmp_path):
    (tmp_path / "a.csv").write_text('n,s\n1,"x\ny"\n2,z\n3,"open\n4,lost in it\n')
    source = FileSource(tmp_path, schema="n INT, s STRING", csv=CsvOptions(newlines_in_values=True))
    rows, damaged = chunks_of(source)
    assert rows.batch.column(0).to_pylist() == [1, 2]
    assert [each.position for each in damaged.bad_records] == ["byte 16"]


def test_a_bad_record_stops_the_reader_by_default(tmp_path):
    (tmp_path / "a.csv").write_text("n,s\n1,x\noops,y\n2,z\n")
    source = FileSource(tmp_path, schema="n INT, s STRING")
    with pytest.raises(BadRecordError, match="column n") as caught:
        poll_all(source, Context())
    assert str(tmp_path) in str(caught.value)
    assert "byte 8" in str(caught.value)
    assert caught.value.raw == b"oops,y"


class Spool:
    name = "spool"

    def __init__(self):
        self.records = []

    def append(self, record):
        self.records.append(record)

    def close(self): ...


@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
@pytest.mark.parametrize("format", ["csv", "json"])
def test_bad_records_are_reported_once_wherever_the_reader_stops(tmp_path, format, policy):
    name, header, records = BAD[format]
    lines = [record.rstrip(b"\n") + b"\n" for record in records]
    (tmp_path / name).write_bytes(header + b"".join(lines * 3))
    source = FileSource(tmp_path, schema="n INT, s STRING", batch_rows=2, block_size=60)

    def read(splits, polls):
        spool = Spool()
        chosen = RecordPolicy.skip() if policy == "skip" else RecordPolicy.dead_letter("sink")
        context = Context(chosen, lambda: spool)
        rows, rest = poll_all(source, context, splits, polls)
        summary = context.record_errors.summary()
        return [row["n"] for row in rows], summary["skipped"] + summary["dead_letters"], rest

    for polls in range(1, 30):
        first, first_bad, rest = read(None, polls)
        if not rest:
            assert (first, first_bad) == ([1, 2, 5] * 3, 9)
            break
        then, then_bad, _ = read(rest, None)
        assert first + then == [1, 2, 5] * 3
        assert first_bad + then_bad == 9
    else:
        pytest.fail("the file was never read to its end")


def test_a_value_that_does_not_fit_is_a_bad_record_in_parquet_as_well(tmp_path):
    data = pa.table({"n": pa.array([1, 300, 3, None, 5], pa.int64())})
    pq.write_table(data, tmp_path / "a.parquet", row_group_size=3)
    schema = pa.schema([pa.field("n", pa.int8(), nullable=False)])
    source = FileSource(tmp_path, schema=schema)
    chunks = chunks_of(source)
    assert [n for c in chunks if c.batch is not None for n in c.batch.column(0).to_pylist()] == [
        1,
        3,
        5,
    ]
    bad = [each for chunk in chunks for each in chunk.bad_records]
    assert [each.position for each in bad] == ["row group 0, row 1", "row group 1, row 0"]
    assert bad[0].reason.startswith("column n: ")
    assert "300" not in bad[0].reason
    for polls in range(1, 6):
        context, later = Context(RecordPolicy.skip()), Context(RecordPolicy.skip())
        rows, rest = poll_all(source, context, None, polls)
        more = poll_all(source, later, rest)[0] if rest else []
        assert [row["n"] for row in rows + more] == [1, 3, 5]
        skipped = context.record_errors.summary()["skipped"]
        assert skipped + later.record_errors.summary()["skipped"] == 2


# --- Damaged, missing, or changed files ----------------------------------------------------------


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.zst", "a.parquet"])
def test_a_file_truncated_before_its_discovery_is_an_error(tmp_path, name):
    format, compression = detect_format(name)
    content = squeeze(encode(table(2000), format), compression)
    (tmp_path / name).write_bytes(content[: len(content) * 3 // 4])
    source = FileSource(tmp_path, schema=SCHEMA)
    with pytest.raises(FatalError, match="truncated, damaged, or encrypted") as caught:
        chunks_of(source)
    assert name in str(caught.value)
    assert caught.value.__cause__ is not None
    assert caught.value.code == "FILE_DAMAGED"


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_missing_changed_or_truncated_file_is_an_error(tmp_path, format):
    path = tmp_path / ("a" + SUFFIX[format])
    content = encode(table(3000), format)
    path.write_bytes(content)
    source = FileSource(tmp_path, schema=SCHEMA, block_size=1000, batch_rows=10)
    splits = splits_of(source)
    settings = source.read_settings()

    reading = read_split(settings, splits[0])
    before = [next(reading) for _ in range(3)]
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(SplitChangedError, match="changed since it was discovered"):
        list(reading)
    assert sum(chunk.batch.num_rows for chunk in before) > 10  # the earlier rows are kept

    with pytest.raises(SplitChangedError, match="bytes, modified"):
        next(read_split(settings, splits[0]))
    path.unlink()
    with pytest.raises(DataLossError, match="is gone") as caught:
        next(read_split(settings, splits[0]))
    assert str(path) in str(caught.value)


def test_the_reader_returns_the_rows_before_an_error_first(tmp_path):
    content = gzip.compress(encode(table(3000), "json"))
    (tmp_path / "a.jsonl.gz").write_bytes(content[:-2000])
    source = FileSource(tmp_path, schema=SCHEMA, block_size=10_000)
    rows, rest = poll_all(source, Context(), None, 2)
    assert len(rows) > 20
    (left,) = rest
    assert left.offset > 0
    with pytest.raises(FatalError, match="truncated"):
        poll_all(source, Context(), [left])


def test_a_line_without_end_is_rejected(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"n\n" + b"x" * 10_000)
    source = FileSource(tmp_path, schema="n STRING", max_record_size=1000, block_size=100)
    with pytest.raises(FatalError, match="max-record-size"):
        chunks_of(source)


# --- Changed schemas -----------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["csv", "parquet", "json"])
def test_files_with_different_columns_are_reported(tmp_path, format, caplog):
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    (tmp_path / ("1" + SUFFIX[format])).write_bytes(
        encode(pa.table({"a": [1], "b": ["x"]}), format)
    )
    (tmp_path / ("2" + SUFFIX[format])).write_bytes(
        encode(pa.table({"c": [1.5], "a": [2]}), format)
    )
    with pytest.raises(SchemaChangedError) as caught:
        chunks_of(FileSource(tmp_path, schema=schema))
    assert f"2{SUFFIX[format]}" in str(caught.value)
    assert caught.value.new == ("c",)
    assert pickle.loads(pickle.dumps(caught.value)).new == ("c",)
    if format != "json":
        assert caught.value.missing == ("b",)
        for mode in ("null-missing", "ignore-new"):
            with pytest.raises(SchemaChangedError):
                chunks_of(FileSource(tmp_path, schema=schema, on_schema_change=mode))
    source = FileSource(tmp_path, schema=schema, on_schema_change=["null-missing", "ignore-new"])
    context = Context()
    with caplog.at_level(logging.WARNING):
        rows, _ = poll_all(source, context)
    assert rows == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    if format != "json":
        assert context.metric_group.counters["schemaChangedFiles"] == 1
        assert "missing ['b'], new ['c']" in caplog.text


def test_a_parquet_column_of_another_type_is_an_error(tmp_path):
    pq.write_table(pa.table({"a": ["text"]}), tmp_path / "a.parquet")
    with pytest.raises(SchemaChangedError, match=r"a \(string instead of int64\)"):
        chunks_of(FileSource(tmp_path, schema="a BIGINT"))


def test_a_required_column_cannot_be_missing(tmp_path):
    (tmp_path / "a.csv").write_text("b\n1\n")
    source = FileSource(tmp_path, schema="a INT NOT NULL, b INT", on_schema_change="null-missing")
    with pytest.raises(SchemaChangedError, match="missing a"):
        chunks_of(source)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ('{"id":1}\n{"id":2}\n', [1, 2]),
        ('{"id":1}\n{"id":2}', [1, 2]),
        ('{"id":1}\r\n{"id":2}\r\n', [1, 2]),
        ('\ufeff{"id":1}\n\n {"id":2} \n', [1, 2]),
        ('{"id":1}{"id":7}\n{"id":2}\n', [2]),
        ('{"id":1}\n{"id":7\n}\n{"id":2}\n', [1, 2]),
        ('{"id":1}\n{"id":"}\n{"}\n{"id":2}\n', [1, 2]),
        ('{"id":1}\n{"id":7}\0\n{"id":2}\n', [1, 2]),
        ("\n \n", []),
    ],
)
def test_each_line_of_json_is_one_object_or_bad(tmp_path, text, ids):
    (tmp_path / "a.json").write_bytes(text.encode())
    rows = rows_of(FileSource(tmp_path, schema="id BIGINT"))
    assert [row["id"] for row in rows] == ids
