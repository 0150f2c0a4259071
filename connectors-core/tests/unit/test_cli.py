# SPDX-License-Identifier: Apache-2.0
import dataclasses
import importlib.metadata
import re
import shutil
import sys
from dataclasses import replace
from types import SimpleNamespace

import orjson
import pytest
import typer
from decisions import a_decision
from typer.testing import CliRunner

from connectors_core.cli import app, doctor, main
from connectors_core.cli.doctor import (
    InstalledConnector,
    connector_findings,
    fits,
    java_finding,
    java_major,
    library_findings,
    line_of,
    required_versions,
    running_findings,
    spark_finding,
    split_requirement,
    worker_python_finding,
)
from connectors_core.cli.findings import Level
from connectors_core.engine.coordinator.identity import (
    PipelineIdentity,
    QueryIdentity,
    record_identity,
)
from connectors_core.engine.coordinator.plan_log import mark_done
from connectors_core.engine.protocol import (
    DECISIONS,
    PLANS,
    REPORTS,
    REWRITES,
    AssignedSplit,
    DecidedCommittable,
    Entry,
    Plan,
    PlannedSplit,
    Report,
    Rewrite,
    SinkDecision,
    SinkRewrite,
    SourcePlan,
    SourceSnapshot,
    SplitRecord,
    SplitReport,
    Versioned,
    decision_path,
    plan_path,
    report_path,
    rewrite_path,
)
from connectors_core.engine.state import Lease, LeaseOwner, StateStore
from connectors_core.errors import ConfigurationError


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


# --- the application ------------------------------------------------------------------------------


def test_version_is_printed():
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout == f"connectors-core {importlib.metadata.version('connectors-core')}\n"


def test_help_lists_the_commands():
    assert {"doctor", "state"} <= set(run("--help").stdout.split())


def plugin(name, value):
    return importlib.metadata.EntryPoint(name, value, main.COMMAND_GROUP)


@pytest.fixture
def plugins(monkeypatch):
    kafka = typer.Typer()

    @kafka.callback()
    def callback():
        """Look after Kafka."""

    @kafka.command()
    def transactions():
        typer.echo("none open")

    @kafka.command()
    def fail():
        # pragma: allowlist nextline secret
        raise ConfigurationError("no broker at kafka://me:hunter2@host", hint="start one")

    fake = SimpleNamespace(kafka=kafka, nothing=1)
    monkeypatch.setitem(sys.modules, "fake_connector", fake)
    points = {
        "kafka": plugin("kafka", "fake_connector:kafka"),
        "lost": plugin("lost", "no_such_module:app"),
        "odd": plugin("odd", "fake_connector:nothing"),
    }
    monkeypatch.setattr(main, "command_plugins", lambda: points)


def test_a_connector_can_add_commands(plugins):
    assert "Look after Kafka" in run("--help").stdout
    result = run("kafka", "transactions")
    assert (result.exit_code, result.stdout) == (0, "none open\n")


def test_a_broken_connector_is_reported_and_does_not_affect_the_others(plugins):
    assert "Cannot be loaded" in run("--help").stdout
    result = run("lost", "anything", "--at-all")
    assert result.exit_code == 2
    assert "no_such_module" in result.stderr
    assert "hint" in result.stderr
    assert run("odd").exit_code == 2
    assert run("kafka", "transactions").exit_code == 0


def test_errors_are_printed_without_traceback_and_secrets(plugins):
    result = run("kafka", "fail")
    assert result.exit_code == 2
    assert "start one" in result.stderr
    assert "hunter2" not in result.output
    assert "Traceback" not in result.output


def test_a_traceback_is_printed_on_request(plugins):
    assert isinstance(run("--traceback", "kafka", "fail").exception, ConfigurationError)


# --- doctor ---------------------------------------------------------------------------------------


def installed(**versions):
    return lambda name: versions.get(name.replace("-", "_"))


def problems(findings):
    return {f.check: f for f in findings if f.level is Level.PROBLEM}


