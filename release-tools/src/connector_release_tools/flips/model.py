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
    ConfigDict,
    Field,
    RootModel,
    StringConstraints,
    model_validator,
)

from connector_release_tools.maintainers import Handle, Person
from connector_release_tools.template.questions import SinkKind
from connector_release_tools.votes.model import Vote, VoteRules

__all__ = [
    "NEXT",
    "ConnectorPlan",
    "DiscussionRules",
    "Event",
    "Header",
    "RuleBook",
    "Rules",
    "Status",
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


_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Number = Annotated[int, Field(ge=1, le=9999)]
_Count = Annotated[int, Field(ge=1)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Event(_Entry):
    """A change of status.

    Attributes:
        status: The new one.
        at: The time.
        by: The person who recorded it.
        reason: The reason, if the change needs one.
    """

    status: Status
    at: AwareDatetime
    by: Handle
    reason: _Text | None = None


class ConnectorPlan(_Entry):
    """The connector that a proposal asks for: the answers for the template.

    An answer of None leaves the question to the author, as older proposals do.

    Attributes:
        name: The external system; `pulsar` gives connector-pulsar.
        description: What it connects to, in one line.
        source: Whether it reads.
        sink: Whether it writes.
        sink_kind: How it writes.
        topologies: Whether steps run around its commits.
        lookup: Whether it has a table for lookup joins.
        table: Whether it serves tables in SQL.
        catalog: Whether it has a catalog of the system's tables.
        compaction: Whether its sink merges small outputs before their commit.
        changes: Whether its sink applies changes by key.
    """

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=20)]
    description: Annotated[str, StringConstraints(pattern=r'^[^"\\\n]*[^"\\\s][^"\\\n]*$')]
    source: bool
    sink: bool
    sink_kind: SinkKind | None = None
    topologies: bool | None = None
    lookup: bool | None = None
    table: bool | None = None
    catalog: bool | None = None
    compaction: bool | None = None
    changes: bool | None = None

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if not (self.source or self.sink or self.lookup):
            raise ValueError("a connector needs a source, a sink, or a lookup table")
        return self

    @property
    def answers(self) -> dict[str, str | bool]:
        """The answers for the template, without open questions."""
        return self.model_dump(mode="json", exclude_none=True)


class Header(_Entry):
    """The front matter of a proposal.

    Attributes:
        author: The author. Only the author may withdraw the proposal.
        status: The current status, which equals the last event of the history.
        history: Every change of status, oldest first.
        connector: The connector that it asks for, if any.
        sponsor: The maintainer who takes responsibility for that connector.
        supersedes: The accepted proposal that this one replaces.
        superseded_by: The accepted proposal that replaced it.
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
            raise ValueError(
                "superseded_by is required for a superseded proposal, and not allowed for others"
            )
        return self


class Votes(_Entry):
    """The votes on a proposal, oldest first.

    Attributes:
        votes: All votes ever cast.
    """

    votes: tuple[Vote, ...] = ()


class DiscussionRules(_Entry):
    """Rules for the discussion before a vote.

    Attributes:
        days: The minimum length of the discussion; a shorter one needs a reason.
        expires_after_days: The days after which a proposal without a vote may be recorded as
            expired.
    """

    days: _Count
    expires_after_days: _Count


class Rules(_Entry):
    """The rules that apply from a certain day.

    Attributes:
        since: The first day.
        sections: The required sections of a proposal in order: headings, and the expected contents.
        discussion: The rules for the discussion.
        vote: The rules for a vote.
    """

    since: datetime.date
    sections: Mapping[_Text, _Text] = Field(min_length=1)
    discussion: DiscussionRules
    vote: VoteRules


class RuleBook(RootModel[tuple[Rules, ...]]):
    """All rules, past and present; the rules of its day apply to a decision."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="after")
    def _is_ordered(self) -> Self:
        days = [rules.since for rules in self.root]
        if not days or days != sorted(set(days)):
            raise ValueError("rules must be in the order of their days, oldest first")
        return self

    def on(self, at: datetime.datetime) -> Rules:
        """Return the rules of a day; earlier days use the first rules."""
        held = [rules for rules in self.root if rules.since <= at.astimezone(datetime.UTC).date()]
        return held[-1] if held else self.root[0]
