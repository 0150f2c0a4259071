# SPDX-License-Identifier: Apache-2.0
"""The commands of the README work as described."""

import re
import shlex
from pathlib import Path

from flip_tree import FlipTree
from git_tree import git
from matrix_tree import MatrixTree
from template_tree import Tree
from typer.testing import CliRunner

from connector_release_tools.cli import app

README = Path(__file__).parents[2] / "README.md"


def commands(group: str) -> list[list[str]]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).splitlines()
    begin = f"release-tools {group} "
    return [shlex.split(line, comments=True)[2:] for line in lines if line.startswith(begin)]


def test_the_template_commands_run_in_their_order(tree: Tree) -> None:
    assert len(commands("template")) == 6
    for command in commands("template"):
        result = tree.run(*command)
        assert result.exit_code == 0, result.output
        tree.commit({})


def test_the_matrix_commands_run_in_their_order(matrix_tree: MatrixTree) -> None:
    matrix_tree.release()
    assert len(commands("matrix")) == 6
    for command in commands("matrix"):
        result = matrix_tree.matrix(*(each.replace("filesystem", "one") for each in command))
        assert result.exit_code == 0, result.output
        matrix_tree.commit({})


def test_the_commands_for_affected_cells_run(matrix_tree: MatrixTree) -> None:
    git(matrix_tree.root, "branch", "origin/main")
    assert len(commands("impact")) == 2
    for command in commands("impact"):
        result = matrix_tree.invoke("impact", *command)
        assert result.exit_code == 0, result.output


def test_the_proposal_commands_run_in_their_order(decided: FlipTree) -> None:
    git(decided.root, "update-ref", "refs/remotes/origin/main", decided.base)
    assert len(commands("flip")) == 3
    for command in commands("flip"):
        decided.flip(*command)
        decided.commit(by="alice")


def test_the_review_commands_run_in_their_order(accepted: FlipTree) -> None:
    assert accepted.run("review", "sync").exit_code == 0
    assert len(commands("review")) == 2
    for command in commands("review"):
        assert accepted.run("review", *command).exit_code == 0


def test_help_shows_types_as_words_and_a_shell_completes_commands():
    said = CliRunner().invoke(app, ["index", "serve", "--help"]).output
    assert "--port number" in said
    assert "<" not in said
    env = {"_RELEASE_TOOLS_COMPLETE": "complete_bash", "COMP_WORDS": "x ma", "COMP_CWORD": "1"}
    completed = CliRunner().invoke(app, [], env=env, prog_name="release-tools")
    assert completed.output.split() == ["matrix"]
