# SPDX-License-Identifier: Apache-2.0
"""Adds the next Spark line, or the next major of a connector, and ends the oldest."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from connector_release_tools.errors import MatrixError
from connector_release_tools.git import Repository
from connector_release_tools.matrix.derivation import (
    SPARK_KEY,
    VERSION_KEY,
    Derived,
    derived,
    rewritten,
    short,
)
from connector_release_tools.matrix.file import MatrixFile, Quoted, core_range
from connector_release_tools.matrix.model import Connector, Major, Matrix, Status, Support
from connector_release_tools.matrix.places import Pins
from connector_release_tools.matrix.project import PYPROJECT, Project
from connector_release_tools.releases.record import recorded
from connector_release_tools.releases.release_names import pages
from connector_release_tools.versions import ReleaseVersion, SparkLine, Version

__all__ = ["Rotation", "new_majors", "new_spark_line"]


@dataclass(frozen=True)
class Rotation:
    """The changes of a rotation.

    Attributes:
        matrix: The matrix after the rotation.
        texts: The old and the new text of each changed file; the old text of a new file is empty.
        releases: The required releases.
        ends: The lines and majors that end.
        last_releases: The releases that announce the end of a major to its users.
    """

    matrix: Matrix
    texts: dict[str, tuple[str, str]]
    releases: tuple[str, ...]
    ends: tuple[str, ...]
    last_releases: tuple[str, ...] = ()

    def apply(self, root: Path) -> None:
        """Write the files."""
        for path, (_, text) in self.texts.items():
            (root / path).write_text(text, encoding="utf-8")


def new_spark_line(
    file: MatrixFile,
    spark_line: SparkLine,
    *,
    today: datetime.date,
    pyspark: str | None = None,
    python: str | None = None,
    java: str | None = None,
) -> Rotation:
    """Add a Spark line; the oldest ends if there are more than `support` of the matrix has.

    Args:
        file: The matrix.
        spark_line: The new Spark line.
        today: The day on which support of the oldest line ends.
        pyspark: The tested version; None for the first of the line.
        python: The version of Python; None for that of the newest line.
        java: The version of Java; None for that of the newest line.

    Raises:
        MatrixError: The line is not newer than the others.
    """
    before, root = file.matrix(), file.path.parent
    newest = SparkLine.parse(next(iter(before.spark)))
    if spark_line <= newest:
        raise MatrixError(
            f"Spark {spark_line} is not newer than {newest}, the newest line of the matrix"
        )
    pattern = before.spark[str(newest)]
    document = copy.deepcopy(file.document)
    entry = CommentedMap(
        pyspark=Quoted(pyspark or f"{spark_line}.0"),
        python=Quoted(python or pattern.python),
        java=Quoted(java or pattern.java),
    )
    if pattern.pins:
        entry["pins"] = _row(pattern.pins)
    document["spark"].insert(0, Quoted(str(spark_line)), entry)
    supported = [spark_line, *before.spark_lines]
    limit = before.support.spark_lines
    ended = supported[limit:]
    for each in ended:
        _end(document["spark"][str(each)], today)
    kept = list(map(str, supported[:limit]))

    values, releases = [], []
    for name, connector in before.connectors.items():
        releases += _releases(root, name, connector, kept, spark_line)
        number, major = next(iter(connector.majors.items()))
        if major.commit is None:
            spark_lines = [str(spark_line), *(each for each in major.spark if each in kept)]
            document["connectors"][name]["majors"][number]["spark"] = _row(spark_lines)
        elif major.is_supported:
            values += _next_of_main(root, name, major.version, kept, spark_line)
    after = MatrixFile(file.path, document)
    texts = _texts(after, values)
    wanted = f"requirements/spark{short(spark_line)}.in"
    if not (root / wanted).exists():
        texts[wanted] = ("", _requirements(spark_line, pattern.pins))
    return Rotation(
        after.matrix(), texts, tuple(releases), tuple(f"Spark {each}" for each in ended)
    )


def new_majors(file: MatrixFile, names: Sequence[str], *, today: datetime.date) -> Rotation:
    """Start the next major of connectors. The previous major gets fixes; older ones end.

    Args:
        file: The matrix.
        names: The connectors.
        today: The day on which support of the oldest major ends.

    Raises:
        MatrixError: The connector does not exist, its newest major is not released yet, or the
            oldest major must get fixes for longer.
    """
    before, root = file.matrix(), file.path.parent
    document = copy.deepcopy(file.document)
    releases: list[str] = []
    ended: list[str] = []
    last: list[str] = []
    pins: list[Derived] = []
    for name in dict.fromkeys(names):
        if (connector := before.connectors.get(name)) is None:
            raise MatrixError(
                f"the matrix does not contain {name}",
                hint=f"choose one of {', '.join(before.connectors)}",
            )
        number, newest = next(iter(connector.majors.items()))
        if newest.commit is None:
            raise MatrixError(
                f"{name} {newest.version} is not released yet, so the next major cannot start",
                hint=f"release it first: `release-tools release check {name}`",
            )
        majors = document["connectors"][name]["majors"]
        project = _project(root, name)
        spark_lines = [each for each in map(str, before.spark_lines) if each in project.spark]
        following = Version(int(number) + 1, 0, 0)
        if project.version != newest.version:  # pages install the version of main
            place = Pins(name, project.version)
            pins += [Derived(path, place, str(following)) for path, _ in pages(Repository(root))]
        entry = CommentedMap(
            version=Quoted(str(following)),
            status=str(Status.FEATURES),
            spark=_row(spark_lines),
            core=core_range(name, project),
        )
        for key in ("client", "servers"):
            if key in majors[number]:
                entry[key] = copy.deepcopy(majors[number][key])
        majors[number]["status"] = str(Status.FIXES)
        supported = [each for each, major in connector.majors.items() if major.is_supported]
        for old in supported[before.support.majors - 1 :]:
            _check_age(root, name, connector, old, before.support, today)
            majors[old]["status"] = str(Status.END_OF_LIFE)
            _end(majors[old], today)
            ended.append(f"{name} {old}")
            last += _named(name, *_next_patch(connector.majors[old]))
        majors.insert(0, Quoted(str(following.major)), entry)
        releases += _named(name, following, spark_lines)
    after = MatrixFile(file.path, document)
    return Rotation(after.matrix(), _texts(after, pins), tuple(releases), tuple(ended), tuple(last))


def _check_age(
    root: Path, name: str, connector: Connector, number: str, support: Support, today: datetime.date
) -> None:
    """Check that a major has got fixes for long enough since the first release of the next one."""
    following = [each for each in connector.majors if int(each) > int(number)]
    if not following or not support.fix_days:
        return
    newest, records = connector.majors[following[-1]], recorded(root)[0].values()
    own = [each for each in records if (each.connector, str(each.major)) == (name, following[-1])]
    days = (newest.released, *(each.released for each in own))
    released = [day for day in days if day is not None]
    if not released:
        return
    until = min(released) + datetime.timedelta(days=support.fix_days)
    if today < until:
        raise MatrixError(
            f"{name} {number} gets fixes until {until}: {support.fix_days} days after the release "
            f"of {name} {following[-1]}",
            hint="start the next major then; the number is fix_days of support in the matrix",
        )


def _texts(after: MatrixFile, values: list[Derived]) -> dict[str, tuple[str, str]]:
    root, matrix = after.path.parent, after.matrix()
    before = after.path.read_text(encoding="utf-8")
    changed = rewritten(root, [*derived(root, matrix), *values])
    return {after.path.name: (before, after.text()), **changed}


def _releases(
    root: Path, name: str, connector: Connector, kept: Sequence[str], spark_line: SparkLine
) -> list[str]:
    """Return the releases that add the new line to all supported majors of a connector."""
    found = []
    for major in connector.majors.values():
        if not major.is_supported:
            continue
        version = Version.parse(major.version)
        if major.commit is not None and major.status is Status.FEATURES:
            version = _next_version(root, name, major.version)
        elif major.commit is not None:
            version, _ = _next_patch(major)
        older = (each for each in major.spark if each in kept)
        found += _named(name, version, [str(spark_line), *older])
    return found


def _next_patch(major: Major) -> tuple[Version, Sequence[str]]:
    """Return the next patch of a released major, and its Spark lines."""
    version = Version.parse(major.version)
    return Version(version.major, version.minor, version.patch + 1), major.spark


def _next_of_main(
    root: Path, name: str, released: str, kept: Sequence[str], spark_line: SparkLine
) -> list[Derived]:
    path = f"{name}/{PYPROJECT}"
    project = _project(root, name)
    spark = [*(each for each in project.spark if each in kept), str(spark_line)]
    return [
        Derived(path, VERSION_KEY, str(_next_version(root, name, released))),
        Derived(path, SPARK_KEY, spark),
    ]


def _next_version(root: Path, name: str, released: str) -> Version:
    """Return the next version of main, where a new Spark line is a feature."""
    last, now = Version.parse(released), Version.parse(_project(root, name).version)
    return max(now, Version(last.major, last.minor + 1, 0))


def _project(root: Path, name: str) -> Project:
    path = f"{name}/{PYPROJECT}"
    return Project.parse((root / path).read_text(encoding="utf-8"), path)


def _named(name: str, version: Version, spark_lines: Sequence[str]) -> list[str]:
    return [f"{name} {ReleaseVersion(version, SparkLine.parse(each))}" for each in spark_lines]


def _requirements(spark_line: SparkLine, pins: Sequence[str]) -> str:
    rows = ["-r base.in", f"-r pyspark{short(spark_line)}.txt", *pins]
    return "\n".join([f"# Tested versions for Spark {spark_line}.", *rows, ""])


def _end(entry: CommentedMap, today: datetime.date) -> None:
    # Not as the last key, because the following blank line and comment belong to the next entry.
    entry.insert(len(entry) - 1, "end_of_life", today)


def _row(texts: Sequence[str]) -> CommentedSeq:
    row = CommentedSeq(map(Quoted, texts))
    row.fa.set_flow_style()
    return row
