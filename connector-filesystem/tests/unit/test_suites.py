# SPDX-License-Identifier: Apache-2.0
"""The suites of the core, on files, in this process."""

from __future__ import annotations

from file_suites import FileSinkSuite, FileSourceSuite, FileTableSuite


class TestFileSource(FileSourceSuite):
    pass


class TestFileSink(FileSinkSuite):
    pass


class TestFileTable(FileTableSuite):
    pass
