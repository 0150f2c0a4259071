# SPDX-License-Identifier: Apache-2.0
"""Generates a project from the template, and runs Python in it without installing it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cookiecutter.main import cookiecutter

TEMPLATE = Path(__file__).parents[1]


def generated(answers: Mapping[str, Any], folder: Path) -> Path:
    """Generate a project into a folder, and return the project's own folder."""
    config = folder / "empty-user-config.yaml"
    config.write_text("{}")
    return Path(
        cookiecutter(
            str(TEMPLATE),
            no_input=True,
            extra_context=answers,
            output_dir=str(folder),
            config_file=str(config),
        )
    )


def _entry_points_of(project: Path) -> Path:
    return project.parent / "installed"


def install_entry_points(project: Path) -> None:
    """Let Python find the entry points of a project, as if it were installed."""
    declared = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = _entry_points_of(project) / f"{project.name.replace('-', '_')}-0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {project.name}\nVersion: 0\n")
    lines = []
    for group, found in declared.get("entry-points", {}).items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in found.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines))


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a project that is not installed."""
    path = [
        str(project / "src"),
        str(_entry_points_of(project)),
        *filter(None, [os.environ.get("PYTHONPATH")]),
    ]
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def succeed(project: Path, *arguments: str) -> None:
    """Run Python in a project, without an error."""
    done = run(project, *arguments)
    assert done.returncode == 0, f"{arguments}: {done.stdout[-6000:]}{done.stderr[-2000:]}"


def sources(project: Path) -> list[Path]:
    """Return the files of a project, without what Python compiles."""
    return [path for path in project.rglob("*") if path.is_file() and path.suffix != ".pyc"]


def in_style(project: Path) -> None:
    """Check the style of a project by its own rules."""
    succeed(project, "-m", "ruff", "check", "--no-cache")
    succeed(project, "-m", "ruff", "format", "--check", "--no-cache")


def typed(project: Path, cache: Path) -> None:
    """Check the types of a project by its own rules."""
    succeed(project, "-m", "mypy", f"--cache-dir={cache}", "src")


def pass_tests(project: Path, *options: str) -> dict[str, Any]:
    """Run the tests of a project that need no JVM, and return their report."""
    if not _entry_points_of(project).exists():
        install_entry_points(project)
    # The tests wait more than they work, so they run in parallel.
    several = ("-q", "-n", "8", "-m", "not slow", "-p", "no:cacheprovider")
    report = ("--connector-report", "build/report")
    succeed(project, "-m", "pytest", *several, *report, *options, "tests/unit")
    found: dict[str, Any] = json.loads((project / "build/report.json").read_bytes())
    return found
