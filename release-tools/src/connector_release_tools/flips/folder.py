# SPDX-License-Identifier: Apache-2.0
"""All proposals of a tree: the folder `flips/` of the working tree or a revision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from connector_release_tools.errors import FlipError, MaintainersError
from connector_release_tools.flips.document import Document, Flip, votes_path
from connector_release_tools.flips.model import RuleBook
from connector_release_tools.git import Entry, Repository
from connector_release_tools.maintainers import MAINTAINERS, Maintainers
from connector_release_tools.yaml_text import load_plain, validated

__all__ = ["FLIPS", "RULES", "Flips", "at_commit", "here"]

FLIPS: Final = "flips"
RULES: Final = "rules.yaml"


@dataclass(frozen=True)
class Flips:
    """The folder of proposals, with the rules and the voters.

    Attributes:
        folder: The folder of the files.
        rules: The rules of the vote.
        maintainers: The people with binding votes.
        irregular: The paths of links, submodules, and files in subfolders.
    """

    folder: Path
    rules: RuleBook
    maintainers: Maintainers
    irregular: tuple[str, ...] = ()

    @classmethod
    def read(cls, folder: Path, maintainers: Maintainers) -> Flips:
        """Read the rules; proposals are read on demand.

        Raises:
            FlipError: The rules are missing or invalid.
        """
        path = folder / RULES
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise FlipError(f"{FLIPS}/{RULES} is not text in UTF-8: {error}") from error
        except FileNotFoundError as error:
            raise FlipError(
                f"{FLIPS}/{RULES} does not exist",
                hint="run this in the repository of the connectors",
            ) from error
        document = load_plain(text, name=RULES, error=FlipError)
        return cls(folder, validated(RuleBook, document, name=RULES, error=FlipError), maintainers)

    def paths(self) -> list[Path]:
        """Return the files of the proposals by number."""
        return sorted(path for path in self.folder.glob("*.md") if not path.is_symlink())

    def document(self, number: int) -> Document:
        """Return the file of a proposal.

        Raises:
            FlipError: The number has no file or several files, or the file is unreadable.
        """
        found = list(self.folder.glob(f"{number:04}-*.md"))
        if len(found) != 1:
            names = ", ".join(sorted(path.name for path in found))
            raise FlipError(
                f"FLIP {number:04} has several files: {names}"
                if found
                else f"FLIP {number:04} does not exist",
                hint="give each proposal its own number"
                if found
                else "run `release-tools flip list` to show all proposals",
            )
        return Document.read(found[0])

    def proposals(self) -> tuple[list[Flip], list[str]]:
        """Return all readable proposals, and the errors of the others."""
        read: list[Flip] = []
        problems: list[str] = []
        for path in self.paths():
            try:
                read.append(Flip.read(path))
            except FlipError as error:
                problems.append(str(error))
        known = {RULES, *(votes_path(path).name for path in self.paths())}
        links = [
            f"{FLIPS}/{path.name}"
            for path in sorted(self.folder.iterdir())
            if path.is_symlink() or not path.is_file()
        ]
        problems += [
            f"{path}: is not a file of {FLIPS}/: replace the link or folder with the file itself"
            for path in (*self.irregular, *links)
        ]
        problems += [
            f"{path.name}: belongs to no proposal"
            for path in sorted(self.folder.iterdir())
            if path.suffix != ".md" and path.name not in known and path.is_file()
        ]
        return read, problems

    def next_number(self) -> int:
        """Return the number of the next proposal."""
        given = self.folder.glob("[0-9][0-9][0-9][0-9]-*.md")
        return max((int(path.name[:4]) for path in given), default=0) + 1


def here(repository: Repository) -> Flips:
    """Return the proposals of the working tree.

    Raises:
        ReleaseToolsError: Rules or maintainers cannot be read.
    """
    return Flips.read(repository.root / FLIPS, Maintainers.of(repository))


@contextmanager
def at_commit(repository: Repository, commit: str) -> Iterator[Flips]:
    """Return the proposals of a commit, byte for byte: no attribute of a file changes them.

    Raises:
        ReleaseToolsError: Rules or maintainers are missing, are not files, or are invalid.
    """
    people: Entry | None = None
    irregular = []
    with TemporaryDirectory(prefix="release-tools-") as scratch:
        folder = Path(scratch) / FLIPS
        folder.mkdir()
        for entry in repository.contents(commit, FLIPS, MAINTAINERS):
            name = entry.path.removeprefix(f"{FLIPS}/")
            if entry.is_file and entry.path == MAINTAINERS:
                people = entry
            elif entry.is_file and "/" not in name:
                (folder / name).write_bytes(repository.blob(entry.oid))
            else:
                irregular.append(entry.path)
        if people is None:
            raise MaintainersError(f"{MAINTAINERS} is not a file in {commit[:10]}")
        maintainers = Maintainers.parse(repository.blob(people.oid).decode(errors="replace"))
        yield replace(Flips.read(folder, maintainers), irregular=tuple(irregular))
