# SPDX-License-Identifier: Apache-2.0
"""Builds distributions of a package reproducibly: every build gives the same bytes."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Literal

from connector_release_tools.errors import ProgramError
from connector_release_tools.git import Repository
from connector_release_tools.programs import output
from connector_release_tools.versions import SparkLine

__all__ = ["Kind", "build", "build_tree"]

# What there is to build.
Kind = Literal["wheel", "sdist"]


def build(
    project: Path, folder: Path, *, spark: SparkLine | None, seconds: int, kind: Kind = "wheel"
) -> Path:
    """Build a distribution with the build backend of this environment, without a network.

    Args:
        project: The folder with pyproject.toml.
        folder: The destination folder; created if it does not exist.
        spark: The Spark line to build for; None for a package that serves all lines.
        seconds: The timestamp of its files in seconds since 1970: the time of the commit.
        kind: The kind of distribution.

    Returns:
        The path of the distribution.

    Raises:
        ProgramError: The build fails.
    """
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(seconds)}
    env.pop("CONNECTOR_SPARK", None)
    if spark is not None:
        env["CONNECTOR_SPARK"] = str(spark)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as scratch:
        command = (
            sys.executable,
            "-m",
            "build",
            f"--{kind}",
            "--no-isolation",
            "--outdir",
            scratch,
        )
        said = output((*command, project), folder=project, env=env)
        built = list(Path(scratch).iterdir())
        if len(built) != 1:
            raise ProgramError(
                f"the build of {project} created {len(built)} files instead of one:\n{said}"
            )
        return built[0].replace(folder / built[0].name)


def build_tree(
    repository: Repository,
    tree: str,
    folder: Path,
    *,
    spark: SparkLine | None,
    seconds: int,
    kind: Kind = "wheel",
) -> Path:
    """Build a distribution of a committed folder, without the changes of the working tree.

    Args:
        repository: The repository.
        tree: The id of the folder's tree, or a revision that resolves to it:
            `HEAD:connectors-core`.
        folder: The destination folder.
        spark: The Spark line to build for; None for a package that serves all lines.
        seconds: The timestamp of its files in seconds since 1970.
        kind: The kind of distribution.

    Returns:
        The path of the distribution.

    Raises:
        GitError: The tree does not exist.
        ProgramError: The build fails.
    """
    with tempfile.TemporaryDirectory(prefix="release-tools-") as scratch:
        project = Path(scratch) / "project"
        repository.export(tree, project)
        return build(project, folder, spark=spark, seconds=seconds, kind=kind)
