# SPDX-License-Identifier: Apache-2.0
"""The page on what works together: the compatibility matrix as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from connector_release_tools.matrix.model import Major, Matrix
from connector_release_tools.versions import ReleaseVersion, SparkLine, Version

__all__ = ["page"]


def page(matrix: Matrix) -> str:
    """The page, in Markdown."""
    spark = [
        (line, it.pyspark, it.python, it.java, ", ".join(it.pins), str(it.end_of_life or ""))
        for line, it in matrix.spark.items()
    ]
    connectors = [
        (name, version, _status(major), major.core, _ranges(major.client), _servers(major.servers))
        for name, connector in matrix.connectors.items()
        for major in connector.majors.values()
        for version in _release_names(major)
    ]
    return f"""# Compatibility

What is supported and tested together. Of every connector the newest major gets features, the one
before it fixes.

## Spark

{_table(("Line", "Tested with", "Python", "Java", "Needs", "End of life"), spark)}

## Connectors

{_table(("Connector", "Release", "Gets", "connectors-core", "Client", "Tested with"), connectors)}
"""


def _release_names(major: Major) -> list[str]:
    version = Version.parse(major.version)
    return [str(ReleaseVersion(version, SparkLine.parse(line))) for line in major.spark]


def _status(major: Major) -> str:
    if major.commit is None:
        return f"{major.status} (not released yet)"
    return f"{major.status}, until {major.end_of_life}" if major.end_of_life else major.status


def _ranges(client: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {versions}" for name, versions in client.items())


def _servers(servers: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{name} {', '.join(versions)}" for name, versions in servers.items())


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
