# SPDX-License-Identifier: Apache-2.0
"""Checks whether a proposal reached its status by the rules; a pure function of data."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from connector_release_tools.flips.document import Flip
from connector_release_tools.flips.model import NEXT, Event, RuleBook, Status
from connector_release_tools.maintainers import Maintainers, is_team
from connector_release_tools.votes.tally import Outcome, Tally, tally

__all__ = ["Judge", "describe"]


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Checks proposals against the rules.

    Attributes:
        maintainers: The people with binding votes, with their terms.
        rules: All rules, past and present.
        now: The current time.
    """

    maintainers: Maintainers
    rules: RuleBook
    now: datetime.datetime

    def breaches(self, flip: Flip) -> list[str]:
        """Return the violations of the rules, one sentence each."""
        return [
            *self._text(flip),
            *self._order(flip),
            *self._steps(flip),
            *self._votes(flip),
        ]

    def tally(self, flip: Flip) -> Tally | None:
        """Return the result of the last vote on a proposal; None if there was none."""
        for opened, closed in reversed(list(_windows(flip))):
            return self.count(flip, opened, closed.at if closed else self.now)
        return None

    def is_open(self, flip: Flip) -> bool:
        """Return whether a proposal accepts votes now."""
        last = flip.header.history[-1]
        return last.status is Status.VOTE and self.now <= self._end(last, None)

    def may_expire(self, flip: Flip) -> bool:
        """Return whether a proposal may be recorded as expired now."""
        last = flip.header.history[-1]
        return Status.EXPIRED in NEXT[last.status] and self._expired(flip, last, self.now)

    def count(self, flip: Flip, opened: Event, end: datetime.datetime) -> Tally:
        """Return the result that a vote has at a time."""
        return tally(
            flip.votes,
            opened=opened.at,
            maintainers=self.maintainers,
            rules=self.rules.on(opened.at).vote,
            now=end,
        )

    def _text(self, flip: Flip) -> Iterator[str]:
        if flip.title is None:
            yield f"expected one heading `# FLIP {flip.number:04}: Title`"
        wanted = list(self.rules.on(flip.header.history[0].at).sections)
        found = [name for name, _ in flip.text.sections]
        if found != wanted:
            yield f"expected the sections {', '.join(wanted)}; found {', '.join(found) or 'none'}"
        if flip.header.status is not Status.DRAFT:
            for name, filled in flip.text.sections:
                if name in wanted and not filled:
                    yield f"section {name} is empty"

    def _order(self, flip: Flip) -> Iterator[str]:
        history = flip.header.history
        if history[0].status is not Status.DRAFT:
            yield f"the history begins with {history[0].status}, expected {Status.DRAFT}"
        if history[0].by != flip.header.author:
            yield f"the author is {flip.header.author}, but the draft is by {history[0].by}"
        for name, times in (
            ("history", [event.at for event in history]),
            ("votes", [vote.at for vote in flip.votes]),
        ):
            for earlier, later in pairwise(times):
                if later < earlier:
                    yield f"{name}: {_when(later)} is listed after {_when(earlier)}"
            if times and max(times) > self.now:
                yield f"{name}: {_when(max(times))} is in the future"

    def _steps(self, flip: Flip) -> Iterator[str]:
        header = flip.header
        for before, event in pairwise(header.history):
            if event.status not in NEXT[before.status]:
                may = ", ".join(sorted(NEXT[before.status])) or "nothing"
                yield f"{event.status} after {before.status}: allowed are {may}"
            elif event.status is Status.VOTE:
                yield from self._opening(before, event)
            elif event.status is Status.WITHDRAWN:
                if not self._may_withdraw(header.author, event):
                    yield f"withdrawn by {event.by}: only the author, {header.author}, may withdraw"
                if event.reason is None:
                    yield "withdrawn without a reason"
            elif event.status in {Status.ACCEPTED, Status.REJECTED}:
                counted = self.count(flip, before, event.at)
                if counted.outcome is not Outcome(event.status):
                    yield f"{event.status} at {_when(event.at)}: {describe(counted)}"
            elif event.status is Status.EXPIRED and not self._expired(flip, before, event.at):
                yield f"expired at {_when(event.at)}: the deadline had not passed"
        if header.sponsor is not None and header.connector is None:
            yield "a sponsor is only allowed if the proposal asks for a connector"

    def _opening(self, discussion: Event, vote: Event) -> Iterator[str]:
        rules = self.rules.on(vote.at)
        took = vote.at - discussion.at
        if took < datetime.timedelta(days=rules.discussion.days) and vote.reason is None:
            yield (
                f"the vote was opened after {took.days} days of discussion: the rules require "
                f"{rules.discussion.days} days or a reason"
            )
        voters = self.maintainers.binding_voters(_day(vote.at))
        if len(voters) < rules.vote.binding_approvals:
            yield (
                f"the vote was opened with {len(voters)} binding voters: acceptance needs "
                f"{rules.vote.binding_approvals} binding +1"
            )

    def _may_withdraw(self, author: str, event: Event) -> bool:
        """Return whether a person is the author; anyone with a binding vote acts for a team."""
        if is_team(author) and not is_team(event.by):
            return event.by in self.maintainers.binding_voters(_day(event.at))
        return event.by == author

    def _expired(self, flip: Flip, before: Event, at: datetime.datetime) -> bool:
        if before.status is Status.VOTE:
            return self.count(flip, before, at).outcome is Outcome.EXPIRED
        days = self.rules.on(before.at).discussion.expires_after_days
        return at > before.at + datetime.timedelta(days=days)

    def _votes(self, flip: Flip) -> Iterator[str]:
        for vote in flip.votes:
            if not any(
                opened.at <= vote.at <= self._end(opened, closed)
                for opened, closed in _windows(flip)
            ):
                yield f"{vote.voter} voted at {_when(vote.at)}, when no vote was open"

    def _end(self, opened: Event, closed: Event | None) -> datetime.datetime:
        expires = self.rules.on(opened.at).vote.expires(opened.at)
        return min(closed.at, expires) if closed else expires


def describe(counted: Tally) -> str:
    """Describe the state of a vote in a sentence."""
    said = f"the vote is {counted.outcome}"
    if counted.outcome is Outcome.OPEN and not counted.missing:
        return f"{said}; it may be decided from {_when(counted.decidable)}"
    return "; ".join([said, *counted.missing])


def _windows(flip: Flip) -> Iterator[tuple[Event, Event | None]]:
    """Return the voting periods: the events that opened and ended each vote."""
    history = flip.header.history
    for index, event in enumerate(history):
        if event.status is Status.VOTE:
            yield event, history[index + 1] if index + 1 < len(history) else None


def _day(at: datetime.datetime) -> datetime.date:
    return at.astimezone(datetime.UTC).date()


def _when(at: datetime.datetime) -> str:
    return at.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
