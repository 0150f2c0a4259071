# SPDX-License-Identifier: Apache-2.0
"""Merges a file three-way: the old rendering, the new rendering, and the connector's file.

This replaces `cruft update`, because cruft 2.16 does not work with many connectors in one
repository: after an update of one connector, it refuses to update the next; it resolves a relative
template only from the working directory; and it exits with 0 despite conflict markers.
`git merge-file` needs only the two renderings and the file, and reports conflicts.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from connector_release_tools.errors import GitError
from connector_release_tools.git import attempt
from connector_release_tools.template.files import File

__all__ = ["Merged", "merge"]

# `git merge-file` exits with the number of conflicts, up to this limit.
_MOST_CONFLICTS = 127


@dataclass(frozen=True)
class Merged:
    """The result of a merge.

    Attributes:
        file: The file to keep; None for none.
        conflict: The author's decision to make; empty if there is no conflict.
    """

    file: File | None
    conflict: str = ""


def merge(old: File | None, new: File | None, own: File | None) -> Merged:
    """Merge the template's change from `old` to `new` into the connector's file.

    Raises:
        GitError: git fails.
    """
    if own in {old, new}:
        return Merged(new)
    if new is None:
        return Merged(own, "the template removed it, the connector changed it: remove or keep it")
    if own is None:
        return Merged(own, "the connector removed it, the template changed it: remove it for good "
                      "by listing it in [tool.cruft] skip, or restore it")  # fmt: skip
    executable = new.executable if old and own.executable == old.executable else own.executable
    base = old.content if old else b""
    if own.content == base or own.content == new.content:
        return Merged(File(new.content, executable))
    if new.content == base:
        return Merged(File(own.content, executable))
    if any(b"\0" in content for content in (base, new.content, own.content)):
        return Merged(own, "both changed it, and it is not text: the connector's version is kept")
    content, conflicts = _merge_texts(base, new.content, own.content)
    if conflicts:
        return Merged(File(content, executable), "resolve the text between <<<<<<< and >>>>>>>")
    return Merged(File(content, executable))


def _merge_texts(base: bytes, new: bytes, own: bytes) -> tuple[bytes, int]:
    names = ("connector", "template-before", "template")
    with tempfile.TemporaryDirectory(prefix="release-tools-") as scratch:
        folder = Path(scratch)
        for name, content in zip(names, (own, base, new), strict=True):
            (folder / name).write_bytes(content)
        labels = (part for name in names for part in ("-L", name))
        done = attempt("merge-file", "--stdout", *labels, *names, folder=folder)
    if not 0 <= done.returncode <= _MOST_CONFLICTS:
        raise GitError(f"`git merge-file` failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout, done.returncode
