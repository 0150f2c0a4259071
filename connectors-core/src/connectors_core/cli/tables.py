# SPDX-License-Identifier: Apache-2.0
"""Prints tables for people: as wide as the terminal, and without line breaks if it is piped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

_GAP: Final = 2
_NARROWEST: Final = 8
_PIPED_WIDTH: Final = 1_000_000


def output() -> Console:
    """Return the console of standard output; piped lines can have any length."""
    console = Console()
    if not console.is_terminal:
        console.width = _PIPED_WIDTH
    return console


def plain_table(*columns: str) -> Table:
    """Return a table that folds long values; without columns, it has no heading."""
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, _GAP, 0, 0),
        header_style="dim",
        show_header=bool(columns),
    )
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def rows_with_details(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> Iterator[RenderableType]:
    """Return a table, with its last column below the rows if it does not fit next to them.

    Args:
        columns: The headings.
        rows: The values. The first column becomes narrower if needed.
        width: The width of the console.
    """
    *sizes, last = (max(map(cell_len, cells)) for cells in zip(columns, *rows, strict=True))
    others = sum(sizes) + _GAP * len(sizes)
    if others + last <= width:
        table = plain_table(*columns)
        for row in rows:
            table.add_row(*map(Text, row))
        yield table
        return
    sizes[0] = max(_NARROWEST, min(sizes[0], sizes[0] + width - others))
    *heads, heading = (Text(column, style="dim") for column in columns)
    yield _row(heads, sizes)
    yield _below(heading)
    for *values, detail in rows:
        yield _row(map(Text, values), sizes)
        yield _below(Text(detail, overflow="fold"))


def _row(values: Iterable[Text], sizes: Sequence[int]) -> Table:
    table = plain_table()
    for size in sizes:
        table.add_column(width=size, overflow="fold")
    table.add_row(*values)
    return table


def _below(detail: Text) -> Padding:
    return Padding(detail, (0, 0, 0, _GAP))
