# SPDX-License-Identifier: Apache-2.0
"""A small repository with a template, its connectors, and the command line."""

from __future__ import annotations

import json
from typing import Any

from click.testing import Result
from git_tree import GitTree

PROJECT = "connector-template/connector-{{cookiecutter.name}}"
SINK_PAGE = f"{PROJECT}/docs/{{% if cookiecutter.sink %}}sink.md{{% endif %}}"
TEMPLATE = {
    "connector-template/cookiecutter.json": json.dumps(
        {
            **{"name": "memory", "description": "", "owner": "", "source": True, "sink": True},
            "lookup": False,
        }
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


class Tree(GitTree):
    """The repository with the template commands."""

    def run(self, *arguments: str, input: str | None = None) -> Result:
        return self.invoke("template", *arguments, input=input)

    def create(self, name: str, *options: str) -> None:
        answers = ("--description", f"{name} system", "--owner", "someone", "--source")
        result = self.run("create", name, *answers, *(options or ("--sink",)))
        assert result.exit_code == 0, result.output
        self.commit({})

    def check(self, *arguments: str) -> dict[str, Any]:
        """Return the connectors of `check --format json` by name."""
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
