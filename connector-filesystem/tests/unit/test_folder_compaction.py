# SPDX-License-Identifier: Apache-2.0
"""Tests the command that merges the files of an existing folder."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import s3fs
from staged_files import read_file, visible
from typer.testing import CliRunner

from connector_filesystem import CsvOptions
from connector_filesystem.cli import app
from connector_filesystem.filesystem import FileLocation
from connector_filesystem.folder_compaction import FolderCompaction
from connectors_core.errors import ConfigurationError, DataLossError
from connectors_core.testing.servers import S3Server

SCHEMA = pa.schema([("x", pa.int64())])


def write(folder: Path, name: str, *values: int) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"x": pa.array(values, pa.int64())}), path, compression="snappy")
    elif name.endswith(".csv"):
        path.write_text("x\n" + "\n".join(map(str, values)))  # without a last line break
    else:
        path.write_text("".join(json.dumps({"x": value}) + "\n" for value in values))


def compaction(folder: Path | str, file_size: int = 10_000, **settings: Any) -> FolderCompaction:
    options = settings.pop("storage_options", {})
    location = FileLocation(str(folder), options)
    return FolderCompaction(location, file_size, CsvOptions(), **settings)


def values(folder: Path) -> list[int]:
    return [value for path in visible(folder) for value in read_file(path, SCHEMA)["x"].to_pylist()]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ".json"])
def test_small_files_of_each_folder_become_one(tmp_path: Path, suffix: str) -> None:
    for folder in ("a=1", "a=2"):
        for number in range(5):
            write(tmp_path, f"{folder}/{number}{suffix}", number, number + 10)
    assert compaction(tmp_path).run() == 10
    found = visible(tmp_path)
    assert [path.parent.name for path in found] == ["a=1", "a=2"]
    assert all(path.name.endswith(suffix) for path in found)
    assert values(tmp_path / "a=1") == [0, 10, 1, 11, 2, 12, 3, 13, 4, 14]
    assert not (tmp_path / "_compaction").exists()
    assert compaction(tmp_path).run() == 0  # nothing is left to merge


def test_parquet_keeps_its_codec(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", 1)
    write(tmp_path, "b.parquet", 2)
    compaction(tmp_path).run()
    [file] = visible(tmp_path)
    assert pq.ParquetFile(file).metadata.row_group(0).column(0).compression == "SNAPPY"


def test_large_files_links_and_other_formats_stay(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", 1)
    write(tmp_path, "b.jsonl", *range(2000))
    write(tmp_path, "c.jsonl", 2)
    write(tmp_path, "d.csv", 3)
    write(tmp_path, "_hidden.jsonl", 4)
    (tmp_path / "e.txt").write_text("no table")
    before = sorted(path.name for path in tmp_path.iterdir())
    assert compaction(tmp_path).groups() == []
    assert compaction(tmp_path).run() == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_files_of_each_bucket_of_spark_are_merged_alone(tmp_path: Path) -> None:
    name = "part-0000{}-6f2d7c0e-3a53-4b0c-8d7e-2f1c9b3a4d5e_0000{}.c000.snappy.parquet"
    for task in range(2):
        for bucket in range(2):
            write(tmp_path, name.format(task, bucket), 10 * task + bucket)
    assert compaction(tmp_path).run() == 0  # no neighbors are of one bucket
    for part in range(2):
        write(tmp_path, name.format(2, 1).replace("c000", f"c00{part}"), part)
    assert compaction(tmp_path).run() == 3
    assert sum("_00001.c000" in path.name for path in visible(tmp_path)) == 2


class Crash(BaseException):
    """The process dies."""


STEPS = ["_create", "_complete", "rm_file", "mv"]


def crashing(own: FolderCompaction, monkeypatch: pytest.MonkeyPatch, nth: int) -> list[str]:
    """Let the nth change of the folder be the last one, and return the changes."""
    fs = own.location.fs
    calls: list[str] = []

    def counted(change: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **more: Any) -> Any:
            calls.append(str(given))
            if len(calls) == nth:
                raise Crash
            return change(*given, **more)

        return call

    for name in ("rm_file", "mv", "rm"):
        monkeypatch.setattr(fs, name, counted(getattr(fs, name)))
    monkeypatch.setattr(FolderCompaction, "_create", counted(FolderCompaction._create))
    return calls


@pytest.mark.parametrize("nth", range(1, 14))
def test_a_crash_at_any_change_is_completed_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    for number in range(4):
        write(tmp_path, f"a/{number}.jsonl", number)
        write(tmp_path, f"b/{number}.jsonl", number + 10)
    own = compaction(tmp_path)
    with monkeypatch.context() as patch:
        crashing(own, patch, nth)
        with pytest.raises(Crash):
            own.run()
    found = Counter(values(tmp_path))
    assert not found or max(found.values()) == 1  # never twice
    compaction(tmp_path, take_lock=True).run()
    assert sorted(values(tmp_path)) == [0, 1, 2, 3, 10, 11, 12, 13]
    assert len(visible(tmp_path)) == 2
    assert not (tmp_path / "_compaction").exists()


def test_another_active_run_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", 1)
    write(tmp_path, "b.jsonl", 2)
    lock = tmp_path / "_compaction" / "lock.json"
    lock.parent.mkdir()
    lock.write_text(json.dumps({"host": "elsewhere", "pid": 1, "run": "r"}))
    with pytest.raises(ConfigurationError, match="another run"):
        compaction(tmp_path).run()
    lock.write_text(json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "run": "r"}))
    with pytest.raises(ConfigurationError, match="another run"):
        compaction(tmp_path).run()
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=-1)
    lock.write_text(json.dumps({"host": socket.gethostname(), "pid": int(ended.stdout), "run": ""}))
    assert compaction(tmp_path).run() == 2


def test_a_folder_with_staged_files_of_a_sink_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "_staging/pipeline/sink/0.jsonl", 1)
    with pytest.raises(ConfigurationError, match="enable_compact"):
        compaction(tmp_path).run()
    assert not (tmp_path / "_compaction").exists()


LOGS = [
    "_delta_log/0.json",
    "_spark_metadata/0",
    ".hoodie/x",
    "metadata/v1.metadata.json",
    "_contents/a=1/0000000001.json",
]


@pytest.mark.parametrize("log", LOGS)
def test_a_table_that_lists_its_files_is_refused(tmp_path: Path, log: str) -> None:
    write(tmp_path, "table/a=1/0.jsonl", 1)
    write(tmp_path, "table/a=1/1.jsonl", 2)
    write(tmp_path, f"table/{log}")
    with pytest.raises(ConfigurationError, match="table that lists them"):
        compaction(tmp_path).run()
    assert values(tmp_path / "table" / "a=1") == [1, 2]


@pytest.mark.parametrize("log", [*LOGS, "_manifests/0000000001.json", "_metadata"])
@pytest.mark.parametrize("folder", ["a=1", "a=1/b=2"])
def test_a_partition_of_a_table_that_lists_its_files_is_refused(
    tmp_path: Path, log: str, folder: str
) -> None:
    write(tmp_path, "a=1/b=2/0.parquet", 1)
    write(tmp_path, "a=1/b=2/1.parquet", 2)
    write(tmp_path, log)
    with pytest.raises(ConfigurationError, match="table that lists them"):
        compaction(tmp_path / folder).run()
    assert values(tmp_path / "a=1") == [1, 2]


def test_a_file_that_changes_meanwhile_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a.jsonl", 1)
    write(tmp_path, "b.jsonl", 2)
    groups = FolderCompaction.groups

    def then_changed(self: FolderCompaction) -> Any:
        found = groups(self)
        os.utime(tmp_path / "a.jsonl", (1, 1))
        return found

    monkeypatch.setattr(FolderCompaction, "groups", then_changed)
    with pytest.raises(ConfigurationError, match="has changed"):
        compaction(tmp_path).run()
    assert values(tmp_path) == [1, 2]


def test_a_merged_file_that_is_gone_keeps_the_originals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a.jsonl", 1)
    write(tmp_path, "b.jsonl", 2)
    own = compaction(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(FolderCompaction, "_complete", lambda self, path: None)
        own.run()
    for path in (tmp_path / "_compaction" / "staged").glob("*/*"):
        path.unlink()
    with pytest.raises(DataLossError, match="is gone"):
        compaction(tmp_path).run()
    assert values(tmp_path) == [1, 2]


def test_the_command_shows_asks_and_merges(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, f"{number}.jsonl", number)
    shown = CliRunner().invoke(app, ["compact", str(tmp_path), "--dry-run"])
    assert "would merge 3 files into 1" in shown.output
    refused = CliRunner().invoke(app, ["compact", str(tmp_path)], input="n\n")
    assert refused.exit_code == 1
    assert len(visible(tmp_path)) == 3
    done = CliRunner().invoke(app, ["compact", str(tmp_path), "--yes", "--file-size", "1mb"])
    assert "merged 3 files" in done.output
    assert values(tmp_path) == [0, 1, 2]


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server(buckets=["lake"]) as server:
        yield server


def test_objects_are_merged_and_a_crash_is_completed(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = server.storage_options()
    revealed = {**options, "secret": options["secret"].reveal()}
    fs = s3fs.S3FileSystem(**revealed, use_listings_cache=False)
    url = f"s3://lake/{tmp_path.name}"
    for number in range(4):
        fs.pipe_file(f"{url}/{number}.jsonl", b'{"x": %d}\n' % number)
    own = compaction(url, storage_options=options)
    with monkeypatch.context() as patch:
        crashing(own, patch, 5)  # after some originals were removed
        with pytest.raises(Crash):
            own.run()
    assert len([name for name in fs.find(url) if "_compaction" not in name]) < 4
    compaction(url, storage_options=options, take_lock=True).run()
    [name] = fs.find(url)
    assert [json.loads(line)["x"] for line in fs.cat_file(name).splitlines()] == [0, 1, 2, 3]


@pytest.mark.parametrize("int96", [True, False])
def test_times_of_spark_are_merged_as_they_are(tmp_path: Path, int96: bool) -> None:
    table = pa.table({"t": pa.array([0], pa.timestamp("us", tz="UTC"))})
    footer = None if int96 else {"org.apache.spark.version": "2.4.8"}
    for name in ("a.parquet", "b.parquet"):
        found = table.replace_schema_metadata(footer)
        pq.write_table(found, tmp_path / name, use_deprecated_int96_timestamps=int96)
    before = pq.ParquetFile(tmp_path / "a.parquet")
    compaction(tmp_path).run()
    [merged] = visible(tmp_path)
    after = pq.ParquetFile(merged)
    assert after.metadata.num_rows == 2
    assert after.schema.equals(before.schema)
    assert after.metadata.metadata == before.metadata.metadata
