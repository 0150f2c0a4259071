# SPDX-License-Identifier: Apache-2.0
"""Counts the votes on a proposal; a pure function of data."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from connector_release_tools.maintainers import Maintainers
from connector_release_tools.votes.model import Choice, Vote, VoteRules

__all__ = ["Outcome", "Tally", "outdated", "tally"]


class Outcome(enum.StrEnum):
    """The possible results of a vote."""

    OPEN = "open"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    EXPIRED = "expired"


@dataclass(frozen=True, kw_only=True)
class Tally:
    """The state of a vote.

    Attributes:
        outcome: The result that can be recorded now.
        decidable: The earliest time of a decision.
        expires: The last time of a result; later votes do not count either.
        binding: The last vote of each person with a binding vote.
        others: The last vote of each other person.
        missing: The unmet conditions of an acceptance; empty if there are none.
    """

    outcome: Outcome
    decidable: datetime.datetime
    expires: datetime.datetime
    binding: tuple[Vote, ...]
    others: tuple[Vote, ...]
    missing: tuple[str, ...]


def tally(
    votes: Iterable[Vote],
    *,
    opened: datetime.datetime,
    maintainers: Maintainers,
    rules: VoteRules,
    now: datetime.datetime,
) -> Tally:
    """Count the last vote of each person. It is binding if the person had a binding vote that day.

    Args:
        votes: All votes in any order; those before `opened` belong to an earlier, void vote.
        opened: The opening time of the vote.
        maintainers: The people with binding votes, with their terms.
        rules: The rules of the opening day.
        now: The current time; later votes are ignored.
    """
    decidable, expires = rules.decidable(opened), rules.expires(opened)
    end = min(now, expires)
    counted = sorted((vote for vote in votes if opened <= vote.at <= end), key=lambda it: it.at)
    last = {vote.voter: vote for vote in counted}
    binding = tuple(vote for vote in last.values() if _binds(vote, maintainers))
    others = tuple(vote for vote in last.values() if not _binds(vote, maintainers))

    approvals = sum(vote.vote is Choice.FOR for vote in binding)
    objections = sum(vote.vote in {Choice.AGAINST, Choice.VETO} for vote in binding)
    vetoes = [vote for vote in binding if vote.vote is Choice.VETO]
    missing = []
    if approvals < rules.binding_approvals:
        missing.append(f"{approvals} of {rules.binding_approvals} required binding +1")
    if not (enough := approvals - objections >= rules.binding_margin):
        missing.append(
            f"{approvals} binding +1 against {objections} binding -1: the lead must be "
            f"at least {rules.binding_margin}"
        )
    missing += [f"{vote.voter} has not withdrawn the veto: {vote.reason}" for vote in vetoes]

    if now > expires:
        outcome = Outcome.EXPIRED
    elif now < decidable:
        outcome = Outcome.OPEN
    elif not missing:
        outcome = Outcome.ACCEPTED
    elif vetoes or (objections >= rules.binding_approvals and not enough):
        outcome = Outcome.REJECTED
    else:
        outcome = Outcome.OPEN
    return Tally(
        outcome=outcome,
        decidable=decidable,
        expires=expires,
        binding=binding,
        others=others,
        missing=tuple(missing),
    )


def outdated(vote: Vote, maintainers: Maintainers, now: datetime.datetime) -> Iterator[str]:
    """Return a sentence if a new vote is binding, and one of today would not be, or the reverse."""
    today = vote.model_copy(update={"at": now})
    if _binds(vote, maintainers) != _binds(today, maintainers):
        yield (
            f"{vote.vote} of {vote.voter}: a binding vote began or ended after "
            f"{vote.at:%Y-%m-%d}: undo it, and run the command again"
        )


def _binds(vote: Vote, maintainers: Maintainers) -> bool:
    return vote.voter in maintainers.binding_voters(vote.at.astimezone(datetime.UTC).date())
