# SPDX-License-Identifier: Apache-2.0
"""Names of releases: the release name for people, the package version for installers.

`3.1.2-3.5` is the release name of version 3.1.2 for Spark 3.5. Installers reject this spelling in a
requirement (PEP 440), so the artifact has the package version `3.1.2.3.5`. Only this module
translates between the two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from packaging.utils import canonicalize_name

from connector_release_tools.errors import VersionError

__all__ = ["SPARK_EXTRA", "Release", "ReleaseVersion", "SparkLine", "Version"]

# The extra of every package that installs Spark. Without it, an install does not change Spark.
SPARK_EXTRA: Final = "spark"

_NUMBER: Final = r"(?:0|[1-9][0-9]*)"
_VERSION: Final = re.compile(rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})", re.ASCII)
_SPARK_LINE: Final = re.compile(rf"({_NUMBER})\.({_NUMBER})", re.ASCII)
_RELEASE: Final = re.compile(rf"({_VERSION.pattern})-({_SPARK_LINE.pattern})", re.ASCII)
_PACKAGE: Final = re.compile(rf"({_VERSION.pattern})\.({_SPARK_LINE.pattern})", re.ASCII)
_SPELLING: Final = "MAJOR.MINOR.PATCH-SPARK, as in 3.1.2-3.5"
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)


@dataclass(frozen=True, order=True)
class Version:
    """The semantic version of a connector: major, minor, patch."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> Version:
        """Parse a version such as `3.1.2`.

        Raises:
            VersionError: The text has another format.
        """
        match = _match(_VERSION, text, "a connector version", "MAJOR.MINOR.PATCH, as in 3.1.2")
        return cls(*map(int, match.groups()))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


@dataclass(frozen=True, order=True)
class SparkLine:
    """A Spark line, such as 3.5: every release 3.5.x."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> SparkLine:
        """Parse a Spark line such as `3.5`.

        Raises:
            VersionError: The text has another format.
        """
        match = _match(_SPARK_LINE, text, "a Spark line", "MAJOR.MINOR, as in 3.5")
        return cls(*map(int, match.groups()))

    @property
    def requirement(self) -> str:
        """The pyspark requirement of the extra in an artifact for this line."""
        return f"pyspark>={self},<{self.major}.{self.minor + 1}"

    @property
    def pin(self) -> str:
        """The pyspark requirement that keeps an installer on this line."""
        return f"pyspark=={self}.*"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, order=True)
class ReleaseVersion:
    """A version for one Spark line, which is what an artifact is built for."""

    version: Version
    spark: SparkLine

    @classmethod
    def parse(cls, text: str) -> ReleaseVersion:
        """Parse a release name such as `3.1.2-3.5`.

        Raises:
            VersionError: The text has another format; the hint contains the right one.
        """
        return cls._of(_match(_RELEASE, text, "a release name", _meant(text) or _SPELLING))

    @classmethod
    def of_package(cls, text: str) -> ReleaseVersion:
        """Parse a package version such as `3.1.2.3.5`.

        Raises:
            VersionError: The text has another format.
        """
        spelling = "MAJOR.MINOR.PATCH.SPARK, as in 3.1.2.3.5"
        return cls._of(_match(_PACKAGE, text, "the package version of a release", spelling))

    @property
    def package_version(self) -> str:
        """The package version for artifacts and installers."""
        return f"{self.version}.{self.spark}"

    @classmethod
    def _of(cls, match: re.Match[str]) -> ReleaseVersion:
        return cls(Version.parse(match[1]), SparkLine.parse(match[5]))

    def __str__(self) -> str:
        return f"{self.version}-{self.spark}"


@dataclass(frozen=True, order=True)
class Release:
    """A release of a connector for a Spark line: `connector-kafka 3.1.2-3.5`."""

    connector: str
    version: ReleaseVersion

    @classmethod
    def parse(cls, text: str) -> Release:
        """Parse `connector-kafka==3.1.2-3.5`, or the same with a space instead of `==`.

        Raises:
            VersionError: The text has another format.
        """
        name, found, version = re.sub(r"\s*==\s*|\s+", "==", text.strip()).partition("==")
        name = canonicalize_name(name)
        if not found or _NAME.fullmatch(name) is None:
            raise VersionError(
                f"{text!r} is not a release", hint="write NAME==VERSION-SPARK, as in "
                "connector-kafka==3.1.2-3.5",
            )  # fmt: skip
        return cls(name, ReleaseVersion.parse(version))

    @property
    def requirement(self) -> str:
        """The requirement that pip and uv understand."""
        return f"{self.connector}=={self.version.package_version}"

    def __str__(self) -> str:
        return f"{self.connector} {self.version}"


def _match(pattern: re.Pattern[str], text: str, what: str, spelling: str) -> re.Match[str]:
    if (match := pattern.fullmatch(text)) is None:
        raise VersionError(f"{text!r} is not {what}", hint=f"write {spelling}")
    return match


def _meant(text: str) -> str | None:
    """Return the release name that a misspelled text most likely means."""
    numbers = re.findall(r"[0-9]+", text)
    if re.fullmatch(r"[0-9.]+-[0-9]{2}", text, re.ASCII):  # 3.1.2-35, a post-release to pip
        numbers[-1:] = list(numbers[-1])
    if len(numbers) == 4:  # 3.1-3.5
        numbers.insert(2, "0")
    if len(numbers) != 5 or not re.fullmatch(r"v?[0-9]+([-+._ a-z]+[0-9]+)+", text, re.ASCII):
        return None
    major, minor, patch, *spark = (int(number) for number in numbers)
    return f"{Version(major, minor, patch)}-{SparkLine(*spark)}"
