# SPDX-License-Identifier: Apache-2.0
"""Maintenance branches, which receive the fixes of older majors of a connector.

Such a branch starts at the commit of the major's last release. Main merges it with `-s ours`: the
commits become part of main's history, so that the matrix can pin them, but main's files do not
change.
"""

from __future__ import annotations

from connector_release_tools.errors import ReleaseError
from connector_release_tools.git import Repository, run
from connector_release_tools.matrix.project import PYPROJECT, Project
from connector_release_tools.versions import Version

__all__ = ["branch_name", "check_merged", "create", "merge"]


def branch_name(connector: str, major: int) -> str:
    """Return the name of a maintenance branch, such as `connector-kafka-3.x`."""
    return f"{connector}-{major}.x"


def create(repository: Repository, name: str, commit: str) -> bool:
    """Create a maintenance branch.

    Args:
        repository: The repository.
        name: The name of the branch.
        commit: The commit of the last release.

    Returns:
        Whether it was created; False if it exists and contains the release.

    Raises:
        ReleaseError: The branch exists, but does not contain the release.
        GitError: The commit is not in this clone.
    """
    there = repository.object_id(f"refs/heads/{name}")
    if there is None:
        run("branch", "--no-track", name, commit, folder=repository.root)
        return True
    if not repository.is_ancestor(commit, there):
        raise ReleaseError(
            f"branch {name} does not contain the last release, commit {commit}",
            hint=f"rename the branch: git branch -m {name} {name}-old",
        )
    return False


def merge(repository: Repository, connector: str, major: int) -> str | None:
    """Merge the commits of a branch into the history of the current branch.

    The files do not change, neither in the merge nor in the working tree.

    Returns:
        The id of the merge; None if the history already contains the commits.

    Raises:
        ReleaseError: The branch does not exist, it is checked out, or a plain merge brought its
            files.
    """
    name = branch_name(connector, major)
    tip = repository.object_id(f"refs/heads/{name}")
    if tip is None:
        raise ReleaseError(f"the branch {name} does not exist")
    head = run("rev-parse", "HEAD", folder=repository.root).decode().strip()
    if run("rev-parse", "--abbrev-ref", "HEAD", folder=repository.root).decode().strip() == name:
        raise ReleaseError(f"{name} is checked out", hint="check out the branch to merge into")
    if repository.is_ancestor(tip, head):
        check_merged(repository, connector, tip)
        return None
    message = f"Merge {name} for its history only (-s ours)"
    made = run(
        "commit-tree", f"{head}^{{tree}}", "-p", head, "-p", tip, "-m", message,
        folder=repository.root,
    ).decode().strip()  # fmt: skip
    run("update-ref", "-m", message, "HEAD", made, head, folder=repository.root)
    return made


def check_merged(repository: Repository, connector: str, commit: str) -> None:
    """Check that the merge of a commit into HEAD's history excluded its files.

    Args:
        repository: The repository.
        connector: The connector.
        commit: A commit in the history of HEAD.

    Raises:
        ReleaseError: The commit has an older major than main, and the merge changed main's files.
    """
    merges = run(
        "rev-list", "--first-parent", "--ancestry-path", "--merges", "--reverse",
        f"{commit}..HEAD", folder=repository.root,
    ).decode().split()  # fmt: skip
    if not merges or repository.is_ancestor(commit, f"{merges[0]}^1"):
        return  # it was made on main
    merged = merges[0]
    major, main = (_major(repository, f"{each}:{connector}") for each in (commit, f"{merged}^1"))
    trees = {repository.object_id(f"{each}^{{tree}}") for each in (merged, f"{merged}^1")}
    if major < main and len(trees) > 1:
        raise ReleaseError(
            f"merge {merged} restored files of {connector} {major}",
            hint=f"undo it (git reset --keep {merged}^1, or git revert -m 1 {merged}); then "
            f"release-tools release branch {connector} --major {major} --merge",
        )


def _major(repository: Repository, place: str) -> int:
    text = repository.text(f"{place}/{PYPROJECT}")
    return Version.parse(Project.parse(text, place).version).major
