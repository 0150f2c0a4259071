# SPDX-License-Identifier: Apache-2.0
"""Records what a run leaves out: the cells of a connector, and what options deselect."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import pytest

from connectors_core.testing.plugin import declared_connector
from connectors_core.testing.report import NotRun

_OUTPUT: Final = "connectors_deselected"
_CELL: Final = "tests/spark/"


class Selection:
    """The plugin that records what a run leaves out. It includes all pytest-xdist workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._deselected: set[str] = set()
        self._is_cell = False

    def not_run(self) -> NotRun:
        """Return what the run has left out."""
        return NotRun(self._cells(), tuple(sorted(self._deselected)))

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Record the cases that do not run."""
        self._deselected |= {item.nodeid for item in items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record whether this run is that of a cell."""
        self._is_cell |= report.when == "call" and _CELL in report.nodeid

    def pytest_sessionfinish(self) -> None:
        """Send the deselected cases of a pytest-xdist worker."""
        if (output := getattr(self._config, "workeroutput", None)) is not None:
            output[_OUTPUT] = sorted(self._deselected)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Receive the deselected cases of a pytest-xdist worker."""
        self._deselected |= set(getattr(node, "workeroutput", {}).get(_OUTPUT, ()))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Name the cells that did not run."""
        for line, command in self._cells().items():
            terminalreporter.line(f"not run: the cell of Spark {line}; run it with `{command}`")

    def _cells(self) -> dict[str, str]:
        connector = declared_connector(self._config) or {}
        here = _spark_line() if self._is_cell else None
        return {
            line: f"tox run -e spark{line.replace('.', '')}"
            for line in connector.get("spark", ())
            if line != here
        }


def _spark_line() -> str | None:
    try:
        return ".".join(version("pyspark").split(".")[:2])
    except PackageNotFoundError:
        return None
