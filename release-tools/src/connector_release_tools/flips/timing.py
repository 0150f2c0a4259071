# SPDX-License-Identifier: Apache-2.0
"""Checks that a step is possible now, and not only at the time that it claims.

Only the merge shows when a step happened. A period therefore begins when its step arrives in the
target branch. A step also counts at the time of its check, which is the last one before its merge.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from connector_release_tools.errors import FlipError, HistoryError
from connector_release_tools.flips.document import Document, Flip
from connector_release_tools.flips.folder import FLIPS
from connector_release_tools.flips.lifecycle import Judge, describe
from connector_release_tools.flips.model import Event, Status
from connector_release_tools.flips.steps import Step
from connector_release_tools.git import Repository
from connector_release_tools.votes.tally import Outcome, outdated

__all__ = ["landed", "untimely"]

# A vote ends a fixed time after its opening, so an old date would shorten it.
_FRESH: Final = datetime.timedelta(days=1)


def untimely(step: Step, judge: Judge, repository: Repository, base: str) -> Iterator[str]:
    """Return why a step of a proposal in the target branch is not possible now.

    Args:
        step: The step.
        judge: The rules and people of the target branch, with the current time.
        repository: The clone.
        base: The target branch.

    Raises:
        HistoryError: The clone does not have the history of the target branch.
    """
    for event in step.events:
        if judge.rules.on(event.at) != judge.rules.on(judge.now):
            yield f"{event.status}: dated {event.at:%Y-%m-%d}, when other rules applied than today"
        if event.status is Status.VOTE and event.at < judge.now - _FRESH:
            yield (
                f"the vote opens on {event.at:%Y-%m-%d}, and part of its time has passed: undo it, "
                "and run the command again"
            )
    if step.votes:
        yield from _late(step, judge)
    if step.old is None or not step.events:
        return
    before, event = step.old.header.history[-1], step.events[0]
    if event.status is Status.VOTE and before.status is Status.DISCUSSION:
        days = judge.rules.on(event.at).discussion.days
        begun = landed(repository, base, step.old, judge.now)
        if event.reason is None and event.at < begun + datetime.timedelta(days=days):
            yield (
                f"the vote opens too early: the discussion was merged on {begun:%Y-%m-%d}, and the "
                f"rules require {days} days or a reason"
            )
    elif event.status in {Status.ACCEPTED, Status.REJECTED} and before.status is Status.VOTE:
        yield from _result(
            step, before, event, judge, landed(repository, base, step.old, judge.now)
        )


def _late(step: Step, judge: Judge) -> Iterator[str]:
    old = step.old
    if old is None or old.header.status is not Status.VOTE:
        status = old.header.status if old else "not there"
        yield f"has new votes, but is {status} in the target branch: no vote is open; remove them"
        return
    if not judge.is_open(old):
        yield "has new votes, but its vote is over: a vote counts when it is merged; remove them"
    for vote in step.votes:
        yield from outdated(vote, judge.maintainers, judge.now)


def _result(
    step: Step, opened: Event, event: Event, judge: Judge, begun: datetime.datetime
) -> Iterator[str]:
    decidable = judge.rules.on(opened.at).vote.decidable(begun)
    if event.at < decidable:
        yield (
            f"{event.status} too early: the vote was merged at {begun:%Y-%m-%d %H:%M} UTC; record "
            f"the result from {decidable:%Y-%m-%d %H:%M} UTC"
        )
    counted = judge.count(step.flip, opened, judge.now)
    if counted.outcome is not Outcome(event.status):
        yield f"{event.status} now: {describe(counted)}"


def landed(
    repository: Repository, base: str, flip: Flip, now: datetime.datetime
) -> datetime.datetime:
    """Return when the last event of a proposal arrived in the target branch.

    Args:
        repository: The clone.
        base: The target branch.
        flip: The proposal in the target branch.
        now: The current time.

    Raises:
        HistoryError: The clone does not have the history of the target branch.
    """
    if repository.is_shallow():
        raise HistoryError(
            "the clone is shallow, so the time of a merge is unknown",
            hint="run `git fetch --unshallow`",
        )
    files = f":(glob){FLIPS}/{flip.number:04}-*.md"
    commits = repository.landings(base, files, now=int(now.timestamp()))
    arrived = commits[-1][1]
    for commit, seconds in reversed(commits):
        if _events(repository, commit, flip.number) < len(flip.header.history):
            break
        arrived = seconds
    return datetime.datetime.fromtimestamp(arrived, datetime.UTC)


def _events(repository: Repository, commit: str, number: int) -> int:
    """Return the number of events of a proposal in a commit; 0 if it cannot be read there."""
    for entry in repository.contents(commit, FLIPS):
        path = Path(entry.path)
        if entry.is_file and path.name.startswith(f"{number:04}-"):
            try:
                text = repository.blob(entry.oid).decode()
                return len(Document.parse(path, text).header["history"])
            except (FlipError, KeyError, TypeError, UnicodeDecodeError):
                return 0
    return 0
