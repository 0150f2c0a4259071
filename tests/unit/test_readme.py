# SPDX-License-Identifier: Apache-2.0
"""Runs the examples in the documents that need no Spark, unchanged."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "connectors-core" / "README.md"
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_sink_of_the_readme_passes_its_suite(tmp_path: Path) -> None:
    code = CODE.findall(README.read_text(encoding="utf-8"))
    connector = [block for block in code if "Pipeline(" not in block and "Test" not in block]
    (suite,) = (block for block in code if "SinkTestSuite" in block)
    (tmp_path / "sqlite_connector.py").write_text("\n\n".join(connector), encoding="utf-8")
    (tmp_path / "test_folder_sink.py").write_text(suite, encoding="utf-8")
    command = ["-m", "pytest", "-q", "-o", "connector_suites=true", "-m", "not slow"]
    command += ["--connector-report", "report"]
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]
    counts = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["counts"]
    assert counts["passed"] > 30
    assert counts["failed"] == 0


def test_the_formats_behave_as_their_page_documents() -> None:
    blocks = CODE.findall((ROOT / "docs/formats.md").read_text(encoding="utf-8"))
    assert len(blocks) == 2
    for block in blocks:
        done = subprocess.run(
            [sys.executable, "-c", block], capture_output=True, text=True, check=False
        )
        said = re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE)
        assert said
        assert done.stdout.splitlines()[-len(said) :] == said, done.stderr


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md", "docs/upgrade.md"])
def test_a_page_installs_the_versions_that_make_wheels_builds(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    shown = re.findall(r"'(connector-[a-z]+)(?:\[spark\])?==(\d+\.\d+\.\d+)\.4\.3'", text)
    assert shown
    for package, version in shown:
        project = tomllib.loads((ROOT / package / "pyproject.toml").read_text(encoding="utf-8"))
        assert version == project["tool"]["connector"]["version"], package
