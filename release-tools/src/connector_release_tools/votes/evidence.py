# SPDX-License-Identifier: Apache-2.0
"""The evidence that a person did what a record says, and its time, for records of any kind.

A file and a commit contain only claims: anyone can write a handle, a name, and a date. The forge
knows who opened a pull request and who approved it, and the target branch knows when a change
arrived. Without the forge, the e-mail address of a commit is all there is.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from connector_release_tools.git import Commit, Repository
from connector_release_tools.maintainers import MAINTAINERS, Maintainers, is_team
from connector_release_tools.review.approval import last_reviews
from connector_release_tools.review.pull_request import PullRequest, State

__all__ = ["Evidence", "of_commits", "of_pull_request", "unsigned"]

_ADDRESS: Final = re.compile(r"<([^<>]+)>")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The people who made or approved a change, and the time in which they can have made it.

    Attributes:
        source: Where this is known from, for messages.
        people: Their handles.
        remedy: What a person does who is missing.
        earliest: The earliest time that a new record may have.
        latest: The latest one: now.
    """

    source: str
    people: Collection[str]
    remedy: str
    earliest: datetime.datetime
    latest: datetime.datetime

    def doubts(self, handle: str, at: datetime.datetime | None = None) -> Iterator[str]:
        """Return what is wrong with a record of this change, one sentence each.

        Args:
            handle: The person who did it, by the record.
            at: The time of the record, if it has one.
        """
        if is_team(handle):
            yield f"{handle} is a team: record the person who did it"
        elif handle not in self.people:
            who = ", ".join(sorted(self.people)) or "no one in " + MAINTAINERS
            yield f"recorded for {handle}, but {self.source} is from {who}: {self.remedy}"
        if at is None:
            return
        if at < self.earliest:
            yield (
                f"dated {_when(at)}, before the newest commit of the target branch "
                f"({_when(self.earliest)}): undo it, and run the command again"
            )
        elif at > self.latest:
            yield f"dated {_when(at)}, which is in the future: undo it, and run the command again"


def of_pull_request(
    pull_request: PullRequest, repository: Repository, base: str, now: datetime.datetime
) -> Evidence:
    """Return what the forge knows: the author of a pull request and those who approved its head.

    Args:
        pull_request: The response of the forge.
        repository: The clone.
        base: The target branch.
        now: The current time.
    """
    approved = {
        name
        for name, review in last_reviews(pull_request).items()
        if review.state is State.APPROVED and review.commit_id == pull_request.head.sha
    }
    return Evidence(
        source=f"pull request {pull_request.number}",
        people={pull_request.user.login, *approved},
        remedy="this person opens the pull request or approves its last commit",
        earliest=_newest(repository, base, now, pull_request.created_at),
        latest=now,
    )


def of_commits(
    repository: Repository,
    base: str,
    work: Sequence[Commit],
    maintainers: Maintainers,
    now: datetime.datetime,
) -> Evidence:
    """Return what a clone knows: whose address is in every commit of a change.

    Args:
        repository: The clone.
        base: The target branch.
        work: The commits of the change.
        maintainers: The addresses of people in the target branch.
        now: The current time.
    """
    authors = sorted({commit.author for commit in work})
    owners = [maintainers.people_at(address) for address in authors]
    return Evidence(
        source=f"the work of {', '.join(authors) or 'no commit'}",
        people=set.intersection(*owners) if owners else set(),
        remedy=f"commit with an address that {MAINTAINERS} of the target branch gives for this "
        "person, or check the pull request with --pull-request",
        earliest=_newest(repository, base, now, now),
        latest=now,
    )


def unsigned(commits: Iterable[Commit]) -> Iterator[str]:
    """Return a sentence for each commit without the author's Signed-off-by."""
    for commit in commits:
        if commit.author not in {each.lower() for each in _ADDRESS.findall(commit.signed)}:
            yield (
                f"commit {commit.oid[:10]} {commit.subject!r} has no line `Signed-off-by: ... "
                f"<{commit.author}>`; use `git commit -s`"
            )


def _newest(
    repository: Repository, base: str, now: datetime.datetime, end: datetime.datetime
) -> datetime.datetime:
    """Return the time of the newest commit that a branch had at a time."""
    times = [seconds for _, seconds in repository.landings(base, now=int(now.timestamp()))]
    newest = max((each for each in times if each <= end.timestamp()), default=times[0])
    return datetime.datetime.fromtimestamp(newest, datetime.UTC)


def _when(at: datetime.datetime) -> str:
    return at.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
