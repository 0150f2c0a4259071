# SPDX-License-Identifier: Apache-2.0
"""Tests that cases are selected by capability, and that the report contains all of them."""

from __future__ import annotations

import json
import re
import sys

import numpy  # noqa: F401  # a process can load it once, and pytester forgets modules
import pytest

from connectors_core.testing.capabilities import Capabilities, Capability
from connectors_core.testing.cases import ConnectorSuite, case

pytest_plugins = ["pytester"]

SUITE = """
from connectors_core.testing.capabilities import Capabilities, Capability
from connectors_core.testing.cases import ConnectorSuite, case

class Suite(ConnectorSuite):
    @case()
    def test_plain(self):
        pass

    @case(Capability.BOUNDED)
    def test_bounded(self):
        assert self.bounded_works, "it does not end | at all"

    @case(Capability.UNBOUNDED)
    def test_unbounded(self):
        raise AssertionError("must not run")

    @case(since="1.5")
    def test_young(self):
        assert self.young_works, "too young"
"""

CONNECTOR = """
from suite import *

class TestMine(Suite):
    bounded_works = {bounded}
    young_works = {young}
    written_for = "1.0"
    capabilities = Capabilities(
        can=frozenset({{Capability.BOUNDED}}),
        cannot={{Capability.UNBOUNDED: "the system has no tail"}},
    )
"""


@pytest.fixture
def run(pytester, monkeypatch):
    monkeypatch.syspath_prepend(str(pytester.path))
    pytester.makepyfile(suite=SUITE)
    pytester.makeini("[pytest]\nconnector_suites = true")

    def run(*arguments, bounded=True, young=True, connector=CONNECTOR):
        code = connector.format(bounded=bounded, young=young)
        pytester.makepyfile(test_mine=code)
        return pytester.runpytest("--connector-report", "out/report", *arguments)

    return run


def outcomes(pytester):
    document = json.loads((pytester.path / "out" / "report.json").read_text())
    return document["passed"], {each["case"]: each["outcome"] for each in document["results"]}


@pytest.mark.parametrize("arguments", [(), ("-n", "2")])
def test_cases_that_do_not_apply_are_named_with_their_reason(run, pytester, arguments):
    result = run(*arguments, "-p", "xdist")
    result.assert_outcomes(passed=2, xpassed=1)
    result.stdout.fnmatch_lines(
        ["*TestMine: 2 passed, 1 not applicable, 1 new, passed", "*unbounded: the system has no*"]
    )
    passed, found = outcomes(pytester)
    assert passed
    assert found == {
        "test_plain": "passed",
        "test_bounded": "passed",
        "test_unbounded": "not applicable",
        "test_young": "new, passed",
    }


def test_a_failure_of_a_new_case_does_not_fail_the_run(run, pytester):
    result = run(young=False)
    assert result.ret == 0
    passed, found = outcomes(pytester)
    assert passed
    assert found["test_young"] == "new, failed"


def test_a_failure_of_an_old_case_fails_the_run(run, pytester):
    result = run(bounded=False)
    assert result.ret == 1
    passed, found = outcomes(pytester)
    assert not passed
    assert found["test_bounded"] == "failed"
    table = (pytester.path / "out" / "report.md").read_text()
    assert "it does not end \\| at all" in table


def test_an_undeclared_capability_is_refused(run):
    silent = CONNECTOR.replace('Capability.UNBOUNDED: "the system has no tail"', "")
    result = run(connector=silent)
    assert result.ret != 0
    result.stderr.fnmatch_lines(["*TestMine does not declare unbounded*"])


CHAIN = """
import pytest
from connectors_core.testing.cases import ConnectorSuite, case

class TestChain(ConnectorSuite):
    @case()
    def test_base(self):
        assert False, "the cause"

    @case(after="test_base")
    @pytest.mark.parametrize("number", [1, 2])
    def test_next(self, number):
        assert False, "a consequence"

    @case(after="test_next")
    def test_last(self):
        pass

    @case()
    def test_other(self):
        pass

    @case()
    def test_elsewhere(self):
        pytest.skip("no such thing here")
"""


