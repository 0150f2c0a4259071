# SPDX-License-Identifier: Apache-2.0
"""Tests a connector outside the tree: its wheel, its own tox, and a new environment."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest
from uv import find_uv_bin

from connector_release_tools.distributions import Distribution
from connector_release_tools.index.directory import DirectoryIndex
from connector_release_tools.index.server import serving
from connector_release_tools.site.markdown import parse

ROOT = Path(__file__).parents[3]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
WHEELHOUSE = CACHE / "connectors/wheelhouse"
# The Spark line of this environment.
LINE = ".".join(version("pyspark").split(".")[:2])
CELL = f"spark{LINE.replace('.', '')}"
PAGE = ROOT / "docs/write-a-connector/from-idea-to-release.md"
SECTION = re.compile(r"^### (.*)\n((?:(?!### ).*\n)*)", re.MULTILINE)
PASSED = re.compile(r"=+ (\d+) passed[^\n]* in ")
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# One case of each kind. `make test-full` runs all cases.
SOME_CASES = "single_split or arrive_as_they_were or after_decision or insert_wrote or readme"

slow = pytest.mark.slow
pytestmark = pytest.mark.timeout(1800)


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    """Run a command that must succeed, and return its output."""
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout, done.stderr)  # shown if a test fails
    assert done.returncode == 0, " ".join(map(str, command))
    return done.stdout


@dataclass(frozen=True)
class Workshop:
    """Builds wheels and environments with the versions that the tree's tests use."""

    folder: Path

    @property
    def wheels(self) -> Path:
        return self.folder / "wheels"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of install commands, without this process's Python and Spark."""
        own = ("PYTHONPATH", "PYSPARK", "SPARK", "PYTEST", "COVERAGE", "VIRTUAL_ENV", "TOX", "UV_")
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(own)},
            "UV_FIND_LINKS": f"{WHEELHOUSE},{self.wheels}",
            "UV_CONSTRAINT": str(self.constraints()),
            "UV_PYTHON_DOWNLOADS": "never",
        }

    def index(self, folder: Path) -> None:
        """Write an index with the core and with Spark, as newcomers install them.

        Spark is published only as a source distribution, so the index saves its build.
        """
        index = DirectoryIndex(folder)
        for wheel in (*self.wheels.glob("connectors_core-*"), *WHEELHOUSE.glob("*.whl")):
            index.add(Distribution.of(wheel))

    def constraints(self) -> Path:
        path = self.folder / "constraints.txt"
        if not path.exists():
            names = [f"{kind}{LINE.replace('.', '')}.txt" for kind in ("spark", "pyspark")]
            text = "".join((ROOT / "requirements" / name).read_text() for name in names)
            pins = re.findall(r"^[A-Za-z0-9._\[\]-]+==[^ ;\\\n]+", text, re.MULTILINE)
            path.write_text("\n".join(pins) + "\n")
        return path

    def wheel(self, project: Path, spark: str | None = None) -> Path:
        before = set(self.wheels.glob("*"))
        build = (sys.executable, "-m", "build", "--wheel", "--no-isolation")
        env = {**os.environ, "CONNECTOR_SPARK": spark} if spark else None
        run(*build, "--outdir", self.wheels, project, cwd=project, env=env)
        (built,) = set(self.wheels.glob("*")) - before
        return built

    def tox(self, project: Path, cell: str, *arguments: str | Path) -> str:
        command = (sys.executable, "-m", "tox", "run", "-e", cell, *arguments)
        return run(*command, cwd=project, env=self.environment)

    def python_with(self, wheel: Path) -> Path:
        """Return the Python of a new environment with the wheel and its Spark."""
        uv, python = find_uv_bin(), self.folder / wheel.stem / "bin/python"
        env = self.environment
        run(uv, "venv", "-q", "--python", sys.executable, python.parents[1], cwd=ROOT, env=env)
        run(uv, "pip", "install", "-q", "--python", python, f"{wheel}[spark]", cwd=ROOT, env=env)
        return python


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    made = Workshop(tmp_path_factory.mktemp("workshop"))
    made.wheels.mkdir()
    made.wheel(ROOT / "connectors-core")
    return made


def passed(output: str) -> int:
    """Return the number of passed tests in the last line of pytest's output."""
    (number,) = PASSED.findall(output)
    return int(number)


