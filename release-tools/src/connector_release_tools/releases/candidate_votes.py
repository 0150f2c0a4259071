# SPDX-License-Identifier: Apache-2.0
"""Votes on release candidates: `releases/candidates/<name>.yaml`, one file for each candidate.

The votes are counted as those on a proposal, with the rules of `flips/rules.yaml`. A release has no
veto. Opening the vote on the next candidate of a release ends the vote on the one before.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Final, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict

from connector_release_tools.errors import HistoryError, ReleaseError
from connector_release_tools.flips.folder import Flips, at_commit
from connector_release_tools.git import Repository
from connector_release_tools.maintainers import Person
from connector_release_tools.releases.record import RELEASES, Record, quoted
from connector_release_tools.releases.staged_candidate import StagedCandidate
from connector_release_tools.template.files import Change, File, read
from connector_release_tools.votes.model import Choice, Vote
from connector_release_tools.votes.tally import Outcome, Tally, tally
from connector_release_tools.yaml_text import dump, load_plain, validated

__all__ = [
    "CANDIDATES",
    "CandidateVote",
    "cast",
    "count",
    "newest",
    "open_vote",
    "require_accepted",
    "votes_at",
]

CANDIDATES: Final = f"{RELEASES}/candidates"
_AT_THE_BEGINNING: Final = (
    'rehearse the release without --upload; see "At the beginning" in FLIP-PROCESS.md'
)


class CandidateVote(BaseModel):
    """The vote on a release candidate.

    Attributes:
        candidate: The candidate. The vote is about these files.
        opened: The time at which the vote was opened; it counts from its merge.
        by: The person who opened it.
        votes: All votes ever cast, oldest first.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    candidate: StagedCandidate
    opened: AwareDatetime
    by: Person
    votes: tuple[Vote, ...] = ()

    @classmethod
    def parse(cls, path: str, text: str) -> Self:
        """Parse the text of a file.

        Raises:
            ReleaseError: The text is invalid, or the file is named after another candidate.
        """
        document = load_plain(text, name=path, error=ReleaseError)
        made = validated(cls, document, name=path, error=ReleaseError)
        if made.path != path:
            raise ReleaseError(f"{path} contains {made.candidate.name}", hint="rename the file")
        return made

    @property
    def path(self) -> str:
        """The path of its file."""
        return f"{CANDIDATES}/{self.candidate.name}.yaml"

    def text(self) -> str:
        """Return the text of its file."""
        return dump(quoted(self.model_dump(mode="json", exclude_none=True)))


def votes_at(repository: Repository, revision: str) -> Iterator[CandidateVote]:
    """Return the votes on all candidates in a commit.

    Raises:
        ReleaseError: A file is invalid.
    """
    for entry in repository.contents(revision, CANDIDATES):
        if not entry.is_file:
            raise ReleaseError(f"{entry.path} is not a regular file", hint="remove it")
        yield CandidateVote.parse(entry.path, repository.blob(entry.oid).decode(errors="replace"))


def newest(votes: Sequence[CandidateVote], release: str) -> CandidateVote | None:
    """Return the vote on the newest candidate of a release; None if there is none."""
    own = [each for each in votes if each.candidate.release.name == release]
    return max(own, key=lambda each: each.candidate.number, default=None)


def open_vote(
    repository: Repository, flips: Flips, candidate: StagedCandidate, *, by: str,
    now: datetime.datetime,
) -> Change:  # fmt: skip
    """Open the vote on a staged candidate.

    Raises:
        ReleaseError: The vote cannot be opened.
    """
    needed = flips.rules.on(now).vote.binding_approvals
    voters = flips.maintainers.binding_voters(now.date())
    if len(voters) < needed:
        raise ReleaseError(
            f"{len(voters)} people have a binding vote, and a release needs {needed} binding +1",
            hint=_AT_THE_BEGINNING,
        )
    if candidate.key is None:
        raise ReleaseError(
            f"{candidate.name} is not signed", hint="stage it again, without --unsigned"
        )
    last = newest(list(votes_at(repository, "HEAD")), candidate.release.name)
    if last is not None and last.candidate.number >= candidate.number:
        raise ReleaseError(
            f"{last.candidate.name} has had a vote",
            hint=f"stage the next candidate: --rc {last.candidate.number + 1}",
        )
    said = {"candidate": candidate, "opened": now, "by": by}
    return _change(repository, validated(CandidateVote, said, name="vote", error=ReleaseError))


