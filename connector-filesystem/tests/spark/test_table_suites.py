# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suite for tables on files, with statements."""

from __future__ import annotations

from file_table_suites import FileTableSuite


class TestFileTablesOnSpark(FileTableSuite):
    on_spark = True
