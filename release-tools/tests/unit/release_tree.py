# SPDX-License-Identifier: Apache-2.0
"""A small repository with a core and a connector to release, and hand-written wheels."""

from __future__ import annotations

import datetime
import io
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from click.testing import Result
from git_tree import GitTree

from connector_release_tools.distributions import Distribution
from connector_release_tools.git import Repository
from connector_release_tools.matrix.file import MATRIX, MatrixFile, Quoted
from connector_release_tools.matrix.model import Matrix
from connector_release_tools.releases.candidate import Candidate
from connector_release_tools.releases.record import Record
from connector_release_tools.versions import ReleaseVersion

CONNECTOR = "connector-one"
API = f"{CONNECTOR}/src/connector_one/__init__.py"
MATRIX_HEAD = """\
# A remark.
spark:
  "4.3": {pyspark: "4.3.0", python: "3.11", java: "17"}
  "3.5": {pyspark: "3.5.9", python: "3.11", java: "17"}

connectors:
  connector-one:
    majors:
"""
MATRIX_TEXT = f"""\
{MATRIX_HEAD}\
      "2":
        version: "2.0.0"
        status: features
        spark: ["4.3", "3.5"]
        core: ">=1.0,<2"
"""
BUILD_SYSTEM = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n\n'
FILES = {
    ".gitignore": "/build/\n",
    MATRIX: MATRIX_TEXT,
    "pyproject.toml": '[tool.release-tools]\nlicences = ["Apache-2.0"]\n',
    "connectors-core/pyproject.toml": BUILD_SYSTEM
    + '[project]\nname = "connectors-core"\nversion = "1.0.0"\nlicense = "Apache-2.0"\n',
    "connectors-core/src/connectors_core/__init__.py": "",
    f"{CONNECTOR}/pyproject.toml": BUILD_SYSTEM
    + """\
[project]
name = "connector-one"
description = "One"
dynamic = ["dependencies", "optional-dependencies", "version"]
readme = "README.md"
requires-python = ">=3.11"
license = "Apache-2.0"
license-files = ["LICENSE"]

[tool.connector]
version = "2.0.0" # as it is released
spark = ["3.5", "4.3"]
dependencies = ["connectors-core>=1.0,<2"]

[tool.hatch.metadata.hooks.custom]

[tool.towncrier]
name = "connector-one"
directory = "changelog.d"
filename = "CHANGELOG.md"
title_format = "## {version} ({project_date})"
""",
    f"{CONNECTOR}/hatch_build.py": """\
import os, pathlib, tomllib
from hatchling.metadata.plugin.interface import MetadataHookInterface

class Hook(MetadataHookInterface):
    def update(self, metadata):
        text = pathlib.Path(self.root, "pyproject.toml").read_text()
        connector = tomllib.loads(text)["tool"]["connector"]
        line = os.environ["CONNECTOR_SPARK"]
        major, minor = line.split(".")
        metadata["version"] = f"{connector['version']}.{line}"
        metadata["dependencies"] = connector["dependencies"]
        pyspark = f"pyspark>={line},<{major}.{int(minor) + 1}"
        metadata["optional-dependencies"] = {"spark": [pyspark]}
""",
    f"{CONNECTOR}/LICENSE": "A licence.\n",
    f"{CONNECTOR}/README.md": "# One\n\nWords.\n",
    f"{CONNECTOR}/CHANGELOG.md": "# Changelog\n\n<!-- towncrier release notes start -->\n",
    f"{CONNECTOR}/changelog.d/.gitignore": "!.gitignore\n",
    f"{CONNECTOR}/changelog.d/+first.feature.md": "All of it.\n",
    API: """\
from json import JSONDecodeError

from connector_one.reading import Reader, experimental

__all__ = ["OPTIONS", "JSONDecodeError", "Reader", "Trial"]

OPTIONS = ("path",)


@experimental
class Trial:
    def run(self, first):
        pass
""",
    f"{CONNECTOR}/src/connector_one/reading.py": """\
def experimental(cls):
    return cls


class Reader:
    def read(self, path, limit=None):
        pass


class Inner:
    def close(self):
        pass
""",
}


