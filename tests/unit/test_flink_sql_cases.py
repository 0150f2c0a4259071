# SPDX-License-Identifier: Apache-2.0
"""Tests that the page of Flink's cases names tests that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/dev/flink-sql-cases.md"
HEADER = ["Case", "Demand", "Here", "Test", "Difference and reason"]
WITH_TEST = {"same", "differs"}
WITH_REASON = {"differs", "does not apply"}


@cache
def existing_tests() -> frozenset[str]:
    """Return the names of all tests, also of those that the core offers to connectors."""
    folders = [*ROOT.glob("*/tests"), ROOT / "tests"]
    folders.append(ROOT / "connectors-core/src/connectors_core/testing")
    sources = (file.read_text(encoding="utf-8") for each in folders for file in each.rglob("*.py"))
    return frozenset(name for text in sources for name in re.findall(r"def (test_\w+)", text))


def cases() -> list[tuple[str, list[str]]]:
    """Return the class and the cells of each case."""
    found, title = [], ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            title = line.lstrip("# ")
        cells = [each.strip() for each in line.split("|")[1:-1]]
        if len(cells) == len(HEADER) and cells != HEADER and not set(cells[0]) <= {"-"}:
            found.append((title, cells))
    return found


@pytest.mark.parametrize(("title", "cells"), cases(), ids=lambda each: str(each)[:60])
def test_a_case_has_a_result_and_existing_tests(title: str, cells: list[str]) -> None:
    case, demand, result, named, reason = cells
    assert re.fullmatch(r"[a-z]\w+", case)
    assert demand
    assert result in WITH_TEST | WITH_REASON
    names = re.findall(r"`(\w+)`", named)
    assert ", ".join(f"`{each}`" for each in names) == named
    assert set(names) <= existing_tests()
    assert names or result not in WITH_TEST
    assert reason or result not in WITH_REASON


def test_each_case_of_a_class_is_listed_once() -> None:
    listed = [(title, cells[0]) for title, cells in cases()]
    assert len(listed) == len(set(listed))
    assert len(listed) > 150
