# SPDX-License-Identifier: Apache-2.0
"""The table of options in the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["table"]


def table(options: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of options, one row per option, with the keywords if there are any.

    Args:
        options: The declarations from `OptionSet.describe`.
    """
    rows = tuple(options)
    has_keywords = any(row["keyword"] for row in rows)
    titles = ("Option", "In Python", "Type", "Default", "Since", "Description")
    lines = [titles, ("---",) * len(titles), *(_cells(row) for row in rows)]
    shown = [cells if has_keywords else (cells[0], *cells[2:]) for cells in lines]
    return "".join(f"| {' | '.join(map(_escaped, cells))} |\n" for cells in shown)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    default = {None: "(none)", "": "(empty)"}.get(row["default"], f"`{row['default']}`")
    choices = ", ".join(each or "(empty)" for each in row["choices"])
    unit = f" ({row['unit']})" if row["unit"] else ""
    bounds = f", {row['bounds']}" if row["bounds"] else ""
    return (
        f"`{row['key']}`",
        f"`{row['keyword']}`" if row["keyword"] else "",
        row["type"] + unit + bounds,
        "**required**" if row["required"] else default,
        row["since"] or "",
        row["doc"] + (f" One of: {choices}." if choices else ""),
    )


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