class ReleaseTree(GitTree):
    """The repository with the release commands."""

    @property
    def repository(self) -> Repository:
        return Repository(self.root)

    @property
    def matrix(self) -> Matrix:
        return MatrixFile.of(self.repository).matrix()

    @property
    def version(self) -> str:
        return tomllib.loads(self.text(f"{CONNECTOR}/pyproject.toml"))["tool"]["connector"][
            "version"
        ]

    @property
    def dist(self) -> Path:
        return self.root / "build" / "dist"

    def candidate(self, revision: str = "HEAD") -> Candidate:
        return Candidate.at(self.repository, CONNECTOR, revision)

    def replace(self, name: str, old: str, new: str) -> str:
        """Replace words in a file, and commit."""
        return self.commit(self.replaced(name, old, new))

    def fragment(self, name: str) -> str:
        return self.commit({f"{CONNECTOR}/changelog.d/{name}": "Words.\n"})

    def run(self, *arguments: str, exit_code: int = 0) -> Result:
        """Run `release-tools release ...` in the repository."""
        result = self.invoke("release", *arguments)
        assert result.exit_code == exit_code, result.output
        return result

    def error(self, *arguments: str) -> str:
        """Run a command that fails, and return its message."""
        return self.run(*arguments, exit_code=2).output

    def update(self, *arguments: str) -> str:
        return self.run("update", CONNECTOR, "--commit", *arguments).output

    def verified(self, revision: str = "HEAD", *, words: str = "") -> Record:
        """Write the record that `verify` creates, for hand-written files."""
        candidate = self.candidate(revision)
        made = []
        for spark_line in candidate.spark_lines:
            version = ReleaseVersion(candidate.version, spark_line).package_version
            text = {f"{candidate.package}/words.py": f"# {words}\n"}
            made.append(make_wheel(self.dist, CONNECTOR, version, **text))
            made.append(make_sdist(self.dist, CONNECTOR, version, words))
        record = Record.of(candidate, map(Distribution.of, made), core=">=1.0,<2")
        path = self.root / "build" / "releases" / f"{record.name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(record.text())
        return record

    def verified_build(self) -> Record:
        """Write the record that `verify` creates, for the files that `build` has built."""
        record = Record.of(
            self.candidate(), map(Distribution.of, sorted(self.dist.iterdir())), core=">=1.0,<2"
        )
        path = self.root / "build" / "releases" / f"{record.name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(record.text())
        return record

    def released(self, version: str = "2.0.0") -> str:
        """Pin HEAD as a release, without building it."""
        file = MatrixFile.of(self.repository)
        pin: dict[str, Any] = file.document["connectors"][CONNECTOR]["majors"][version[0]]
        candidate = self.candidate()
        pin["version"] = Quoted(version)
        pin["commit"], pin["tree"] = Quoted(candidate.commit), Quoted(candidate.tree)
        pin["released"] = datetime.date(2026, 11, 1)
        file.write()
        return self.commit({})


def make_sdist(folder: Path, name: str, version: str, words: str) -> Path:
    """Write a source distribution by hand."""
    stem = f"{name.replace('-', '_')}-{version}"
    path = folder / f"{stem}.tar.gz"
    head = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n\n{words}\n".encode()
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as sdist:
        for file, content in (("PKG-INFO", head), ("pyproject.toml", BUILD_SYSTEM.encode())):
            member = tarfile.TarInfo(f"{stem}/{file}")
            member.size = len(content)
            sdist.addfile(member, io.BytesIO(content))
    return path


def make_wheel(folder: Path, name: str, version: str, *metadata: str, **files: str) -> Path:
    """Write a wheel by hand."""
    package = name.replace("-", "_")
    path = folder / f"{package}-{version}-py3-none-any.whl"
    info = f"{package}-{version}.dist-info"
    head = ("Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *metadata)
    content = {
        f"{package}/__init__.py": "",
        **files,
        f"{info}/METADATA": "\n".join(head) + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{each},,\n" for each in [*content, f"{info}/RECORD"])
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as wheel:
        for each, text in {**content, f"{info}/RECORD": record}.items():
            wheel.writestr(each, text)
    return path
