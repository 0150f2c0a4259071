# SPDX-License-Identifier: Apache-2.0
"""Runs the core's unit suites on files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from faulty_files import Storage
from file_suites import SINK, SOURCE, SUITES, CsvFiles, OfSink, OfSource, with_outages

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


class SmallBatches(CsvFiles):
    """Files that are read in many steps."""

    def create_source(self, boundedness: Boundedness) -> FileSource:
        return super().create_source(boundedness, batch_rows=7)


class OnStorage(OfSource):
    """The shared setup of the source suites on storage that can be unavailable."""

    system = Storage()
    capabilities = with_outages(SOURCE)
    files = SmallBatches


class TestFileReader(OnStorage, SourceReaderTestSuite):
    pass


class TestFileEnumerator(OnStorage, SplitEnumeratorTestSuite):
    pass


class FilesInAnyOrder(SmallBatches):
    """Files that the source tracks individually."""

    def create_source(self, boundedness: Boundedness) -> FileSource:
        return CsvFiles.create_source(self, boundedness, batch_rows=7, order="any")


class TestFileEnumeratorInAnyOrder(OfSource, SplitEnumeratorTestSuite):
    files = FilesInAnyOrder


class TestFileSourceSerializers(OfSource, SerializerTestSuite):
    state_folder = STATE
    files = SmallBatches

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


class TestFileCommitter(OfSink, CommitterTestSuite):
    pass


class TestFileCommitterElsewhere(OfSink, CommitterTestSuite):
    """The committer on storage without links."""

    system = Storage()
    capabilities = with_outages(SINK)


class TestFileSinkSerializer(OfSink, SerializerTestSuite):
    state_folder = STATE

    def examples(self) -> Mapping[str, list[object]]:
        file = FileCommittable(
            staged_path="_staging/p-1/out/0000000001/00000-0-1a2b/0",
            final_path="day=2024-01-01/part-0000000001-1a2b-0.parquet",
            rows=20,
            size=4096,
        )
        return {"committable": [file]}


class OfOptions:
    """Settings that the suites of options share."""

    written_for = SUITES
    capabilities = Capabilities(can=frozenset({Capability.SECRETS}))

    def valid_options(self, folder: Path) -> dict[str, Any]:
        return {"path": str(folder), "format": "csv", "schema": "id BIGINT, name STRING"}


class TestFileSourceOptions(OfOptions, OptionsTestSuite):
    factory = FileSource
    options = FILE_SOURCE_OPTIONS


class TestFileSinkOptions(OfOptions, OptionsTestSuite):
    factory = FileSink
    options = FILE_SINK_OPTIONS

    def valid_options(self, folder: Path) -> dict[str, Any]:
        return {"path": str(folder), "format": "parquet"}


class TestFileTableOptions(OfOptions, OptionsTestSuite):
    factory = FileTable
    options = FILE_TABLE_OPTIONS
