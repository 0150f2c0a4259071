# SPDX-License-Identifier: Apache-2.0
"""Checks what a change does to the votes on release candidates, as its target branch sees it."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

from connector_release_tools.flips.folder import Flips, at_commit
from connector_release_tools.git import Repository
from connector_release_tools.releases.candidate_votes import (
    CANDIDATES,
    CandidateVote,
    count,
    newest,
    votes_at,
)
from connector_release_tools.releases.findings import Finding
from connector_release_tools.review.pull_request import PullRequest
from connector_release_tools.votes.change import Change
from connector_release_tools.votes.evidence import Evidence, unsigned
from connector_release_tools.votes.model import Choice, Vote
from connector_release_tools.votes.tally import Outcome, outdated

__all__ = ["check_change"]


def check_change(
    repository: Repository, target: str, pull_request: PullRequest | None, now: datetime.datetime
) -> list[Finding]:
    """Check the new votes of a change with the rules and people of its target branch.

    Args:
        repository: The clone.
        target: The target branch.
        pull_request: The change as the forge describes it: its head is checked. Without it, HEAD is
            checked as git describes it.
        now: The current time.

    Returns:
        The findings.

    Raises:
        HistoryError: A commit is missing from the clone.
        ReleaseToolsError: Rules, maintainers, or votes cannot be read.
    """
    change = Change.of(repository, target, pull_request)
    files = change.files()
    if not any(path.startswith(f"{CANDIDATES}/") for path in files):
        return []
    if not change.is_current:
        what = f"the change lacks the newest commit of {target}"
        return [Finding(what, "merge or rebase, then check it again")]
    work = change.work(CANDIDATES)
    with at_commit(repository, change.base) as flips:
        evidence = change.evidence(work, flips.maintainers, now)
        before = tuple(votes_at(repository, change.base))
        after = tuple(votes_at(repository, change.head))
        compared = _Comparison(repository, change.base, flips, evidence, before, after, now)
        return [*compared.findings(), *map(Finding, unsigned(work)), *_scope(files)]


@dataclass(frozen=True)
class _Comparison:
    repository: Repository
    base: str
    flips: Flips
    evidence: Evidence
    before: tuple[CandidateVote, ...]
    after: tuple[CandidateVote, ...]
    now: datetime.datetime

    def findings(self) -> Iterator[Finding]:
        were = {vote.path: vote for vote in self.before}
        for path in sorted({*were} - {vote.path for vote in self.after}):
            yield Finding(f"{path} was removed", "restore it; votes are never removed")
        for vote in self.after:
            old = were.get(vote.path)
            if old is None:
                yield from self._opened(vote)
            elif old != vote:
                yield from self._voted(old, vote)

    def _opened(self, vote: CandidateVote) -> Iterator[Finding]:
        if vote.votes:
            yield Finding(f"{vote.path} is new, and has votes", "vote after it is merged")
        last = newest(self.before, vote.candidate.release.name)
        if last is not None and last.candidate.number > vote.candidate.number:
            yield Finding(
                f"{vote.path}: {last.candidate.name} has had a vote", "stage the next one"
            )
        if vote.candidate.key is None:
            yield Finding(f"{vote.candidate.name} is not signed", "stage it again with a key")
        for doubt in self.evidence.doubts(vote.by, vote.opened):
            yield Finding(f"{vote.path}: {doubt}")

    def _voted(self, old: CandidateVote, vote: CandidateVote) -> Iterator[Finding]:
        kept = len(old.votes)
        if vote.model_copy(update={"votes": vote.votes[:kept]}) != old:
            yield Finding(f"{vote.path}: what was merged has changed", "only add votes")
            return
        if old is not newest(self.before, old.candidate.release.name):
            yield Finding(f"{vote.path}: a newer candidate has a vote", "vote on that one")
        counted = count(self.repository, self.flips, old, now=self.now, revision=self.base)
        if counted.outcome is Outcome.EXPIRED:
            yield Finding(f"{vote.path}: the vote is over", "remove the new votes")
        for each in vote.votes[kept:]:
            yield from self._vote(vote.path, each)

    def _vote(self, path: str, vote: Vote) -> Iterator[Finding]:
        said = f"{path}: {vote.vote} of {vote.voter}"
        if vote.vote is Choice.VETO:
            yield Finding(f"{said}: a release has no veto", "vote -1")
        for doubt in self.evidence.doubts(vote.voter, vote.at):
            yield Finding(f"{said}: {doubt}")
        for what in outdated(vote, self.flips.maintainers, self.now):
            yield Finding(f"{path}: {what}")


def _scope(changed: list[str]) -> Iterator[Finding]:
    """Return a finding if a change of one vote also changes another file."""
    own = [path for path in changed if path.startswith(f"{CANDIDATES}/")]
    if len(changed) > 1:
        others = ", ".join(path for path in changed if path != own[0])
        yield Finding(f"the change is about {own[0]}, and also changes {others}",
                      "make a pull request for each vote")  # fmt: skip
