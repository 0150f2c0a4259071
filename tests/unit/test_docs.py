# SPDX-License-Identifier: Apache-2.0
"""Links of the documents lead somewhere, code parses; tables are those of the code."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from connector_release_tools.cli import app

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("docs", ROOT / "tools/docs.py")
docs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(docs)

NAMES = [str(path.relative_to(ROOT)) for path in docs.documents()]


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_documents_are_found() -> None:
    assert {"README.md", "ARCHITECTURE.md", "connectors-core/README.md"} <= set(NAMES)


def test_links_lead_somewhere_and_code_parses() -> None:
    done = CliRunner().invoke(app, ["docs", "check", "--root", str(ROOT)])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("name", NAMES)
def test_tables_of_options_are_those_declared(name: str) -> None:
    text = text_of(name)
    assert docs.with_tables(text) == text, "run `make docs`"


def test_commands_of_the_readme_exist() -> None:
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", text_of("Makefile"), re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"):
        commands = set(re.findall(r"(?:`|^)make ([a-z][a-z0-9-]*)", text_of(name), re.MULTILINE))
        assert commands <= targets, f"{name}: make {commands - targets}"


def test_the_first_pipeline_is_short() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", text_of("README.md"), re.MULTILINE | re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 16
