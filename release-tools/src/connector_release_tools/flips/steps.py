# SPDX-License-Identifier: Apache-2.0
"""The steps that a change records: new events and votes, and the people who show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from connector_release_tools.flips.document import Flip
from connector_release_tools.flips.folder import FLIPS
from connector_release_tools.flips.model import Event, Status
from connector_release_tools.votes.evidence import Evidence
from connector_release_tools.votes.model import Vote

__all__ = ["Step", "amount", "scope", "steps", "unproven"]


@dataclass(frozen=True)
class Step:
    """The new records of one proposal.

    Attributes:
        flip: The proposal after the change.
        old: The proposal before it; None if it is new.
    """

    flip: Flip
    old: Flip | None

    @property
    def events(self) -> tuple[Event, ...]:
        """The new events."""
        return self.flip.header.history[len(self.old.header.history) if self.old else 0 :]

    @property
    def votes(self) -> tuple[Vote, ...]:
        """The new votes."""
        return self.flip.votes[len(self.old.votes) if self.old else 0 :]

    @property
    def sponsor(self) -> str | None:
        """The new sponsor, if there is one."""
        was = self.old.header.sponsor if self.old else None
        return self.flip.header.sponsor if self.flip.header.sponsor != was else None

    def __str__(self) -> str:
        words = [str(event.status) for event in self.events]
        words += [f"{vote.vote} of {vote.voter}" for vote in self.votes]
        return f"{self.flip}: {', '.join(words)}"


def steps(before: Iterable[Flip], after: Iterable[Flip]) -> list[Step]:
    """Return the proposals with new events, votes, or a new sponsor."""
    were = {flip.number: flip for flip in before}
    found = [Step(flip, were.get(flip.number)) for flip in after]
    return [step for step in found if step.events or step.votes or step.sponsor]


def amount(taken: Sequence[Step]) -> Iterator[str]:
    """Return a sentence if a change takes more than one step.

    One step is one event, or votes on one proposal. The acceptance of a proposal and the end of
    the one that it supersedes are one step, because neither is valid without the other.
    """
    told = [step for step in taken if step.events or step.votes]
    count = sum(len(step.events) + bool(step.votes) for step in told)
    if count > 1 and not _is_succession(told):
        said = "; ".join(map(str, told))
        yield f"takes {count} steps ({said}): make a pull request for each, one after the other"


def _is_succession(taken: Sequence[Step]) -> bool:
    moved = {step.events[0].status: step for step in taken if len(step.events) == 1}
    new, old = moved.get(Status.ACCEPTED), moved.get(Status.SUPERSEDED)
    return (
        len(taken) == 2
        and new is not None
        and old is not None
        and not (new.votes or old.votes)
        and new.flip.header.supersedes == old.flip.number
    )


def scope(taken: Sequence[Step], changed: Iterable[str]) -> Iterator[str]:
    """Return a sentence if a change takes a step and also changes something else."""
    told = [step for step in taken if step.events or step.votes]
    flips = [flip for step in told for flip in (step.flip, step.old) if flip is not None]
    own = {f"{FLIPS}/{name}" for flip in flips for name in (flip.name, flip.votes_name)}
    if told and (others := sorted(set(changed) - own)):
        shown = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        said = "; ".join(map(str, told))
        yield f"takes a step ({said}), and also changes {shown}: make two pull requests"


def unproven(step: Step, evidence: Evidence) -> Iterator[str]:
    """Return the records of a step that nothing shows to be true."""
    for event in step.events:
        yield from (f"{event.status}: {doubt}" for doubt in evidence.doubts(event.by, event.at))
    for vote in step.votes:
        said = f"{vote.vote} of {vote.voter}"
        yield from (f"{said}: {doubt}" for doubt in evidence.doubts(vote.voter, vote.at))
    if step.sponsor is not None:
        yield from (f"sponsor: {doubt}" for doubt in evidence.doubts(step.sponsor))
