# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suites on files, on Spark."""

from __future__ import annotations

from file_suites import FileSinkSuite, FileSourceSuite, FileTableSuite


class TestFileSourceOnSpark(FileSourceSuite):
    on_spark = True


class TestFileSinkOnSpark(FileSinkSuite):
    on_spark = True


class TestFileTableOnSpark(FileTableSuite):
    on_spark = True
