# SPDX-License-Identifier: Apache-2.0
"""All proposals of a tree: the folder `flips/` now or at a revision."""

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
    """The folder of proposals, and who decides on them.

    Attributes:
        folder: Where the files are.
        rules: The rules of the vote.
        maintainers: Whose vote binds.
    """

    folder: Path
    rules: RuleBook
    maintainers: Maintainers

    @classmethod
    def read(cls, folder: Path, maintainers: Maintainers) -> Flips:
        """Read the rules; proposals are read when they are asked for.

        Raises:
            FlipError: There are no rules, or they are not as they must be.
        """
        path = folder / RULES
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise FlipError(
                f"there is no {FLIPS}/{RULES}", hint="run this in the repository of the connectors"
            ) from error
        document = load(text, name=RULES, error=FlipError)
        return cls(folder, validated(RuleBook, document, name=RULES, error=FlipError), maintainers)

    def paths(self) -> list[Path]:
        """The files of the proposals, by number."""
        return sorted(self.folder.glob("[0-9]*.md"))

    def document(self, number: int) -> Document:
        """The file of a proposal.

        Raises:
            FlipError: There is none of this number, or more than one, or it cannot be read.
        """
        found = list(self.folder.glob(f"{number:04}-*.md"))
        if len(found) != 1:
            names = ", ".join(sorted(path.name for path in found))
            raise FlipError(
                f"FLIP {number:04} is {names}" if found else f"there is no FLIP {number:04}",
                hint="a number is given once" if found else "`release-tools flip list` shows all",
            )
        return Document.read(found[0])

    def proposals(self) -> tuple[list[Flip], list[str]]:
        """All proposals that can be read, and why others cannot."""
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
        """The number of the next proposal."""
        given = self.folder.glob("[0-9][0-9][0-9][0-9]-*.md")
        return max((int(path.name[:4]) for path in given), default=0) + 1


def here(repository: Repository) -> Flips:
    """The proposals as they lie in the working tree.

    Raises:
        ReleaseToolsError: Rules or maintainers cannot be read.
    """
    return Flips.read(repository.root / FLIPS, Maintainers.of(repository))


@contextmanager
def at_revision(repository: Repository, revision: str) -> Iterator[Flips | None]:
    """The proposals as they were where the work on HEAD left a revision; None if there were none.

    Raises:
        HistoryError: There is no such revision here, or it has nothing in common with HEAD.
        ReleaseToolsError: Rules or maintainers cannot be read.
    """
    base = repository.merge_base(revision)
    if base is None:
        raise HistoryError(
            f"{revision} is no commit of this clone that HEAD comes from",
            hint="history is cut; run `git fetch --unshallow`"
            if repository.is_shallow()
            else "name a commit or branch, as in origin/main",
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