@pytest.mark.parametrize("arguments", [(), ("-n", "2")])
def test_cases_that_depend_on_a_failed_case_are_not_judged(run, pytester, arguments):
    result = run(*arguments, "-p", "xdist", connector=CHAIN.replace("{", "{{"))
    assert result.ret == 1
    _, found = outcomes(pytester)
    consequences = {"test_next[1]": "not judged", "test_next[2]": "not judged"}
    assert found | consequences | {"test_last": "not judged"} == {
        "test_base": "failed",
        **consequences,
        "test_last": "not judged",
        "test_other": "passed",
        "test_elsewhere": "not applicable",
    }
    assert found["test_next[1]"] == found["test_next[2]"] == "not judged"
    result.stdout.fnmatch_lines(["*not judged: test_next*  not judged: test_base failed"])


UNFINISHED = """
import os
import pytest
from connectors_core.testing.cases import ConnectorSuite, case

class TestUnfinished(ConnectorSuite):
    @case()
    def test_first(self):
        pass

    @case()
    def test_it(self):
        %s

    @case()
    def test_last(self):
        pass
"""


def test_a_case_that_ends_its_process_fails(run, pytester):
    result = run("-n", "1", "-p", "xdist", connector=UNFINISHED % "os._exit(3)")
    assert result.ret == 1
    passed, found = outcomes(pytester)
    assert not passed
    assert found == {"test_first": "passed", "test_it": "failed", "test_last": "passed"}


def test_cases_that_an_interrupted_run_leaves_out_are_named(run, pytester):
    result = run("--no-header", connector=UNFINISHED % "pytest.exit()")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    _, found = outcomes(pytester)
    assert found == {"test_first": "passed", "test_it": "not judged", "test_last": "not judged"}
    result.stdout.fnmatch_lines(["*not judged: test_last  it did not end"])


def test_a_case_can_only_depend_on_cases_of_its_suite():
    with pytest.raises(TypeError, match=r"Wrong\.test_it comes after test_that, which is not"):

        class Wrong(ConnectorSuite):
            @case(after="test_that")
            def test_it(self):
                pass


def test_a_case_can_depend_on_cases_of_other_parts_of_its_suite():
    class First(ConnectorSuite, part=True):
        @case()
        def test_that(self):
            pass

    class Second(ConnectorSuite, part=True):
        @case(after="test_that")
        def test_it(self):
            pass

    class Whole(Second, First):
        pass

    assert [name for name, _ in Whole.cases()] == ["test_it", "test_that"]
    with pytest.raises(TypeError, match=r"Half\.test_it comes after test_that, which is not"):

        class Half(Second):
            pass


SYSTEM = """
from contextlib import contextmanager
from connectors_core.testing import ConnectorSuite, TestSystem, case
from connectors_core.testing.trial import PipelineSuite

class Memory(TestSystem):
    name, variable, image = "memory", "MEMORY_ADDRESS", "no/such-image:0"

    @contextmanager
    def embedded(self):
        print("started")
        yield "here:1"
        print("ended")

class TestMine(PipelineSuite):
    system = Memory()

    @case()
    def test_one(self):
        assert self.address == "{address}"

    @case()
    def test_two(self):
        assert self.address == "{address}"
"""


@pytest.mark.parametrize(
    ("given", "address", "choice"),
    [
        ("there:2", "there:2", "the one of MEMORY_ADDRESS"),
        ("", "here:1", "embedded (MEMORY_ADDRESS is not set; no container: *)"),
    ],
)
def test_the_system_comes_from_the_environment_or_else_from_the_connector(
    run, pytester, monkeypatch, given, address, choice
):
    monkeypatch.setenv("MEMORY_ADDRESS", given)
    connector = SYSTEM.replace("{address}", address).replace("{", "{{").replace("}", "}}")
    result = run("-s", connector=connector)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines([f"memory: {choice}"])
    lives = 0 if given else 1
    assert [result.stdout.str().count(each) for each in ("started", "ended")] == [lives, lives]
    report = json.loads((pytester.path / "out" / "report.json").read_text())
    assert list(report["systems"]) == ["memory"]


def test_a_capability_is_possible_or_impossible_with_a_reason():
    with pytest.raises(ValueError, match="both"):
        Capabilities(
            can=frozenset({Capability.BOUNDED}), cannot={Capability.BOUNDED: "it has no end"}
        )
    with pytest.raises(ValueError, match="without a reason"):
        Capabilities(cannot={Capability.BOUNDED: " "})


SLOW_ON_SPARK = """
import pytest

from connectors_core.testing.cases import ConnectorSuite, case

class Suite(ConnectorSuite):
    @case()
    @pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.slow_on_spark)])
    def test_it(self, number):
        pass

class TestHere(Suite):
    pass

class TestOnSpark(Suite):
    on_spark = True
"""