@pytest.mark.parametrize(
    ("versions", "line", "expected"),
    [
        ({"numpy": "1.26.4", "pyarrow": "25.0.0", "pandas": "2.3.3"}, "3.5", {}),
        ({"numpy": "2.4.6", "pyarrow": "26.0.1", "pandas": "3.1.1"}, "4.3", {}),
        (
            {"numpy": "1.26.4", "pyarrow": "26.0.1", "pandas": "2.3.3"},
            "3.5",
            {"pyarrow": "pip install 'numpy<2' 'pandas<3' 'pyarrow<26' 'pyspark==3.5.*'"},
        ),
        (
            {"numpy": "1.26.4", "pyarrow": "26.0.1"},
            "4.3",
            {"pyarrow": "pip install 'numpy>=2' 'pyspark==4.3.*'"},
        ),
        (
            {"numpy": "2.0.0", "pyarrow": "25.0.0", "pandas": "3.0.0"},
            "3.5",
            {
                "numpy": "pip install 'numpy<2' 'pandas<3' 'pyarrow<26' 'pyspark==3.5.*'",
                "pandas": "pip install 'numpy<2' 'pandas<3' 'pyarrow<26' 'pyspark==3.5.*'",
            },
        ),
        (
            {"numpy": "1.26.4", "pyarrow": "25.0.0", "pandas": "3.0.0"},
            "3.5",
            {"pandas": "pip install 'numpy<2' 'pandas<3' 'pyarrow<26' 'pyspark==3.5.*'"},
        ),
        ({"numpy": "2.0.0"}, "4.3", {"pyarrow": "pip install pyarrow 'pyspark==4.3.*'"}),
        ({"numpy": "1.26.4"}, "3.5", {"pyarrow": "pip install 'pyarrow<26' 'pyspark==3.5.*'"}),
    ],
)
def test_incompatible_library_versions_are_reported_with_a_fix(versions, line, expected):
    found = problems(library_findings(installed(**versions), line))
    assert {check: finding.fix for check, finding in found.items()} == expected


@pytest.mark.parametrize("line", ["4.3", "4.0"])
def test_pandas_3_on_spark_4_is_a_warning_with_a_fix(line):
    versions = installed(numpy="2.4.6", pyarrow="26.0.1", pandas="3.0.0")
    found = {finding.check: finding for finding in library_findings(versions, line)}
    assert [finding.level for finding in found.values()] == [Level.OK, Level.OK, Level.WARNING]
    assert found["pandas"].problem.startswith("Spark does not fully support pandas 3")
    fix = found["pandas"].fix
    assert fix.removesuffix(" 'pyspark==4.3.*'") == "pip install 'pandas<3'"
    assert fix.endswith("'pyspark==4.3.*'") == (line == "4.3")


@pytest.mark.parametrize(
    ("version", "line", "level"),
    [
        ("17.0.15", "4.3", Level.OK),
        ("1.8.0_402", "3.5", Level.OK),
        ("11.0.2", "4.3", Level.PROBLEM),
        ("25", "4.3", Level.WARNING),
        (None, "4.3", Level.PROBLEM),
    ],
)
def test_the_java_version_must_fit_the_spark_line(version, line, level):
    finding = java_finding(version, line)
    assert finding.level is level
    assert (finding.fix is None) == (level is Level.OK)


def test_the_java_major_version_is_parsed():
    assert [java_major(v) for v in ("1.8.0_402", "17.0.15", "21", "25-ea")] == [8, 17, 21, 25]


def test_the_spark_line_is_found_and_judged():
    assert line_of("3.5.9") == "3.5"
    assert spark_finding("4.3.0").level is Level.OK
    assert spark_finding("4.0.1").level is Level.WARNING
    assert spark_finding("3.4.4").level is Level.PROBLEM
    assert "pip install 'pyspark==" in spark_finding(None).fix


def test_the_python_of_the_workers_is_checked():
    assert worker_python_finding(sys.executable).level is Level.OK
    missing = worker_python_finding("/no/such/python")
    assert (missing.level, missing.fix) == (
        Level.PROBLEM,
        f"export PYSPARK_PYTHON={sys.executable}",
    )


