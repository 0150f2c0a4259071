# SPDX-License-Identifier: Apache-2.0
"""Makes, installs, uses, and patches the next release of connector-filesystem in a clone."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from uv import find_uv_bin

from connector_release_tools import dates
from connector_release_tools.cli import app
from connector_release_tools.distributions import Distribution
from connector_release_tools.environments import Environment, constraints, wheelhouse
from connector_release_tools.errors import ProgramError
from connector_release_tools.git import Repository
from connector_release_tools.index.directory import DirectoryIndex
from connector_release_tools.index.server import serving
from connector_release_tools.matrix.file import MatrixFile
from connector_release_tools.matrix.tested import PAGE
from connector_release_tools.programs import output
from connector_release_tools.releases.artefacts import build_core
from connector_release_tools.releases.record import Record
from connector_release_tools.versions import SparkLine, Version

pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).parents[3]
CONNECTOR = "connector-filesystem"
LINES = [
    pytest.param("3.5", marks=pytest.mark.line("3.5")),
    pytest.param("4.3", marks=[pytest.mark.line("4.3"), pytest.mark.slow]),
]
OTHER = {"3.5": "4.3", "4.3": "3.5"}
PIPELINE = """
import json, sys
from pathlib import Path

import connector_filesystem, connectors_core, pyspark
from connector_filesystem import FileSink, FileSource
from connectors_core import Pipeline
from pyspark.sql import SparkSession

folder = Path(sys.argv[1])
(folder / "in").mkdir(parents=True)
(folder / "in" / "1.csv").write_text("flight,delay\\nUA1545,2\\nAA1141,33\\n")
builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
spark = builder.getOrCreate()
with Pipeline(spark, "rehearsal", checkpoint_location=f"{folder}/checkpoint") as pipeline:
    source = FileSource(folder / "in", schema="flight STRING, delay INT")
    flights = pipeline.from_source(source, uid="flights")
    pipeline.sink_to(flights, FileSink(f"{folder}/out"), uid="archive")
    pipeline.run()
