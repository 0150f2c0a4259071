# SPDX-License-Identifier: Apache-2.0
"""The response of the GitHub API for a pull request, with its files and reviews added."""

from typing import Any

HEAD, OLDER, BASE = "a" * 40, "b" * 40, "c" * 40


def review(
    login: str, state: str = "APPROVED", *, commit: str = HEAD, at: str = "2026-03-10T12:00:00Z"
) -> dict[str, Any]:
    return {"user": {"login": login}, "state": state, "commit_id": commit, "submitted_at": at}


def request(
    *reviews: dict[str, Any],
    author: str = "eve",
    files: tuple[str, ...] = ("connector-one/src/a.py",),
    head: str = HEAD,
    **others: Any,
) -> dict[str, Any]:
    return {
        "number": 7,
        "title": "A change",
        "user": {"login": author, "id": 1},
        "created_at": "2026-03-10T08:00:00Z",
        "base": {"sha": BASE, "ref": "main"},
        "head": {"sha": head},
        "changed_files": len(files),
        "files": [{"filename": name, "status": "modified"} for name in files],
        "reviews": list(reviews),
        **others,
    }