def connector(version="3.1.2.3.5", pyspark=">=3.5,<3.6", core=">=1.0,<2"):
    requires = {"connectors-core": core} | ({"pyspark": pyspark} if pyspark else {})
    return InstalledConnector(name="connector-kafka", version=version, requires=requires)


def test_a_compatible_connector_is_shown_with_its_release_name():
    versions = installed(pyspark="3.5.9", connectors_core="1.2.0")
    (finding,) = connector_findings([connector()], versions)
    assert (finding.level, finding.found) == (Level.OK, "3.1.2-3.5")


def test_a_connector_for_another_spark_is_reported():
    versions = installed(pyspark="4.3.0", connectors_core="1.2.0")
    (finding,) = connector_findings([connector()], versions)
    assert "built for Spark 3.5" in finding.problem
    assert finding.fix.startswith(
        "pip install 'connector-kafka==3.1.2.4.3'  # with the --index-url"
    )


def test_a_connector_for_another_core_is_reported():
    versions = installed(pyspark="3.5.9", connectors_core="2.0.0")
    (finding,) = connector_findings([connector()], versions)
    assert finding.fix == "pip install 'connectors-core>=1.0,<2' 'pyspark==3.5.*'"


def test_the_last_release_of_a_major_is_a_warning():
    versions = installed(pyspark="3.5.9", connectors_core="1.2.0")
    last = dataclasses.replace(connector(), is_last_release=True)
    (finding,) = connector_findings([last], versions)
    assert finding.level is Level.WARNING
    assert "gets no more fixes" in finding.problem


def test_a_development_version_fits_every_spark():
    versions = installed(pyspark="4.3.0", connectors_core="1.0.0")
    (finding,) = connector_findings([connector("2.0.0", pyspark=None)], versions)
    assert (finding.level, finding.found) == (Level.OK, "2.0.0")


@pytest.mark.parametrize(
    ("version", "specifier", "expected"),
    [
        ("3.5.9", ">=3.5,<3.6", True),
        ("3.5", "<3.6,>=3.5.0", True),
        ("3.6.0", ">=3.5,<3.6", False),
        ("4.3.0", "==4.*", True),
        ("4.3.0", "==4.0.*", False),
        ("4.0", "==4.0.0", True),
        ("1.4.2", "~=1.4", True),
        ("2.0", "~=1.4", False),
        ("1.0", "!=1.0", False),
        ("1.0", "", True),
        ("1.0", "===weird", True),
    ],
)
def test_version_specifiers_are_evaluated(version, specifier, expected):
    assert fits(version, specifier) is expected


def test_requirements_are_split_into_name_and_specifier():
    assert split_requirement("pyspark<3.6,>=3.5") == ("pyspark", "<3.6,>=3.5")
    assert split_requirement("connectors_core[test]>=1.0") == ("connectors-core", ">=1.0")
    assert split_requirement("docker>=7; extra == 'test'") == ("docker", "")


def test_an_extra_does_not_hide_the_version_that_a_connector_requires():
    required = {"connectors-core": "<2,>=1.0"}
    texts = ["connectors-core<2,>=1.0", "connectors-core[avro]; extra == 'avro'"]
    assert required_versions(texts) == required_versions(texts[::-1]) == required


def running(**fields):
    known = {
        "version": "4.3.0",
        "java": "17",
        "carrier": "native",
        "carrier_error": None,
        "worker": {"python": sys.version.split()[0], "executable": "python", "pyarrow": "26.0.1"},
        "worker_error": None,
        "worker_reuse": True,
        "formats": ("connector_files",),
        "formats_error": None,
        "formats_missing": (),
    }
    return SimpleNamespace(**(known | fields))


VERSIONS = installed(pyspark=None, pyarrow="26.0.1")


def test_a_running_spark_without_problems_is_reported_as_ok():
    spark = running()
    spark.worker["pyspark"] = "4.3.0"
    findings = list(running_findings(spark, installed(pyspark="4.3.0", pyarrow="26.0.1")))
    assert {finding.level for finding in findings} == {Level.OK}
    assert ("carrier", "native") in {(finding.check, finding.found) for finding in findings}


