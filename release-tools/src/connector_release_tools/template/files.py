# SPDX-License-Identifier: Apache-2.0
"""Files as git stores them: contents and executable bit."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Change", "File", "Files", "files_below", "read", "write"]


@dataclass(frozen=True)
class File:
    """One file.

    Attributes:
        content: Its bytes.
        executable: Whether its owner may execute it.
    """

    content: bytes
    executable: bool = False

    @property
    def mode(self) -> str:
        """Its mode in git."""
        return "100755" if self.executable else "100644"

    @property
    def lines(self) -> list[str] | None:
        """The lines with line endings; None if the file is not text."""
        if b"\0" in self.content:
            return None
        return self.content.decode(errors="replace").splitlines(keepends=True)


# Files by their paths in the project, with "/" on every system.
Files = Mapping[str, File]


def read(path: Path) -> File | None:
    """Return the file at a path; None if it does not exist."""
    if not path.is_file():
        return None
    return File(path.read_bytes(), executable=bool(path.stat().st_mode & 0o100))


def write(path: Path, file: File | None) -> None:
    """Write or remove the file at a path; also remove empty folders."""
    if file is None:
        path.unlink(missing_ok=True)
        for folder in path.parents:
            if any(folder.iterdir()):
                return
            folder.rmdir()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.content)
    mode = path.stat().st_mode
    path.chmod(mode | 0o111 if file.executable else mode & ~0o111)


def files_below(folder: Path) -> dict[str, File]:
    """Return all files below a folder."""
    return {
        path.relative_to(folder).as_posix(): file
        for path in sorted(folder.rglob("*"))
        if (file := read(path)) is not None
    }


@dataclass(frozen=True)
class Change:
    """A file in two states.

    Attributes:
        path: Its path in the project.
        before: The old state; None if it does not exist.
        after: The new state; None if it does not exist.
    """

    path: str
    before: File | None
    after: File | None

    @property
    def kind(self) -> str:
        """The kind of change in one word."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"

    def diff(self) -> str:
        """The unified diff."""
        return "".join(self._diff())

    def _diff(self) -> Iterator[str]:
        old, new = (file.lines if file else [] for file in (self.before, self.after))
        names = (
            f"a/{self.path}" if self.before else "/dev/null",
            f"b/{self.path}" if self.after else "/dev/null",
        )
        if self.before and self.after and self.before.mode != self.after.mode:
            yield f"mode of {self.path}: {self.before.mode} -> {self.after.mode}\n"
        if old is None or new is None:
            yield f"binary files {names[0]} and {names[1]} differ\n"
            return
        for line in difflib.unified_diff(old, new, *names):
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
