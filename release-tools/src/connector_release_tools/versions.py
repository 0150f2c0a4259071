# SPDX-License-Identifier: Apache-2.0
"""How a release is called: its release name for people, its package version for installers.

`3.1.2-3.5` is the release name of version 3.1.2 for Spark 3.5. Installers refuse that spelling as a
requirement (PEP 440), so the artefact carries the package version `3.1.2.3.5`. This module alone
translates between the two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from packaging.utils import canonicalize_name

from connector_release_tools.errors import VersionError

__all__ = ["SPARK_EXTRA", "Release", "ReleaseVersion", "SparkLine", "Version"]

# The extra of every package that brings Spark; without it an install leaves Spark alone.
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
    """The version of a connector: major, minor, patch, after semantic versioning."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> Version:
        """The version that a text such as `3.1.2` names.

        Raises:
            VersionError: It names none.
        """
        if (match := _VERSION.fullmatch(text)) is None:
            raise VersionError(
                f"{text!r} is no version of a connector",
                hint="write MAJOR.MINOR.PATCH, as in 3.1.2",
            )
        return cls(*(int(number) for number in match.groups()))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


@dataclass(frozen=True, order=True)
class SparkLine:
    """A Spark line, such as 3.5: every release 3.5.x."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> SparkLine:
        """The line that a text such as `3.5` names.

        Raises:
            VersionError: It names none.
        """
        if (match := _SPARK_LINE.fullmatch(text)) is None:
            raise VersionError(f"{text!r} is no Spark line", hint="write MAJOR.MINOR, as in 3.5")
        return cls(*(int(number) for number in match.groups()))

    @property
    def requirement(self) -> str:
        """The Spark that an artefact for this line brings, if it is asked to."""
        return f"pyspark>={self},<{self.major}.{self.minor + 1}"

    @property
    def pin(self) -> str:
        """What a person writes so that an installer stays on this line."""
        return f"pyspark=={self}.*"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, order=True)
class ReleaseVersion:
    """A version for a Spark line: what one artefact is built for."""

    version: Version
    spark: SparkLine

    @classmethod
    def parse(cls, text: str) -> ReleaseVersion:
        """Read the spelling of a release name, `3.1.2-3.5`.

        Raises:
            VersionError: It is spelled in another way; the hint has the right spelling.
        """
        if (match := _RELEASE.fullmatch(text)) is None:
            meant = _meant(text)
            raise VersionError(
                f"{text!r} is not how a release is called",
                hint=f"write {meant}" if meant else f"write {_SPELLING}",
            )
        return cls._of(match)

    @classmethod
    def of_package(cls, text: str) -> ReleaseVersion:
        """Read the package version that an artefact carries, `3.1.2.3.5`.

        Raises:
            VersionError: It is none.
        """
        if (match := _PACKAGE.fullmatch(text)) is None:
            raise VersionError(
                f"{text!r} is not the package version of a release",
                hint="it is MAJOR.MINOR.PATCH.SPARK, as in 3.1.2.3.5",
            )
        return cls._of(match)

    @property
    def package_version(self) -> str:
        """What the artefact carries, and installers understand."""
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
        """Read `connector-kafka==3.1.2-3.5`, or with a blank for the two signs.

        Raises:
            VersionError: It names no release.
        """
        name, found, version = re.sub(r"\s*==\s*|\s+", "==", text.strip()).partition("==")
        name = canonicalize_name(name)
        if not found or _NAME.fullmatch(name) is None:
            raise VersionError(
                f"{text!r} names no release", hint="write NAME==VERSION-SPARK, as in "
                "connector-kafka==3.1.2-3.5",
            )  # fmt: skip
        return cls(name, ReleaseVersion.parse(version))

    @property
    def requirement(self) -> str:
        """The requirement that pip and uv understand."""
        return f"{self.connector}=={self.version.package_version}"

    def __str__(self) -> str:
        return f"{self.connector} {self.version}"


def _meant(text: str) -> str | None:
    """The release name that a near miss stands for."""
    numbers = re.findall(r"[0-9]+", text)
    if re.fullmatch(r"[0-9.]+-[0-9]{2}", text, re.ASCII):  # 3.1.2-35, a post-release to pip
        numbers[-1:] = list(numbers[-1])
    if len(numbers) == 4:  # 3.1-3.5
        numbers.insert(2, "0")
    if len(numbers) != 5 or not re.fullmatch(r"v?[0-9]+([-+._ a-z]+[0-9]+)+", text, re.ASCII):
        return None
    major, minor, patch, *spark = (int(number) for number in numbers)
    return f"{Version(major, minor, patch)}-{SparkLine(*spark)}"
