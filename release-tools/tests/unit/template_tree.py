# SPDX-License-Identifier: Apache-2.0
"""A small repository: a template, connectors made of it, and a command line to run on them."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from click.testing import Result
from typer.testing import CliRunner

from connector_release_tools.cli import app

PROJECT = "connector-template/connector-{{cookiecutter.name}}"
SINK_PAGE = f"{PROJECT}/docs/{{% if cookiecutter.sink %}}sink.md{{% endif %}}"
TEMPLATE = {
    "connector-template/cookiecutter.json": json.dumps(
        {"name": "memory", "description": "", "owner": "", "source": True, "sink": True}
    ),
    f"{PROJECT}/pyproject.toml": (
        "[project]\n"
        'name = "connector-{{ cookiecutter.name }}"\n'
        'description = "{{ cookiecutter.description }}"\n'
        'requires-python = ">=3.11"\n'
        "\n"
        "[tool.connector]\n"
        'spark = ["3.5", "4.3"]\n'
        "\n"
        "[tool.cruft]\n"
        'skip = ["src/**", "README.md"]\n'
    ),
    f"{PROJECT}/tox.ini": "[tox]\nenv_list = spark35, spark43\n\n[testenv]\ncommands = pytest\n",
    SINK_PAGE: "# The sink\n",
    f"{PROJECT}/README.md": "# {{ cookiecutter.name }} of {{ cookiecutter.owner }}\n",
    f"{PROJECT}/src/connector_{{{{cookiecutter.name}}}}/__init__.py": "# the author's\n",
}


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@dataclass(frozen=True)
class Tree:
    root: Path

    @classmethod
    def new(cls, root: Path) -> Tree:
        root.mkdir(parents=True)
        git(root, "init", "--quiet", "--initial-branch=main")
        tree = cls(root)
        tree.commit(TEMPLATE)
        return tree

    def copy(self, root: Path) -> Self:
        shutil.copytree(self.root, root, symlinks=True)
        return type(self)(root)

    def commit(self, files: dict[str, str | None]) -> str:
        """Write files (None removes one) and commit everything."""
        for name, content in files.items():
            path = self.root / name
            if content is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "--allow-empty", "--message", "a change")
        return git(self.root, "rev-parse", "HEAD")

    def text(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8")

    def replaced(self, name: str, old: str, new: str) -> dict[str, str | None]:
        """A change for `commit`: other words in a file."""
        text = self.text(name)
        assert old in text
        return {name: text.replace(old, new)}

    def run(self, *arguments: str, input: str | None = None) -> Result:
        result = CliRunner().invoke(
            app, ["template", *arguments, "--root", str(self.root)], input=input
        )
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            result.exception
        )
        return result

    def create(self, name: str, *options: str) -> None:
        answers = ("--description", f"{name} system", "--owner", "somebody", "--source")
        result = self.run("create", name, *answers, *(options or ("--sink",)))
        assert result.exit_code == 0, result.output
        self.commit({})

    def check(self, *arguments: str) -> dict[str, Any]:
        """The connectors of `check --format json`, by their names."""
        result = self.run("check", *arguments, "--format", "json")
        verdicts = {each["connector"]: each for each in json.loads(result.stdout)["connectors"]}
        states = {each["state"] for each in verdicts.values()}
        code = 2 if "not checked" in states else int(states != {"up to date"})
        assert result.exit_code == code
        return verdicts

    def update(self, *arguments: str, exit_code: int = 0) -> str:
        result = self.run("update", *arguments)
        assert result.exit_code == exit_code, result.output
        return result.output