@pytest.mark.parametrize("arguments", [(), ("-n", "2")])
def test_cases_that_are_slow_on_spark_are_left_out_and_named(pytester, arguments):
    pytester.makeini("[pytest]\nconnector_suites = true")
    pytester.makepyfile(SLOW_ON_SPARK)
    result = pytester.runpytest("-m", "not slow", *arguments, "-p", "xdist")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "TestHere: 2 passed",
            "TestOnSpark: 1 passed, 1 not judged",
            "  not judged: test_it[[]2]  slow, runs only in a full test run",
        ]
    )
    pytester.runpytest(*arguments, "-p", "xdist").assert_outcomes(passed=4)


COVERED_ON_SPARK = """
import pytest

from connectors_core.testing.cases import ConnectorSuite, case
from connectors_core.testing.faults import FaultPoint
from connectors_core.testing.meetings import meetings

POINTS = (FaultPoint.BEFORE_COMMIT, FaultPoint.AFTER_COMMIT)

class Suite(ConnectorSuite):
    @case()
    @pytest.mark.parametrize(
        ("point", "successor"), meetings(POINTS, always={(FaultPoint.BEFORE_COMMIT, "reads")})
    )
    def test_it(self, point, successor):
        pass

class TestHere(Suite):
    pass

class TestOnSpark(Suite):
    on_spark = True
"""


@pytest.mark.parametrize("arguments", [(), ("-n", "2")])
def test_pairs_that_others_cover_on_spark_are_left_out_and_named(pytester, arguments):
    pytester.makeini("[pytest]\nconnector_suites = true")
    pytester.makepyfile(COVERED_ON_SPARK)
    result = pytester.runpytest("--strict-markers", *arguments, "-p", "xdist")
    result.assert_outcomes(passed=15)
    result.stdout.fnmatch_lines(
        [
            "TestHere: 10 passed",
            "TestOnSpark: 5 passed, 5 not judged",
            "  not judged: test_it[[]*  on Spark, other pairs cover it (--connector-every-pair)",
        ]
    )
    every = pytester.runpytest("--connector-every-pair", *arguments, "-p", "xdist")
    every.assert_outcomes(passed=20)
    pytester.runpytest("-m", "not slow", *arguments, "-p", "xdist").assert_outcomes(passed=2)


SHARED = """
import pytest

from connectors_core.testing.cases import ConnectorSuite, case

class Suite(ConnectorSuite):
    @case()
    @pytest.mark.separate_drivers
    @pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.slow_on_spark)])
    def test_drivers(self, number):
        pass

    @case()
    @pytest.mark.slow
    def test_it(self):
        pass

class Slow(Suite):
    @case()
    @pytest.mark.separate_drivers
    @pytest.mark.slow
    def test_drivers(self):
        pass

class TestHere(Suite):
    pass

class TestSlow(Slow):
    pass

class TestOneOnSpark(Suite):
    on_spark = True

class TestAnotherOnSpark(Suite):
    on_spark = True

class TestThirdOnSpark(Suite):
    on_spark = True

@pytest.mark.connector_share
class TestMarked:
    def test_it(self):
        pass
"""


@pytest.mark.parametrize("arguments", [(), ("-n", "2")])
def test_runs_share_the_slow_cases_with_drivers_and_marked_tests(pytester, arguments):
    pytester.makeini("[pytest]\nconnector_suites = true")
    pytester.makepyfile(SHARED)

    def ran(*share):
        result = pytester.runpytest("--strict-markers", "-v", *arguments, *share, "-p", "xdist")
        result.assert_outcomes(passed=len(found := passed_tests(result)))
        return found, result

    every, _ = ran()
    shares = [ran("--connector-share", f"{number}/2") for number in (1, 2)]
    (one, _), (other, _) = shares
    assert one | other == every
    shared = {f"Test{name}OnSpark::test_drivers[2]" for name in ("One", "Another", "Third")}
    shared |= {"TestSlow::test_drivers", "TestMarked::test_it"}
    assert one & other == every - shared
    assert one & shared
    assert other & shared
    for _, result in shares:
        result.stdout.fnmatch_lines(
            ["  not judged: test_drivers[[]2]  another run has it (--connector-share)"]
        )


