# SPDX-License-Identifier: Apache-2.0
"""Files of a Maven repository, pinned by digest.

They are downloaded once and verified at each use. Each is listed with its SHA-256, so no
dependencies are resolved. PySpark's Ivy downloads them from its default repository, or from
``DEFAULT_ARTIFACT_REPOSITORY``, as it does for Spark. Without a network, you can name a folder that
contains them.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from xml.sax.saxutils import quoteattr

from connectors_core.errors import ConfigurationError, MissingDependencyError
from connectors_core.testing.servers.errors import ServerError

__all__ = ["Artifact", "PinnedArtifacts", "cache_folder", "exclusively", "find_java"]

REPOSITORY_VARIABLE: Final = "DEFAULT_ARTIFACT_REPOSITORY"
_LINE_SECONDS: Final = 5.0  # between two progress lines in a log


@dataclass(frozen=True)
class Artifact:
    """A pinned file.

    Attributes:
        organisation: The group, such as ``org.apache.kafka``.
        module: The name of the module.
        revision: The version.
        sha256: The expected SHA-256 of the file, in hexadecimal.
        extension: The extension of the file name: jar or zip.
    """

    organisation: str
    module: str
    revision: str
    sha256: str
    extension: str = "jar"

    @classmethod
    def parse(cls, line: str) -> Self:
        """Parse ``group:name:version[@extension] sha256:digest``."""
        coordinates, _, digest = line.strip().partition(" sha256:")
        coordinates, _, extension = coordinates.partition("@")
        organisation, module, revision = coordinates.split(":")
        return cls(organisation, module, revision, digest, extension or "jar")

    @property
    def file_name(self) -> str:
        """The name of the file."""
        return f"{self.module}-{self.revision}.{self.extension}"

    def is_in(self, folder: Path) -> bool:
        """Return whether a folder contains the unaltered file."""
        try:
            with (folder / self.file_name).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256
        except FileNotFoundError:
            return False


@dataclass(frozen=True)
class PinnedArtifacts:
    """A set of files that are used together.

    Attributes:
        name: The display name, for example ``kafka-4.3.1``.
        artifacts: The files.
        folder_variable: The environment variable for a folder that contains the files.
    """

    name: str
    artifacts: tuple[Artifact, ...]
    folder_variable: str

    @classmethod
    def read(cls, path: Path, *, folder_variable: str) -> Self:
        """Parse a list with one artifact per line. ``#`` starts a comment line."""
        lines = path.read_text(encoding="utf-8").splitlines()
        found = tuple(Artifact.parse(line) for line in lines if not line.startswith("#"))
        return cls(path.stem, found, folder_variable)

    def paths(self) -> list[Path]:
        """Return the paths of the files, after downloading the missing ones.

        Concurrent processes wait for each other, and resume an interrupted download.

        Raises:
            ConfigurationError: A file in the offline folder is missing or altered.
            MissingDependencyError: PySpark is not installed.
            ServerError: The download failed, or a file does not match its digest.
        """
        if named := os.environ.get(self.folder_variable):
            folder = Path(named)
            self._refuse_lacking(folder)
        else:
            folder = cache_folder() / "jars"
            if _lacking(self.artifacts, folder):
                with exclusively(folder):
                    if lacking := _lacking(self.artifacts, folder):
                        self._fetch(lacking, folder)
        return [folder / artifact.file_name for artifact in self.artifacts]

    @property
    def _remedy(self) -> str:
        return f"or set {self.folder_variable} to a folder that contains the files"

    def _refuse_lacking(self, folder: Path) -> None:
        if lacking := _lacking(self.artifacts, folder):
            raise ConfigurationError(
                f"{len(lacking)} of the {len(self.artifacts)} files of {self.name} are missing or "
                "altered",
                expected=f"{lacking[0].file_name} with sha256 {lacking[0].sha256} in {folder}",
                option=self.folder_variable,
                hint="copy them there, or unset the variable to download them",
            )

    def _fetch(self, artifacts: Sequence[Artifact], folder: Path) -> None:
        """Download files into a folder. A file appears there when it is complete and verified."""
        work = folder / ".fetching"  # kept after an interruption, so that the next download resumes
        work.mkdir(exist_ok=True)
        (work / "settings.xml").write_text(_settings(), encoding="utf-8")
        (work / "ivy.xml").write_text(_dependencies(artifacts), encoding="utf-8")
        command = [find_java(), "-jar", str(_ivy()), "-settings", "settings.xml", "-ivy", "ivy.xml"]
        command += ["-cache", str(work / "cache"), "-confs", "default"]
        command += ["-retrieve", str(work / "[artifact]-[revision].[ext]")]
        self._run(command, work, len(artifacts))
        if wrong := _lacking(artifacts, work):
            shutil.rmtree(work)
            raise ServerError(
                f"a file of {self.name} does not match its pinned digest",
                expected=f"{wrong[0].file_name} with sha256 {wrong[0].sha256}",
                hint=f"check {REPOSITORY_VARIABLE}, {self._remedy}",
            )
        for artifact in artifacts:
            os.replace(work / artifact.file_name, folder / artifact.file_name)
        shutil.rmtree(work)

    def _run(self, command: Sequence[str], work: Path, number: int) -> None:
        lines, fetched = [], 0
        shown = _Fetching(self.name, number)
        with subprocess.Popen(  # noqa: S603  # no shell, and nothing in it comes from data
            command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                if "[SUCCESSFUL" in line:
                    fetched += 1
                    shown.update(fetched)
        shown.close()
        if process.returncode:
            raise ServerError(
                f"the files of {self.name} could not be downloaded",
                found="".join(lines[-30:]),
                hint=f"retry with a network connection, {self._remedy}",
            )


class _Fetching:
    """Shows the progress of a download: in one line of a terminal, or in a few lines of a log."""

    def __init__(self, name: str, number: int) -> None:
        self._name = name
        self._number = number
        self._live = sys.stderr.isatty()
        self._next_line = time.monotonic() + _LINE_SECONDS
        self._fetched = 0
        self._show()

    def update(self, fetched: int) -> None:
        """Add completed files."""
        self._fetched = fetched
        if self._live or time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LINE_SECONDS
            self._show()

    def close(self) -> None:
        """Show the result."""
        if self._live:
            print(file=sys.stderr)
        else:
            self._show()

    def _show(self) -> None:
        text = f"{self._name}: downloaded {self._fetched} of {self._number} files"
        begin, end = ("\r", "") if self._live else ("", "\n")
        print(f"{begin}{text}", end=end, file=sys.stderr, flush=True)


def cache_folder() -> Path:
    """Return the user's cache folder of the connectors."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "connectors"


def find_java(oldest: int = 17) -> str:
    """Return a recent enough Java: from ``JAVA_HOME``, the path, or the installed ones.

    Args:
        oldest: The oldest accepted version.

    Raises:
        ConfigurationError: None was found.
    """
    home = os.environ.get("JAVA_HOME")
    chosen = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    installed = sorted(str(path) for path in Path("/usr/lib/jvm").glob("*/bin/java"))
    found = {}
    for java in filter(None, [chosen, *installed]):
        if (version := _java_version(java)) >= oldest:
            return java
        found[java] = version
    raise ConfigurationError(
        "no recent enough Java was found" if found else "no Java was found",
        expected=f"Java {oldest} or newer",
        found=found or (f"JAVA_HOME={home}" if home else "none on the path"),
        hint="install one, and set JAVA_HOME if it is not on the path",
    )


def _java_version(java: str) -> int:
    """Return the major version of a Java, or 0 if it is unknown."""
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    match = re.search(r'version "(\d+)', told.stderr)
    return int(match[1]) if match else 0


@contextmanager
def exclusively(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes, and create it if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released when the file is closed or the process ends
        yield


def _lacking(artifacts: Iterable[Artifact], folder: Path) -> list[Artifact]:
    return [artifact for artifact in artifacts if not artifact.is_in(folder)]


def _ivy() -> Path:
    """Return PySpark's Ivy, without importing PySpark."""
    pyspark = importlib.util.find_spec("pyspark")
    folders = pyspark.submodule_search_locations if pyspark else None
    found = [path for folder in folders or () for path in Path(folder, "jars").glob("ivy-*.jar")]
    if not found:
        raise MissingDependencyError(
            "pyspark", install="pip install pyspark", feature="downloading the files of the server"
        )
    return found[0]


def _settings() -> str:
    repository = os.environ.get(REPOSITORY_VARIABLE)
    root = f"root={quoteattr(repository)}" if repository else ""
    return f"""<ivysettings>
  <settings defaultResolver="repository"/>
  <timeout-constraints>
    <timeout-constraint name="patience" connectionTimeout="20000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers>
    <ibiblio name="repository" m2compatible="true" usepoms="false"
             timeoutConstraint="patience" {root}/>
  </resolvers>
</ivysettings>
"""


def _dependencies(artifacts: Iterable[Artifact]) -> str:
    lines = "".join(
        f'    <dependency org="{each.organisation}" name="{each.module}" rev="{each.revision}">\n'
        f'      <artifact name="{each.module}" type="{each.extension}" ext="{each.extension}"/>\n'
        f"    </dependency>\n"
        for each in artifacts
    )
    return f"""<ivy-module version="2.0">
  <info organisation="connectors" module="artifacts"/>
  <dependencies>
{lines}  </dependencies>
</ivy-module>
"""
