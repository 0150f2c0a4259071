# SPDX-License-Identifier: Apache-2.0
"""Tests that the connectors of this repository are up to date with their template."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from connector_release_tools.cli import app
from connector_release_tools.template.link import Link

ROOT = Path(__file__).parents[2]
CONNECTORS = sorted(path.parent.name for path in ROOT.glob("connector-*/pyproject.toml"))
QUESTIONS = ROOT / "connector-template/cookiecutter.json"


def test_every_connector_is_linked_to_the_template() -> None:
    assert sorted(path.parent.name for path in ROOT.glob("connector-*/.cruft.json")) == CONNECTORS


@pytest.mark.parametrize("name", CONNECTORS)
def test_a_connector_is_up_to_date_with_the_template(name: str) -> None:
    result = CliRunner().invoke(app, ["template", "check", name, "--diff", "--root", str(ROOT)])
    assert result.exit_code == 0, result.output


def test_the_command_and_the_template_ask_the_same_questions() -> None:
    asked = {name for name in json.loads(QUESTIONS.read_bytes()) if name[:1] != "_"}
    said = CliRunner().invoke(app, ["template", "create", "--help"], env={"COLUMNS": "200"}).output
    assert asked == {"name"} | {name for name in asked if f"--{name.replace('_', '-')}" in said}


@pytest.mark.parametrize("name", CONNECTORS)
def test_every_answer_is_recorded(name: str) -> None:
    asked = {name for name in json.loads(QUESTIONS.read_bytes()) if name[:1] != "_"}
    assert set(Link.read(ROOT / name / ".cruft.json").answers) == asked
