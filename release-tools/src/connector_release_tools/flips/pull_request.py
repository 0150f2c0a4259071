# SPDX-License-Identifier: Apache-2.0
"""Checks what a change does to proposals, rules, and maintainers, as its target branch sees it."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

from connector_release_tools.flips.checks import check, compare, rewritten_rules
from connector_release_tools.flips.finding import Finding
from connector_release_tools.flips.folder import FLIPS, RULES, Flips, at_commit
from connector_release_tools.flips.lifecycle import Judge
from connector_release_tools.flips.steps import amount, scope, steps, unproven
from connector_release_tools.flips.timing import untimely
from connector_release_tools.git import Repository
from connector_release_tools.maintainer_changes import rewritten
from connector_release_tools.maintainers import MAINTAINERS
from connector_release_tools.review.pull_request import PullRequest
from connector_release_tools.votes.change import Change
from connector_release_tools.votes.evidence import Evidence, unsigned

__all__ = ["check_change"]

_CHANGE = "this change"


def check_change(
    repository: Repository, target: str, pull_request: PullRequest | None, now: datetime.datetime
) -> tuple[int, list[Finding]]:
    """Check a change with the rules and people of its target branch.

    Args:
        repository: The clone.
        target: The target branch.
        pull_request: The change as the forge describes it: its head is checked. Without it, HEAD is
            checked as git describes it.
        now: The current time.

    Returns:
        The number of proposals, and the findings.

    Raises:
        HistoryError: A commit is missing from the clone.
        ReleaseToolsError: Rules or maintainers cannot be read.
    """
    change = Change.of(repository, target, pull_request)
    with (
        at_commit(repository, change.base) as before,
        at_commit(repository, change.head) as after,
    ):
        judge = Judge(maintainers=before.maintainers, rules=before.rules, now=now)
        work = change.work(FLIPS, MAINTAINERS)
        evidence = change.evidence(work, before.maintainers, now)
        proposals, problems = after.proposals()
        found = [Finding(_CHANGE, problem) for problem in problems]
        found += check(proposals, judge)
        found += [Finding(_CHANGE, what) for what in unsigned(work)]
        if change.is_current:
            found += _Comparison(change, before, after, judge, evidence).findings()
        elif any(map(_is_ours, change.files())):
            what = f"lacks the newest commit of {target}: merge or rebase, then check it again"
            found.append(Finding(_CHANGE, what))
    return len(proposals), found


@dataclass(frozen=True)
class _Comparison:
    change: Change
    before: Flips
    after: Flips
    judge: Judge
    evidence: Evidence

    def findings(self) -> Iterator[Finding]:
        were, unreadable = self.before.proposals()
        are, _ = self.after.proposals()
        for each in unreadable:
            yield Finding(_CHANGE, f"the target branch cannot be compared: {each}")
        yield from compare(were, are)
        yield from self._lists()
        taken = steps(were, are)
        for what in (*amount(taken), *scope(taken, self.change.files())):
            yield Finding(_CHANGE, what)
        for step in taken:
            for what in unproven(step, self.evidence):
                yield Finding(step.flip.name, what)
            for what in untimely(step, self.judge, self.change.repository, self.change.base):
                yield Finding(step.flip.name, what)

    def _lists(self) -> Iterator[Finding]:
        today = self.judge.now.astimezone(datetime.UTC).date()
        for what in rewritten_rules(self.before.rules, self.after.rules, today):
            yield Finding(f"{FLIPS}/{RULES}", what)
        were, are = self.before.maintainers, self.after.maintainers
        for what in rewritten(were, are, today):
            yield Finding(MAINTAINERS, what)
        for handle, addresses in are.addresses.items():
            if not {*addresses} <= {*were.addresses.get(handle, ())}:
                for doubt in self.evidence.doubts(handle):
                    yield Finding(MAINTAINERS, f"addresses: {doubt}")


def _is_ours(path: str) -> bool:
    return path in {FLIPS, MAINTAINERS} or path.startswith(f"{FLIPS}/")
