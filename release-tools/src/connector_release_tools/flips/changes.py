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
from connector_release_tools.flips.model import ConnectorPlan, Event, Status
from connector_release_tools.template.files import Change, File, read
from connector_release_tools.votes.model import Vote

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
    """Create a draft with the next number and empty sections.

    Raises:
        FlipError: The title is invalid, or the proposal to supersede was not accepted.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    if not slug:
        raise FlipError(f"{title!r} has no letters for a file name")
    number = flips.next_number()
    header: dict[str, Any] = CommentedMap({"author": event.by, "status": "", "history": []})
    if connector is not None:
        header["connector"] = connector.answers
    if supersedes is not None:
        old = Flip.read(flips.document(supersedes).path)
        if old.header.status is not Status.ACCEPTED:
            raise FlipError(
                f"{old} is {old.header.status}; only an accepted proposal can be superseded"
            )
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
        FlipError: The rules forbid the change.
    """
    document = flips.document(number)
    document.add(event)
    _hold(document, VotesDocument.read(votes_path(document.path)), judge)
    return _change(document.path, document.text())


def supersede(flips: Flips, judge: Judge, old: int, new: int, event: Event) -> Change:
    """Mark a proposal as superseded by another.

    Raises:
        FlipError: The successor is not accepted, or its front matter does not list this proposal.
    """
    successor = Flip.read(flips.document(new).path)
    if successor.header.status is not Status.ACCEPTED or successor.header.supersedes != old:
        raise FlipError(
            f"{successor} is {successor.header.status} and supersedes "
            f"{successor.header.supersedes or 'nothing'}",
            hint=f"a successor is accepted and has `supersedes: {old}` in its front matter",
        )
    document = flips.document(old)
    document.add(event)
    document.header["superseded_by"] = new
    _hold(document, VotesDocument.read(votes_path(document.path)), judge)
    return _change(document.path, document.text())


def cast(flips: Flips, judge: Judge, number: int, vote: Vote) -> Change:
    """Record a vote.

    Raises:
        FlipError: The vote is not open.
    """
    document = flips.document(number)
    votes = VotesDocument.read(votes_path(document.path))
    votes.add(vote)
    _hold(document, votes, judge)
    return _change(votes.path, votes.text())


def _hold(document: Document, votes: VotesDocument, judge: Judge) -> None:
    if breaches := judge.breaches(Flip.of(document, votes)):
        raise FlipError(
            f"{FLIPS}/{document.path.name} would violate the rules: {'; '.join(breaches)}",
            hint="see the statuses and rules in FLIP-PROCESS.md",
        )


def _change(path: Path, text: str) -> Change:
    return Change(f"{FLIPS}/{path.name}", read(path), File(text.encode()))