def assert_works_outside_the_tree(
    workshop: Workshop, project: Path, *cases: str, least: int
) -> None:
    wheel = workshop.wheel(project, LINE)
    assert f".{LINE}-py3" in wheel.name
    output = workshop.tox(project, CELL, "--installpkg", wheel, *cases)
    assert passed(output) >= least

    examples = CODE.findall((project / "README.md").read_text(encoding="utf-8"))
    assert examples
    script = workshop.folder / f"{wheel.stem}.py"
    python = workshop.python_with(wheel)
    env = {**workshop.environment, "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    for example in examples:
        script.write_text(example)
        shown = run(python, script, cwd=workshop.folder, env=env)
        assert "UA1545" in shown or "[{'value': 2}" in shown


@pytest.mark.line("3.5")
def test_a_generated_connector_works_outside_the_tree(workshop: Workshop, generate) -> None:
    cases = ("--", "tests/spark", "-m", "not slow", "-k", SOME_CASES)
    project = generate("pulsar", True, True, table=True, catalog=True)
    assert_works_outside_the_tree(workshop, project, *cases, least=6)


@slow
@pytest.mark.parametrize(
    ("source", "sink", "kind", "lookup"),
    [
        (True, True, "two-phase", True),
        pytest.param(True, False, "two-phase", False, marks=pytest.mark.line("3.5", only=True)),
        pytest.param(False, True, "two-phase", False, marks=pytest.mark.line("4.3", only=True)),
        pytest.param(False, True, "async", False, marks=pytest.mark.line("3.5", only=True)),
        pytest.param(False, False, "two-phase", True, marks=pytest.mark.line("4.3", only=True)),
    ],
)
def test_all_its_tests_pass_outside_the_tree(
    workshop: Workshop,
    generate: Callable[..., Path],
    source: bool,
    sink: bool,
    kind: str,
    lookup: bool,
) -> None:
    name = f"our-{source:d}{sink:d}{lookup:d}-{kind}"
    least = 90 if source or (sink and kind == "two-phase") else 60
    project = generate(name, source, sink, kind, lookup, table=True, catalog=source)
    assert_works_outside_the_tree(workshop, project, least=least)


def code(text: str, language: str = "sh") -> str:
    return "".join(each.code for each in parse(text).blocks if each.language == language)


@slow
@pytest.mark.line("4.3", only=True)  # its tox has all lines
def test_the_page_leads_to_a_release_with_nothing_but_an_index(
    workshop: Workshop, tmp_path: Path
) -> None:
    sections = dict(SECTION.findall(PAGE.read_text("utf-8").partition("\n## In its own")[2]))
    index, project, clone = tmp_path / "index", tmp_path / "connector-pulsar", tmp_path / "clone"
    workshop.index(index)
    config = tmp_path / "cookiecutter.yaml"
    config.write_text(f"replay_dir: {tmp_path}\ncookiecutters_dir: {tmp_path}")
    of_git = {
        "user.name": "A Newcomer",
        "user.email": "newcomer@example.org",
        f"url.{ROOT}.insteadOf": "https://github.com/spark-connectors/connectors",
    }
    needless = {"UV_FIND_LINKS", "UV_CONSTRAINT"}
    env = {
        **{name: text for name, text in workshop.environment.items() if name not in needless},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COOKIECUTTER_CONFIG": str(config),
        "GIT_CONFIG_COUNT": str(len(of_git)),
        **{f"GIT_CONFIG_KEY_{number}": name for number, name in enumerate(of_git)},
        **{f"GIT_CONFIG_VALUE_{number}": text for number, text in enumerate(of_git.values())},
        "TOX_OVERRIDE": "testenv.pass_env+=PYTEST_ADDOPTS",
    }

    def follow(title: str, folder: Path, cases: str = "") -> str:
        commands = f"set -e\npip() {{ :; }}\n{code(sections.pop(title))}"  # its tools are installed
        return run("bash", "-c", commands, cwd=folder, env={**env, "PYTEST_ADDOPTS": cases})

    follow("Generate the project", tmp_path)
    with serving(index) as url:
        env |= {"INDEX": url, "UV_INDEX": url}
        output = follow("Run its tests", project, f"-k '{SOME_CASES}'")
        for cell in ("lint", "types", "spark35", "spark43"):
            assert re.search(rf"^ +{cell}: OK", output, re.MULTILINE)
        assert len(PASSED.findall(output)) == 2
        # The cell of another line is another run.
        assert output.count("not run: the cell of Spark ") == 2
        output = follow("Build and publish its wheels", project, "-k readme")
        assert len(PASSED.findall(output)) == 2
        assert run("git", "status", "--porcelain", cwd=project) == ""
        follow("Install its wheel", project)
        shutil.rmtree(tmp_path / "app")  # it has all of Spark

    run("git", "clone", "--quiet", ROOT, clone, cwd=tmp_path)
    listed = clone / "docs/listed-connectors.md"
    head, line, rest = listed.read_text(encoding="utf-8").partition(
        "| --- | --- | --- | --- | --- |\n"
    )
    listed.write_text(head + line + code(sections["List the connector"], "markdown") + rest)
    follow("List the connector", clone)
    assert not sections


@slow
@pytest.mark.line("4.3", only=True)
def test_a_connector_of_the_tree_works_as_its_own_repository(
    workshop: Workshop, tmp_path: Path
) -> None:
    archive = subprocess.run(
        ["git", "archive", "HEAD", "connector-filesystem"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(tmp_path, filter="data")
    project = tmp_path / "connector-filesystem"
    run("git", "init", "-q", cwd=project)
    wheel = workshop.wheel(project, LINE)
    output = workshop.tox(project, f"lint,types,{CELL}", "--installpkg", wheel)
    assert passed(output) >= 100
