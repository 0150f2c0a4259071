# SPDX-License-Identifier: Apache-2.0
"""Builds recorded releases again, so that anyone can check what their records say."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from connector_release_tools.errors import HistoryError
from connector_release_tools.git import Repository
from connector_release_tools.releases.artefacts import Step, build_release
from connector_release_tools.releases.candidate import Candidate
from connector_release_tools.releases.findings import Finding
from connector_release_tools.releases.record import Record

__all__ = ["reproduce"]


def reproduce(repository: Repository, record: Record, *, step: Step) -> Iterator[Finding]:
    """Build a release from its commit, and compare the files with its record.

    Args:
        repository: The repository.
        record: The record of the release.
        step: Called with each build.

    Returns:
        The differences.

    Raises:
        HistoryError: The commit is not in the history of HEAD.
        ProgramError: A build fails.
    """
    if not repository.is_ancestor(record.commit):
        raise HistoryError(
            f"commit {record.commit} of {record.name} is not in the history of HEAD",
            hint="fetch the branch that contains it",
        )
    candidate = Candidate.at(repository, record.connector, record.commit)
    declared = (str(candidate.version), candidate.tree)
    if declared != (record.version, record.tree):
        yield Finding(
            f"{record.name}: commit {record.commit} contains {record.connector} "
            f"{candidate.version} as tree {candidate.tree}, the record has tree {record.tree}"
        )
        return
    with tempfile.TemporaryDirectory(prefix="release-tools-") as scratch:
        built = build_release(
            repository, candidate, Path(scratch), spark_lines=candidate.builds, step=step
        )
        found = {each.path.name: each.sha256 for each in built}
    for name in sorted({*found, *record.artefacts}):
        if found.get(name) != (recorded := record.artefacts.get(name)):
            yield Finding(
                f"{name}: a build has sha256 {found.get(name)}, the record has {recorded}",
                "build with the versions in requirements/ of the release's commit",
            )
