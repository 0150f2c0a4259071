# SPDX-License-Identifier: Apache-2.0
"""The report of the suites: the outcomes of the cases, and what did not run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path


class Outcome(StrEnum):
    """The outcome of a case."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_JUDGED = "not judged"
    NOT_APPLICABLE = "not applicable"
    NEW_PASSED = "new, passed"
    NEW_FAILED = "new, failed"


@dataclass(frozen=True, order=True)
class CaseResult:
    """A case of a connector's suite.

    Attributes:
        suite: The connector's class.
        case: The case, with its parameters.
        outcome: The outcome.
        reason: Why the case was not judged or does not apply, or the first line of its error.
        seconds: The duration.
    """

    suite: str
    case: str
    outcome: Outcome
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class NotRun:
    """The cells and tests that a run left out.

    A cell is a Spark line on which the tests in `tests/spark` run.

    Attributes:
        cells: The Spark lines of the other cells, each with the command that runs its cell.
        cases: The IDs of the deselected tests.
    """

    cells: Mapping[str, str] = field(default_factory=dict)
    cases: tuple[str, ...] = ()

    def without(self, results: Sequence[CaseResult]) -> NotRun:
        """Return it without the cases whose results say why they did not run."""
        explained = {f"{each.suite}::{each.case}" for each in results}
        cases = (each for each in self.cases if each.partition("::")[2] not in explained)
        return NotRun(self.cells, tuple(cases))


@dataclass(frozen=True)
class ConnectorReport:
    """All cases of a run.

    Attributes:
        suite_version: The version of the suites.
        results: The results of the cases.
        systems: The external systems by name, with the used instance of each.
        not_run: The cells and tests that the run left out.
    """

    suite_version: str
    results: tuple[CaseResult, ...]
    systems: Mapping[str, str] = field(default_factory=dict)
    not_run: NotRun = NotRun()

    @property
    def passed(self) -> bool:
        """Whether no case failed, apart from new ones."""
        return all(result.outcome is not Outcome.FAILED for result in self.results)

    def to_json(self) -> str:
        """Return the report as JSON."""
        counts = {outcome.value: self._count(outcome) for outcome in Outcome}
        document = {
            "suite_version": self.suite_version,
            "passed": self.passed,
            "systems": dict(self.systems),
            "counts": counts,
            "results": [asdict(result) for result in sorted(self.results)],
            "not_run": {"cells": list(self.not_run.cells), "cases": list(self.not_run.cases)},
        }
        return json.dumps(document, indent=2) + "\n"

    def to_markdown(self) -> str:
        """Return the report as a table."""
        lines = [
            f"# Connector report, suites {self.suite_version}",
            "",
            ", ".join(f"{self._count(o)} {o.value}" for o in Outcome if self._count(o))
            or "no case",
        ]
        for name, choice in sorted(self.systems.items()):
            lines += ["", f"{name}: {choice}"]
        for suite in sorted({result.suite for result in self.results}):
            lines += ["", f"## {suite}", "", "| Case | Outcome | |", "| --- | --- | --- |"]
            lines += [
                f"| {_cell(result.case)} | {result.outcome} | {_cell(result.reason)} |"
                for result in sorted(self.results)
                if result.suite == suite
            ]
        rest = [f"| Spark {line} | a cell: `{run}` |" for line, run in self.not_run.cells.items()]
        rest += [f"| {_cell(case)} | deselected |" for case in self.not_run.cases]
        if rest:
            lines += ["", "## Not run", "", "| Cell or case | |", "| --- | --- |", *rest]
        return "\n".join(lines) + "\n"

    def write(self, path: Path) -> Sequence[Path]:
        """Write ``<path>.json`` and ``<path>.md``, without any such suffix of the path."""
        stem = path.with_suffix("") if path.suffix in (".json", ".md") else path
        stem.parent.mkdir(parents=True, exist_ok=True)
        files = (stem.with_name(stem.name + ".json"), stem.with_name(stem.name + ".md"))
        files[0].write_text(self.to_json(), encoding="utf-8")
        files[1].write_text(self.to_markdown(), encoding="utf-8")
        return files

    def _count(self, outcome: Outcome) -> int:
        return sum(result.outcome is outcome for result in self.results)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
