# SPDX-License-Identifier: Apache-2.0
"""A change that records votes or steps: its commits, and what shows who made them."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from connector_release_tools.errors import HistoryError
from connector_release_tools.git import Commit, Repository
from connector_release_tools.maintainers import Maintainers
from connector_release_tools.review.pull_request import PullRequest
from connector_release_tools.votes.evidence import Evidence, of_commits, of_pull_request

__all__ = ["Change"]


@dataclass(frozen=True)
class Change:
    """The commits that a merge would add to a target branch.

    Attributes:
        repository: The clone.
        base: The newest commit of the target branch.
        shared: The newest commit that both have.
        head: The last commit of the change.
        pull_request: The change as the forge describes it; None without a forge.
    """

    repository: Repository
    base: str
    shared: str
    head: str
    pull_request: PullRequest | None

    @classmethod
    def of(cls, repository: Repository, target: str, pull_request: PullRequest | None) -> Change:
        """Find the commits of a change.

        Args:
            repository: The clone.
            target: The target branch.
            pull_request: The change as the forge describes it: its head counts. Without it, HEAD is
                the change.

        Raises:
            HistoryError: A commit is missing from the clone.
        """
        base = _commit(repository, target, "pass a commit or branch, such as origin/main")
        if pull_request is None:
            head = _commit(repository, "HEAD", "commit the change")
        else:
            hint = f"run `git fetch origin pull/{pull_request.number}/head`"
            head = _commit(repository, pull_request.head.sha, hint)
        shared = repository.merge_base(base, head)
        if shared is None:
            hint = "run `git fetch --unshallow`" if repository.is_shallow() else ""
            raise HistoryError(f"{target} shares no history with the change", hint=hint)
        return cls(repository, base, shared, head, pull_request)

    @property
    def is_current(self) -> bool:
        """Whether the change has the newest commit of the target branch."""
        return self.shared == self.base

    def files(self) -> list[str]:
        """Return the changed files."""
        return self.repository.changed(self.shared, self.head)

    def work(self, *paths: str) -> list[Commit]:
        """Return the commits that change some paths."""
        return self.repository.work(self.shared, self.head, *paths)

    def evidence(
        self, work: Sequence[Commit], maintainers: Maintainers, now: datetime.datetime
    ) -> Evidence:
        """Return what shows who made the change.

        Args:
            work: The commits with the records.
            maintainers: The addresses of people in the target branch.
            now: The current time.
        """
        if self.pull_request is None:
            return of_commits(self.repository, self.base, work, maintainers, now)
        return of_pull_request(self.pull_request, self.repository, self.base, now)


def _commit(repository: Repository, revision: str, hint: str) -> str:
    oid = None if revision.startswith("-") else repository.object_id(f"{revision}^{{commit}}")
    if oid is None:
        raise HistoryError(f"{revision} is not a commit of this clone", hint=hint)
    return oid
