# SPDX-License-Identifier: Apache-2.0
"""Runs the core's suites for tables and catalogs on files and on broken ones, without Spark."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest
from broken_file_tables import BROKEN
from file_table_suites import FileCatalogSuite, FileTableSuite, KeyedFileTableSuite

from connector_filesystem.table_factory import FileTableFactory

pytest_plugins = ["pytester"]

RUN_BROKEN = """
from broken_file_tables import BROKEN, broken_suite
globals().update({f"Test{name}": broken_suite(name) for name in BROKEN})
"""


class TestFileTables(FileTableSuite):
    pass


class TestKeyedFileTables(KeyedFileTableSuite):
    pass


class TestFileCatalog(FileCatalogSuite):
    pass


def test_each_broken_table_and_catalog_fails_the_intended_case(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nconnector_suites = true")
    pytester.makepyfile(test_broken=RUN_BROKEN)
    pytester.runpytest("-q", "--connector-report", "report")
    failed = defaultdict(set)
    # Another class is registered, and the case that says so fails with every broken factory.
    registered = "test_the_factory_is_found_by_its_identifier"
    for each in json.loads((pytester.path / "report.json").read_text())["results"]:
        if each["outcome"] == "failed":
            failed[each["suite"]].add(each["case"])
    expected = {
        f"Test{name}": {each.seen_by, *([registered] if issubclass(each, FileTableFactory) else [])}
        for name, each in BROKEN.items()
    }
    assert failed == expected
