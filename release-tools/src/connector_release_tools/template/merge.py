# SPDX-License-Identifier: Apache-2.0
"""Three-way merge of a file: the old rendering, the new one, the connector's own.

This is not `cruft update`. Tried with cruft 2.16 inside one repository, that refuses the second
connector as soon as the first is updated (any change anywhere in the repository counts), applies
patches where the old blob is not in the repository (a connector that was linked later), finds a
relative template from the working directory only, and says "Good work!" with exit code 0 over
conflict markers. `git merge-file` needs two renderings and the file, and tells of conflicts.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from connector_release_tools.errors import GitError
from connector_release_tools.git import attempt
from connector_release_tools.template.files import File

__all__ = ["Merged", "merge"]

# `git merge-file` exits with the number of conflicts, at most this.
_MOST_CONFLICTS = 127


@dataclass(frozen=True)
class Merged:
    """The result of a merge.

    Attributes:
        file: The file to keep; None for none.
        conflict: What the author must decide; empty if nothing.
    """

    file: File | None
    conflict: str = ""


def merge(old: File | None, new: File | None, own: File | None) -> Merged:
    """Bring the template's change from `old` to `new` into the connector's own file.

    Raises:
        GitError: git cannot merge.
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
        return Merged(own, "both changed it, and it is no text: the connector's is kept")
    content, conflicts = _merge_texts(base, new.content, own.content)
    if conflicts:
        return Merged(File(content, executable), "resolve what <<<<<<< and >>>>>>> enclose")
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
