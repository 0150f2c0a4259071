# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suites on files in this process, on storage that can be unavailable."""

from __future__ import annotations

from pathlib import Path

import pytest
from faulty_files import Storage
from file_suites import (
    SINK,
    SOURCE,
    CompactedFiles,
    CsvFiles,
    FileSinkSuite,
    FileSourceSuite,
    FileTableSuite,
    ListedFiles,
    ParquetFiles,
    with_outages,
)


class TestFileSource(FileSourceSuite):
    system = Storage()
    capabilities = with_outages(SOURCE)

    def external_context(self, folder: Path) -> CsvFiles:
        return CsvFiles(folder, self.address)


class TestFileSink(FileSinkSuite):
    system = Storage()
    capabilities = with_outages(SINK)

    def external_context(self, folder: Path) -> ParquetFiles:
        return ParquetFiles(folder, self.address)


class TestCompactingFileSink(FileSinkSuite):
    system = Storage()
    capabilities = with_outages(SINK)
    # A backup does not contain the files that the sink holds, as docs/operate.md says.
    test_state_that_is_older_than_the_output_is_named_before_rows_are_written_again = None

    def external_context(self, folder: Path) -> CompactedFiles:
        return CompactedFiles(folder, self.address)


@pytest.mark.slow
class TestSinkWithManifests(FileSinkSuite):
    def external_context(self, folder: Path) -> ListedFiles:
        return ListedFiles(folder)


class TestFileTable(FileTableSuite):
    system = Storage()
