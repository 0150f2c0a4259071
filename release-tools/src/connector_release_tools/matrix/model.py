# SPDX-License-Identifier: Apache-2.0
"""The model of `compatibility-matrix.yaml`; its JSON schema is generated from these classes."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Self

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from connector_release_tools.versions import Release, ReleaseVersion, SparkLine, Version

__all__ = [
    "CORE",
    "Cell",
    "Connector",
    "Core",
    "CoreMajor",
    "Major",
    "Matrix",
    "Spark",
    "Status",
    "Support",
    "Works",
]

CORE: Final = "connectors-core"


def _quoted(found: object) -> object:
    if isinstance(found, int | float):
        raise ValueError(f"{found} is a number; quote it, because 1.20 is not 1.2")
    return found


def _parsed_by(parse: Callable[[str], object], what: str) -> AfterValidator:
    """Return a check that a text can be parsed; the value stays a text."""

    def check(text: str) -> str:
        try:
            parse(text)
        except ValueError as error:
            raise ValueError(f"{text!r} is not {what}") from error
        return text

    return AfterValidator(check)


_Quoted = BeforeValidator(_quoted)
_Text = Annotated[str, _Quoted, StringConstraints(min_length=1)]
_Version = Annotated[str, _Quoted, StringConstraints(pattern=r"^\d+\.\d+\.\d+$")]
_MajorMinor = Annotated[str, _Quoted, StringConstraints(pattern=r"^\d+\.\d+$")]
_MajorNumber = Annotated[str, _Quoted, StringConstraints(pattern=r"^(0|[1-9]\d*)$")]
_ObjectId = Annotated[str, _Quoted, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
_Range = Annotated[str, _Quoted, _parsed_by(SpecifierSet, "a version range such as '>=1.0,<2'")]
_Requirement = Annotated[str, _Quoted, _parsed_by(Requirement, "a requirement such as 'numpy<2'")]
_Name = Annotated[str, StringConstraints(pattern=r"^connector-[a-z0-9]+(-[a-z0-9]+)*$")]


class Status(enum.StrEnum):
    """The support status of a major or a Spark line."""

    FEATURES = "features"
    FIXES = "fixes"
    END_OF_LIFE = "end-of-life"


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Support(_Entry):
    """How many Spark lines and majors are supported, and how long a major gets fixes.

    Attributes:
        spark_lines: The number of Spark lines, the newest ones.
        majors: The number of majors of each package: the newest gets features, the others fixes.
        fix_days: The days for which a major gets fixes at least, after the release of the next one.
    """

    spark_lines: Annotated[int, Field(ge=1)] = 2
    majors: Annotated[int, Field(ge=1)] = 2
    fix_days: Annotated[int, Field(ge=0)] = 0


class Works(_Entry):
    """Versions that pass the core's unit tests and a pipeline, but are not tested at every change.

    Users get a warning. Versions that are neither here nor in the matrix are rejected.

    Attributes:
        spark: Other Spark lines that the builds for this one work with.
        python: Versions of Python.
    """

    spark: tuple[_MajorMinor, ...] = ()
    python: tuple[_MajorMinor, ...] = ()


class Spark(_Entry):
    """A Spark line.

    Attributes:
        pyspark: The tested version.
        python: The tested version of Python.
        java: The tested version of Java.
        pins: Additional requirements of an environment of this Spark line.
        works: Other versions that work, outside the matrix.
        end_of_life: The day on which support ended; None while it is supported.
    """

    pyspark: _Version
    python: _MajorMinor
    java: _Text
    pins: tuple[_Requirement, ...] = ()
    works: Works = Works()
    end_of_life: datetime.date | None = None


class CoreMajor(_Entry):
    """The newest release of one major of the core.

    Attributes:
        version: Its version; the next version of main if there is no commit.
        status: The support status.
        commit: The commit that it was released from; None before the release.
        tree: The id of the folder in that commit.
        released: The day of the release.
        end_of_life: The day of its last fix, if known.
    """

    version: _Version
    status: Status
    commit: _ObjectId | None = None
    tree: _ObjectId | None = None
    released: datetime.date | None = None
    end_of_life: datetime.date | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        pinned = {"commit": self.commit, "tree": self.tree, "released": self.released}
        missing = [name for name, value in pinned.items() if value is None]
        if missing and len(missing) < len(pinned):
            raise ValueError(f"a release has {', '.join(pinned)}; missing: {', '.join(missing)}")
        if missing and self.status is not Status.FEATURES:
            raise ValueError(f"{self.status} is only allowed for a released major; add its commit")
        if self.status is Status.END_OF_LIFE and self.end_of_life is None:
            raise ValueError("end-of-life needs a date in end_of_life")
        return self

    @property
    def is_supported(self) -> bool:
        """Whether it still receives fixes."""
        return self.status is not Status.END_OF_LIFE


class Major(CoreMajor):
    """The newest release of one major of a connector.

    Attributes:
        spark: The Spark lines that it is built for.
        core: The versions of connectors-core that it works with.
        client: The version ranges of the client libraries by name.
        servers: The tested versions of the external system, by its name.
    """

    spark: tuple[_MajorMinor, ...] = Field(min_length=1)
    core: _Range
    client: Mapping[_Text, _Range] = Field(default_factory=dict)
    servers: Mapping[_Text, tuple[_Text, ...]] = Field(default_factory=dict)


class Core(_Entry):
    """The core, which has one build for every Spark line.

    Attributes:
        majors: Its majors by number, newest first.
    """

    majors: Mapping[_MajorNumber, CoreMajor] = Field(min_length=1)

    @model_validator(mode="after")
    def _is_ordered(self) -> Self:
        for number, major in self.majors.items():
            if int(number) != Version.parse(major.version).major:
                raise ValueError(f"version {major.version} is listed under major {number}")
        numbers = [int(number) for number in self.majors]
        if numbers != sorted(numbers, reverse=True):
            raise ValueError("the newest major must be first")
        newest, *older = [major.status for major in self.supported] or [Status.FEATURES]
        if newest is not Status.FEATURES or set(older) - {Status.FIXES}:
            raise ValueError(
                "only the newest major receives features, and older ones receive only fixes"
            )
        return self

    @property
    def supported(self) -> list[CoreMajor]:
        """The majors that get features or fixes, newest first."""
        return [major for major in self.majors.values() if major.is_supported]


class Connector(Core):
    """A connector.

    Attributes:
        majors: Its majors by number, newest first.
    """

    majors: Mapping[_MajorNumber, Major] = Field(min_length=1)


@dataclass(frozen=True)
class Cell:
    """A connector major on a Spark line: the unit of builds, tests, and releases.

    Attributes:
        connector: The name of the connector.
        major: The major.
        spark: The Spark line.
    """

    connector: str
    major: Major
    spark: SparkLine

    @property
    def release(self) -> Release:
        """The release name."""
        version = ReleaseVersion(Version.parse(self.major.version), self.spark)
        return Release(self.connector, version)


class Matrix(_Entry):
    """The compatibility matrix.

    Attributes:
        support: How much is supported, and how long.
        spark: Spark lines, newest first.
        core: The core; None in a repository without it.
        connectors: The connectors by name.
    """

    support: Support = Support()
    spark: Mapping[_MajorMinor, Spark] = Field(min_length=1)
    core: Core | None = None
    connectors: Mapping[_Name, Connector] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        spark_lines = [SparkLine.parse(each) for each in self.spark]
        if spark_lines != sorted(spark_lines, reverse=True):
            raise ValueError("spark: the newest line must be first")
        for number, spark in self.spark.items():
            if not spark.pyspark.startswith(f"{number}."):
                raise ValueError(f"spark {number}: pyspark {spark.pyspark} belongs to another line")
            if known := [each for each in spark.works.spark if each in self.spark]:
                raise ValueError(
                    f"spark {number}: works lists {known[0]}, which is a line of the matrix"
                )
        for name, connector in self.connectors.items():
            for number, major in connector.majors.items():
                if unknown := [each for each in major.spark if each not in self.spark]:
                    raise ValueError(
                        f"{name} {number} is for Spark {', '.join(unknown)}, which is not in spark"
                    )
        return self

    @model_validator(mode="after")
    def _supports_as_many_as_declared(self) -> Self:
        if (count := len(self.spark_lines)) > self.support.spark_lines:
            raise ValueError(
                f"spark: {count} lines have no end_of_life; support has {self.support.spark_lines}"
            )
        packages = {**({CORE: self.core} if self.core else {}), **self.connectors}
        for name, package in packages.items():
            if (count := len(package.supported)) > self.support.majors:
                raise ValueError(
                    f"{name}: {count} majors get features or fixes; support has "
                    f"{self.support.majors}"
                )
        return self

    @property
    def spark_lines(self) -> list[SparkLine]:
        """The supported Spark lines, newest first."""
        return [SparkLine.parse(each) for each, it in self.spark.items() if it.end_of_life is None]

    def majors(self, name: str) -> Mapping[str, CoreMajor]:
        """Return the majors of a connector or the core by number; empty for an unknown name."""
        found = self.core if name == CORE else self.connectors.get(name)
        return {} if found is None else found.majors

    def cells(self) -> Iterator[Cell]:
        """Return every supported major on every supported Spark line that it is built for."""
        for name, connector in self.connectors.items():
            for major in connector.majors.values():
                if major.is_supported:
                    for spark_line in self.spark_lines:
                        if str(spark_line) in major.spark:
                            yield Cell(name, major, spark_line)
