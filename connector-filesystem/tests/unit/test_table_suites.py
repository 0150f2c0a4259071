# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suites for tables and catalogs on files, without Spark."""

from __future__ import annotations

from file_table_suites import FileCatalogSuite, FileTableSuite


class TestFileTables(FileTableSuite):
    pass


class TestFileCatalog(FileCatalogSuite):
    pass
