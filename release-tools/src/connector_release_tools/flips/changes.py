# SPDX-License-Identifier: Apache-2.0
"""Changes to proposals: validated in memory; the caller writes them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ruamel.yaml.comments import CommentedMap

from connector_release_tools.errors import FlipError
from connector_release_tools.flips.document import Document, Flip, VotesDocument, votes_path
from connector_release_tools.flips.folder import FLIPS, Flips
from connector_release_tools.flips.lifecycle import Judge
from connector_release_tools.flips.model import ConnectorPlan, Event, Status, Vote
from connector_release_tools.template.files import Change, File, read

__all__ = ["cast", "move", "propose", "supersede"]


def propose(
    flips: Flips,
    judge: Judge,
    *,
    title: str,
    event: Event,
    connector: ConnectorPlan | None = None,
    supersedes: int | None = None,
) -> Change:
    """A new draft with the next number, and the sections that are to be filled.

    Raises:
        FlipError: It cannot be called so, or what it supersedes was not accepted.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    if not slug:
        raise FlipError(f"{title!r} has no letters to name a file by")
    number = flips.next_number()
    header: dict[str, Any] = CommentedMap({"author": event.by, "status": "", "history": []})
    if connector is not None:
        header["connector"] = connector.model_dump()
    if supersedes is not None:
        old = Flip.read(flips.document(supersedes).path)
        if old.header.status is not Status.ACCEPTED:
            raise FlipError(f"{old} is {old.header.status}; only what is accepted is superseded")
        header["supersedes"] = supersedes
    sections = flips.rules.on(event.at).sections
    body = f"\n# FLIP {number:04}: {title.strip()}\n" + "".join(
        f"\n## {name}\n\n<!-- {what} -->\n" for name, what in sections.items()
    )
    document = Document(flips.folder / f"{number:04}-{slug}.md", number, header, body)
    document.add(event)
    _hold(document, VotesDocument.read(votes_path(document.path)), judge)
    return _change(document.path, document.text())


def move(flips: Flips, judge: Judge, number: int, event: Event) -> Change:
    """Change the status of a proposal.

    Raises:
        FlipError: The rules are against it.
    """
    document = flips.document(number)
    document.add(event)
    _hold(document, VotesDocument.read(votes_path(document.path)), judge)
    return _change(document.path, document.text())


def supersede(flips: Flips, judge: Judge, old: int, new: int, event: Event) -> Change:
    """Let an accepted proposal supersede another.

    Raises:
        FlipError: The other one is not accepted, or does not say that it supersedes this one.
    """
    successor = Flip.read(flips.document(new).path)
    if successor.header.status is not Status.ACCEPTED or successor.header.supersedes != old:
        raise FlipError(
            f"{successor} is {successor.header.status} and supersedes "
            f"{successor.header.supersedes or 'nothing'}",
            hint=f"the successor is accepted, and has `supersedes: {old}` in its front matter",
        )
    document = flips.document(old)
    document.add(event)
    document.header["superseded_by"] = new
    _hold(document, VotesDocument.read(votes_path(document.path)), judge)
    return _change(document.path, document.text())


def cast(flips: Flips, judge: Judge, number: int, vote: Vote) -> Change:
    """Record a vote.

    Raises:
        FlipError: No vote is open.
    """
    document = flips.document(number)
    votes = VotesDocument.read(votes_path(document.path))
    votes.add(vote)
    _hold(document, votes, judge)
    return _change(votes.path, votes.text())


def _hold(document: Document, votes: VotesDocument, judge: Judge) -> None:
    if breaches := judge.breaches(Flip.of(document, votes)):
        raise FlipError(
            f"{document.path.name} would not be by the rules: {'; '.join(breaches)}",
            hint="FLIP-PROCESS.md says what may follow what",
        )


def _change(path: Path, text: str) -> Change:
    return Change(f"{FLIPS}/{path.name}", read(path), File(text.encode()))
