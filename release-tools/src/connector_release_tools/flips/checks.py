# SPDX-License-Identifier: Apache-2.0
"""Checks a pull request on proposals against the rules and the previous state."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from connector_release_tools.flips.document import Flip
from connector_release_tools.flips.folder import FLIPS
from connector_release_tools.flips.lifecycle import Judge
from connector_release_tools.flips.model import Status
from connector_release_tools.git import Repository, run

__all__ = ["Finding", "check", "compare", "unsigned"]

_ADDRESS: Final = re.compile(r"<([^<>]+)>")


@dataclass(frozen=True)
class Finding:
    """A violation of the rules.

    Attributes:
        where: The file or commit.
        what: The violation.
    """

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def check(proposals: Sequence[Flip], judge: Judge) -> list[Finding]:
    """Check proposals against the rules, individually and together."""
    found = [Finding(flip.name, breach) for flip in proposals for breach in judge.breaches(flip)]
    by_number: dict[int, Flip] = {}
    for flip in proposals:
        other = by_number.setdefault(flip.number, flip)
        if other is not flip:
            found.append(Finding(flip.name, f"{other.name} has the same number"))
    for flip in proposals:
        found += [Finding(flip.name, breach) for breach in _successions(flip, by_number)]
    return found


def _successions(flip: Flip, others: Mapping[int, Flip]) -> Iterator[str]:
    header = flip.header
    if header.supersedes is not None:
        old = others.get(header.supersedes)
        if old is None or old is flip:
            yield f"supersedes {header.supersedes}, which is not another proposal"
        elif header.status is Status.ACCEPTED and old.header.superseded_by != flip.number:
            yield (
                f"is accepted and supersedes {old}, which is {old.header.status}: "
                f"run `release-tools flip supersede {old.number} {flip.number}`"
            )
    if header.superseded_by is not None:
        new = others.get(header.superseded_by)
        accepted = {Status.ACCEPTED, Status.SUPERSEDED}
        if new is None or new.header.supersedes != flip.number:
            yield f"superseded by {header.superseded_by}, which does not list it in `supersedes`"
        elif new.header.status not in accepted:
            yield f"superseded by {new}, which is {new.header.status}"


def compare(before: Sequence[Flip], after: Sequence[Flip]) -> list[Finding]:
    """Check that existing numbers, history, votes, and texts under vote did not change."""
    now = {flip.number: flip for flip in after}
    found = []
    for old in before:
        if (new := now.get(old.number)) is None:
            found.append(Finding(old.name, "was removed; numbers are never reused"))
        else:
            found += [Finding(new.name, what) for what in _changed(old, new)]
    return found


def _changed(old: Flip, new: Flip) -> Iterator[str]:
    kept = len(old.header.history)
    if new.header.history[:kept] != old.header.history:
        yield "its history was changed; only new events may be added"
    if new.votes[: len(old.votes)] != old.votes:
        yield "votes were changed or removed; only new votes may be added"
    if new.header.author != old.header.author:
        yield f"its author was changed; it was {old.header.author}"
    if old.header.sponsor not in {None, new.header.sponsor}:
        yield f"its sponsor was changed; it was {old.header.sponsor}"
    added = {event.status for event in new.header.history[kept:]}
    is_reopened = old.header.status is Status.VOTE and Status.DISCUSSION in added
    if is_reopened or old.header.status in {Status.DRAFT, Status.DISCUSSION}:
        return
    if (old.name, old.body, old.header.connector, old.header.supersedes) != (
        new.name, new.body, new.header.connector, new.header.supersedes
    ):  # fmt: skip
        if old.header.status is Status.VOTE:
            yield "was changed while a vote is open; return it to discussion first"
        else:
            yield f"was changed, but is {old.header.status}; write a new one that supersedes it"


def unsigned(repository: Repository, base: str) -> list[Finding]:
    """Return the commits on proposals since a base without the author's Signed-off-by."""
    form = "%h%x00%ae%x00%s%x00%(trailers:key=Signed-off-by,valueonly,separator=%x2C)%x1e"
    said = run(
        "log", "--no-merges", "--reverse", f"--format={form}", f"{base}..HEAD", "--", FLIPS,
        folder=repository.root,
    ).decode(errors="replace")  # fmt: skip
    found = []
    for commit in said.split("\x1e")[:-1]:
        short, author, subject, trailers = commit.strip("\n").split("\0")
        if author.lower() not in {each.lower() for each in _ADDRESS.findall(trailers)}:
            what = f"{subject!r} has no line `Signed-off-by: ... <{author}>`; use `git commit -s`"
            found.append(Finding(f"commit {short}", what))
    return found
