# SPDX-License-Identifier: Apache-2.0
"""Compares the commits and trees that the matrix pins with git."""

from __future__ import annotations

from typing import Protocol

from connector_release_tools.errors import HistoryError
from connector_release_tools.git import Repository
from connector_release_tools.matrix.model import CoreMajor

__all__ = ["Pinned", "check_pin", "tree_of"]

_UNSHALLOW = "the clone is shallow; run `git fetch --unshallow`"


class Pinned(Protocol):
    """A release with its commit and its tree: a major of the matrix, or a record."""

    @property
    def version(self) -> str:
        """The version."""
        ...

    @property
    def commit(self) -> str | None:
        """The commit; None before the release."""
        ...

    @property
    def tree(self) -> str | None:
        """The id of the folder in that commit; None before the release."""
        ...


def tree_of(repository: Repository, connector: str, major: CoreMajor) -> str:
    """Return the tree of a connector's folder that a major is built from.

    Args:
        repository: The repository.
        connector: The connector's name, which is also the name of its folder.
        major: The major; an unreleased one is built from HEAD.

    Returns:
        The id of the tree.

    Raises:
        HistoryError: The tree is not in this clone.
    """
    wanted = f"HEAD:{connector}" if major.tree is None else f"{major.tree}^{{tree}}"
    if (found := repository.object_id(wanted)) is not None:
        return found
    if major.tree is None:
        raise HistoryError(
            f"HEAD does not contain the folder {connector}", hint="commit the connector first"
        )
    raise _missing(repository, f"tree {major.tree[:10]} of {connector} {major.version}")


def check_pin(repository: Repository, connector: str, release: Pinned) -> None:
    """Check that the commit of a release is part of the history and contains the tree.

    Args:
        repository: The repository.
        connector: The connector.
        release: The release; one without a commit has no pin.

    Raises:
        HistoryError: The commit is not part of the history, or has another tree.
    """
    if release.commit is None or release.tree is None:
        return
    commit = f"commit {release.commit[:10]} of {connector} {release.version}"
    if repository.object_id(f"{release.commit}^{{commit}}") is None:
        raise _missing(repository, commit)
    tree = repository.object_id(f"{release.commit}:{connector}")
    if tree != release.tree:
        raise HistoryError(
            f"{commit} contains {connector} as tree {str(tree)[:10]}, but the pinned tree is "
            f"{release.tree[:10]}",
            hint="pin the released commit and its tree",
        )
    if not repository.is_ancestor(release.commit):
        if repository.is_shallow():
            raise HistoryError(f"{commit} cannot be reached from HEAD", hint=_UNSHALLOW)
        raise HistoryError(
            f"{commit} cannot be reached from HEAD: clones do not get it, and git may remove it",
            hint=f"merge it with `git merge -s ours {release.commit[:10]}`; a squash or a rebase "
            "loses pinned commits",
        )


def _missing(repository: Repository, what: str) -> HistoryError:
    if repository.is_shallow():
        return HistoryError(f"{what} is not in this clone", hint=_UNSHALLOW)
    return HistoryError(
        f"{what} is not in this repository",
        hint="fetch the branch that contains it; if a squash or a rebase lost it, "
        "pin the commit on main",
    )