def passed_tests(result):
    lines = [line for line in result.outlines if "PASSED" in line]
    return {re.search(r"Test\w+::test_\w+(\[\d\])?", line)[0] for line in lines}


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/0", "one/two", "1/2/3"])
def test_a_share_is_one_of_a_number_of_runs(pytester, text):
    pytester.makeini("[pytest]\nconnector_suites = true")
    pytester.makepyfile(SHARED)
    result = pytester.runpytest("--connector-share", text)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*expected a share such as 1/2*found '{text}'*"])


CHAINS = """
from connectors_core.testing.cases import ConnectorSuite, case
from connectors_core.testing.trial import time_for

class TestChain(ConnectorSuite):
    @case()
    @time_for(3)
    def test_drivers(self, request):
        assert request.node.get_closest_marker("timeout").args == (360,)
"""


@pytest.mark.parametrize("arguments", [(), ("-p", "no:timeout")])
def test_a_case_has_time_for_each_of_its_drivers(pytester, arguments):
    pytester.makeini("[pytest]\nconnector_suites = true")
    pytester.makepyfile(CHAINS)
    pytester.runpytest("--strict-markers", *arguments).assert_outcomes(passed=1)


ORDINARY = """
import pytest

@pytest.fixture
def spark():
    return "the project's own"

def test_it(spark, request):
    assert spark == "the project's own"
    assert "connectors-results" not in str(request.config.pluginmanager.list_name_plugin())
"""


def test_an_ordinary_project_is_not_affected_by_the_suites(pytester):
    pytester.makepyfile(ORDINARY)
    pytester.runpytest("--strict-markers").assert_outcomes(passed=1)
    unknown = pytester.runpytest("--connector-report", "report")
    assert unknown.ret == pytest.ExitCode.USAGE_ERROR
    assert "connector-report" not in pytester.runpytest("--help").stdout.str()


def test_a_suite_in_a_project_that_does_not_enable_suites_is_refused(pytester):
    pytester.makepyfile(SLOW_ON_SPARK)
    result = pytester.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*TestHere is a connector suite*connector_suites = true*"])


def test_the_tool_table_of_a_connector_enables_the_suites(pytester):
    pytester.makepyprojecttoml("[tool.connector]\n[tool.pytest.ini_options]")
    pytester.makepyfile(SLOW_ON_SPARK)
    pytester.runpytest("-m", "not slow").assert_outcomes(passed=3)


def test_a_missing_package_is_reported_with_the_extra(monkeypatch):
    from connectors_core.errors import MissingDependencyError
    from connectors_core.testing.nested_columns import nested_batches

    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(MissingDependencyError, match=r"connectors-core\[testing\]"):
        nested_batches()


@pytest.fixture
def run_project(run, pytester):
    """Return a function that runs the tests of a connector with two Spark lines."""
    pytester.path.joinpath("tox.ini").unlink()
    pytester.makepyprojecttoml('[tool.connector]\nspark = ["3.5", "9.9"]\n[tool.pytest]\n')
    return run


def not_run(pytester):
    report = json.loads((pytester.path / "out" / "report.json").read_text())["not_run"]
    return report["cells"], report["cases"]


@pytest.mark.parametrize("arguments", [(), ("-n", "2")])
def test_the_report_names_the_cells_and_cases_that_did_not_run(run_project, pytester, arguments):
    result = run_project(*arguments, "-p", "xdist", "-k", "not plain")
    cells, cases = not_run(pytester)
    assert cells == ["3.5", "9.9"]
    assert cases == ["test_mine.py::TestMine::test_plain"]  # another result explains `unbounded`
    result.stdout.fnmatch_lines(
        ["not run: the cell of Spark 9.9; run it with `tox run -e spark99`"]
    )
    text = (pytester.path / "out" / "report.md").read_text()
    assert "| Spark 3.5 | a cell: `tox run -e spark35` |" in text
    assert "| test_mine.py::TestMine::test_plain | deselected |" in text


def test_the_cell_of_this_spark_runs_with_its_spark_tests(run_project, pytester, monkeypatch):
    monkeypatch.setattr("connectors_core.testing.not_run.version", lambda name: "9.9.1")
    pytester.path.joinpath("tests/spark").mkdir(parents=True)
    pytester.path.joinpath("tests/spark/test_it.py").write_text("def test_it(): pass")
    run_project()
    assert not_run(pytester) == (["3.5"], [])


def test_a_complete_run_outside_a_connector_leaves_nothing_out(run, pytester):
    run()
    assert not_run(pytester) == ([], [])
    assert "Not run" not in (pytester.path / "out" / "report.md").read_text()
