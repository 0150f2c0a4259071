# SPDX-License-Identifier: Apache-2.0
"""Tests that a generated connector works before its author has written a line."""

from __future__ import annotations

import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from generated_project import (
    TEMPLATE,
    generated,
    in_style,
    pass_tests,
    run,
    sources,
    succeed,
    typed,
)

ROOT = TEMPLATE.parent


def _with_sql(answers: tuple[object, ...], *, catalog: bool = False) -> tuple[object, ...]:
    defaults = (True, True, "two-phase", False)
    return (*answers, *defaults[len(answers) :], True, catalog)


# The answers: source, sink, kind of sink, lookup, table, catalog, compaction, topologies, changes.
BASIC = {
    "source": (True, False),
    "sink": (False, True),
    "both": (True, True),
    "async": (False, True, "async"),
    "both-async": (True, True, "async"),
    "lookup": (False, False, "two-phase", True),
    "source-lookup": (True, False, "two-phase", True),
    "sink-lookup": (False, True, "two-phase", True),
    "async-lookup": (False, True, "async", True),
    "all": (True, True, "two-phase", True),
    "all-async": (True, True, "async", True),
}
# With tables in SQL, with a catalog, which needs a source, and with steps around commits.
COMBINATIONS = {
    **BASIC,
    **{f"{kind}-sql": _with_sql(answers) for kind, answers in BASIC.items()},
    **{
        f"{kind}-catalog": _with_sql(answers, catalog=True)
        for kind, answers in BASIC.items()
        if answers[0]
    },
    "merging": (True, True, "two-phase", False, False, False, True),
    "sink-topologies": (False, True, "two-phase", False, False, False, False, True),
    "sink-changes": (False, True, "two-phase", False, False, False, False, False, True),
    "all-changes": (True, True, "two-phase", True, True, True, False, True, True),
    "everything": (True, True, "two-phase", True, True, True, True, True),
}
ALWAYS = {
    *BASIC,
    "merging",
    "sink-topologies",
    "sink-changes",
    "everything",
    "source-sql",
    "sink-sql",
    "lookup-sql",
    "both-catalog",
    "all-async-catalog",
}
# Line breaks depend on the length of names.
NAMES = ["x", "a-name-of-20-letters"]
FIRST_LINE = "# SPDX-License-Identifier: Apache-2.0"


def slow(kind: str) -> object:
    return pytest.param(kind, marks=pytest.mark.slow)


@pytest.fixture(params=[kind if kind in ALWAYS else slow(kind) for kind in COMBINATIONS])
def project(request: pytest.FixtureRequest, generate) -> Path:
    return generate("pulsar", *COMBINATIONS[request.param])


def test_no_template_syntax_remains(project: Path) -> None:
    for path in sources(project):
        text = path.read_text(encoding="utf-8")
        for mark in ("cookiecutter", "{%", "%}"):
            assert mark not in text, f"{path.name}: {mark}"
            assert mark not in str(path.relative_to(project))
        assert text.count("{{") == text.count("${{"), path.name
        stored = path.suffix == ".bin"
        assert text.endswith("\n") or stored or not text, f"{path.name} lacks a line break"


def test_every_source_file_names_its_license(project: Path) -> None:
    for path in sources(project):
        if path.suffix == ".py":
            assert path.read_text(encoding="utf-8").startswith(FIRST_LINE), path.name


def test_only_requested_files_are_generated(generate) -> None:
    names = {
        kind: {path.name for path in sources(generate("pulsar", *COMBINATIONS[kind]))}
        for kind in COMBINATIONS
    }
    of_source = {"enumerator.py", "reader.py", "source.md", "source.py", "split.py"}
    of_source |= {"enumerator-state-v1.bin", "split-v1.bin"}
    of_sink = {"committable-v1.bin", "committer.py", "sink.md", "sink.py", "writer.py"}
    assert names["both"] - names["sink"] == of_source
    assert names["both"] - names["source"] == of_sink
    assert names["merging"] - names["both"] == {"compaction.py"}
    of_async_sink = {"async_client.py", "sink.md", "sink.py", "writer.py"}
    assert names["both-async"] - names["source"] == of_async_sink
    assert names["both-async"] - names["async"] == of_source
    of_table = {"table.md", "table.py"}
    assert names["all"] - names["both"] == of_table
    assert names["all-async"] - names["both-async"] == of_table
    of_tables, of_catalog = {"table_factory.py"}, {"catalog.py"}
    assert names["all-sql"] - names["all"] == of_tables
    assert names["all-catalog"] - names["all-sql"] == of_catalog
    of_format = {"pyspark_connector_pulsar.py"}
    assert names["source-lookup"] - names["lookup"] == of_source | of_format
    assert names["sink-lookup"] - names["lookup"] == of_sink | of_format


def test_style(project: Path) -> None:
    in_style(project)


@pytest.mark.parametrize("kind", ["two-phase", "async"])
@pytest.mark.parametrize("name", NAMES)
def test_style_with_any_name(generate, name: str, kind: str) -> None:
    in_style(generate(name, True, True, kind, True, True, True))


