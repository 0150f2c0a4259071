# SPDX-License-Identifier: Apache-2.0
"""The front matter of a proposal, its votes, and the rules."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping
from typing import Annotated, Final, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    StringConstraints,
    model_validator,
)

from connector_release_tools.maintainers import Handle, Person

__all__ = [
    "NEXT",
    "Choice",
    "ConnectorPlan",
    "DiscussionRules",
    "Event",
    "Header",
    "RuleBook",
    "Rules",
    "Status",
    "Vote",
    "VoteRules",
    "Votes",
]


class Status(enum.StrEnum):
    """The status of a proposal."""

    DRAFT = "draft"
    DISCUSSION = "discussion"
    VOTE = "vote"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"

    @property
    def is_final(self) -> bool:
        """Whether the text of the proposal is final."""
        return self not in _OPEN


_OPEN: Final = {Status.DRAFT, Status.DISCUSSION, Status.VOTE}

# The allowed transitions. A vote that returns to discussion is void.
NEXT: Final[Mapping[Status, frozenset[Status]]] = {
    Status.DRAFT: frozenset({Status.DISCUSSION, Status.WITHDRAWN, Status.EXPIRED}),
    Status.DISCUSSION: frozenset({Status.VOTE, Status.WITHDRAWN, Status.EXPIRED}),
    Status.VOTE: frozenset(
        {Status.ACCEPTED, Status.REJECTED, Status.WITHDRAWN, Status.EXPIRED, Status.DISCUSSION}
    ),
    Status.ACCEPTED: frozenset({Status.SUPERSEDED}),
    Status.REJECTED: frozenset(),
    Status.WITHDRAWN: frozenset(),
    Status.EXPIRED: frozenset(),
    Status.SUPERSEDED: frozenset(),
}


class Choice(enum.StrEnum):
    """A vote."""

    FOR = "+1"
    NEITHER = "0"
    AGAINST = "-1"
    VETO = "veto"


def _quoted(found: object) -> object:
    if isinstance(found, int):
        raise ValueError(f'{found} is a number; quote it, as in "+1"')
    return found


_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Number = Annotated[int, Field(ge=1, le=9999)]
_Count = Annotated[int, Field(ge=1)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Event(_Entry):
    """A change of status.

    Attributes:
        status: The new one.
        at: When.
        by: Who recorded it.
        reason: Why, where that needs saying.
    """

    status: Status
    at: AwareDatetime
    by: Handle
    reason: _Text | None = None


class ConnectorPlan(_Entry):
    """The connector that a proposal asks for: answers to the questions of the template.

    What the template would refuse is refused here, before anybody votes on it.

    Attributes:
        name: The external system; `pulsar` gives connector-pulsar.
        description: What it connects, in one line.
        source: Whether it reads.
        sink: Whether it writes.
    """

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=20)]
    description: Annotated[str, StringConstraints(pattern=r'^[^"\\\n]*[^"\\\s][^"\\\n]*$')]
    source: bool
    sink: bool

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if not (self.source or self.sink):
            raise ValueError("a connector has a source, a sink or both")
        return self


class Header(_Entry):
    """The front matter of a proposal.

    Attributes:
        author: Who proposes, and alone may withdraw.
        status: Where it stands; the same as the last of the history.
        history: Every change of status, the oldest first.
        connector: The connector that it asks for, if it does.
        sponsor: The maintainer who will look after that connector.
        supersedes: The accepted proposal in whose place this one comes.
        superseded_by: The accepted proposal that came in its place.
    """

    author: Handle
    status: Status
    history: tuple[Event, ...] = Field(min_length=1)
    connector: ConnectorPlan | None = None
    sponsor: Person | None = None
    supersedes: _Number | None = None
    superseded_by: _Number | None = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        last = self.history[-1].status
        if self.status is not last:
            raise ValueError(f"status is {self.status}, but the history ends with {last}")
        if (self.superseded_by is not None) is not (last is Status.SUPERSEDED):
            raise ValueError("superseded_by is for a superseded proposal, and needed there")
        return self


class Vote(_Entry):
    """One vote of one person; a later one of the same person takes its place.

    Attributes:
        voter: Who votes.
        vote: What. A veto is a -1 that stops the proposal until it is withdrawn.
        at: When.
        reason: Why; a veto needs a technical one.
    """

    voter: Person
    vote: Annotated[Choice, BeforeValidator(_quoted)]
    at: AwareDatetime
    reason: _Text | None = None

    @model_validator(mode="after")
    def _says_why(self) -> Self:
        if self.vote is Choice.VETO and self.reason is None:
            raise ValueError(f"the veto of {self.voter} has no technical reason")
        return self


class Votes(_Entry):
    """The votes on a proposal, the oldest first.

    Attributes:
        votes: All that were ever cast.
    """

    votes: tuple[Vote, ...] = ()


class DiscussionRules(_Entry):
    """Rules before a vote.

    Attributes:
        days: How long a proposal is discussed; less needs a reason.
        expires_after_days: When a proposal without a vote may be recorded as expired.
    """

    days: _Count
    expires_after_days: _Count


class VoteRules(_Entry):
    """What holds for a vote.

    Attributes:
        binding_approvals: How many binding +1 it takes.
        binding_margin: How many more binding +1 than binding -1.
        open_hours: For how long it is open at least.
        expires_after_days: When it is over without a result.
    """

    binding_approvals: _Count
    binding_margin: _Count
    open_hours: _Count
    expires_after_days: _Count

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.expires_after_days * 24 <= self.open_hours:
            raise ValueError("a vote must expire later than it may be decided")
        return self


class Rules(_Entry):
    """The rules from one day on.

    Attributes:
        since: The day.
        sections: What every proposal says, in this order: headings, and what stands under each.
        discussion: What holds before a vote.
        vote: What holds for one.
    """

    since: datetime.date
    sections: Mapping[_Text, _Text] = Field(min_length=1)
    discussion: DiscussionRules
    vote: VoteRules


class RuleBook(RootModel[tuple[Rules, ...]]):
    """All rules that ever held; what was decided is judged by those of its day."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="after")
    def _is_ordered(self) -> Self:
        days = [rules.since for rules in self.root]
        if not days or days != sorted(set(days)):
            raise ValueError("rules stand one after the other, the oldest first")
        return self

    def on(self, at: datetime.datetime) -> Rules:
        """The rules of a day; before the first, the first."""
        held = [rules for rules in self.root if rules.since <= at.astimezone(datetime.UTC).date()]
        return held[-1] if held else self.root[0]
