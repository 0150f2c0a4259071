# SPDX-License-Identifier: Apache-2.0
"""Files of a Maven repository, pinned by digest: fetched once, checked whenever they are used.

Each is named with its sha256, so nothing is resolved. The Ivy that comes with PySpark fetches them
from its own default, or from the repository that ``DEFAULT_ARTIFACT_REPOSITORY`` names, as it does
for Spark. Where there is no network, a folder that holds them can be named.
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
_LINE_SECONDS: Final = 5.0  # between two lines of progress in a log


@dataclass(frozen=True)
class Artifact:
    """One pinned file.

    Attributes:
        organisation: Its group, as in ``org.apache.kafka``.
        module: Its name.
        revision: Its version.
        sha256: What its bytes must be, in hexadecimal.
        extension: Of its name: jar or zip.
    """

    organisation: str
    module: str
    revision: str
    sha256: str
    extension: str = "jar"

    @classmethod
    def parse(cls, line: str) -> Self:
        """Read ``group:name:version[@extension] sha256:digest``."""
        coordinates, _, digest = line.strip().partition(" sha256:")
        coordinates, _, extension = coordinates.partition("@")
        organisation, module, revision = coordinates.split(":")
        return cls(organisation, module, revision, digest, extension or "jar")

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return f"{self.module}-{self.revision}.{self.extension}"

    def is_in(self, folder: Path) -> bool:
        """Whether a folder holds it, unaltered."""
        try:
            with (folder / self.file_name).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256
        except FileNotFoundError:
            return False


@dataclass(frozen=True)
class PinnedArtifacts:
    """What belongs together, and is used together.

    Attributes:
        name: What people call it, for example ``kafka-4.3.1``.
        artifacts: The files.
        folder_variable: Environment variable that may name a folder that holds them.
    """

    name: str
    artifacts: tuple[Artifact, ...]
    folder_variable: str

    @classmethod
    def read(cls, path: Path, *, folder_variable: str) -> Self:
        """Read a list with an artifact on each line; ``#`` begins a comment line."""
        lines = path.read_text(encoding="utf-8").splitlines()
        found = tuple(Artifact.parse(line) for line in lines if not line.startswith("#"))
        return cls(path.stem, found, folder_variable)

    def paths(self) -> list[Path]:
        """Where they are; those that are missing are fetched first.

        Processes that do this at the same time wait for each other; one that is ended is gone on
        from.

        Raises:
            ConfigurationError: The folder for offline use lacks one, or holds another.
            MissingDependencyError: PySpark is not installed.
            ServerError: They could not be fetched, or are not those that are pinned.
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
        return f"or set {self.folder_variable} to a folder that holds the files"

    def _refuse_lacking(self, folder: Path) -> None:
        if lacking := _lacking(self.artifacts, folder):
            raise ConfigurationError(
                f"{len(lacking)} of the {len(self.artifacts)} files of {self.name} are missing or "
                "altered",
                expected=f"{lacking[0].file_name} with sha256 {lacking[0].sha256} in {folder}",
                option=self.folder_variable,
                hint="copy them there, or unset the variable to have them fetched",
            )

    def _fetch(self, artifacts: Sequence[Artifact], folder: Path) -> None:
        """Fetch files into a folder; they appear in it when they are complete and checked."""
        work = folder / ".fetching"  # stays when this is interrupted: the next goes on from it
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
                f"a file of {self.name} is not the one that is pinned",
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
                f"the files of {self.name} could not be fetched",
                found="".join(lines[-30:]),
                hint=f"try again where there is a network, {self._remedy}",
            )


class _Fetching:
    """Shows how many files there are: in one line of a terminal, in few lines of a log."""

    def __init__(self, name: str, number: int) -> None:
        self._name = name
        self._number = number
        self._live = sys.stderr.isatty()
        self._next_line = time.monotonic() + _LINE_SECONDS
        self._fetched = 0
        self._show()

    def update(self, fetched: int) -> None:
        """Show that some more are there."""
        self._fetched = fetched
        if self._live or time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LINE_SECONDS
            self._show()

    def close(self) -> None:
        """Show how it ended."""
        if self._live:
            print(file=sys.stderr)
        else:
            self._show()

    def _show(self) -> None:
        text = f"{self._name}: fetched {self._fetched} of {self._number} files"
        begin, end = ("\r", "") if self._live else ("", "\n")
        print(f"{begin}{text}", end=end, file=sys.stderr, flush=True)


def cache_folder() -> Path:
    """Where the connectors keep what is expensive to get, for this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "connectors"


def find_java(oldest: int = 17) -> str:
    """A Java that is new enough: that of ``JAVA_HOME``, the one on the path, or an installed one.

    Args:
        oldest: The oldest version that will do.

    Raises:
        ConfigurationError: There is none.
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
        "no Java was found that is new enough" if found else "no Java was found",
        expected=f"Java {oldest} or newer",
        found=found or (f"JAVA_HOME={home}" if home else "none on the path"),
        hint="install one, and name it in JAVA_HOME where it is not on the path",
    )


def _java_version(java: str) -> int:
    """The major version of a Java, 0 where it does not say."""
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    match = re.search(r'version "(\d+)', told.stderr)
    return int(match[1]) if match else 0


@contextmanager
def exclusively(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # let go when the file is closed, or the process ends
        yield


def _lacking(artifacts: Iterable[Artifact], folder: Path) -> list[Artifact]:
    return [artifact for artifact in artifacts if not artifact.is_in(folder)]


def _ivy() -> Path:
    """The Ivy that comes with PySpark, which need not be imported for it."""
    pyspark = importlib.util.find_spec("pyspark")
    folders = pyspark.submodule_search_locations if pyspark else None
    found = [path for folder in folders or () for path in Path(folder, "jars").glob("ivy-*.jar")]
    if not found:
        raise MissingDependencyError(
            "pyspark", install="pip install pyspark", feature="fetching what the server is made of"
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
