# SPDX-License-Identifier: Apache-2.0
"""Tests that tables of files have the options, partitions, and metadata of Flink's."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from reading_files import rows_of

from connector_filesystem import FileSink, FileSource
from connector_filesystem.formats import FileFormat
from connector_filesystem.table_factory import FileTableFactory
from connectors_core.errors import InvalidOptionError, MissingOptionError, UnknownOptionError
from connectors_core.lookup import PeriodicCacheReloadTrigger
from connectors_core.records import RecordPolicy
from connectors_core.table import (
    CatalogTable,
    DynamicTableContext,
    MetadataColumn,
    PhysicalColumn,
    ScanTableSource,
    TableSchema,
)

OPTIONS = {"path": "/data/flights", "format": "csv"}
NUMBERS = tuple(PhysicalColumn(f"f{number}", pa.int32()) for number in range(4))


def table(
    options: dict[str, str], *metadata: MetadataColumn, partitions: tuple[str, ...] = ()
) -> DynamicTableContext:
    schema = TableSchema(columns=(*NUMBERS, *metadata))
    definition = CatalogTable(schema=schema, options=options, partition_keys=partitions)
    return DynamicTableContext.of("t", definition)


def scan(context: DynamicTableContext) -> ScanTableSource:
    FileTableFactory().validate(context)
    return FileTableFactory().create_scan_source(context)


def read(context: DynamicTableContext) -> FileSource:
    source = scan(context).source
    assert isinstance(source, FileSource)
    return source


def written(context: DynamicTableContext) -> FileSink:
    FileTableFactory().validate(context)
    sink = FileTableFactory().create_sink(context).sink
    assert isinstance(sink, FileSink)
    sink.validate(context.table.schema.physical)
    return sink


def test_a_definition_makes_a_source_and_a_sink() -> None:
    context = table({**OPTIONS, "sink.parallelism": "5"})
    assert read(context).format is FileFormat.CSV
    assert (written(context).format, written(context).writer_parallelism()) == (FileFormat.CSV, 5)


def test_a_table_needs_a_path_and_no_format() -> None:
    assert read(table({"path": "/data"})).format is None
    assert written(table({"path": "/data"})).format is FileFormat.PARQUET
    for make in (read, written):
        with pytest.raises(MissingOptionError) as refused:
            make(table({"format": "csv"}))
        assert refused.value.option == "path"


def test_unknown_options_and_formats_are_refused() -> None:
    for option in ("my_option", "csv.my_option"):
        with pytest.raises(UnknownOptionError, match=option):
            FileTableFactory().validate(table({**OPTIONS, option: "my"}))
    for name in ("invalid", "avro", "orc", "raw", "debezium-json"):
        with pytest.raises(InvalidOptionError) as refused:
            FileTableFactory().validate(table({**OPTIONS, "format": name}))
        assert refused.value.option == "format"
    with pytest.raises(InvalidOptionError, match=r"csv\.field-delimiter"):
        FileTableFactory().create_scan_source(table({**OPTIONS, "csv.field-delimiter": ""}))


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ("sink.partition-commit.policy.kind", "when its epoch is committed"),
        ("sink.partition-commit.policy.class", "when its epoch is committed"),
        ("sink.partition-commit.watermark-time-zone", "when its epoch is committed"),
        ("partition.time-extractor.timestamp-pattern", "when its epoch is committed"),
        ("scan.parallelism", "parallelism.default"),
    ],
)
def test_the_error_of_an_option_of_flink_names_its_replacement(option: str, remedy: str) -> None:
    with pytest.raises(UnknownOptionError, match=remedy):
        FileTableFactory().validate(table({**OPTIONS, option: "1"}))


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_records_that_cannot_be_read_are_skipped_if_the_format_ignores_them(kind: str) -> None:
    options = {**OPTIONS, "format": kind}
    assert scan(table(options)).record_policy is None
    skipping = scan(table({**options, f"{kind}.ignore-parse-errors": "true"}))
    assert skipping.record_policy == RecordPolicy.skip()
    other = {"csv": "json", "json": "csv"}[kind]
    with pytest.raises(UnknownOptionError):
        FileTableFactory().validate(table({**options, f"{other}.ignore-parse-errors": "true"}))


def test_all_metadata_of_files_has_the_names_of_flink() -> None:
    keys = ("file.path", "file.name", "file.size", "file.modification-time")
    columns = [MetadataColumn(key, pa.string(), key) for key in keys]
    found = read(table(OPTIONS, *columns)).schema()
    assert [found.field(key).type for key in keys] == [
        pa.string(),
        pa.string(),
        pa.int64(),
        pa.timestamp("us", "UTC"),
    ]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_columns_are_in_folders_and_files(tmp_path: Path, count: int) -> None:
    """Conditions on the folders exclude files; see the tests of pushdown."""
    for row in ((1, 4, 7, 10), (2, 5, 8, 11)):
        folder = tmp_path.joinpath(*(f"f{number}={row[number]}" for number in range(count)))
        folder.mkdir(parents=True)
        (folder / "part0.csv").write_text(",".join(map(str, row[count:])) + "\n")
    options = {"path": str(tmp_path), "format": "csv", "csv.header": "false"}
    keys = tuple(each.name for each in NUMBERS[:count])
    name = MetadataColumn("name", pa.string(), "file.name")
    source = read(table(options, name, partitions=keys))
    assert sorted(tuple(row[f"f{number}"] for number in range(4)) for row in rows_of(source)) == [
        (1, 4, 7, 10),
        (2, 5, 8, 11),
    ]
    assert {row["name"] for row in rows_of(source)} == {"part0.csv"}


def test_a_file_needs_a_column_that_is_not_in_a_folder() -> None:
    every = tuple(each.name for each in NUMBERS)
    with pytest.raises(InvalidOptionError, match="no column"):
        read(table(OPTIONS, partitions=every))


def test_a_source_watches_a_folder_and_reads_paths_that_match() -> None:
    pattern = ".*/input_[0-9]+.csv"
    options = {"source.monitor-interval": "1s", "source.path.regex-pattern": pattern}
    source = read(table({**OPTIONS, **options}))
    assert (source.monitor_interval, source.path_regex) == (timedelta(seconds=1), pattern)


def test_a_lookup_reloads_files_at_the_interval_of_flinks_option() -> None:
    options = {**OPTIONS, "lookup.full-cache.periodic-reload.interval": "10s"}
    context = table(options, partitions=("f3",))
    FileTableFactory().validate(context)
    made = FileTableFactory().create_lookup_source(context)
    assert made.reload_trigger == PeriodicCacheReloadTrigger(timedelta(seconds=10))  # type: ignore[attr-defined]
