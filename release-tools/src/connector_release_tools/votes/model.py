# SPDX-License-Identifier: Apache-2.0
"""A vote, and the rules for counting votes, whatever they are about."""

from __future__ import annotations

import datetime
import enum
from typing import Annotated, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from connector_release_tools.maintainers import Person

__all__ = ["Choice", "Vote", "VoteRules"]


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


_Count = Annotated[int, Field(ge=1)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Vote(_Entry):
    """A vote of one person; a later vote of the same person replaces it.

    Attributes:
        voter: The voter.
        vote: The choice. A veto is a -1 that stops the subject until the voter withdraws it.
        at: The time.
        reason: The reason; a veto needs a technical one.
    """

    voter: Person
    vote: Annotated[Choice, BeforeValidator(_quoted)]
    at: AwareDatetime
    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)] | None = None

    @model_validator(mode="after")
    def _says_why(self) -> Self:
        if self.vote is Choice.VETO and self.reason is None:
            raise ValueError(f"the veto of {self.voter} has no technical reason")
        return self


class VoteRules(_Entry):
    """Rules for a vote.

    Attributes:
        binding_approvals: The minimum number of binding +1.
        binding_margin: The minimum lead of binding +1 over binding -1.
        open_hours: The minimum time that a vote is open.
        expires_after_days: The days after which it ends without a result.
    """

    binding_approvals: _Count
    binding_margin: _Count
    open_hours: _Count
    expires_after_days: _Count

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.expires_after_days * 24 <= self.open_hours:
            raise ValueError("a vote must stay open until after it may be decided")
        return self

    def decidable(self, opened: datetime.datetime) -> datetime.datetime:
        """Return the earliest time of a result of a vote."""
        return opened + datetime.timedelta(hours=self.open_hours)

    def expires(self, opened: datetime.datetime) -> datetime.datetime:
        """Return the last time of a vote and of its result."""
        return opened + datetime.timedelta(days=self.expires_after_days)
