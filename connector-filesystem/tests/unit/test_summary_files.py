# SPDX-License-Identifier: Apache-2.0
"""Tests of `_metadata` and `_common_metadata`, which some writers leave beside Parquet files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from reading_files import rows_of
from staged_files import visible

from connector_filesystem import CsvOptions, FileSource
from connector_filesystem.filesystem import FileLocation
from connector_filesystem.folder_compaction import FolderCompaction
from connectors_core.errors import ConfigurationError

ROWS = [{"x": 1}, {"x": 2}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A partition with two files, below the summaries of all files."""
    schemas: list[pq.FileMetaData] = []
    (tmp_path / "a=1").mkdir()
    for row in ROWS:
        name = f"a=1/{row['x']}.parquet"
        pq.write_table(pa.Table.from_pylist([row]), tmp_path / name, metadata_collector=schemas)
        schemas[-1].set_file_path(name)
    schema = pa.schema([("x", pa.int64())])
    pq.write_metadata(schema, tmp_path / "_common_metadata")
    pq.write_metadata(schema, tmp_path / "_metadata", metadata_collector=schemas)
    return tmp_path


def compact(folder: Path) -> int:
    return FolderCompaction(FileLocation(str(folder)), 10_000, CsvOptions()).run()


def listed(folder: Path) -> list[int]:
    """Return the values that a reader of the summary finds."""
    found = ds.parquet_dataset(str(folder / "_metadata")).to_table()["x"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("path", ["", "*", "a=1"])
def test_a_summary_is_not_read_as_rows(folder: Path, path: str) -> None:
    source = FileSource(folder / path, format="parquet")
    assert sorted(rows_of(source), key=lambda row: row["x"]) == ROWS


def test_a_summary_as_the_path_has_no_rows_or_is_an_error(folder: Path) -> None:
    assert rows_of(FileSource(folder / "_common_metadata", format="parquet")) == []
    with pytest.raises(ConfigurationError, match="rows are in other files: a=1/1"):
        rows_of(FileSource(folder / "_metadata", format="parquet"))


@pytest.mark.parametrize("path", ["", "a=1"])
def test_files_that_a_summary_lists_are_not_merged(folder: Path, path: str) -> None:
    with pytest.raises(ConfigurationError, match="table that lists them") as caught:
        compact(folder / path)
    assert str(caught.value.found).endswith("/_metadata")
    assert "remove this summary" in str(caught.value.hint)
    assert listed(folder) == [1, 2]


def test_files_are_merged_once_the_summary_is_removed(folder: Path) -> None:
    schema = pq.read_schema(folder / "_common_metadata")
    (folder / "_metadata").unlink()
    assert compact(folder) == 2
    assert len(visible(folder)) == 1
    assert rows_of(FileSource(folder, format="parquet")) == ROWS
    assert pq.read_schema(folder / "_common_metadata").equals(schema)  # it lists no files


def test_other_files_beside_a_summary_are_merged(folder: Path) -> None:
    for path in folder.glob("a=1/*.parquet"):
        path.unlink()
    for number in range(2):
        (folder / f"{number}.jsonl").write_text('{"x": 1}\n')
    assert compact(folder) == 2
