# SPDX-License-Identifier: Apache-2.0
"""The workflows call existing commands, and pin third-party actions."""

import os
import re
import shlex
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
import typer
from git_tree import git
from ruamel.yaml import YAML
from typer.core import TyperGroup

from connector_release_tools.cli import app
from connector_release_tools.site.code import problem
from connector_release_tools.site.markdown import Block

TOOLS = Path(__file__).parents[2]
ROOT = TOOLS.parent
SHARED = TOOLS / ".github/workflows/connector.yml"
LAY_IN = TOOLS / ".github/lay-in.sh"
FILES = sorted(
    [
        *ROOT.glob(".github/workflows/*.yml"),
        *ROOT.glob("*/.github/workflows/*.yml"),
        *ROOT.glob("*/.github/actions/*/action.yml"),
    ]
)
NAMES = [str(path.relative_to(ROOT)) for path in FILES]


def steps(name: str) -> list[dict]:
    document = YAML(typ="safe").load((ROOT / name).read_text())
    jobs = [document["runs"]] if "runs" in document else document["jobs"].values()
    return [step for job in jobs for step in (job.get("steps") or [job])]


def commands(name: str) -> list[list[str]]:
    """Return the commands of the tools that a workflow runs."""
    runs = "\n".join(step.get("run", "") for step in steps(name))
    runs = re.sub(r"\$[A-Z]+", "2", runs)  # a value for every variable
    found = re.findall(r"release-tools ([a-z][^|\n)]*)", runs)
    return [shlex.split(each, comments=True) for each in found]


def test_the_workflows_are_found() -> None:
    assert {
        ".github/workflows/ci.yml",
        "release-tools/.github/workflows/connector.yml",
        "connector-filesystem/.github/workflows/ci.yml",
    } <= set(NAMES)
    assert commands(".github/workflows/ci.yml")


@pytest.mark.parametrize("name", NAMES)
def test_every_command_of_a_workflow_exists(name: str) -> None:
    for words in commands(name):
        command = typer.main.get_command(app)
        while isinstance(command, TyperGroup):
            known = command.commands
            assert words[0] in known, f"{name}: there is no command {words[0]}"
            command = known[words.pop(0)]
        command.make_context(name, words)


@pytest.mark.parametrize("name", NAMES)
def test_scripts_are_valid_shell_without_workflow_expressions(name: str) -> None:
    for step in steps(name):
        script = step.get("run", "")
        assert "${{" not in script, f"{name}: give it by env"
        assert problem(Block(1, "bash", script)) is None


def test_third_party_actions_are_pinned_by_the_same_commit_everywhere() -> None:
    pins = defaultdict(set)
    for path in FILES:
        for action, pin in re.findall(r"uses: (actions/[\w-]+)@(.*)", path.read_text()):
            assert re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", pin), path
            pins[action].add(pin)
    assert pins
    assert {action: len(found) for action, found in pins.items() if len(found) > 1} == {}


@pytest.mark.parametrize(
    ("connector", "registered"),
    [("connector-kafka", "true"), ("connector-new", "false"), ("connector-kaf", "false")],
)
def test_only_the_tox_of_an_unregistered_connector_runs(tmp_path, connector, registered) -> None:
    jobs = YAML(typ="safe").load(SHARED.read_text())["jobs"]
    script, found = jobs["registration"]["steps"][-1]["run"], tmp_path / "output"
    env = {**os.environ, "CONNECTOR": connector, "GITHUB_OUTPUT": str(found)}
    done = subprocess.run(
        ["bash", "-e", "-c", script], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    assert found.read_text() == f"registered={registered}\n"
    assert (f"{connector} is not registered" in done.stdout) is (registered == "false")
    wanted = "needs.registration.outputs.registered == "
    assert jobs["tox"]["if"] == f"{wanted}'false'"
    assert jobs["checks"]["if"] == f"{wanted}'true'"
    assert jobs["cell"]["needs"] == "checks"


@pytest.fixture
def house(tmp_path):
    """A main repository with an old state of a connector, and the connector's repository."""
    own, house = tmp_path / "own", tmp_path / "house"
    for root, files in (
        (own, {"README.md": "new", "docs/new.md": ""}),
        (house, {"connector-x/README.md": "old", "connector-x/gone.md": "", "core.py": ""}),
    ):
        root.mkdir()
        git(root, "init", "--quiet", "--initial-branch=main")
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", "first")
    return house


def copy_into(house: Path, connector: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LAY_IN, "../own", connector], cwd=house, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("connector", ["connector-x", "connector-new"])
def test_a_connector_is_copied_into_the_main_repository(house, connector):
    done = copy_into(house, connector)
    assert done.returncode == 0, done.stderr
    own = git(house.parent / "own", "rev-parse", "HEAD^{tree}")
    assert git(house, "rev-parse", f"HEAD:{connector}") == own
    assert git(house, "status", "--porcelain") == ""
    assert (house / connector / "docs/new.md").exists()
    assert git(house, "show", "HEAD:core.py") == ""


def test_copying_a_connector_twice_gives_the_same_state(house):
    assert copy_into(house, "connector-x").returncode == 0
    assert copy_into(house, "connector-x").returncode == 0


def test_a_foreign_folder_is_not_replaced(house):
    done = copy_into(house, "../own")
    assert done.returncode == 2
    assert "expected the name of a connector" in done.stderr
