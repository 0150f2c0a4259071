# SPDX-License-Identifier: Apache-2.0
"""Derives the file changes that follow from a changed matrix."""

from __future__ import annotations

from connector_release_tools.git import Repository
from connector_release_tools.matrix.derivation import derived, rewritten
from connector_release_tools.matrix.file import MATRIX, MatrixFile
from connector_release_tools.template.files import Change, File

__all__ = ["consequences"]


def consequences(repository: Repository, file: MatrixFile) -> list[Change]:
    """Return the changes for a new matrix: the file itself, tables, and versions.

    Args:
        repository: The repository.
        file: The matrix with unwritten changes.

    Raises:
        MatrixError: The matrix is invalid.
    """
    before = file.path.read_text(encoding="utf-8")
    texts = rewritten(repository.root, list(derived(repository.root, file.matrix())))
    changes = {MATRIX: (before, file.text()), **texts}
    return [
        Change(path, File(old.encode()), File(new.encode()))
        for path, (old, new) in changes.items()
        if old != new
    ]
