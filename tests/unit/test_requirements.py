# SPDX-License-Identifier: Apache-2.0
"""A package is added to the requirements in its place, or the person is told why not."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = "# What is needed.\n\n# runtime\ncachetools\nfsspec\n\n# tests\npytest\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "base.in"
    path.write_text(TEXT)
    return path


def add(file: Path, *packages: str) -> subprocess.CompletedProcess[str]:
    # As make runs it: without the packages of the environment.
    command = [sys.executable, "-I", "-S", str(ROOT / "tools/requirements.py"), str(file)]
    return subprocess.run(
        [*command, " ".join(packages)], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("packages", "runtime"),
    [
        (["redis"], "cachetools\nfsspec\nredis\n"),
        (["aiohttp>=3"], "aiohttp>=3\ncachetools\nfsspec\n"),
        (["redis", "elastic[async]>=8"], "cachetools\nelastic[async]>=8\nfsspec\nredis\n"),
        (["FSSpec", "pytest"], "cachetools\nfsspec\n"),
    ],
)
def test_a_package_is_listed_once_in_order(file, packages, runtime):
    done = add(file, *packages)
    assert done.returncode == 0, done.stderr
    assert file.read_text() == TEXT.replace("cachetools\nfsspec\n", runtime)
    assert add(file, *packages).returncode == 0
    assert file.read_text() == TEXT.replace("cachetools\nfsspec\n", runtime)


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("fsspec>=2026", "it already lists fsspec; edit that line, and pass only the name"),
        (">=2", "expected a package, such as redis or 'redis>=6', found '>=2'"),
        ("-r other.in", "expected a package, such as redis or 'redis>=6', found '-r'"),
        ("x;rm", "expected a package, such as redis or 'redis>=6', found 'x;rm'"),
        (
            "x@https://127.0.0.1/x",
            "expected a package, such as redis or 'redis>=6', found 'x@https://127.0.0.1/x'",
        ),
    ],
)
def test_a_package_that_cannot_be_added_changes_nothing(file, package, said):
    done = add(file, "redis", package)
    assert done.returncode == 1
    assert done.stderr == f"{file}: {said}\n"
    assert file.read_text() == TEXT


def test_only_a_new_package_keeps_the_other_pins():
    def commands(*package: str) -> str:
        command = ["make", "--dry-run", "requirements", "UV=uv", *package]
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    assert "--upgrade" in commands()
    one = commands("PACKAGE=redis[hiredis]>=6")
    assert "--upgrade" not in one
    assert "requirements/base.in 'redis[hiredis]>=6'" in one


@pytest.mark.parametrize(
    "package", ["x'; touch MARK; '", "$(shell touch MARK)", "`touch MARK`", '"; touch MARK; "']
)
def test_nothing_in_the_name_of_a_package_runs(tmp_path, package):
    """Run the recipe without compilers; the text reaches the program unchanged."""
    text = (ROOT / "Makefile").read_text()
    programs = {".tools/bin/python": 'printf %s "$3" > said; exit 1\n', ".tools/.ready": ""}
    for name, script in {**programs, "requirements/base.in": TEXT, "Makefile": text}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}" if "bin" in name else script)
        path.chmod(0o755)
    given = package.replace("MARK", str(tmp_path / "mark"))
    command = ["make", "-o", ".tools/.ready", "requirements", f"PACKAGE={given}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert (tmp_path / "said").read_text() == given, done.stderr
    assert not (tmp_path / "mark").exists()
    assert (tmp_path / "requirements/base.in").read_text() == TEXT
