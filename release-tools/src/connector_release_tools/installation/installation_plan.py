# SPDX-License-Identifier: Apache-2.0
"""Plans an installation that does not change the installed Spark."""

from __future__ import annotations

import enum
import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from packaging.utils import InvalidName, canonicalize_name
from uv import find_uv_bin

from connector_release_tools.errors import InstallError, VersionError
from connector_release_tools.programs import output
from connector_release_tools.versions import Release, ReleaseVersion, SparkLine, Version

__all__ = ["Installation", "Installer", "Request", "Target", "confirm", "plan"]

_INSPECT: Final = """
import importlib.metadata as m, importlib.util, json, sys
try:
    spark, packaged = m.version("pyspark"), True
except m.PackageNotFoundError:
    spark, packaged = None, False
    if importlib.util.find_spec("pyspark"):
        import pyspark
        spark = pyspark.__version__
try:
    connector = m.version(sys.argv[1])
except m.PackageNotFoundError:
    connector = None
print(json.dumps({"pyspark": spark, "packaged": packaged, "connector": connector}))
"""


class Installer(enum.StrEnum):
    """The installer program."""

    UV = "uv"
    PIP = "pip"

    @classmethod
    def available(cls) -> Self:
        """Return uv if it is installed with these tools or on the PATH, and pip otherwise."""
        try:
            find_uv_bin()
        except FileNotFoundError:
            return cls("pip")
        return cls("uv")


# The variables of the options that select an index.
_VARIABLES: Final = {
    "--index-url": {Installer.UV: "UV_DEFAULT_INDEX", Installer.PIP: "PIP_INDEX_URL"},
    "--extra-index-url": {Installer.UV: "UV_INDEX", Installer.PIP: "PIP_EXTRA_INDEX_URL"},
}


@dataclass(frozen=True)
class Request:
    """The requested release.

    Attributes:
        connector: The name of the connector.
        version: Its version.
        spark: The Spark line; None for the line of the installed Spark.
    """

    connector: str
    version: Version
    spark: SparkLine | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `connector-kafka==3.1.2-3.5`; the Spark line is optional.

        Raises:
            VersionError: The text has another format; the hint contains the right one.
        """
        name, _, version = text.partition("==")
        try:
            connector = canonicalize_name(name.strip(), validate=True)
            return cls(connector, Version.parse(version.strip()), None)
        except (InvalidName, VersionError):
            release = Release.parse(text)
            return cls(release.connector, release.version.version, release.version.spark)

    def for_spark(self, spark: SparkLine) -> Release:
        """Return the release for a Spark line."""
        return Release(self.connector, ReleaseVersion(self.version, spark))


@dataclass(frozen=True)
class Target:
    """The target environment.

    Attributes:
        python: The path of its Python.
        pyspark: The version of its pyspark; None if it has none.
        packaged: Whether pip and uv know this pyspark. They do not know one that a platform
            provides.
        connector: The version of the installed connector; None if there is none.
    """

    python: Path
    pyspark: str | None
    packaged: bool
    connector: str | None

    @classmethod
    def inspect(cls, python: Path, connector: str) -> Self:
        """Inspect the environment of a Python.

        Raises:
            ProgramError: The Python fails.
        """
        said = output((python, "-c", _INSPECT, connector), folder=Path.cwd())
        return cls(python, **json.loads(said.splitlines()[-1]))

    @property
    def spark_line(self) -> SparkLine | None:
        """The Spark line; None if it has no pyspark."""
        if self.pyspark is None:
            return None
        return SparkLine.parse(".".join(self.pyspark.split(".")[:2]))


@dataclass(frozen=True)
class Installation:
    """A planned installation.

    Attributes:
        release: The release.
        command: The command, without the URL of an index.
        env: The variables with the URLs, which can contain a password.
        indexes: The options with these URLs, without credentials.
    """

    release: Release
    command: tuple[str, ...]
    env: dict[str, str]
    indexes: tuple[str, ...]

    def __str__(self) -> str:
        """Return the command as a shell command."""
        return shlex.join((*self.command, *self.indexes))


def plan(
    request: Request,
    target: Target,
    *,
    installer: Installer,
    index_url: str | None = None,
    extra_index_url: str | None = None,
    find_links: Path | None = None,
    no_deps: bool = False,
) -> Installation:
    """Plan an installation that keeps the Spark of an environment.

    Args:
        request: The request.
        target: The target environment.
        installer: The installer.
        index_url: The package index; None for the installer's default.
        extra_index_url: An additional package index.
        find_links: A folder with additional distributions.
        no_deps: Whether to install the connector without its requirements.

    Raises:
        InstallError: The release does not fit the environment.
    """
    spark_line = request.spark or target.spark_line
    if spark_line is None:
        raise InstallError(
            f"{target.python} has no pyspark, so the Spark line of {request.connector} "
            f"{request.version} is unknown",
            hint=f"add the Spark line: '{request.connector}=={request.version}-3.5'",
        )
    release = request.for_spark(spark_line)
    if target.spark_line not in {None, spark_line}:
        raise InstallError(
            f"{release} is for Spark {spark_line}; {target.python} has pyspark {target.pyspark}",
            hint=f"install '{request.connector}=={request.version}-{target.spark_line}', "
            "or select "
            "another environment with --python",
        )
    if target.pyspark is not None and not target.packaged and not no_deps:
        raise InstallError(
            f"pyspark {target.pyspark} of {target.python} is unknown to installers: "
            "the platform provides it, and a requirement would install a second Spark",
            hint="use --no-deps, and install the other requirements with exact versions",
        )
    requirements = [release.requirement]
    if not no_deps:
        pyspark = spark_line.pin if target.pyspark is None else f"pyspark=={target.pyspark}"
        requirements.append(pyspark)
    options = ["--no-deps"] if no_deps else []
    if find_links is not None:
        options += ["--find-links", str(find_links)]
    indexes = {"--index-url": index_url, "--extra-index-url": extra_index_url}
    urls = {option: url for option, url in indexes.items() if url is not None}
    return Installation(
        release=release,
        command=(*_begin(installer, target.python), *options, *requirements),
        env={_VARIABLES[option][installer]: url for option, url in urls.items()},
        indexes=tuple(text for option, url in urls.items() for text in (option, _shown(url))),
    )


def confirm(release: Release, *, before: Target, after: Target) -> None:
    """Check that an environment has the release and still has the same Spark.

    Args:
        release: The installed release.
        before: The environment before the installation.
        after: The environment after the installation.

    Raises:
        InstallError: The release is missing, or Spark has changed.
    """
    if before.pyspark not in {None, after.pyspark}:
        raise InstallError(
            f"the installation changed pyspark {before.pyspark} to {after.pyspark}",
            hint=f"install pyspark=={before.pyspark} again",
        )
    if after.connector != release.version.package_version:
        raise InstallError(
            f"{release.connector} is {after.connector} after the installation, expected "
            f"{release.version.package_version}"
        )


def _begin(installer: Installer, python: Path) -> tuple[str, ...]:
    if installer is Installer.PIP:
        return (str(python), "-m", "pip", "install")
    return (find_uv_bin(), "pip", "install", "--python", str(python))


def _shown(url: str) -> str:
    """Return a URL without its user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
