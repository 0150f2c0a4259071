# SPDX-License-Identifier: Apache-2.0
"""Runs the core's unit suites on files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from faulty_files import Storage
from file_suites import SINK, SOURCE, SUITES, CsvFiles, ParquetFiles, with_outages

from connector_filesystem import FILE_TABLE_OPTIONS, FileSink, FileSource, FileTable
from connector_filesystem.sink.file_sink import FILE_SINK_OPTIONS
from connector_filesystem.sink.writer import FileCommittable
from connector_filesystem.source.enumerator import FileEnumeratorState
from connector_filesystem.source.file_source import FILE_SOURCE_OPTIONS
from connector_filesystem.source.split import FileSplit
from connectors_core.source import Boundedness
from connectors_core.testing import (
    Capabilities,
    Capability,
    CommitterTestSuite,
    OptionsTestSuite,
    SerializerTestSuite,
    SourceReaderTestSuite,
    SplitEnumeratorTestSuite,
)

pytestmark = pytest.mark.cell

STATE = Path(__file__).parent / "state"
OPTIONS = Capabilities(can=frozenset({Capability.SECRETS}))


class SmallBatches(CsvFiles):
    """Files that are read in many steps."""

    def create_source(self, boundedness: Boundedness) -> FileSource:
        return super().create_source(boundedness, batch_rows=7)


class OnStorage:
    """The shared setup of the source suites on storage that can be unavailable."""

    system = Storage()
    written_for = SUITES
    capabilities = with_outages(SOURCE)

    def external_context(self, folder: Path) -> CsvFiles:
        return SmallBatches(folder, self.address)


class TestFileReader(OnStorage, SourceReaderTestSuite):
    pass


class TestFileEnumerator(OnStorage, SplitEnumeratorTestSuite):
    pass


class FilesInAnyOrder(SmallBatches):
    """Files that the source tracks individually."""

    def create_source(self, boundedness: Boundedness) -> FileSource:
        return CsvFiles.create_source(self, boundedness, batch_rows=7, order="any")


class TestFileEnumeratorInAnyOrder(SplitEnumeratorTestSuite):
    written_for = SUITES
    capabilities = SOURCE

    def external_context(self, folder: Path) -> CsvFiles:
        return FilesInAnyOrder(folder)


class TestFileSourceSerializers(SerializerTestSuite):
    written_for = SUITES
    capabilities = SOURCE
    state_folder = STATE

    def external_context(self, folder: Path) -> CsvFiles:
        return SmallBatches(folder)

    def examples(self) -> Mapping[str, list[object]]:
        split = FileSplit(
            split_id="/data/in/a.csv@1700000000000000:0-100",
            path="/data/in/a.csv",
            size=250,
            modification_time=1_700_000_000_000_000,
            etag="9b2cf535f27731c974343645a3985328",  # pragma: allowlist secret
            start=0,
            end=100,
            event_time=1_600_000_000_000_000,
            offset=40,
            rows=3,
            bad_records=1,
            remaining=60,
        )
        state = FileEnumeratorState(
            pending=(split,),
            complete=True,
            newest=1_700_000_000_000_000,
            recent=("/data/in/a.csv@1700000000000000",),
            last_paths={"/data/in": "a.csv"},
            read=bytes(range(12)),
            listed=bytes(range(8)),
        )
        return {"split": [split], "enumerator-state": [state, FileEnumeratorState()]}


class TestFileCommitter(CommitterTestSuite):
    written_for = SUITES
    capabilities = SINK

    def external_context(self, folder: Path) -> ParquetFiles:
        return ParquetFiles(folder)


class TestFileCommitterElsewhere(CommitterTestSuite):
    """The committer on storage without links."""

    system = Storage()
    written_for = SUITES
    capabilities = with_outages(SINK)

    def external_context(self, folder: Path) -> ParquetFiles:
        return ParquetFiles(folder, self.address)


class TestFileSinkSerializer(SerializerTestSuite):
    written_for = SUITES
    state_folder = STATE

    def external_context(self, folder: Path) -> ParquetFiles:
        return ParquetFiles(folder)

    def examples(self) -> Mapping[str, list[object]]:
        file = FileCommittable(
            staged_path="_staging/p-1/out/0000000001/00000-0-1a2b/0",
            final_path="day=2024-01-01/part-0000000001-1a2b-0.parquet",
            rows=20,
            size=4096,
        )
        return {"committable": [file]}


class TestFileSourceOptions(OptionsTestSuite):
    written_for = SUITES
    capabilities = OPTIONS
    factory = FileSource
    options = FILE_SOURCE_OPTIONS

    def valid_options(self, folder: Path) -> dict[str, Any]:
        return {"path": str(folder), "format": "csv", "schema": "id BIGINT, name STRING"}


class TestFileSinkOptions(OptionsTestSuite):
    written_for = SUITES
    capabilities = OPTIONS
    factory = FileSink
    options = FILE_SINK_OPTIONS

    def valid_options(self, folder: Path) -> dict[str, Any]:
        return {"path": str(folder), "format": "parquet"}


class TestFileTableOptions(OptionsTestSuite):
    written_for = SUITES
    capabilities = OPTIONS
    factory = FileTable
    options = FILE_TABLE_OPTIONS

    def valid_options(self, folder: Path) -> dict[str, Any]:
        return {"path": str(folder), "format": "csv", "schema": "id BIGINT, name STRING"}
