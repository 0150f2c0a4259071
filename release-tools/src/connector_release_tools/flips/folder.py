# SPDX-License-Identifier: Apache-2.0
"""All proposals of a tree: the folder `flips/` of the working tree or a revision."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from connector_release_tools.errors import FlipError, HistoryError
from connector_release_tools.flips.document import Document, Flip, votes_path
from connector_release_tools.flips.model import RuleBook
from connector_release_tools.git import Repository
from connector_release_tools.maintainers import MAINTAINERS, Maintainers
from connector_release_tools.yaml_text import load, validated

__all__ = ["FLIPS", "Flips", "at_revision", "here"]

FLIPS: Final = "flips"
RULES: Final = "rules.yaml"
_NUMBERED: Final = re.compile(r"[0-9]")


@dataclass(frozen=True)
class Flips:
    """The folder of proposals, with the rules and the voters.

    Attributes:
        folder: The folder of the files.
        rules: The rules of the vote.
        maintainers: The people with binding votes.
    """

    folder: Path
    rules: RuleBook
    maintainers: Maintainers

    @classmethod
    def read(cls, folder: Path, maintainers: Maintainers) -> Flips:
        """Read the rules; proposals are read on demand.

        Raises:
            FlipError: The rules are missing or invalid.
        """
        path = folder / RULES
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise FlipError(
                f"{FLIPS}/{RULES} does not exist",
                hint="run this in the repository of the connectors",
            ) from error
        document = load(text, name=RULES, error=FlipError)
        return cls(folder, validated(RuleBook, document, name=RULES, error=FlipError), maintainers)

    def paths(self) -> list[Path]:
        """Return the files of the proposals by number."""
        return sorted(self.folder.glob("[0-9]*.md"))

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
        votes = {votes_path(path).name for path in self.paths()}
        problems += [
            f"{path.name}: belongs to no proposal"
            for path in sorted(self.folder.iterdir())
            if _NUMBERED.match(path.name) and path.suffix != ".md" and path.name not in votes
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
def at_revision(repository: Repository, revision: str) -> Iterator[Flips | None]:
    """Return the proposals at the common ancestor of HEAD and a revision; None if it has none.

    Raises:
        HistoryError: The revision does not exist, or has no common ancestor with HEAD.
        ReleaseToolsError: Rules or maintainers cannot be read.
    """
    base = repository.merge_base(revision)
    if base is None:
        raise HistoryError(
            f"{revision} is not a commit of this clone that shares history with HEAD",
            hint="the clone is shallow; run `git fetch --unshallow`"
            if repository.is_shallow()
            else "pass a commit or branch, such as origin/main",
        )
    tree = repository.object_id(f"{base}:{FLIPS}")
    people = f"{base}:{MAINTAINERS}"
    if tree is None or repository.object_id(people) is None:
        yield None
        return
    with TemporaryDirectory(prefix="release-tools-") as scratch:
        folder = Path(scratch) / FLIPS
        repository.export(tree, folder)
        yield Flips.read(folder, Maintainers.parse(repository.text(people)))
