# SPDX-License-Identifier: Apache-2.0
"""An accepted proposal becomes a connector that is registered in the whole tree."""

import errno
import json
import tomllib
from pathlib import Path

import pytest
from flip_tree import FlipTree, whole_tree
from git_tree import git
from typer.main import get_command
from typer.testing import CliRunner

from connector_release_tools.cli import app
from connector_release_tools.flips import scaffold
from connector_release_tools.flips.model import ConnectorPlan
from connector_release_tools.flips.registration import in_project, new_requirements
from connector_release_tools.git import Repository
from connector_release_tools.matrix.file import MatrixFile
from connector_release_tools.matrix.project import Project

ROOT = Path(__file__).parents[3]
REGISTERED = (
    ".github/CODEOWNERS",
    ".github/ISSUE_TEMPLATE/bug.yml",
    "MAINTAINERS.yaml",
    "README.md",
    "compatibility-matrix.yaml",
    "flips/0001-a-connector-for-pulsar.md",
    "pyproject.toml",
)


def text(tree, name):
    return (tree.root / name).read_text(encoding="utf-8")


def disk_is_full(path, file):
    raise OSError(errno.ENOSPC, "no space left on device")


def changed(tree):
    """Return the files that differ from HEAD, without those of the new connector."""
    names = git(tree.root, "status", "--porcelain", "--untracked-files=all").split()[1::2]
    return {name for name in names if not name.startswith("connector-pulsar/")}


def test_the_connector_is_created_and_registered_everywhere(accepted):
    said = accepted.flip("scaffold", "1", "--sponsor", "bob")
    assert "connector-pulsar/ was created from the template" in said
    assert text(accepted, "connector-pulsar/README.md") == "# pulsar of \n"
    assert not (accepted.root / "connector-pulsar/docs/sink.md").exists()
    assert changed(accepted) == set(REGISTERED)

    (major,) = (
        MatrixFile.of(Repository(accepted.root))
        .matrix()
        .connectors["connector-pulsar"]
        .majors.values()
    )
    assert (major.version, major.spark, major.core) == ("0.1.0", ("4.3", "3.5"), ">=1.0,<2")
    assert text(accepted, "compatibility-matrix.yaml").startswith("# A remark.")

    linter = tomllib.loads(text(accepted, "pyproject.toml"))["tool"]["importlinter"]
    assert linter["root_packages"] == ["connectors_core", "connector_one", "connector_pulsar"]
    layers, core, tools = linter["contracts"]
    assert layers["layers"] == ["connector_one | connector_pulsar", "connectors_core"]
    assert core["source_modules"] == ["connectors_core"]
    assert tools["forbidden_modules"] == ["connectors_core", "connector_one", "connector_pulsar"]
    assert "# No connector imports another." in text(accepted, "pyproject.toml")

    assert accepted.read(1).header.sponsor == "bob"
    assert "connector-pulsar:\n    - {handle: bob, since: 2026-03-11}" in text(
        accepted, "MAINTAINERS.yaml"
    )
    assert "/connector-pulsar/ @bob\n" in text(accepted, ".github/CODEOWNERS")
    assert "- connector-pulsar\n" in text(accepted, ".github/ISSUE_TEMPLATE/bug.yml")
    base = git(accepted.root, "rev-parse", "HEAD")
    accepted.commit(by="bob")
    assert "follow the rules" in accepted.flip("check", "--base", base)


def test_a_dry_run_changes_nothing(accepted):
    said = accepted.flip("scaffold", "1", "--sponsor", "bob", "--dry-run")
    assert "connector-pulsar/ would be created from the template" in said
    assert "+  connector-pulsar:" in said
    assert "+/connector-pulsar/ @bob" in said
    assert changed(accepted) == set()


def test_a_second_run_changes_nothing(accepted):
    accepted.flip("scaffold", "1", "--sponsor", "bob")
    accepted.commit()
    said = accepted.flip("scaffold", "1")
    assert "connector-pulsar exists and is completely registered" in said
    assert changed(accepted) == set()


def test_a_connector_that_its_author_has_created_and_changed_is_registered(accepted):
    plan = accepted.read(1).header.connector
    answers = ("--description", plan.description, "--owner", "someone", "--source", "--no-sink")
    assert (plan.source, plan.sink) == (True, False)
    assert accepted.run("template", "create", "pulsar", *answers).exit_code == 0
    project = "connector-pulsar/pyproject.toml"
    declared = text(accepted, project).replace('"pyarrow"', '"pyarrow", "pulsar-client>=3"')
    accepted.commit({project: declared})
    said = accepted.flip("scaffold", "1", "--sponsor", "bob")
    assert "was created" not in said
    assert changed(accepted) == {*REGISTERED, "requirements/base.in"}
    assert "pulsar-client>=3\n" in text(accepted, "requirements/base.in")
    assert text(accepted, project).count("pulsar-client") == 1


def test_the_next_run_completes_an_interrupted_run(accepted, monkeypatch):
    def run_with_room_for_one_file():
        room = iter([scaffold.write])

        def write(path, file):
            next(room, disk_is_full)(path, file)

        command = ["flip", "scaffold", "1", "--sponsor", "bob", "--root", str(accepted.root)]
        with monkeypatch.context() as patch:
            patch.setattr(scaffold, "write", write)
            return CliRunner().invoke(app, command)

    runs = [run_with_room_for_one_file() for _ in REGISTERED]
    assert all(isinstance(run.exception, OSError) for run in runs[:-1])
    assert runs[-1].exit_code == 0
    assert changed(accepted) == set(REGISTERED)
    assert "completely registered" in accepted.flip("scaffold", "1")


