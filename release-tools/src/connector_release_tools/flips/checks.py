# SPDX-License-Identifier: Apache-2.0
"""Checks a pull request on proposals against the rules and the previous state."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from connector_release_tools.flips.document import Flip
from connector_release_tools.flips.finding import Finding
from connector_release_tools.flips.lifecycle import Judge
from connector_release_tools.flips.model import RuleBook, Status

__all__ = ["check", "compare", "rewritten_rules"]


def check(proposals: Sequence[Flip], judge: Judge) -> list[Finding]:
    """Check proposals against the rules, individually and together."""
    found = [Finding(flip.name, breach) for flip in proposals for breach in judge.breaches(flip)]
    by_number: dict[int, Flip] = {}
    for flip in proposals:
        other = by_number.setdefault(flip.number, flip)
        if other is not flip:
            found.append(Finding(flip.name, f"{other.name} has the same number"))
    for before, number in pairwise([0, *sorted(by_number)]):
        if number != before + 1:
            what = f"its number must be {before + 1:04}, the next one: rename it"
            found.append(Finding(by_number[number].name, what))
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
    is_same = _content(new) == _content(old)
    if new.header.status is Status.VOTE and Status.VOTE in added and not is_same:
        yield "the vote opens on another text than the discussed one; change the text first"
    is_reopened = old.header.status is Status.VOTE and Status.DISCUSSION in added
    if is_reopened or old.header.status in {Status.DRAFT, Status.DISCUSSION}:
        return
    if not is_same:
        if old.header.status is Status.VOTE:
            yield "was changed while a vote is open; return it to discussion first"
        else:
            yield f"was changed, but is {old.header.status}; write a new one that supersedes it"


def _content(flip: Flip) -> tuple[object, ...]:
    """Return what people vote on."""
    return flip.name, flip.body, flip.header.connector, flip.header.supersedes


def rewritten_rules(before: RuleBook, after: RuleBook, today: datetime.date) -> Iterator[str]:
    """Return the forbidden differences between the rules of the target branch and of a change."""
    were, are = ([rules.model_dump_json() for rules in book.root] for book in (before, after))
    if are[: len(were)] != were:  # as text, because the order of the sections counts too
        yield "existing rules were changed or removed; restore them, and add the new ones below"
    for rules in after.root[len(before.root) :]:
        if rules.since <= today:
            yield (
                f"new rules begin on {rules.since}: they can begin on "
                f"{today + datetime.timedelta(days=1)} or later, after they are merged"
            )
