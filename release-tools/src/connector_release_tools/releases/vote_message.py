# SPDX-License-Identifier: Apache-2.0
"""The message that asks people to vote on a release candidate."""

from __future__ import annotations

from connector_release_tools.releases.signatures import KEYS
from connector_release_tools.releases.source_archive import archive_name
from connector_release_tools.releases.staged_candidate import StagedCandidate
from connector_release_tools.votes.model import VoteRules

__all__ = ["message"]


def message(candidate: StagedCandidate, notes: str, rules: VoteRules, *, url: str) -> str:
    """Return the message.

    Args:
        candidate: The candidate.
        notes: Its release notes.
        rules: The rules of the vote.
        url: Where its folder is.
    """
    release = candidate.release
    source = archive_name(release.name)
    signed = f"signed with key {candidate.key} of {KEYS}" if candidate.key else "not signed"
    hashes = "\n".join(f"{digest}  {name}" for name, digest in candidate.sha512.items())
    lines = f"Spark lines: {', '.join(release.spark)}\n" if release.spark else ""
    return f"""\
Subject: [VOTE] Release {release.connector} {release.version}, release candidate #{candidate.number}

Please review this release candidate of {release.name}, and vote:

[ ] +1  release it
[ ]  0  no opinion
[ ] -1  do not release it, because ...

Files: {url}
Source archive: {source}
All files are {signed}.
Commit: {release.commit}
Tree of {release.connector}: {release.tree}
{lines}
Get the files, and check them in a clone that contains the commit. This compares hashes, signatures,
and sources, and builds the packages again:

    release-tools release candidate check FOLDER

Then vote in a pull request of your own:

    release-tools release vote cast {candidate.name} +1 --by HANDLE

The vote is open for at least {rules.open_hours} hours. The release needs at least \
{rules.binding_approvals} binding +1, and more binding +1 than -1.

{notes}
SHA-512:

{hashes}
"""
