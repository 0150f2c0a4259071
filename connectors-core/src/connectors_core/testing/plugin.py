# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin of the suites: selects cases by capability and reports them.

Loaded by pytest through the entry point of the package, so it imports little.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from connectors_core.testing.cases import SUITE_VERSION, ConnectorSuite, case_of
from connectors_core.testing.report import CaseResult, ConnectorReport, Outcome

_OUTPUT: Final = "connectors_not_applicable"
_CASE_KEY: Final = "connector_case"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--connector-report``."""
    parser.getgroup("connectors").addoption(
        "--connector-report",
        metavar="PATH",
        help="write what the connector suites found to PATH.json and PATH.md",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect results for the report."""
    config.addinivalue_line("markers", "slow: left to a full run")
    config.pluginmanager.register(_Results(config), "connectors-results")


class _Results:
    """Results of the suites; with pytest-xdist those of all workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._not_applicable: set[CaseResult] = set()
        self._results: dict[str, CaseResult] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Take out what does not apply; mark what is new."""
        kept, out = [], []
        for item in items:
            suite = getattr(item, "cls", None)
            found = case_of(getattr(item, "function", None))
            if found is None or suite is None or not issubclass(suite, ConnectorSuite):
                kept.append(item)
                continue
            if missing := suite.undeclared():
                raise pytest.UsageError(
                    f"{suite.__name__} says nothing about {', '.join(missing)}: put each into "
                    "`can`, or into `cannot` with the reason"
                )
            reason = suite.capabilities.reason_against(found.needs)
            if reason is not None:
                self._not_applicable.add(
                    CaseResult(suite.__name__, item.name, Outcome.NOT_APPLICABLE, reason)
                )
                out.append(item)
                continue
            new = suite.is_new(found)
            if new:
                item.add_marker(
                    pytest.mark.xfail(reason=f"new in suites {found.since}", strict=False)
                )
            item.user_properties.append((_CASE_KEY, [suite.__name__, item.name, new]))
            kept.append(item)
        if out:
            self._config.hook.pytest_deselected(items=out)
            items[:] = kept

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a case ended."""
        found: Any = dict(report.user_properties).get(_CASE_KEY)
        if found is None:
            return
        suite, name, new = found
        before = self._results.get(report.nodeid)
        failed = report.failed or (hasattr(report, "wasxfail") and report.skipped)
        if before is not None and before.outcome in (Outcome.FAILED, Outcome.NEW_FAILED):
            return
        if new:
            outcome = Outcome.NEW_FAILED if failed else Outcome.NEW_PASSED
        else:
            outcome = Outcome.FAILED if failed else Outcome.PASSED
        self._results[report.nodeid] = CaseResult(
            suite,
            name,
            outcome,
            _first_line(report) if failed else "",
            round(report.duration + (before.seconds if before else 0.0), 3),
        )

    def pytest_sessionfinish(self) -> None:
        """Hand on what a worker knows, or write the report."""
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[_OUTPUT] = [
                (each.suite, each.case, each.reason) for each in sorted(self._not_applicable)
            ]
            return
        path = self._config.getoption("--connector-report")
        if path:
            self.report().write(Path(path))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker of pytest-xdist knows."""
        for suite, name, reason in getattr(node, "workeroutput", {}).get(_OUTPUT, ()):
            self._not_applicable.add(CaseResult(suite, name, Outcome.NOT_APPLICABLE, reason))

    def report(self) -> ConnectorReport:
        """All that was found."""
        return ConnectorReport(SUITE_VERSION, (*self._results.values(), *self._not_applicable))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what did not apply and what is new: nothing is left out in silence."""
        results = self.report().results
        if not results:
            return
        terminalreporter.section("connector suites")
        for suite in sorted({result.suite for result in results}):
            own = [result for result in results if result.suite == suite]
            terminalreporter.line(f"{suite}: {_counts(own)}")
            for result in sorted(own):
                if result.outcome is not Outcome.PASSED:
                    terminalreporter.line(f"  {result.outcome}: {result.case}  {result.reason}")


def _counts(results: Sequence[CaseResult]) -> str:
    counts = {o: sum(result.outcome is o for result in results) for o in Outcome}
    return ", ".join(f"{number} {outcome}" for outcome, number in counts.items() if number)


def _first_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message if crash is not None else report.longrepr or "")
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:200]
