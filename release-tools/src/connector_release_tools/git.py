# SPDX-License-Identifier: Apache-2.0
"""Git commands of the tools, which never change the user's index or branches."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from connector_release_tools.errors import GitError

__all__ = ["Repository", "run"]


def run(
    *arguments: str, folder: Path, env: Mapping[str, str] | None = None, given: bytes = b""
) -> bytes:
    """Run git in a folder, with a given input, and return its output.

    Raises:
        GitError: git is not installed, or fails.
    """
    done = attempt(*arguments, folder=folder, env=env, given=given)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise GitError(f"`git {' '.join(arguments)}` failed in {folder}: {said}")
    return done.stdout


def attempt(
    *arguments: str, folder: Path, env: Mapping[str, str] | None = None, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run git and return the result, whatever its exit code.

    Raises:
        GitError: git is not installed.
    """
    try:
        return subprocess.run(  # noqa: S603 (a list of arguments, no shell)
            ["git", *arguments],  # noqa: S607 (the git of the user's PATH)
            cwd=folder,
            env={**os.environ, **(env or {})},
            input=given,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise GitError("git is not installed", hint="install git 2.30 or newer") from error


@dataclass(frozen=True)
class Repository:
    """A git repository with a working tree.

    Attributes:
        root: The top folder of the working tree.
    """

    root: Path

    @classmethod
    def around(cls, folder: Path) -> Repository:
        """Return the repository that contains a folder.

        Raises:
            GitError: The folder is not in a repository.
        """
        if not folder.is_dir():
            raise GitError(f"the folder {folder} does not exist")
        top = run("rev-parse", "--show-toplevel", folder=folder).decode()
        return cls(Path(top.removesuffix("\n")))

    def object_id(self, revision: str) -> str | None:
        """Return the object id of a revision such as `HEAD:folder`; None if it does not exist."""
        done = attempt("rev-parse", "--verify", "--quiet", revision, folder=self.root)
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def merge_base(self, revision: str) -> str | None:
        """Return the common ancestor of HEAD and a revision; None if there is none."""
        if revision.startswith("-"):  # not an option of git
            return None
        done = attempt("merge-base", revision, "HEAD", folder=self.root)
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def last_change(self, folder: str, revision: str = "HEAD") -> str:
        """Return the last commit up to a revision that changed a folder."""
        return run("rev-list", "-1", revision, "--", folder, folder=self.root).decode().strip()

    def had_tree(self, folder: str, start: str) -> bool:
        """Return whether a folder was a tree with this start of its id in the history of HEAD."""
        commits = run("rev-list", "HEAD", "--", folder, folder=self.root).decode().split()
        asked = "".join(f"{commit}:{folder}\n" for commit in commits).encode()
        said = run("cat-file", "--batch-check=tree %(objectname)", folder=self.root, given=asked)
        return bool(start) and f"\ntree {start}" in f"\n{said.decode()}"

    def uncommitted(self, folder: str) -> list[str]:
        """Return the changed and untracked files of a folder, without ignored ones."""
        status = run(
            "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", folder,
            folder=self.root,
        )  # fmt: skip
        return [line[3:] for line in status.decode().split("\0") if line]

    def files(self) -> frozenset[str]:
        """Return all committed and committable files, relative to the root."""
        said = run(
            "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder=self.root
        )  # fmt: skip
        names = filter(None, said.decode().split("\0"))
        return frozenset(name for name in names if (self.root / name).is_file())

    def is_shallow(self) -> bool:
        """Whether the clone is shallow."""
        said = run("rev-parse", "--is-shallow-repository", folder=self.root)
        return said.strip() == b"true"

    def is_ancestor(self, commit: str, of: str = "HEAD") -> bool:
        """Return whether a commit is an ancestor of a revision."""
        done = attempt("merge-base", "--is-ancestor", commit, of, folder=self.root)
        return done.returncode == 0

    def seconds(self, commit: str) -> int:
        """Return the time of a commit in seconds since 1970."""
        return int(run("show", "--no-patch", "--format=%ct", commit, folder=self.root))

    def text(self, name: str) -> str:
        """Return the content of a file, specified as `TREE:path`.

        Raises:
            GitError: The file does not exist.
        """
        return run("show", name, folder=self.root).decode()

    def working_tree(self, folder: str) -> str:
        """Return the id of the tree that committing the whole folder would create.

        Raises:
            GitError: The folder does not exist or is empty.
        """
        with tempfile.TemporaryDirectory(prefix="release-tools-") as scratch:
            env = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
            run("read-tree", "HEAD", folder=self.root, env=env)
            run("add", "--all", "--", folder, folder=self.root, env=env)
            whole = run("write-tree", folder=self.root, env=env).decode().strip()
        return run("rev-parse", f"{whole}:{folder}", folder=self.root).decode().strip()

    def export(self, tree: str, folder: Path) -> None:
        """Write the files of a tree into a new folder, without a worktree."""
        archive = run("archive", "--format=tar", tree, folder=self.root)
        folder.mkdir(parents=True)
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
