# SPDX-License-Identifier: Apache-2.0
"""Finds the differences between a connector and the template."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from connector_release_tools.template.files import Change, File, Files
from connector_release_tools.template.ownership import MERGED, AuthorsFiles

__all__ = ["Finding", "Side", "compare"]


class Side(enum.StrEnum):
    """The side that caused a difference."""

    TEMPLATE = "template"
    CONNECTOR = "connector"


@dataclass(frozen=True)
class Finding(Change):
    """A file that differs.

    Attributes:
        path: The file, relative to the connector's folder.
        before: The old rendering of the template; None if it has no such file.
        after: The new rendering (side template), or the connector's file.
        side: The cause of the difference: a newer template, or a change of a template file in the
            connector.
    """

    side: Side


def compare(
    old: Files, new: Files, current: Callable[[str], File | None], authors: AuthorsFiles
) -> list[Finding]:
    """Compare the old and the new rendering of a connector, and its files with them.

    Args:
        old: The rendering that the connector was created from.
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
