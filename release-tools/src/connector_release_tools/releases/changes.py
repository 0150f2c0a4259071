# SPDX-License-Identifier: Apache-2.0
"""Finds the changelog fragments since the previous release."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

from connector_release_tools.git import Repository, run

__all__ = ["FRAGMENTS", "features", "fragments_at"]

FRAGMENTS: Final = "changelog.d"
# Such as 12.feature.md, +words.bugfix.md, and 12.feature.1.md for a second one of an issue.
_NAME: Final = re.compile(r".+\.(?P<kind>[a-z]+)(?:\.[0-9]+)?\.md")
_FEATURES: Final = {"feature", "removal"}


def fragments_at(repository: Repository, connector: str, revision: str) -> list[str]:
    """Return the names of the fragments that no release includes yet."""
    listed = run(
        "ls-tree", "--name-only", "-z", revision, "--", f"{connector}/{FRAGMENTS}/",
        folder=repository.root,
    )  # fmt: skip
    return sorted(name for name in _names(listed) if _NAME.fullmatch(name))


def features(repository: Repository, connector: str, since: str, commit: str) -> list[str]:
    """Return the names of the fragments between two commits that describe more than fixes.

    Fragments that have moved into the changelog are included.
    """
    written = run(
        "log", "-z", "--format=", "--name-only", "--diff-filter=AM", f"{since}..{commit}", "--",
        f"{connector}/{FRAGMENTS}", folder=repository.root,
    )  # fmt: skip
    names = {*_names(written), *fragments_at(repository, connector, commit)}
    found = ((name, _NAME.fullmatch(name)) for name in sorted(names))
    return [name for name, match in found if match is not None and match["kind"] in _FEATURES]


def _names(listed: bytes) -> list[str]:
    return [PurePosixPath(path).name for path in listed.decode().split("\0") if path]
