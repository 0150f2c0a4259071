# SPDX-License-Identifier: Apache-2.0
"""Git commands of the tools, which never change the user's index or branches."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from connector_release_tools.errors import GitError, HistoryError

__all__ = ["Commit", "Entry", "Repository", "run"]


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
class Entry:
    """An entry of a tree.

    Attributes:
        path: Its path in the tree.
        mode: What it is: 100644 and 100755 are files, 120000 a symbolic link, 160000 a submodule.
        oid: The id of its contents.
    """

    path: str
    mode: str
    oid: str

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return self.mode in {"100644", "100755"}


@dataclass(frozen=True)
class Commit:
    """A commit, as its author made it.

    Attributes:
        oid: Its id.
        author: The e-mail address of its author, in lower case.
        subject: The first line of its message.
        signed: The values of its lines Signed-off-by.
    """

    oid: str
    author: str
    subject: str
    signed: str


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

    def merge_base(self, revision: str, other: str = "HEAD") -> str | None:
        """Return the common ancestor of two revisions; None if there is none."""
        if revision.startswith("-"):  # not an option of git
            return None
        done = attempt("merge-base", revision, other, folder=self.root)
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def common_ancestor(self, revision: str) -> str:
        """Return the common ancestor of HEAD and a revision.

        Raises:
            HistoryError: The revision does not exist, or has no common ancestor with HEAD.
        """
        if (found := self.merge_base(revision)) is None:
            raise HistoryError(
                f"{revision} is not a commit of this clone that shares history with HEAD",
                hint="the clone is shallow; run `git fetch --unshallow`"
                if self.is_shallow()
                else "pass a commit or branch, such as origin/main",
            )
        return found

    def last_change(self, folder: str, revision: str = "HEAD") -> str:
        """Return the last commit up to a revision that changed a folder."""
        return run("rev-list", "-1", revision, "--", folder, folder=self.root).decode().strip()

    def had_tree(self, folder: str, start: str) -> bool:
        """Return whether a folder was a tree with this start of its id in the history of HEAD."""
        commits = run("rev-list", "HEAD", "--", folder, folder=self.root).decode().split()
        asked = "".join(f"{commit}:{folder}\n" for commit in commits).encode()
        said = run("cat-file", "--batch-check=tree %(objectname)", folder=self.root, given=asked)
        return bool(start) and f"\ntree {start}" in f"\n{said.decode()}"

    def uncommitted(self, *paths: str) -> list[str]:
        """Return the changed and untracked files at or below paths, without ignored ones."""
        status = run(
            "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", "--", *paths,
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

    def contents(self, revision: str, *paths: str) -> Iterator[Entry]:
        """Return the entries of a revision at or below some paths, as git stores them."""
        listed = run("ls-tree", "-r", "-z", revision, "--", *paths, folder=self.root).decode(
            errors="surrogateescape"
        )
        for line in filter(None, listed.split("\0")):
            meta, _, path = line.partition("\t")
            mode, _, oid = meta.split()
            yield Entry(path, mode, oid)

    def blob(self, oid: str) -> bytes:
        """Return the bytes of a file, without filters and attributes."""
        return run("cat-file", "blob", oid, folder=self.root)

    def changed(self, before: str, after: str) -> list[str]:
        """Return the paths that differ between two commits; for a renamed file, both names."""
        said = run(
            "diff-tree", "-r", "-z", "--no-renames", "--name-only", before, after, folder=self.root
        )
        return [path for path in said.decode(errors="surrogateescape").split("\0") if path]

    def landings(self, revision: str, *paths: str, now: int) -> list[tuple[str, int]]:
        """Return the commits that a branch received, with their times, oldest first.

        Follows the first parents only: a merge counts with its own time, whatever the merged
        commits claim. A time before that of an earlier commit, or in the future, is wrong: the
        commit then counts with the time of its predecessor, or of its successor.

        Args:
            revision: The branch.
            paths: Only the commits that changed one of these, as git patterns.
            now: The current time, in seconds since 1970.
        """
        said = run(
            "log", "--first-parent", "--reverse", "--format=%H %ct", revision, "--", *paths,
            folder=self.root,
        ).decode()  # fmt: skip
        rows = [(commit, int(seconds)) for commit, seconds in map(str.split, said.splitlines())]
        past = accumulate((seconds if seconds <= now else 0 for _, seconds in rows), max)
        found = []
        arrived = now
        for (commit, seconds), latest in reversed(list(zip(rows, past, strict=True))):
            arrived = latest if seconds <= now else arrived
            found.append((commit, arrived))
        return found[::-1]

    def work(self, base: str, head: str, *paths: str) -> list[Commit]:
        """Return the commits after a base that changed some paths themselves, oldest first.

        A merge is one of them only if it differs there from each of its parents.
        """
        form = "%H%x00%ae%x00%s%x00%(trailers:key=Signed-off-by,valueonly,separator=%x2C)%x1e"
        said = run(
            "log", "--full-history", "--reverse", f"--format={form}", f"{base}..{head}", "--",
            *paths, folder=self.root,
        ).decode(errors="replace")  # fmt: skip
        rows = [row.strip("\n").split("\0") for row in said.split("\x1e")[:-1]]
        commits = [Commit(oid, author.lower(), *rest) for oid, author, *rest in rows]
        return [each for each in commits if self._changes(each.oid, paths)]

    def _changes(self, commit: str, paths: tuple[str, ...]) -> bool:
        return bool(
            run(
                "diff-tree", "-r", "-c", "--root", "--no-commit-id", "--name-only", commit, "--",
                *paths, folder=self.root,
            )
        )  # fmt: skip

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
