# SPDX-License-Identifier: Apache-2.0
"""Tests that the option tables in the docs match the code."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
TABLE = re.compile(r"<!-- options of (\S+)\.(\w+),.*? -->\n\n(.*?)\n<!-- end -->", re.DOTALL)


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_option_tables_match_the_declared_options(path: Path) -> None:
    tables = TABLE.findall(path.read_text(encoding="utf-8"))
    assert tables, "there is no table of options"
    for module, name, table in tables:
        assert table == getattr(importlib.import_module(module), name).markdown()