def test_an_incomplete_folder_is_created_again(accepted):
    folder = accepted.root / "connector-pulsar"
    accepted.flip("scaffold", "1", "--sponsor", "bob")
    (folder / ".cruft.json").unlink()
    (folder / "tox.ini").unlink()
    accepted.flip("scaffold", "1")
    assert (folder / ".cruft.json").exists()
    assert (folder / "tox.ini").exists()


def test_a_foreign_folder_is_not_changed(accepted):
    accepted.commit({"connector-pulsar/README.md": "# Mine\n"})
    said = accepted.flip("scaffold", "1", "--sponsor", "bob", code=2)
    assert "connector-pulsar exists, and was not created for this proposal" in said
    assert changed(accepted) == set()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "FLIP 0001 has no sponsor"),
        (("--sponsor", "carol"), "carol maintains no folder in MAINTAINERS.yaml"),
    ],
)
def test_the_sponsor_must_be_a_maintainer(accepted, options, message):
    assert message in accepted.flip("scaffold", "1", *options, code=2)


def test_a_proposal_without_a_connector_creates_none(decided):
    said = decided.flip("scaffold", "1", "--sponsor", "bob", code=2)
    assert "FLIP 0001 does not ask for a connector" in said


def test_a_new_requirement_is_pinned(accepted):
    accepted.commit(whole_tree("pulsar-client[avro]>=3,<4"))
    command = "make requirements 'PACKAGE=pulsar-client[avro]<4,>=3'"
    dry = accepted.flip("scaffold", "1", "--sponsor", "bob", "--dry-run")
    assert f"would run {command}" in dry
    assert changed(accepted) == set()
    assert f"ran {command}" in accepted.flip("scaffold", "1", "--sponsor", "bob")
    assert text(accepted, "requirements/base.in") == (
        "# runtime\npyarrow>=20\npulsar-client[avro]<4,>=3\n"
    )
    assert "completely registered" in accepted.flip("scaffold", "1")


def test_the_next_run_pins_a_requirement_after_a_failure(accepted):
    working = text(accepted, "Makefile")
    accepted.commit(
        {
            **whole_tree("pulsar-client"),
            "Makefile": ".PHONY: requirements\nrequirements:\n\tfalse\n",
        }
    )
    said = accepted.flip("scaffold", "1", "--sponsor", "bob", code=2)
    assert "`make requirements PACKAGE=pulsar-client` failed" in said
    (accepted.root / "Makefile").write_text(working)
    assert "ran make requirements PACKAGE=pulsar-client" in accepted.flip("scaffold", "1")
    assert "completely registered" in accepted.flip("scaffold", "1")


def test_a_connector_can_be_added_to_the_import_rules_of_this_repository():
    known = MatrixFile.of(Repository(ROOT)).matrix().connectors
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    linter = tomllib.loads(in_project(text, known, "connector_new"))["tool"]["importlinter"]
    by_name = {each["name"]: each for each in linter["contracts"]}
    assert "connector_new" in linter["root_packages"]
    connectors = by_name["a connector imports no other connector, the core imports none"]
    assert connectors["layers"][0].endswith("| connector_new")
    for name, key in (
        ("only connectors_core.spark and the test suites import pyspark", "source_modules"),
        ("a connector uses the API of the core, not its runtime", "source_modules"),
        ("the tools import neither the core nor a connector", "forbidden_modules"),
    ):
        assert "connector_new" in by_name[name][key]
    assert in_project(in_project(text, known, "connector_new"), known, "connector_new") == (
        in_project(text, known, "connector_new")
    )


def test_known_requirements_are_not_new():
    text = (
        '[project]\nname = "connector-x"\n[tool.connector]\nversion = "0.1.0"\n'
        'spark = ["3.5"]\ndependencies = ["connectors-core>=1.0,<2", "PyArrow", "x_client", "y"]\n'
    )
    texts = ["x.client>=1\n", "# y\npyarrow\n"]
    assert new_requirements(texts, Project.parse(text, "here")) == ["y"]


def test_a_proposal_of_answers_that_the_template_rejects_is_refused():
    core = ("--author", "eve", "--connector", "core", "--description", "It", "--dry-run")
    said = FlipTree(ROOT).flip("new", "A connector for the core", *core, code=2)
    assert "connector-template rejects the answers: name: 'core' is reserved" in said


def questions_of(*words):
    """Return the parameters of a command."""
    group = get_command(app)
    for word in words:
        group = group.commands[word]
    return {each.name for each in group.params}


def test_a_proposal_asks_what_the_template_asks():
    asked = json.loads((ROOT / "connector-template/cookiecutter.json").read_text(encoding="utf-8"))
    asked = {name for name in asked if not name.startswith("_")}
    assert ConnectorPlan.model_fields.keys() == asked - {"owner"}
    assert asked - {"owner", "name"} <= questions_of("flip", "new")
    for command in ("create", "link"):
        assert asked - {"name"} <= questions_of("template", command)
