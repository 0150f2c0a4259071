# SPDX-License-Identifier: Apache-2.0
"""Compares the commits and trees that the matrix pins with git."""

from __future__ import annotations

from connector_release_tools.errors import HistoryError
from connector_release_tools.git import Repository
from connector_release_tools.matrix.model import CoreMajor

__all__ = ["check_pin", "tree_of"]

_UNSHALLOW = "the clone is shallow; run `git fetch --unshallow`"


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


def check_pin(repository: Repository, connector: str, major: CoreMajor) -> None:
    """Check that the commit of a release is part of the history and contains the tree.

    Args:
        repository: The repository.
        connector: The connector.
        major: A major of it; one without a commit has no pin.

    Raises:
        HistoryError: The commit or its tree differs from the matrix.
    """
    if major.commit is None or major.tree is None:
        return
    commit = f"commit {major.commit[:10]} of {connector} {major.version}"
    if repository.object_id(f"{major.commit}^{{commit}}") is None:
        raise _missing(repository, commit)
    tree = repository.object_id(f"{major.commit}:{connector}")
    if tree != major.tree:
        raise HistoryError(
            f"{commit} contains {connector} as tree {str(tree)[:10]}, but the matrix pins "
            f"{major.tree[:10]}",
            hint="pin the released commit and its tree",
        )
    if not repository.is_ancestor(major.commit):
        if repository.is_shallow():
            raise HistoryError(f"{commit} cannot be reached from HEAD", hint=_UNSHALLOW)
        raise HistoryError(
            f"{commit} cannot be reached from HEAD: clones do not get it, and git may remove it",
            hint=f"merge it with `git merge -s ours {major.commit[:10]}`; a squash or a rebase "
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
