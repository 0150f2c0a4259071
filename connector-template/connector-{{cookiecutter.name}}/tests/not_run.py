# SPDX-License-Identifier: Apache-2.0
"""Adds what a run leaves out to its report: the cells, and the cases that options deselect."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


class NotRun:
    """A cell is a Spark line on which the tests in `tests/spark` run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._deselected: set[str] = set()
        self._is_cell = False

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Record the cases that do not run; the suites explain some of them in the report."""
        self._deselected |= {item.nodeid for item in items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record whether this run is that of a cell."""
        self._is_cell |= report.when == "call" and "tests/spark/" in report.nodeid

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Receive the deselected cases of a pytest-xdist worker."""
        self._deselected |= set(getattr(node, "workeroutput", {}).get("not_run", ()))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Extend the report, which exists now."""
        if (output := getattr(self._config, "workeroutput", None)) is not None:
            output["not_run"] = sorted(self._deselected)
        elif path := self._config.getoption("--connector-report", None):
            stem = path.removesuffix(".json").removesuffix(".md")
            self._extend(Path(f"{stem}.json"), Path(f"{stem}.md"))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Name the cells that did not run."""
        for line, command in self._cells():
            terminalreporter.line(f"not run: the cell of Spark {line}; run it with `{command}`")

    def _extend(self, as_json: Path, as_markdown: Path) -> None:
        report = json.loads(as_json.read_text(encoding="utf-8"))
        explained = {f"{each['suite']}::{each['case']}" for each in report["results"]}
        cases = [each for each in self._deselected if each.partition("::")[2] not in explained]
        cells = dict(self._cells())
        report["not_run"] = {"cells": list(cells), "cases": sorted(cases)}
        as_json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        rows = [f"| Spark {line} | a cell: `{command}` |" for line, command in cells.items()]
        rows += [f"| {each} | deselected |" for each in sorted(cases)]
        table = ["", "## Not run", "", "| Cell or case | |", "| --- | --- |", *rows, ""]
        with as_markdown.open("a", encoding="utf-8") as file:
            file.write("\n".join(table) if rows else "")

    def _cells(self) -> Iterator[tuple[str, str]]:
        """Yield the Spark lines that this run did not test, each with the command of its cell."""
        here = ".".join(version("pyspark").split(".")[:2]) if self._is_cell else None
        declared = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["tool"]["connector"]["spark"]
        for line in declared:
            if line != here:
                yield line, f"tox run -e spark{line.replace('.', '')}"