rows = spark.read.parquet(f"{folder}/out").orderBy("flight").collect()
print()
print(json.dumps({
    "rows": [list(row) for row in rows],
    "spark": spark.version,
    "files": [connector_filesystem.__file__, connectors_core.__file__, pyspark.__file__],
}))
"""


def git(folder: Path, *arguments: str) -> str:
    return output(("git", *arguments), folder=folder).strip()


@dataclass(frozen=True)
class Rehearsal:
    """A clone of this repository, and its releases.

    Attributes:
        root: The clone.
        index: The folder of the index with the release.
        url: The URL of the index.
        version: The released version.
    """

    root: Path
    index: DirectoryIndex
    url: str
    version: Version

    @property
    def patch(self) -> Version:
        return Version(self.version.major, self.version.minor, self.version.patch + 1)

    def release(self, version: Version, *options: str) -> Record:
        """Build, verify, stage, and promote a version with written notes."""
        name = f"{CONNECTOR}-{version}"
        staging = str(self.root.parent / "staging")
        run(self.root, "release", "check", CONNECTOR, *options)
        run(self.root, "release", "build", CONNECTOR, *options)
        run(self.root, "release", "verify", CONNECTOR, *options)
        run(self.root, "release", "stage", name, staging)
        run(self.root, "release", "promote", name, staging, str(self.index.folder), "--commit")
        return Record.read(self.root / "releases" / f"{name}.yaml")

    def pip(self, environment: Environment, *arguments: str) -> None:
        """Install with pip from this index only."""
        environment.run(
            "-m", "pip", "install", "--disable-pip-version-check", "--index-url", self.url,
            *arguments, folder=environment.folder,
        )  # fmt: skip

    def uv(self, environment: Environment, spark_line: SparkLine, *arguments: str) -> None:
        """Install with uv from this index, and everything else from the usual index."""
        pins = environment.folder / "pins.txt"
        pins.write_text("\n".join(constraints(self.root, spark_line)), encoding="utf-8")
        output(
            (find_uv_bin(), "pip", "install", "--python", environment.python, "--index", self.url,
             "--find-links", wheelhouse(), "--constraint", pins, *arguments),
            folder=environment.folder,
            env=environment.variables(),
        )  # fmt: skip


def run(root: Path, *arguments: str) -> str:
    """Run `release-tools` in the clone."""
    result = CliRunner().invoke(app, [*arguments, "--root", str(root)])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    folder = tmp_path_factory.mktemp("rehearsal")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
        for role in ("AUTHOR", "COMMITTER"):
            patch.setenv(f"GIT_{role}_NAME", "A Tester")
            patch.setenv(f"GIT_{role}_EMAIL", "tester@example.org")
        root = folder / "clone"
        git(folder, "clone", "--quiet", "--no-tags", str(ROOT), str(root))
        git(root, "switch", "--quiet", "--force-create", "main")
        git(root, "rm", "--quiet", PAGE)  # the rehearsal runs no cells
        git(root, "commit", "--quiet", "--message", "no results of cells")
        repository = Repository(root)
        index = DirectoryIndex(folder / "index")
        core = build_core(repository, folder / "core")
        assert core is not None
        index.add(Distribution.of(core))
        with serving(index.folder) as url:
            prepared = Rehearsal(root, index, url, next_major(repository))
            write_fragment(root, "+rehearsal.misc.md")
            run(root, "release", "update", CONNECTOR, "--commit")
            prepared.release(prepared.version)
            yield prepared


def write_fragment(root: Path, name: str) -> None:
    (root / CONNECTOR / "changelog.d" / name).write_text("Rehearsed.\n")
    git(root, "add", CONNECTOR)
    git(root, "commit", "--quiet", "--message", f"a change with {name}")


def next_major(repository: Repository) -> Version:
    """Prepare the first release of a major on main, and return its version."""
    majors = MatrixFile.of(repository).matrix().connectors[CONNECTOR].majors
    if next(iter(majors.values())).commit is not None:
        rotate(repository.root)
        git(repository.root, "commit", "--quiet", "--all", "--message", "the next major")
        majors = MatrixFile.of(repository).matrix().connectors[CONNECTOR].majors
    return Version.parse(next(iter(majors.values())).version)


def rotate(root: Path) -> None:
    """Add the next major, at a time when the oldest one gets no more fixes."""
    much_later = dates.today() + timedelta(days=365)
    with pytest.MonkeyPatch.context() as clock:
        clock.setattr(dates, "today", lambda: much_later)
        run(root, "matrix", "rotate", "--major", CONNECTOR)


@pytest.fixture(scope="module", params=LINES)
def installed(
    request: pytest.FixtureRequest,
    rehearsal: Rehearsal,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Environment, SparkLine]:
    """A fresh environment of a Spark line in which uv has installed the release."""
    spark_line = SparkLine.parse(request.param)
    environment = Environment.create(tmp_path_factory.mktemp("installed") / "env")
    rehearsal.uv(
        environment, spark_line, f"{CONNECTOR}[spark]=={rehearsal.version}.*", spark_line.pin, "pip"
    )
    return environment, spark_line


def of(versions: dict[str, str]) -> dict[str, str]:
    return {name: versions[name] for name in (CONNECTOR, "connectors-core", "pyspark")}


def test_uv_chooses_the_build_for_the_spark(rehearsal, installed):
    environment, spark_line = installed
    found = of(environment.versions())
    assert found[CONNECTOR] == f"{rehearsal.version}.{spark_line}"
    assert found["pyspark"].startswith(f"{spark_line}.")


def test_pip_chooses_the_same_build_and_keeps_spark(rehearsal, installed):
    environment, spark_line = installed
    before = environment.versions()
    output(
        (find_uv_bin(), "pip", "uninstall", "--python", environment.python, CONNECTOR,
         "connectors-core"),
        folder=environment.folder, env=environment.variables(),
    )  # fmt: skip
    rehearsal.pip(environment, f"{CONNECTOR}[spark]=={rehearsal.version}.*", spark_line.pin)
    assert environment.versions() == before


def test_without_the_extra_spark_is_kept_and_the_import_error_names_the_right_build(
    rehearsal, installed
):
    environment, spark_line = installed
    before, newest = environment.versions(), max(map(SparkLine.parse, OTHER))
    rehearsal.pip(environment, "--force-reinstall", "--no-deps", CONNECTOR)
    now = environment.versions()
    assert now == {**before, CONNECTOR: f"{rehearsal.version}.{newest}"}
    if spark_line != newest:
        with pytest.raises(ProgramError) as caught:
            environment.run("-c", "import connector_filesystem", folder=environment.folder)
        (command,) = re.findall(r"hint: run: (.*)", str(caught.value))
        env = {**environment.variables(), "PIP_INDEX_URL": rehearsal.url}
        output(shlex.split(command), folder=environment.folder, env=env)
    assert environment.versions() == before
    environment.run("-c", "import connector_filesystem", folder=environment.folder)


def test_the_build_for_the_other_spark_is_refused(rehearsal, installed):
    environment, spark_line = installed
    before = environment.versions()
    wrong = f"{CONNECTOR}[spark]=={rehearsal.version}.{OTHER[str(spark_line)]}"
    with pytest.raises(ProgramError, match="ResolutionImpossible"):
        rehearsal.pip(environment, wrong, spark_line.pin)
    with pytest.raises(ProgramError, match="No solution found"):
        rehearsal.uv(environment, spark_line, wrong, spark_line.pin)
    assert environment.versions() == before


def test_a_pipeline_runs_with_the_installed_release(installed, tmp_path):
    environment, spark_line = installed
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    said = environment.run(tmp_path / "pipeline.py", tmp_path / "data", folder=tmp_path)
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    assert found["rows"] == [["AA1141", 33], ["UA1545", 2]]
    assert found["spark"].startswith(f"{spark_line}.")
    assert all(Path(each).is_relative_to(environment.folder) for each in found["files"])


def test_the_release_is_recorded_and_pinned(rehearsal):
    record = Record.read(rehearsal.root / f"releases/{CONNECTOR}-{rehearsal.version}.yaml")
    released = {each.path.name: each.sha256 for each in rehearsal.index.files(CONNECTOR)}
    assert dict(record.artefacts).items() <= released.items()
    major = MatrixFile.of(Repository(rehearsal.root)).matrix().connectors[CONNECTOR].majors
    assert major[str(record.major)].tree == record.tree
    assert "everything agrees with compatibility-matrix.yaml" in run(
        rehearsal.root, "matrix", "check"
    )


@pytest.mark.slow
def test_a_patch_from_the_maintenance_branch_reaches_an_environment(patched, installed):
    environment, spark_line = installed
    before = of(environment.versions())
    patched.pip(environment, f"{CONNECTOR}[spark]=={patched.patch}.*", spark_line.pin)
    assert of(environment.versions()) == {**before, CONNECTOR: f"{patched.patch}.{spark_line}"}
    subprocess.run([environment.python, "-c", "import connector_filesystem"], check=True)
    patched.pip(environment, f"{CONNECTOR}[spark]=={patched.version}.*", spark_line.pin)
    assert of(environment.versions()) == before


@pytest.fixture(scope="module")
def patched(rehearsal: Rehearsal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """A copy of the rehearsal with the next major on main, and a fix of the released one."""
    folder = tmp_path_factory.mktemp("patched")
    root = shutil.copytree(rehearsal.root, folder / "clone", symlinks=True)
    index = DirectoryIndex(shutil.copytree(rehearsal.index.folder, folder / "index"))
    major, patch = str(rehearsal.version.major), str(rehearsal.patch)
    with serving(index.folder) as url:
        copied = replace(rehearsal, root=root, index=index, url=url)
        rotate(root)
        git(root, "commit", "--quiet", "--all", "--message", "the next major")
        run(root, "release", "branch", CONNECTOR, "--major", major)
        git(root, "switch", "--quiet", f"{CONNECTOR}-{major}.x")
        write_fragment(root, "+fix.bugfix.md")
        run(root, "release", "update", CONNECTOR, "--version", patch, "--commit")
        git(root, "switch", "--quiet", "main")
        run(root, "release", "branch", CONNECTOR, "--major", major, "--merge")
        record = copied.release(rehearsal.patch, "--major", major)
        pinned = MatrixFile.of(Repository(root)).matrix().connectors[CONNECTOR].majors[major]
        assert (pinned.version, pinned.commit) == (patch, record.commit)
        assert f"## {patch} " not in (root / CONNECTOR / "CHANGELOG.md").read_text()
        yield copied