def test_types(project: Path, types_cache: Path) -> None:
    typed(project, types_cache)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "kind",
    [
        *("everything", "async-sql", "sink-changes"),
        *map(slow, ("source", "sink", "lookup", "both", "merging", "sink-topologies", "async")),
        *map(slow, ("source-lookup", "both-async", "all", "all-async", "lookup-sql")),
        *map(slow, ("both-catalog", "all-changes")),
    ],
)
def test_the_suites_pass(generate, kind: str) -> None:
    report = pass_tests(generate("pulsar", *COMBINATIONS[kind]))
    assert report["not_run"] == {"cells": ["3.5", "4.3"], "cases": []}


def test_the_report_names_what_options_deselect(generate) -> None:
    folder = generate("pulsar", *COMBINATIONS["lookup"])
    report = pass_tests(folder, "-k", "Options and not secret")
    cases = [each for each in report["not_run"]["cases"] if "TestTableOptions" in each]
    assert cases
    assert all("secret" in each for each in cases)
    text = (folder / "build/report.md").read_text(encoding="utf-8")
    assert "| Spark 3.5 | a cell: `tox run -e spark35` |" in text
    assert f"| {cases[0]} | deselected |" in text


def test_its_import_loads_neither_spark_nor_the_runtime(project: Path) -> None:
    check = (
        "import connector_pulsar.testing, sys;"
        "found = {'pyspark', 'pytest', 'connectors_core.spark'} & sys.modules.keys();"
        "sys.exit(str(found) if found else 0)"
    )
    succeed(project, "-c", check)


def test_its_lint_and_type_rules_match_the_tree(generate) -> None:
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    generated = generate("pulsar", True, True) / "pyproject.toml"
    theirs = tomllib.loads(generated.read_text(encoding="utf-8"))["tool"]
    (untyped,), (untyped_in_tree,) = theirs["mypy"].pop("overrides"), ours["mypy"].pop("overrides")
    assert set(untyped["module"]) <= set(untyped_in_tree["module"])
    assert theirs["mypy"] == ours["mypy"]
    for name in ("line-length", "target-version"):
        assert theirs["ruff"][name] == ours["ruff"][name]
    ours, theirs = ours["ruff"]["lint"], theirs["ruff"]["lint"]
    assert theirs.pop("per-file-ignores").items() <= ours.pop("per-file-ignores").items()
    assert theirs == ours


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("name=Pulsar", "name: expected lower-case words"),
        ("name=connector-pulsar", "name: the template adds the prefix 'connector-'"),
        ("name=test", "name: 'test' is reserved"),
        ("name=test-rail", "name: 'test-rail' is reserved"),
        ("name=spark", "name: 'spark' is reserved"),
        ("name=core", "name: 'core' is reserved"),
        ("name=a-name-of-21-letters-", "name: expected"),
        ("name=a-name-of-21-letterss", "name: expected 20 characters at most, found 21"),
        ('description=A "quoted" word', "description: expected one line"),
        ("owner=no owner", "owner: expected the name of a GitHub organization"),
        ("compaction=yes", "compaction: only a sink of the kind two-phase can merge"),
        ("catalog=yes", "catalog: the tables of a catalog need the answers table and source"),
        ("topologies=yes", "topologies: only a two-phase sink has steps"),
        ("source=no", "source, sink, lookup: a connector needs at least one of the three"),
    ],
)
def test_invalid_answers_are_rejected(tmp_path: Path, answer: str, said: str) -> None:
    arguments = ["--no-input", f"--output-dir={tmp_path}", str(TEMPLATE), "sink=no", answer]
    done = run(tmp_path, "-m", "cookiecutter", *arguments)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith(said)
    assert len(done.stdout.splitlines()) == 1  # no traceback
    assert list(tmp_path.iterdir()) == []


def test_a_description_may_end_with_a_period(tmp_path: Path) -> None:
    project = generated({"name": "queue", "description": "Reads queues."}, tmp_path)
    assert "\nReads queues.\n" in (project / "README.md").read_text(encoding="utf-8")


def test_the_names_of_the_tables_of_the_core_are_reserved() -> None:
    project = tomllib.loads((ROOT / "connectors-core/pyproject.toml").read_text(encoding="utf-8"))
    tables = project["project"]["entry-points"]["connectors.tables"].keys()
    assert tables
    assert tables <= runpy.run_path(str(TEMPLATE / "connector_answers.py"))["RESERVED"]


def test_the_workflow_is_valid(generate) -> None:
    workflow = str(generate("pulsar", True, True) / ".github/workflows/ci.yml")
    schema = ["check_jsonschema", "--builtin-schema", "vendor.github-workflows", workflow]
    succeed(ROOT, "-m", *schema)
    zizmor = Path(sys.executable).with_name("zizmor")
    policy = ["--offline", "--persona", "auditor", "--config", str(ROOT / ".github/zizmor.yml")]
    done = subprocess.run([zizmor, *policy, workflow], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
