# SPDX-License-Identifier: Apache-2.0
"""Follows the hint of each kind of error literally, and ends with a running pipeline."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq
import pytest

import connector_filesystem
from connector_filesystem import FileSink, FileSource
from connectors_core.errors import ConnectorError
from connectors_core.records import RecordPolicy
from connectors_core.testing import HintCases, LocalPipeline

Steps = Generator[Callable[[], object], ConnectorError, None]
HINTS = HintCases(
    connector_filesystem,
    reasons={
        "UnmergeableFileError": "only `connectors files compact` raises it, and leaves the file",
    },
)
FIRST, BAD, LAST = range(100), range(100, 200), range(200, 300)


class Folder:
    """A monitored folder, and the pipeline that reads it. A case adds a bad file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / "in"
        self.options: dict[str, Any] = {"schema": "id BIGINT"}
        self.sink: dict[str, Any] = {}
        self.expected = [*FIRST, *LAST]

    def write(self, name: str, ids: range, **settings: Any) -> Path:
        path = self.path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        pq.write_table(pa.table({"id": list(ids)}), path, **settings)
        return path

    def run(self, *, policy: RecordPolicy | None = None, **options: Any) -> None:
        source = FileSource(self.path, **self.options, monitor_interval="1 s", **options)
        with LocalPipeline("p", checkpoint_location=str(self.root / "ck"), parallelism=1) as p:
            rows = p.from_source(source, uid="files")
            sink = FileSink(self.root / "out", **self.sink)
            p.sink_to(rows, sink, uid="sink", record_policy=policy or RecordPolicy.fail())
            p.run(timeout=30, available_now=True, drain=False)

    def skip_and_write_again(self, name: str) -> Steps:
        """Follow a hint to skip the bad file, and to write its rows under another name."""
        self.write("a.parquet", FIRST)
        self.write("c.parquet", LAST)
        error = yield self.run
        assert "set source.on-unreadable to skip" in str(error.hint)
        assert name in str(error.hint)
        self.write("d.parquet", BAD)
        self.expected = [*FIRST, *BAD, *LAST]
        yield lambda: self.run(on_unreadable="skip")

    def rows(self) -> list[int]:
        found: list[int] = []
        for each in (self.root / "out").glob("*.*"):
            read = pa.json.read_json if self.sink else pq.read_table
            found += read(each).column("id").to_pylist()
        return sorted(found)


# --- Cases ----------------------------------------------------------------------------------------


@HINTS.case("FILE_DAMAGED")
def damaged(folder: Folder) -> Steps:
    path = folder.write("b.parquet", BAD)
    content = bytearray(path.read_bytes())
    content[10:60] = b"\xff" * 50
    path.write_bytes(content)
    yield from folder.skip_and_write_again("under another name")


@HINTS.case("FILE_UNSUPPORTED")
def unsupported(folder: Folder) -> Steps:
    folder.write("b.parquet", BAD, row_group_size=10)
    read = pq.ParquetFile.iter_batches

    def refused(self: Any, *arguments: Any, **named: Any) -> Any:
        if self.metadata.num_row_groups > 1:
            raise pa.ArrowNotImplementedError("a new encoding")
        return read(self, *arguments, **named)

    with pytest.MonkeyPatch.context() as older:
        older.setattr(pq.ParquetFile, "iter_batches", refused)
        yield from folder.skip_and_write_again("under another name with other types")


@HINTS.case("FILE_ENCODING")
def encoded(folder: Folder) -> Steps:
    folder.path.mkdir()
    (folder.path / "b.csv").write_text("id\n1\n", encoding="utf-16")
    yield from folder.skip_and_write_again("under another name")


@HINTS.case("PARTITION")
def no_partition(folder: Folder) -> Steps:
    folder.write("b.parquet", BAD)
    folder.write("k=1/a.parquet", FIRST)
    folder.options["partition_columns"] = {"k": pa.int32()}
    error = yield folder.run
    assert "exclude such files with source.path.regex-pattern" in str(error.hint)
    folder.expected = [*FIRST]
    yield lambda: folder.run(path_regex=r"k=\d/.*")


@HINTS.case("SchemaChangedError")
def other_columns(folder: Folder) -> Steps:
    folder.path.mkdir()
    pq.write_table(pa.table({"other": [1]}), folder.path / "b.parquet")
    yield from folder.skip_and_write_again("with the columns of the schema")


@HINTS.case("FILE_RECORD")
def far_future(folder: Folder) -> Steps:
    folder.sink["format"] = "json"
    folder.options["schema"] = "id BIGINT, at TIMESTAMP"
    times = pa.array([1 << 60, *FIRST[1:]], pa.timestamp("us", "UTC"))
    folder.path.mkdir()
    pq.write_table(pa.table({"id": list(FIRST), "at": times}), folder.path / "a.parquet")
    folder.expected = [*FIRST[1:]]
    error = yield folder.run
    assert "record policy skip" in str(error.hint)
    yield lambda: folder.run(policy=RecordPolicy.skip())


# --- Tests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", HINTS.kinds)
def test_the_hint_of_an_error_leads_to_a_running_pipeline(tmp_path: Path, kind: str) -> None:
    folder = Folder(tmp_path)
    HINTS.follow(kind, folder)
    assert folder.rows() == folder.expected


def test_every_kind_of_error_has_a_case_or_a_reason() -> None:
    assert HINTS.differences() == []
