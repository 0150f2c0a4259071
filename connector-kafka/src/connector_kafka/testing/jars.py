# SPDX-License-Identifier: Apache-2.0
"""Jars by pinned lists: fetched once into the user's cache, checked whenever they are used.

The lists are the files in ``pinned``. They name every jar with its sha256, so nothing is resolved.
The Ivy that comes with PySpark fetches them: from its own default, or from the repository that
``DEFAULT_ARTIFACT_REPOSITORY`` names, as for Spark itself. Where there is no network,
``CONNECTORS_KAFKA_JARS`` names a folder that holds them.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from connector_kafka.testing.errors import BrokerError
from connectors_core.errors import ConfigurationError, MissingDependencyError

FOLDER_VARIABLE: Final = "CONNECTORS_KAFKA_JARS"
REPOSITORY_VARIABLE: Final = "DEFAULT_ARTIFACT_REPOSITORY"
_PINNED: Final = Path(__file__).parent / "pinned"
_REMEDY: Final = f"or set {FOLDER_VARIABLE} to a folder that holds the jars"


@dataclass(frozen=True)
class Jar:
    """One pinned jar.

    Attributes:
        organisation: Its group, as in ``org.apache.kafka``.
        module: Its name.
        revision: Its version.
        sha256: What its bytes must be, in hexadecimal.
    """

    organisation: str
    module: str
    revision: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return f"{self.module}-{self.revision}.jar"

    def is_in(self, folder: Path) -> bool:
        """Whether a folder holds it, unaltered."""
        try:
            with (folder / self.file_name).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256
        except FileNotFoundError:
            return False


def pinned_jars(name: str) -> tuple[Jar, ...]:
    """The jars of a list, for example ``kafka-4.3.1``.

    Raises:
        ConfigurationError: There is no such list.
    """
    lists = sorted(path.stem for path in _PINNED.glob("*.txt"))
    if name not in lists:
        raise ConfigurationError("no jars are pinned under this name", expected=lists, found=name)
    lines = (_PINNED / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return tuple(_parse(line) for line in lines if not line.startswith("#"))


def _parse(line: str) -> Jar:
    coordinates, _, digest = line.partition(" sha256:")
    organisation, module, revision = coordinates.split(":")
    return Jar(organisation, module, revision, digest)


def class_path(name: str) -> str:
    """What Java needs to run the jars of a list, which are fetched first where they are missing.

    Processes that do this at the same time wait for each other; one that is ended is gone on from.

    Args:
        name: The list.

    Returns:
        The files of the jars, separated as Java wants it.

    Raises:
        ConfigurationError: The folder for offline use lacks a jar, or holds another one.
        MissingDependencyError: PySpark is not installed.
        BrokerError: They could not be fetched, or are not those that are pinned.
    """
    jars = pinned_jars(name)
    if named := os.environ.get(FOLDER_VARIABLE):
        folder = Path(named)
        if lacking := _lacking(jars, folder):
            raise ConfigurationError(
                f"{len(lacking)} of the {len(jars)} jars of {name} are missing or altered",
                expected=f"{lacking[0].file_name} with sha256 {lacking[0].sha256} in {folder}",
                option=FOLDER_VARIABLE,
                hint="copy them there, or unset the variable to have them fetched",
            )
    else:
        folder = cache_folder() / "jars"
        if _lacking(jars, folder):
            with _exclusively(folder):
                if lacking := _lacking(jars, folder):
                    _fetch(name, lacking, folder)
    return os.pathsep.join(str(folder / jar.file_name) for jar in jars)


def cache_folder() -> Path:
    """Where the connectors keep what is expensive to get, for this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "connectors"


def find_java() -> str:
    """The Java that runs all this: that of ``JAVA_HOME``, or the one on the path.

    Raises:
        ConfigurationError: There is none.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    if java is None:
        raise ConfigurationError(
            "no Java was found",
            expected="Java 17 or newer",
            found=f"JAVA_HOME={home}" if home else "none on the path",
            hint="install one, and name it in JAVA_HOME where it is not on the path",
        )
    return java


def _lacking(jars: Sequence[Jar], folder: Path) -> list[Jar]:
    return [jar for jar in jars if not jar.is_in(folder)]


@contextmanager
def _exclusively(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # let go when the file is closed, or the process ends
        yield


def _fetch(name: str, jars: Sequence[Jar], folder: Path) -> None:
    """Fetch jars into a folder; they appear in it when they are complete and checked."""
    work = folder / ".fetching"  # stays when this is interrupted, so that the next goes on from it
    work.mkdir(exist_ok=True)
    (work / "settings.xml").write_text(_settings(), encoding="utf-8")
    (work / "ivy.xml").write_text(_dependencies(jars), encoding="utf-8")
    command = [find_java(), "-jar", str(_ivy()), "-settings", "settings.xml", "-ivy", "ivy.xml"]
    command += ["-cache", str(work / "cache"), "-confs", "default"]
    command += ["-retrieve", str(work / "[artifact]-[revision].[ext]")]
    _run(name, command, work, len(jars))
    if wrong := _lacking(jars, work):
        shutil.rmtree(work)
        raise BrokerError(
            f"a jar of {name} is not the one that is pinned",
            expected=f"{wrong[0].file_name} with sha256 {wrong[0].sha256}",
            hint=f"check {REPOSITORY_VARIABLE}, {_REMEDY}",
        )
    for jar in jars:
        os.replace(work / jar.file_name, folder / jar.file_name)
    shutil.rmtree(work)


def _run(name: str, command: Sequence[str], work: Path, number: int) -> None:
    lines, fetched = [], 0
    with subprocess.Popen(  # noqa: S603  # no shell, and nothing in it comes from data
        command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if "[SUCCESSFUL" in line:
                fetched += 1
                print(f"\r{name}: {fetched} of {number} jars", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if process.returncode:
        raise BrokerError(
            f"the jars of {name} could not be fetched",
            found="".join(lines[-30:]),
            hint=f"try again where there is a network, {_REMEDY}",
        )


def _ivy() -> Path:
    """The Ivy that comes with PySpark, which need not be imported for it."""
    pyspark = importlib.util.find_spec("pyspark")
    folders = pyspark.submodule_search_locations if pyspark else None
    found = [path for folder in folders or () for path in Path(folder, "jars").glob("ivy-*.jar")]
    if not found:
        raise MissingDependencyError(
            "pyspark", install="pip install pyspark", feature="fetching the jars of Kafka"
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


def _dependencies(jars: Sequence[Jar]) -> str:
    lines = "".join(
        f'    <dependency org="{jar.organisation}" name="{jar.module}" rev="{jar.revision}"/>\n'
        for jar in jars
    )
    return f"""<ivy-module version="2.0">
  <info organisation="connectors" module="jars"/>
  <dependencies>
{lines}  </dependencies>
</ivy-module>
"""