def cast(
    repository: Repository, flips: Flips, name: str, vote: Vote, *, now: datetime.datetime
) -> Change:
    """Vote on a candidate.

    Raises:
        ReleaseError: No vote on the candidate is open, or the vote is a veto.
    """
    if vote.vote is Choice.VETO:
        raise ReleaseError("a release has no veto", hint="vote -1, and say what must change")
    found = list(votes_at(repository, "HEAD"))
    own = next((each for each in found if each.candidate.name == name), None)
    if own is None:
        raise ReleaseError(
            f"HEAD has no vote on {name}", hint="open one: release-tools release vote open"
        )
    if own is not newest(found, own.candidate.release.name):
        raise ReleaseError(f"the vote on {name} ended when that on the next candidate was opened")
    if (counted := count(repository, flips, own, now=now)).outcome is Outcome.EXPIRED:
        raise ReleaseError(f"the vote on {name} ended at {counted.expires:%Y-%m-%d %H:%M} UTC")
    if (before := read(repository.root / own.path)) is not None:
        own = CandidateVote.parse(own.path, before.content.decode())
    return _change(repository, own.model_copy(update={"votes": (*own.votes, vote)}))


def count(
    repository: Repository,
    flips: Flips,
    vote: CandidateVote,
    *,
    now: datetime.datetime,
    revision: str = "HEAD",
) -> Tally:
    """Count the votes on a candidate.

    Args:
        repository: The repository.
        flips: The rules, and the people with binding votes.
        vote: The vote.
        now: The current time.
        revision: The branch; the vote opened when its file arrived there.

    Raises:
        HistoryError: The history of the branch does not tell when the vote opened.
    """
    arrived = repository.landings(revision, vote.path, now=int(now.timestamp()))
    if not arrived or repository.is_shallow():
        raise HistoryError(
            f"the history does not tell when the vote on {vote.candidate.name} opened",
            hint="commit its file, or run `git fetch --unshallow`",
        )
    opened = datetime.datetime.fromtimestamp(arrived[0][1], datetime.UTC)
    return tally(
        vote.votes,
        opened=min(opened, now),
        maintainers=flips.maintainers,
        rules=flips.rules.on(opened).vote,
        now=now,
    )


def require_accepted(repository: Repository, record: Record, *, now: datetime.datetime) -> str:
    """Return the candidate of a release that was accepted, with exactly these files.

    Args:
        repository: The repository. Only what HEAD contains counts.
        record: The verified release.
        now: The current time.

    Raises:
        ReleaseError: No vote has accepted these files.
        HistoryError: The history of HEAD does not tell when the vote opened.
    """
    with at_commit(repository, "HEAD") as flips:
        last = newest(list(votes_at(repository, "HEAD")), record.name)
        if last is None:
            raise ReleaseError(
                f"no one has voted on {record.name}",
                hint="open a vote on a candidate: release-tools release vote open; "
                f"until then, {_AT_THE_BEGINNING}",
            )
        counted = count(repository, flips, last, now=now)
    name = last.candidate.name
    if counted.outcome is not Outcome.ACCEPTED:
        missing = "; ".join(counted.missing) or f"it may be decided from {counted.decidable}"
        raise ReleaseError(f"the vote on {name} is {counted.outcome}: {missing}")
    if last.candidate.release != record.model_copy(update={"released": None}):
        raise ReleaseError(
            f"{name} was accepted with other files than those that were verified",
            hint="build, verify, and stage the commit of the candidate, or vote on the next one",
        )
    return name


def _change(repository: Repository, vote: CandidateVote) -> Change:
    return Change(vote.path, read(repository.root / vote.path), File(vote.text().encode()))