def test_formats_are_reported_with_the_alternative_where_spark_has_none():
    def found(**fields):
        [finding] = [
            f for f in running_findings(running(**fields), VERSIONS) if f.check == "formats"
        ]
        return finding

    assert found().found == "connector_files"
    older = found(version="3.5.9", formats=None)
    assert (older.level, older.found) == (
        Level.OK,
        "none: Spark 3.5 has no formats in Python, so use a Pipeline",
    )
    broken = found(formats=(), formats_error="the module pyspark_x fails: no module y")
    assert broken.level is Level.PROBLEM
    assert "pyspark_x" in broken.problem
    missing = found(formats_missing=("connector_files",))
    assert missing.level is Level.PROBLEM
    assert missing.problem == "Python workers do not have connector_files"


def test_a_worker_with_other_packages_is_reported():
    spark = running(worker={"python": "3.9.1", "executable": "/x/python3", "pyarrow": None})
    finding = problems(running_findings(spark, VERSIONS))["python (worker)"]
    assert "Python 3.9.1" in finding.problem
    assert "pyarrow is missing (driver 26.0.1)" in finding.problem
    assert finding.fix == f"export PYSPARK_PYTHON={sys.executable}"


def test_other_problems_of_a_running_spark_are_reported():
    spark = running(
        version="3.5.9",
        carrier=None,
        carrier_error="no carrier",
        worker=None,
        worker_error="PYTHON_VERSION_MISMATCH",
        worker_reuse=False,
    )
    findings = list(running_findings(spark, installed(pyspark="4.3.0")))
    assert set(problems(findings)) == {"start of spark", "carrier", "python (worker)"}
    assert [f.check for f in findings if f.level is Level.WARNING] == ["worker reuse"]


def test_doctor_exits_with_1_if_it_finds_a_problem(monkeypatch):
    fault = doctor.java_finding(None, "4.3")
    monkeypatch.setattr(doctor, "installation_findings", lambda: iter([fault]))
    result = run("doctor", "--no-spark")
    assert result.exit_code == 1
    assert fault.fix in result.stdout
    assert fault.problem in result.stdout


def test_problems_with_one_fix_show_it_once(monkeypatch):
    versions = installed(numpy="2.4.6", pyarrow="26.0.1", pandas="3.1.1")
    found = list(library_findings(versions, "3.5"))
    monkeypatch.setattr(doctor, "installation_findings", lambda: iter(found))
    lines = run("doctor", "--no-spark").stdout.splitlines()
    assert [line.strip() for line in lines].count(found[0].fix) == 1
    assert [line for line in lines if "Spark 3.5 needs" in line] == [
        f"{finding.check}: {finding.problem}" for finding in found
    ]


