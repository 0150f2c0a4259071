# SPDX-License-Identifier: Apache-2.0
"""Tests the catalog suite: the catalog in memory passes, and broken ones fail one case each."""

from __future__ import annotations

from broken_catalogs import BROKEN
from broken_connectors import failed_cases_by_suite
from memory_tables import MemoryCatalogSuite

pytest_plugins = ["pytester"]

RUN = """
from broken_catalogs import BROKEN, broken_suite
globals().update({f"Test{name}": broken_suite(name) for name in BROKEN})
"""


class TestMemoryCatalog(MemoryCatalogSuite):
    pass


def test_each_broken_catalog_fails_the_intended_case(pytester):
    found = failed_cases_by_suite(pytester, RUN)
    assert found == {f"Test{name}": {each.seen_by} for name, each in BROKEN.items()}
