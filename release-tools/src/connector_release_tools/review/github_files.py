# SPDX-License-Identifier: Apache-2.0
"""Generates the files in `.github` that follow from the matrix and the maintainers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from connector_release_tools.maintainers import Maintainers
from connector_release_tools.matrix.model import Matrix
from connector_release_tools.review.codeowners import codeowners
from connector_release_tools.review.forms import with_choices
from connector_release_tools.template.files import Change, File, read

__all__ = ["changes"]

CODEOWNERS: Final = ".github/CODEOWNERS"
FORMS: Final = ".github/ISSUE_TEMPLATE"


def changes(root: Path, matrix: Matrix, maintainers: Maintainers) -> list[Change]:
    """Return the outdated files with their new contents; empty if all files are up to date.

    Args:
        root: The top of the tree.
        matrix: The source of the forms.
        maintainers: The source of CODEOWNERS.

    Raises:
        ReviewError: An issue form cannot be filled.
    """
    wanted = {CODEOWNERS: codeowners(maintainers)}
    for path in sorted((root / FORMS).glob("*.yml")):
        if path.name != "config.yml":
            name = f"{FORMS}/{path.name}"
            wanted[name] = with_choices(name, path.read_text(encoding="utf-8"), matrix)
    found = [Change(name, read(root / name), File(text.encode())) for name, text in wanted.items()]
    return [change for change in found if change.before != change.after]