def test_doctor_prints_json(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    result = run("doctor", "--no-spark", "--json")
    found = orjson.loads(result.stdout)
    assert found["ok"] == (result.exit_code == 0)
    assert {"spark", "java", "numpy", "pyarrow"} <= {each["check"] for each in found["findings"]}


# --- state show -----------------------------------------------------------------------------------


def planned(name, position=0):
    data = orjson.dumps({"split_id": name, "position": position})
    return PlannedSplit(split_id=name, state=Versioned(version=1, data=data))


def of_subtask(number, subtask):
    """Return the fields that an entry and its report have in common."""
    return {
        "pipeline_id": "p-1",
        "plan": number,
        "nonce": f"n{number}",
        "source": "in",
        "subtask": subtask,
    }


def entry(number, subtask, *splits):
    return Entry(**of_subtask(number, subtask), query="query-0", parallelism=2, splits=splits)


def split_report(name, position, *, finished=False, watermark=None):
    return SplitReport(
        split_id=name,
        state=planned(name, position).state,
        skip=0,
        finished=finished,
        rows=position,
        watermark=watermark,
    )


def decide(store, epoch, *, skipped=0, **sinks):
    own = {"pipeline_id": "p-1", "spark_query_id": "spark-query"}
    document = a_decision(epoch, sinks=sinks, skipped=skipped, **own)
    assert DECISIONS.create(store, decision_path(epoch), document)


@pytest.fixture
def location(tmp_path):
    """A location with two plans: the first decided and half committed, the second half reported."""
    root = StateStore(str(tmp_path / "state"))
    query = QueryIdentity(
        folder="query-0", sources=("in",), sinks=("out", "log"), spark_query_id="spark-query"
    )
    record_identity(
        root,
        PipelineIdentity(pipeline_id="p-1", name="flights", streaming=True, queries=(query,)),
    )
    store = root.child("query-0")

    def plan(number, part):
        document = Plan(
            pipeline_id="p-1",
            number=number,
            nonce=f"n{number}",
            incarnation=1,
            sources={"in": part},
        )
        assert PLANS.create(store, plan_path(number), document)

    def report(number, subtask, *splits):
        document = Report(**of_subtask(number, subtask), attempt=0, splits=splits)
        assert REPORTS.create(store, report_path(number, "in", subtask), document)

    a, b, c = (planned(name) for name in "abc")
    snapshot = SourceSnapshot(
        enumerator=Versioned(version=1, data=b"{}"),
        splits=(SplitRecord(split=a, subtask=0), SplitRecord(split=b, subtask=1)),
    )
    plan(0, SourcePlan(entries=(entry(0, 0, a), entry(0, 1, b)), snapshot=snapshot))
    report(0, 0, split_report("a", 10, watermark=1_357_016_400_000_000))
    report(0, 1, split_report("b", 20, finished=True))
    plan(
        1,
        SourcePlan(
            entries=(entry(1, 0, planned("a", 10)), entry(1, 1, c)),
            assigned=(AssignedSplit(subtask=1, split=c),),
            watermark=1_357_016_400_000_000,
        ),
    )
    report(1, 1, split_report("c", 5))
    committable = DecidedCommittable(subtask=0, committable=Versioned(version=1, data=b"f"))
    decide(
        store,
        0,
        skipped=1,
        out=SinkDecision(committables=(committable,), rows=30, bytes=2048),
        log=SinkDecision(rows=30, bytes=100),
    )
    mark_done(store, 0, "out")
    owner = LeaseOwner(host="driver-7", pid=4711, description="nightly")
    Lease.acquire(root, owner, renewer=lambda _beat, _seconds: lambda: None)
    return tmp_path / "state"


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_state_show_reports_plans_reports_and_decisions_without_changing_files(location):
    before = files(location)
    result = run("state", "show", location, "--json")
    assert result.exit_code == 0
    assert files(location) == before
    view = orjson.loads(result.stdout)
    assert (view["name"], view["streaming"]) == ("flights", True)
    assert (view["lease"]["host"], view["lease"]["released"]) == ("driver-7", False)
    (query,) = view["queries"]
    assert (query["plan"], query["epoch"]) == (1, 0)
    assert query["undecided"] == [1]
    assert query["held"] == [0]
    (source,) = query["sources"]
    assert (source["reported"], source["entries"]) == (1, 2)
    positions = {s["split_id"]: orjson.loads(s["position"])["position"] for s in source["splits"]}
    assert positions == {"a": 10, "c": 5}
    (decision,) = query["decisions"]
    assert decision["rows"] == {"out": 30, "log": 30}
    assert decision["committables"] == {"out": 1, "log": 0}
    assert decision["not_done"] == ["log"]
    assert decision["rewritten"] == {}


def test_state_show_prints_readable_text(location):
    text = run("state", "show", location).stdout
    for part in (
        "flights",
        "held by incarnation 1, host driver-7, pid 4711 (nightly)",
        "epochs decided but not committed   0",
        "plans after the last decision      1",
        "2013-01-01 05:00:00Z",
        "2.0 KiB",
        "not committed",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("started", "text"), [(None, "is running"), ("long ago", "has ended, so the next driver")]
)
def test_state_show_tells_whether_the_process_of_the_driver_runs(location, started, text):
    shutil.rmtree(location / "lease")
    owner = LeaseOwner.current()
    owner = replace(owner, process_start=started or owner.process_start)
    Lease.acquire(StateStore(str(location)), owner, renewer=lambda _beat, _seconds: lambda: None)
    assert f"its process {text}" in " ".join(run("state", "show", location).stdout.split())


def test_rewritten_rows_are_shown(location):
    store = StateStore(str(location / "query-0"))
    again = SinkRewrite(subtasks=(0,), committables=())
    rewrite = Rewrite(pipeline_id="p-1", epoch=0, number=0, incarnation=1, sinks={"out": again})
    assert REWRITES.create(store, rewrite_path(0, 0), rewrite)
    view = orjson.loads(run("state", "show", location, "--json").stdout)
    (decision,) = view["queries"][0]["decisions"]
    assert decision["rewritten"] == {"out": [0]}
    assert decision["committables"]["out"] == 0
    assert "committed, rewritten" in run("state", "show", location).stdout


def test_writer_states_of_the_newest_decision_are_shown(location):
    """The view is the same with and without decisions. It hides secrets and non-JSON states."""
    store = StateStore(str(location / "query-0"))

    def decided(epoch, *states):
        decide(store, epoch, out=SinkDecision(writer_states=states), log=SinkDecision())

    def state(data):
        return Versioned(version=2, data=data)

    decided(1, (state(b'{"seen":1}'),))
    # pragma: allowlist nextline secret
    newest = (state(b'{"seen":7}'), state(b"\xff\x00")), (), (state(b'"https://me:hunter2@host"'),)
    decided(2, *newest)
    result = run("state", "show", location, "--json", "--decisions", 0)
    (query,) = orjson.loads(result.stdout)["queries"]
    assert [(each["sink"], each["writer"]) for each in query["writers"]] == [
        ("out", 0),
        ("out", 1),
        ("out", 2),
    ]
    shown = [each["states"] for each in query["writers"]]
    assert shown[:2] == [['{"seen":7}', "2 bytes of version 2"], []]
    text = run("state", "show", location).stdout
    assert "hunter2" not in result.stdout + text
    for part in ("writer of out", '{"seen":7}', "2 bytes of version 2"):
        assert part in text
    assert "writer of log" not in text
    assert '{"seen":1}' not in text


def test_decisions_can_be_left_out(location):
    view = orjson.loads(run("state", "show", location, "--json", "--decisions", 0).stdout)
    assert view["queries"][0]["decisions"] == []


def assign(location, name):
    """Assign a split in plan 2, and return its position as the state stores it."""
    store = StateStore(str(location / "query-0"))
    split = planned(name)
    assigned = AssignedSplit(subtask=0, split=split)
    part = SourcePlan(entries=(entry(2, 0, split),), assigned=(assigned,))
    document = Plan(pipeline_id="p-1", number=2, nonce="n2", incarnation=1, sources={"in": part})
    assert PLANS.create(store, plan_path(2), document)
    return split.state.data.decode()


def test_a_split_that_reached_its_planned_stop_is_shown_at_the_position_after_it(location):
    store = StateStore(str(location / "query-0"))
    log = planned("log", 7)
    stopped = replace(log, then=planned("log", 40).state)
    assigned = AssignedSplit(subtask=0, split=log)
    part = SourcePlan(entries=(entry(2, 0, stopped),), assigned=(assigned,))
    document = Plan(pipeline_id="p-1", number=2, nonce="n2", incarnation=1, sources={"in": part})
    assert PLANS.create(store, plan_path(2), document)
    read = Report(**of_subtask(2, 0), attempt=0, splits=(split_report("log", 7, finished=True),))
    assert REPORTS.create(store, report_path(2, "in", 0), read)
    source = orjson.loads(run("state", "show", location, "--json").stdout)["queries"][0]["sources"]
    shown = {split["split_id"]: split for split in source[0]["splits"]}
    assert orjson.loads(shown["log"]["position"]) == {"split_id": "log", "position": 40}
    assert shown["log"]["read"]


def on_terminal(columns, *arguments):
    env = {"COLUMNS": str(columns), "FORCE_COLOR": "1"}
    shown = CliRunner().invoke(app, [str(argument) for argument in arguments], env=env).stdout
    return [line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m", "", shown).splitlines()]


LONG_NAME = "/data/in/flights-of-january.csv@1700000000000000:0-100"


@pytest.mark.parametrize("columns", [60, 80])
def test_positions_that_do_not_fit_into_a_terminal_are_below_their_splits(location, columns):
    position = f"not read: {assign(location, LONG_NAME)}"
    lines = on_terminal(columns, "state", "show", location)
    assert max(map(len, lines)) <= columns
    begin = next(number for number, line in enumerate(lines) if line.startswith("split of in"))
    table = lines[begin : lines.index("", begin)]
    assert table[1].strip() == "position"
    row = next(number for number, line in enumerate(table) if line.startswith("a "))
    assert table[row].split() == ["a", "0", "2013-01-01", "05:00:00Z", "0"]
    assert table[row + 1] == '  {"split_id":"a","position":10}'
    folded = [line for line in table if line.startswith(LONG_NAME[:8])]
    assert [line.split()[1:] for line in folded] == [["0", "-", "0"]]
    ends = table[table.index(folded[0]) + 1 :]
    names = [line for line in ends if not line.startswith("  ")]
    assert folded[0].split()[0] + "".join(names) == LONG_NAME
    below = [line.strip() for line in ends if line.startswith("  ")]
    assert f"{below[0]} {''.join(below[1:])}" == position


def test_positions_that_fit_into_a_terminal_are_next_to_their_splits(location):
    lines = on_terminal(80, "state", "show", location)
    (line,) = [line for line in lines if line.startswith("a ")]
    assert line.endswith('{"split_id":"a","position":10}')


def test_piped_output_shows_each_split_with_its_whole_position_on_one_line(location):
    position = assign(location, LONG_NAME)
    lines = run("state", "show", location).stdout.splitlines()
    (shown,) = [line for line in lines if line.startswith(LONG_NAME)]
    assert shown.split() == [LONG_NAME, "0", "-", "0", "not", "read:", position]


def test_secrets_in_a_position_are_masked(location):
    assign(location, "https://me:hunter2@host/file")  # pragma: allowlist secret
    for extra in ((), ("--json",)):
        assert "hunter2" not in run("state", "show", location, *extra).stdout


def test_a_location_without_a_pipeline_is_reported(tmp_path):
    result = run("state", "show", tmp_path / "nothing")
    assert result.exit_code == 2
    assert "there is no pipeline" in result.stderr
    assert not (tmp_path / "nothing").exists()


def test_a_damaged_document_is_named(location):
    path = location / "query-0" / plan_path(1)
    path.write_bytes(path.read_bytes().replace(b'"nonce":"n1"', b'"nonce":"n2"', 1))
    result = run("state", "show", location)
    assert result.exit_code == 2
    assert plan_path(1) in result.stderr


def test_storage_options_are_passed_to_the_filesystem(location):
    result = run("state", "show", f"file://{location}", "--storage-option", "auto_mkdir=false")
    assert result.exit_code == 0
    assert run("state", "show", location, "--storage-option", "auto_mkdir").exit_code == 2


def shown_help(*command: str) -> str:
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "120"})
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("command", [(), ("doctor",), ("state", "rewind"), ("kafka",)])
def test_help_shows_types_as_words(command):
    assert "<" not in shown_help(*command)


def test_an_option_that_takes_text_is_shown_as_text():
    assert re.search(r"--spark-master +text ", shown_help("doctor"))


def test_shell_completion_offers_the_commands_of_the_core_and_of_connectors():
    env = {"_CONNECTORS_COMPLETE": "complete_bash", "COMP_WORDS": "connectors ", "COMP_CWORD": "1"}
    result = CliRunner().invoke(app, [], env=env, prog_name="connectors")
    assert {"doctor", "state", "kafka"} <= set(result.output.split())
