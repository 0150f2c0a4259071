# SPDX-License-Identifier: Apache-2.0
"""Where a connector and the template have gone apart."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from connector_release_tools.template.files import Change, File, Files
from connector_release_tools.template.ownership import MERGED, AuthorsFiles

__all__ = ["Finding", "Side", "compare"]


class Side(enum.StrEnum):
    """Who made the difference."""

    TEMPLATE = "template"
    CONNECTOR = "connector"


@dataclass(frozen=True)
class Finding(Change):
    """A file that is not where it should be.

    Attributes:
        path: The file, from the connector's folder.
        before: What the template rendered to; None if to nothing.
        after: What it renders to now (side template), or what the connector holds.
        side: Who made the difference: the template since it was rendered for this connector, or
            the connector in a file that is the template's.
    """

    side: Side


def compare(
    old: Files, new: Files, current: Callable[[str], File | None], authors: AuthorsFiles
) -> list[Finding]:
    """Compare the old and the new rendering of a connector, and its files with them.

    Args:
        old: The rendering that the connector was made from.
        new: The rendering to update it to.
        current: Returns a file of the connector.
        authors: The files to exclude.
    """
    findings = []
    for path in sorted(old.keys() | new.keys()):
        if path in authors:
            continue
        before, after = old.get(path), new.get(path)
        if before != after:
            findings.append(Finding(path, before, after, Side.TEMPLATE))
        if path not in MERGED and (file := current(path)) not in {before, after}:
            findings.append(Finding(path, before or after, file, Side.CONNECTOR))
    return findings
