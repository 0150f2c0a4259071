# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin of the suites: selects cases by capability and reports them.

`connectors_core.testing.plugin` loads it in projects that request it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from connectors_core.testing.cases import (
    COVERED_ON_SPARK,
    SEPARATE_DRIVERS,
    SLOW_ON_SPARK,
    SUITE_VERSION,
    Case,
    ConnectorSuite,
    case_of,
)
from connectors_core.testing.not_run import Selection
from connectors_core.testing.report import CaseResult, ConnectorReport, Outcome
from connectors_core.testing.share import OPTION as SHARE_OPTION
from connectors_core.testing.share import SHARED, is_left_to_others, parse_share
from connectors_core.testing.stored_state import WRITE_OPTION
from connectors_core.testing.system import RunningSystems

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from connectors_core.testing.environment import LocalSpark

_NOT_RUN: Final = "connectors_not_run"
_SELECTED: Final = "connectors_selected"
_SYSTEMS: Final = "connectors_systems"
_CASE_KEY: Final = "connector_case"
_RESULTS: Final = "connectors-results"
_EVERY_PAIR: Final = "--connector-every-pair"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the suites."""
    group = parser.getgroup("connectors")
    group.addoption(
        "--connector-report",
        metavar="PATH",
        help="write the results of the connector suites to PATH.json and PATH.md",
    )
    group.addoption(
        WRITE_OPTION,
        action="store_true",
        help="let the serializer suites write the missing files of stored state",
    )
    group.addoption(
        "--connector-environment",
        choices=("local", "cluster"),
        default="local",
        help="the Spark of the fixture `spark`: in this process, or a cluster with two workers",
    )
    group.addoption(
        _EVERY_PAIR,
        action="store_true",
        help="also run on Spark each pair of a frozen driver and its successor",
    )
    group.addoption(
        SHARE_OPTION,
        type=parse_share,
        metavar="RUN/RUNS",
        help=(
            f"share tests marked {SHARED}, and slow cases that kill or freeze drivers, between "
            "several runs, suite by suite, such as 1/2 with Spark 3.5 and 2/2 with Spark 4.3"
        ),
    )


def pytest_configure(config: pytest.Config) -> None:
    """Collect results for the report."""
    config.addinivalue_line("markers", "cell: run in every cell of the compatibility matrix")
    config.addinivalue_line("markers", "slow: runs only in a full test run")
    config.addinivalue_line("markers", f"{SLOW_ON_SPARK}: slow in a suite that runs on Spark")
    config.addinivalue_line(
        "markers", f"{COVERED_ON_SPARK}: left out on Spark, where other parameters cover it"
    )
    config.addinivalue_line(
        "markers", f"{SEPARATE_DRIVERS}: kills or freezes drivers in separate processes"
    )
    config.addinivalue_line("markers", f"{SHARED}: shared between several runs ({SHARE_OPTION})")
    config.addinivalue_line("markers", "timeout(seconds): the time limit with pytest-timeout")
    selection = Selection(config)
    config.pluginmanager.register(selection)
    config.pluginmanager.register(_Results(config, selection), _RESULTS)


@pytest.fixture(scope="session")
def connector_systems(pytestconfig: pytest.Config) -> Iterator[RunningSystems]:
    """The external systems of the run. ``address(system)`` starts a system at its first use."""
    results: Any = pytestconfig.pluginmanager.get_plugin(_RESULTS)
    with closing(RunningSystems()) as systems:
        results.systems = systems.choices
        yield systems


@pytest.fixture(scope="session")
def spark_environment(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalSpark]:
    """The environment for the pipelines of suites with ``on_spark``.

    See ``--connector-environment``.
    """
    from connectors_core.testing.spark_session import running_spark

    cluster = pytestconfig.getoption("--connector-environment") == "cluster"
    with running_spark(tmp_path_factory.mktemp("spark"), cluster=cluster) as environment:
        yield environment


@pytest.fixture(scope="session")
def spark(spark_environment: LocalSpark) -> SparkSession:
    """The Spark session of all tests of a run."""
    return spark_environment.spark


@dataclass(frozen=True)
class _Judged:
    """A case that ran or was skipped, with the cases that it presupposes."""

    result: CaseResult
    after: tuple[str, ...]


class _Results:
    """The results of the suites. With pytest-xdist, they include those of all workers."""

    def __init__(self, config: pytest.Config, selection: Selection) -> None:
        self._config = config
        self._selection = selection
        self._not_run: set[CaseResult] = set()
        self._selected: dict[str, tuple[str, str, bool]] = {}  # suite, case, and whether it is new
        self._seconds: dict[str, float] = {}  # of cases that have not ended
        self._crashes: dict[str, str] = {}
        self._judged: dict[str, _Judged] = {}
        self._failed: set[tuple[str, str]] = set()  # suite and function
        self.systems: dict[str, str] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Deselect cases that do not apply, and mark new ones."""
        kept: list[pytest.Item] = []
        out: list[pytest.Item] = []
        for item in items:
            suite = getattr(item, "cls", None)
            found = case_of(getattr(item, "function", None))
            if found is None or suite is None or not issubclass(suite, ConnectorSuite):
                left = is_left_to_others(self._config.getoption(SHARE_OPTION), item)
                (out if left else kept).append(item)
                continue
            if missing := suite.undeclared():
                raise pytest.UsageError(
                    f"{suite.__name__} does not declare {', '.join(missing)}: put each into "
                    "`can`, or into `cannot` with the reason"
                )
            if left_out := self._left_out(item, suite, found):
                self._not_run.add(CaseResult(suite.__name__, item.name, *left_out))
                out.append(item)
                continue
            if suite.on_spark and item.get_closest_marker(SLOW_ON_SPARK):
                item.add_marker(pytest.mark.slow)
            new = suite.is_new(found)
            if new:
                item.add_marker(
                    pytest.mark.xfail(reason=f"new in suites {found.since}", strict=False)
                )
            item.user_properties.append((_CASE_KEY, [suite.__name__, item.name, new, found.after]))
            if not self._config.option.collectonly:
                self._selected[item.nodeid] = (suite.__name__, item.name, new)
            kept.append(item)
        if out:
            self._config.hook.pytest_deselected(items=out)
            items[:] = kept

    def _left_out(
        self, item: pytest.Item, suite: type[ConnectorSuite], found: Case
    ) -> tuple[Outcome, str] | None:
        """Return why a suite never runs a case, or None if it does."""
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if reason := suite.reason_against(found, parameters):
            return Outcome.NOT_APPLICABLE, reason
        covered = suite.on_spark and item.get_closest_marker(COVERED_ON_SPARK)
        if covered and not self._config.getoption(_EVERY_PAIR):
            return Outcome.NOT_JUDGED, f"on Spark, other pairs cover it ({_EVERY_PAIR})"
        if is_left_to_others(self._config.getoption(SHARE_OPTION), item):
            return Outcome.NOT_JUDGED, f"another run has it ({SHARE_OPTION})"
        return None

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Record which slow cases this run does not execute."""
        for item in items:
            self._selected.pop(item.nodeid, None)
            known: Any = dict(item.user_properties).get(_CASE_KEY)
            if known is not None and item.get_closest_marker("slow"):
                suite, name, _, _ = known
                reason = "slow, runs only in a full test run"
                self._not_run.add(CaseResult(suite, name, Outcome.NOT_JUDGED, reason))

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Do not run a case that presupposes a failed one."""
        known: Any = dict(item.user_properties).get(_CASE_KEY)
        if known is not None:
            suite, _, _, after = known
            cause = self._failed_of(suite, tuple(after))
            if cause is not None:
                pytest.skip(f"not judged: {cause} failed")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the outcome of a case."""
        known: Any = dict(report.user_properties).get(_CASE_KEY)
        if known is None:
            if report.failed:  # perhaps a case whose pytest-xdist worker crashed
                self._crashes[report.nodeid] = _first_line(report)
            return
        if report.nodeid in self._judged:
            return
        suite, name, new, after = known
        seconds = self._seconds.pop(report.nodeid, 0.0) + report.duration
        expected_to_fail = hasattr(report, "wasxfail")
        failed = report.failed or (expected_to_fail and report.skipped)
        reason = ""
        if failed:
            outcome = Outcome.NEW_FAILED if new else Outcome.FAILED
            reason = _first_line(report)
        elif report.skipped:
            cause = self._failed_of(suite, tuple(after))
            outcome = Outcome.NOT_APPLICABLE if cause is None else Outcome.NOT_JUDGED
            reason = _skip_reason(report)
        elif report.when == "teardown":
            outcome = Outcome.NEW_PASSED if new else Outcome.PASSED
        else:
            self._seconds[report.nodeid] = seconds
            return
        result = CaseResult(suite, name, outcome, reason, round(seconds, 3))
        self._judged[report.nodeid] = _Judged(result, tuple(after))
        if outcome in (Outcome.FAILED, Outcome.NEW_FAILED, Outcome.NOT_JUDGED):
            self._failed.add((suite, name.partition("[")[0]))

    def _failed_of(self, suite: str, after: tuple[str, ...]) -> str | None:
        """Return the first of some cases that failed or was not judged."""
        return next((name for name in after if (suite, name) in self._failed), None)

    def pytest_sessionfinish(self) -> None:
        """Send the results of a worker, or write the report."""
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[_NOT_RUN] = [
                (each.suite, each.case, each.outcome.value, each.reason)
                for each in sorted(self._not_run)
            ]
            output[_SELECTED] = self._selected
            output[_SYSTEMS] = dict(self.systems)
            return
        path = self._config.getoption("--connector-report")
        if path:
            self.report().write(Path(path))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Receive the results of a pytest-xdist worker."""
        output = getattr(node, "workeroutput", {})
        for suite, name, outcome, reason in output.get(_NOT_RUN, ()):
            self._not_run.add(CaseResult(suite, name, Outcome(outcome), reason))
        self._selected.update(output.get(_SELECTED, {}))
        self.systems.update(output.get(_SYSTEMS, {}))

    def report(self) -> ConnectorReport:
        """Return all results."""
        # With pytest-xdist, a case may run before or at the same time as the case that it
        # presupposes.
        for key, judged in self._judged.items():
            cause = self._failed_of(judged.result.suite, judged.after)
            if cause is not None and judged.result.outcome is Outcome.FAILED:
                result = replace(
                    judged.result, outcome=Outcome.NOT_JUDGED, reason=f"not judged: {cause} failed"
                )
                self._judged[key] = replace(judged, result=result)
        judged_results = (judged.result for judged in self._judged.values())
        results = (*judged_results, *self._unfinished(), *self._not_run)
        not_run = self._selection.not_run().without(results)
        return ConnectorReport(SUITE_VERSION, results, self.systems, not_run)

    def _unfinished(self) -> Iterator[CaseResult]:
        """Return the cases that ended with their process, or that an interrupted run left out."""
        for key in self._selected.keys() - self._judged.keys():
            suite, name, new = self._selected[key]
            if key in self._crashes:
                outcome = Outcome.NEW_FAILED if new else Outcome.FAILED
                yield CaseResult(suite, name, outcome, self._crashes[key])
            else:
                yield CaseResult(suite, name, Outcome.NOT_JUDGED, "it did not end")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Show what did not apply and what is new, so that no case is omitted silently."""
        report = self.report()
        if not report.results:
            return
        terminalreporter.section("connector suites")
        for name, choice in sorted(report.systems.items()):
            terminalreporter.line(f"{name}: {choice}")
        for suite in sorted({result.suite for result in report.results}):
            own = [result for result in report.results if result.suite == suite]
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


def _skip_reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")[:200]
    return _first_line(report)
