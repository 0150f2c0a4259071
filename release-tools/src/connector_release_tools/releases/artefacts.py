# SPDX-License-Identifier: Apache-2.0
"""Builds the files of a release: a source distribution and its wheel for each Spark line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from connector_release_tools.distribution_build import Kind, build_tree
from connector_release_tools.distributions import Distribution
from connector_release_tools.git import Repository
from connector_release_tools.matrix.model import CORE
from connector_release_tools.releases.candidate import Candidate
from connector_release_tools.versions import SparkLine

__all__ = ["Step", "build_core", "build_release"]

_KINDS: Final[tuple[Kind, ...]] = ("sdist", "wheel")

# Called with the next step of a long operation.
Step = Callable[[str], None]


def build_release(
    repository: Repository,
    candidate: Candidate,
    folder: Path,
    *,
    spark_lines: Iterable[SparkLine | None],
    step: Step,
) -> list[Distribution]:
    """Build a release from the commit, reproducibly.

    Args:
        repository: The repository.
        candidate: The release candidate.
        folder: The destination folder.
        spark_lines: The Spark lines; None for a package that serves all of them.
        step: Called with each build.

    Returns:
        The files; for each line, the source distribution comes first.

    Raises:
        ProgramError: A build fails.
    """
    built = []
    for spark_line in spark_lines:
        name = candidate.name if spark_line is None else f"{candidate.name}-{spark_line}"
        for kind in _KINDS:
            step(f"building the {kind} of {name}")
            path = build_tree(
                repository, candidate.tree, folder,
                spark=spark_line, seconds=candidate.seconds, kind=kind,
            )  # fmt: skip
            built.append(Distribution.of(path))
    return built


def build_core(repository: Repository, folder: Path) -> Path | None:
    """Build the wheel of the core in HEAD.

    Returns:
        The file; None in a repository without the core, which then comes from an index.

    Raises:
        ProgramError: The build fails.
    """
    tree = repository.object_id(f"HEAD:{CORE}")
    if tree is None:
        return None
    seconds = repository.seconds(repository.last_change(CORE))
    return build_tree(repository, tree, folder, spark=None, seconds=seconds)
