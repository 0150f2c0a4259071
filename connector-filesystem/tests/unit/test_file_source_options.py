# SPDX-License-Identifier: Apache-2.0
"""Tests the settings of the source, and the errors for wrong ones."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pyarrow as pa
import pytest

from connector_filesystem import CsvOptions, FileFormat, FileSource, PathTime
from connector_filesystem.formats import Compression, detect_format
from connector_filesystem.source.file_source import FILE_SOURCE_OPTIONS
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    InvalidOptionError,
    OptionError,
)
from connectors_core.formats import CsvFormat
from connectors_core.schema import parse_schema
from connectors_core.source import Boundedness
from connectors_core.testing import DirectorySink, InProcess


def test_options_as_spark_gives_them(tmp_path):
    folder = tmp_path / "month=2"
    folder.mkdir()
    (folder / "a.txt").write_text("x;NA;3\n")
    source = FileSource.from_options(
        {
            "path": str(tmp_path),
            "format": "csv",
            "schema": "s STRING, n INT, m BIGINT",
            "source.monitor-interval": "5 s",
            "source.order": "name",
            "source.split-size": "1mb",
            "partition.columns": "month INT",
            "metadata.columns": '{"file.name": "file"}',
            "event-time.path-regex": r"month=(\d+)",
            "event-time.format": "%m",
            "event-time.time-zone": "America/New_York",
            "on-schema-change": "null-missing, ignore-new",
            "csv.field-delimiter": ";",
            "csv.header": "false",
            "csv.null-literal": '["", "NA"]',
            "storage-options": '{"key": "secret"}',
        }
    )
    assert source.boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    assert source.schema().names == ["s", "n", "m", "month", "file"]
    assert "secret" not in repr(source)
    assert source.event_time_lower_bound is not None
    bound = source.event_time_lower_bound("month=2/a.txt")
    assert (bound.month, str(bound.tzinfo)) == (2, "America/New_York")
    assert source.split_traits().ordered
    assert source.split_traits().end
    assert source.default_limits().bytes


def test_a_source_is_picklable_and_its_constructor_accesses_no_files(tmp_path):
    source = FileSource(tmp_path / "no", monitor_interval=timedelta(seconds=1))
    assert pickle.loads(pickle.dumps(source)).boundedness() is source.boundedness()
    assert FileSource("s3://nowhere/x").boundedness() is Boundedness.BOUNDED


def test_a_misspelled_option_is_reported():
    with pytest.raises(OptionError, match=r"source\.monitor-interval"):
        FileSource.from_options({"path": "/x", "source.monitorinterval": "1 s"})
    with pytest.raises(OptionError, match=r"did you mean 'csv\.field-delimiter'"):
        FileSource.from_options({"path": "/x", "sep": ","})
    with pytest.raises(OptionError, match="path"):
        FileSource.from_options({})


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("maxFilesPerTrigger", "splits=..."),
        ("minPartitions", "parallelism=..."),
        ("maxOffsetsPerTrigger", "rows=..."),
        ("latestFirst", "'source.order'"),
        ("maxFileAge", "'source.late-file-window'"),
        ("ignoreMissingFiles", "only after the pipeline has read them"),
        ("scan.parallelism", "from_source(..., parallelism=...)"),
        ("csv.ignore-parse-errors", "RecordPolicy.skip()"),
    ],
)
def test_an_option_of_another_source_is_rejected_with_its_replacement(key, instead):
    with pytest.raises(OptionError) as refused:
        FileSource.from_options({"path": "/x", key: "1"})
    assert instead in str(refused.value)


def test_files_and_messages_of_csv_have_the_same_keys():
    assert set(CsvFormat.OPTIONS.keys) - {"format.empty-messages"} <= set(CsvOptions.OPTIONS.keys)


@pytest.mark.parametrize("literal", ["", "NULL"])
def test_one_text_is_the_literal_of_nulls_as_in_flink(literal):
    source = FileSource.from_options({"path": "/x", "csv.null-literal": literal})
    assert source.csv.null_values == (literal,)


def test_a_single_path_is_not_split_at_commas():
    assert FileSource("/a,b").path == ("/a,b",)
    assert FileSource.from_options({"path": "/a,/b"}).path == ("/a", "/b")


@pytest.mark.parametrize(
    "options",
    [
        {"path": []},
        {"path": ["/a", "memory://b"]},
        {"path": "/a", "format": "orc"},
        {"path": "/a", "format": "parquet", "compression": "gzip"},
        {"path": "/a", "path_regex": "("},
        {"path": "/a", "split_size": 0},
        {"path": "/a", "monitor_interval": timedelta(0)},
        {"path": "/a", "metadata_columns": ["file.owner"]},
        {"path": "/a", "on_schema_change": "merge"},
        {"path": "/a", "schema": "x INT, x INT"},
        {"path": "/a", "schema": "x INT", "metadata_columns": {"file.name": "x"}},
        {"path": "/a", "schema": "x INT", "partition_columns": ["x"]},
        {"path": "/a", "schema": "x INT y"},
        {"path": "/a", "schema": "x ARRAY<INT>", "format": "csv"},
        {"path": "/a", "schema": "x MAP<INT, INT>", "format": "json"},
    ],
)
def test_invalid_settings_are_rejected(options):
    with pytest.raises(ConfigurationError) as caught:
        FileSource(**options)
    assert caught.value.option


@pytest.mark.parametrize(
    "kind",
    [
        pa.time64("us"),
        pa.duration("s"),
        pa.dictionary(pa.int32(), pa.string()),
        pa.list_(pa.int32(), 3),
        pa.struct([("since", pa.month_day_nano_interval())]),
    ],
    ids=str,
)
def test_the_constructor_rejects_a_type_that_json_cannot_be_read_into(kind):
    with pytest.raises(ConfigurationError, match="'x' cannot be read from json"):
        FileSource("/a", schema=pa.schema([("x", kind)]), format="json")


@pytest.mark.parametrize(
    "dialect",
    [
        {"delimiter": "||"},
        {"delimiter": '"'},
        {"quote_char": "\n"},
        {"newlines_in_values": True, "escape_char": "\\"},
    ],
)
def test_an_unreadable_dialect_is_rejected(dialect):
    with pytest.raises(InvalidOptionError):
        CsvOptions(**dialect)


def test_the_options_are_documented():
    assert "`source.late-file-window`" in FILE_SOURCE_OPTIONS.markdown()
    assert all(row["doc"] and row["since"] for row in FILE_SOURCE_OPTIONS.describe())


def test_suffixes():
    assert detect_format("a/b.CSV.gz") == (FileFormat.CSV, Compression.GZIP)
    assert detect_format("b.ndjson.zst") == (FileFormat.JSON, Compression.ZSTD)
    assert detect_format("b.parquet") == (FileFormat.PARQUET, Compression.NONE)
    assert detect_format("x.csv/b") == (None, Compression.NONE)


def test_schemas_are_parsed_from_text():
    schema = parse_schema(
        "id BIGINT NOT NULL, `a b` DECIMAL(12, 3), t TIMESTAMP, n TIMESTAMP_NTZ, "
        "l ARRAY<STRUCT<x: INT, y: STRING>>, m MAP<STRING, DOUBLE>"
    )
    assert schema.field("id") == pa.field("id", pa.int64(), nullable=False)
    assert schema.field("a b").type == pa.decimal128(12, 3)
    assert schema.field("t").type == pa.timestamp("us", tz="UTC")
    assert schema.field("n").type == pa.timestamp("us")
    assert schema.field("l").type == pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())]))
    assert schema.field("m").type == pa.map_(pa.string(), pa.float64())
    for bad in ("", "x", "x FOO", "x INT,", "x DECIMAL(a)", "x ARRAY<INT", "1 INT %"):
        with pytest.raises(InvalidOptionError):
            parse_schema(bad)


TIME = PathTime(regex="[a-z]", format="%Y")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"max_record_size": 100}, "max_record_size"),
        ({"source.max-record-size": 100}, "source.max-record-size"),
        ({"event_time_lower_bound": TIME}, "event_time_lower_bound"),
        (
            {"event-time.path-regex": TIME.regex, "event-time.format": TIME.format},
            "event-time.format",
        ),
    ],
)
def test_a_pipeline_error_names_an_option_as_the_user_wrote_it(tmp_path, given, shown):
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.csv").write_bytes(b"n\n" + b"x" * 10_000)
    if shown.isidentifier():
        source = FileSource(data, schema="n STRING", **given)
    else:
        source = FileSource.from_options({"path": str(data), "schema": "n STRING", **given})
    pipeline = InProcess().pipeline("p", tmp_path / "state", parallelism=1)
    rows = pipeline.from_source(source, uid="files")
    pipeline.sink_to(rows, DirectorySink(tmp_path / "out"), uid="out")
    with pipeline, pytest.raises(ConnectorError) as raised:
        pipeline.run(timeout=30)
    assert f"option: {shown}" in str(raised.value)
