# SPDX-License-Identifier: Apache-2.0
"""The workflows call existing commands, and pin third-party actions."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import typer
from flip_tree import FILES as RULES
from git_tree import GitTree, git
from matrix_tree import MatrixTree
from release_tree import ReleaseTree
from ruamel.yaml import YAML
from typer.core import TyperGroup

from connector_release_tools.cli import app
from connector_release_tools.site.code import problem
from connector_release_tools.site.markdown import Block

TOOLS = Path(__file__).parents[2]
ROOT = TOOLS.parent
SHARED = TOOLS / ".github/workflows/connector.yml"
CI = ".github/workflows/ci.yml"
RELEASE = ".github/workflows/release.yml"
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
        CI,
        "release-tools/.github/workflows/connector.yml",
        "connector-filesystem/.github/workflows/ci.yml",
    } <= set(NAMES)
    assert commands(CI)


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
        for action, pin in re.findall(r"uses: ((?:actions|pypa)/[\w-]+)@(.*)", path.read_text()):
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


def job(name: str, job: str) -> dict:
    return YAML(typ="safe").load((ROOT / name).read_text())["jobs"][job]


def run_step(tree: GitTree, step: dict, *, exit_code: int = 0, **env: str) -> dict[str, str]:
    """Run the script of a step as the forge does, and return its outputs or new variables."""
    programs, outputs = tree.root / "build/bin", tree.root / "build/outputs"
    programs.mkdir(parents=True, exist_ok=True)
    program = programs / "release-tools"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m connector_release_tools "$@"\n')
    program.chmod(0o755)
    outputs.write_text("")
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
        cwd=tree.root,
        env={
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "GITHUB_OUTPUT": str(outputs),
            "GITHUB_ENV": str(outputs),
            **env,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == exit_code, done.stdout + done.stderr
    return dict(line.split("=", 1) for line in outputs.read_text().splitlines())


def step_of(name: str, job_name: str, step_id: str) -> dict:
    (found,) = (each for each in job(name, job_name)["steps"] if each.get("id") == step_id)
    return found


def test_ci_gets_the_affected_cells_or_all_of_them(matrix_tree: MatrixTree) -> None:
    matrix_tree.change("requirements/spark35.txt", "numpy==1.26.4", "numpy==1.26.5")
    found = {
        step: json.loads(run_step(matrix_tree, step_of(CI, "checks", step), BASE="HEAD~1")["cells"])
        for step in ("affected", "all")
    }
    assert [cell["spark"] for cell in found["affected"]["include"]] == ["3.5"]
    assert [cell["spark"] for cell in found["all"]["include"]] == ["4.3", "3.5"]
    used = set(re.findall(r"\bmatrix\.(\w+)", json.dumps(job(CI, "cell"))))
    assert used <= set(found["all"]["include"][0])


def test_ci_skips_the_cells_if_a_change_affects_none(matrix_tree: MatrixTree) -> None:
    matrix_tree.commit({"NEWS.md": "words\n"})
    said = run_step(matrix_tree, step_of(CI, "checks", "affected"), BASE="HEAD~1")["cells"]
    assert json.loads(said) == {"include": []}
    assert job(CI, "cell")["if"] == "fromJSON(needs.checks.outputs.cells).include[0] != null"


@pytest.mark.slow
def test_the_release_workflow_builds_a_candidate_and_publishes_it_only_after_a_vote(
    release_tree: ReleaseTree, wheelhouse_only: None
) -> None:
    release_tree.commit(RULES)
    env = {"RELEASE": "connector-one-2.0.0", "CANDIDATE": "1"}
    scripts = [step for step in job(RELEASE, "candidate")["steps"] if "run" in step]
    for step in scripts[:-1]:
        env |= run_step(release_tree, step, **env)
    assert (env["PACKAGE"], env["MAJOR"]) == ("connector-one", "2")
    assert (release_tree.root / "build/candidates/connector-one-2.0.0-rc1/VOTE.txt").is_file()
    assert scripts[-1]["if"] == "inputs.publish"
    run_step(release_tree, scripts[-1], exit_code=2, **env)  # there is no vote


def test_the_release_workflow_refuses_a_name_that_sets_other_variables(
    matrix_tree: MatrixTree,
) -> None:
    (step,) = (each for each in job(RELEASE, "candidate")["steps"] if "GITHUB_ENV" in str(each))
    for name in ("a\nPATH=/tmp-1.0.0", "connector-a-1.0.0\nPATH=/tmp", "a-1.0.0", "connector-a-1"):
        assert run_step(matrix_tree, step, exit_code=2, RELEASE=name) == {}
    assert run_step(matrix_tree, step, RELEASE="connectors-core-1.2.3") == {
        "PACKAGE": "connectors-core",
        "MAJOR": "1",
    }


def test_only_the_job_that_publishes_can_get_the_token_of_the_index() -> None:
    publish = job(RELEASE, "publish")
    assert publish["environment"] == "release"
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["needs"] == "candidate"
    assert not any("run" in step for step in publish["steps"])
    assert job(RELEASE, "candidate")["permissions"] == {"contents": "read"}


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
