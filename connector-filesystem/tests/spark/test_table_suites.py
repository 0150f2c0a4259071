# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suites for tables and changelogs on files, with statements."""

from __future__ import annotations

import pytest
from file_table_suites import FileTableSuite, KeyedFileChangelogSuite, KeyedFileTableSuite


class TestFileTablesOnSpark(FileTableSuite):
    on_spark = True


@pytest.mark.line("4.3")  # a full run tests both lines
class TestKeyedFileTablesOnSpark(KeyedFileTableSuite):
    on_spark = True


@pytest.mark.line("3.5")  # a full run tests both lines
class TestKeyedFileChangelogsOnSpark(KeyedFileChangelogSuite):
    on_spark = True
