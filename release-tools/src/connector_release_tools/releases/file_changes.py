# SPDX-License-Identifier: Apache-2.0
"""Writes file changes that git can undo, and commits only these changes."""

from __future__ import annotations

from collections.abc import Iterable

from connector_release_tools.errors import ReleaseError
from connector_release_tools.git import Repository, run
from connector_release_tools.template.files import Change, write

__all__ = ["apply", "check_saved", "commit"]


def check_saved(repository: Repository, changes: Iterable[Change]) -> None:
    """Check that git can restore the files that changes would overwrite.

    Raises:
        ReleaseError: A file has uncommitted changes.
    """
    unsaved = set(repository.uncommitted("."))
    lost = [change.path for change in changes if change.before and change.path in unsaved]
    if lost:
        raise ReleaseError(
            f"these files have uncommitted changes: {', '.join(lost)}",
            hint="commit or restore them first, so that this step can be undone",
        )


def apply(repository: Repository, changes: Iterable[Change]) -> None:
    """Write changes into the working tree."""
    for change in changes:
        write(repository.root / change.path, change.after)


def commit(repository: Repository, changes: Iterable[Change], message: str) -> str:
    """Commit written changes, and nothing else.

    Returns:
        The id of the commit.

    Raises:
        GitError: git fails.
    """
    paths = [change.path for change in changes]
    run("add", "--all", "--", *paths, folder=repository.root)
    run("commit", "--quiet", "--message", message, "--", *paths, folder=repository.root)
    return run("rev-parse", "HEAD", folder=repository.root).decode().strip()
