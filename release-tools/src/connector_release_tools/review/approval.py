# SPDX-License-Identifier: Apache-2.0
"""Checks whether a pull request has the required approvals."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator
from typing import Final

from connector_release_tools.maintainers import MAINTAINERS, Maintainers, is_team
from connector_release_tools.review.pull_request import PullRequest, Review, State

__all__ = ["last_reviews", "objections"]

_FRAGMENTS: Final = re.compile(r"(?:.*/)?changelog\.d/(?P<name>[^/.][^/]*)")
# ISSUE.KIND.md or +WORDS.KIND.md; ISSUE.KIND.NUMBER.md if an issue has several of a kind.
_FRAGMENT: Final = re.compile(
    r"(?:[1-9][0-9]*|\+[a-z0-9]+(?:-[a-z0-9]+)*)\.(?:feature|bugfix|doc|removal|misc)"
    r"(?:\.[1-9][0-9]*)?\.md"
)


def objections(pull_request: PullRequest, maintainers: Maintainers) -> list[str]:
    """Return the reasons why a pull request must not be merged; empty if it may be merged.

    Each changed folder needs the approval of a maintainer who is not the author. The last review of
    each person counts, without comments. An approval counts only for the commit that it reviewed.

    Args:
        pull_request: The pull request.
        maintainers: The maintainers in the target revision.
    """
    return [*_unapproved(pull_request, maintainers), *_misnamed(pull_request)]


def _unapproved(pull_request: PullRequest, maintainers: Maintainers) -> Iterator[str]:
    author = pull_request.user.login
    last = last_reviews(pull_request)
    for folder in sorted({maintainers.folder_of(path) for path in pull_request.paths}):
        reviews = {
            name: review
            for name, review in last.items()
            if name != author and name in maintainers.of_folder(folder, _day(review))
        }
        against = [name for name, it in reviews.items() if it.state is State.CHANGES_REQUESTED]
        approvals = {name: it for name, it in reviews.items() if it.state is State.APPROVED}
        current = [name for name, it in approvals.items() if it.commit_id == pull_request.head.sha]
        if against:
            yield f"{folder}: {', '.join(against)} requested changes"
        elif not current and approvals:
            yield (
                f"{folder}: {', '.join(approvals)} approved an earlier commit than "
                f"{pull_request.head.sha[:10]}"
            )
        elif not current:
            yield f"{folder}: {_wanted(maintainers.current(folder), author)}"


def _wanted(maintainers: Iterable[str], author: str) -> str:
    others = [name for name in maintainers if name != author]
    people = [name for name in others if not is_team(name)]
    if people:
        return f"needs the approval of {' or '.join(people)}"
    if others:
        return f"maintained only by {', '.join(others)}; add people to {MAINTAINERS}"
    return f"its only maintainer is the author, {author}; add a second maintainer"


def last_reviews(pull_request: PullRequest) -> dict[str, Review]:
    """Return the last review of each person; comments do not count."""
    said = [
        (review.submitted_at, review.user.login, review)
        for review in pull_request.reviews
        if review.submitted_at is not None
        and review.user is not None
        and review.state not in {State.COMMENTED, State.PENDING}
    ]
    return {name: review for _, name, review in sorted(said, key=lambda it: it[0])}


def _day(review: Review) -> datetime.date:
    assert review.submitted_at is not None  # pending reviews do not count
    return review.submitted_at.astimezone(datetime.UTC).date()


def _misnamed(pull_request: PullRequest) -> Iterator[str]:
    for path in pull_request.written:
        match = _FRAGMENTS.fullmatch(path)
        if match and not _FRAGMENT.fullmatch(match["name"]):
            yield (
                f"{path}: a changelog fragment is named after its issue and kind, as in "
                "42.feature.md or +some-words.bugfix.md"
            )
