# SPDX-License-Identifier: Apache-2.0
"""Results and errors as lines of text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.cells import cell_len

from connectors_core.cli.sql.secret_values import without_secrets
from connectors_core.errors import ConnectorError
from connectors_core.secrets import mask_text
from connectors_core.table.sql import SqlError
from connectors_core.table.sql.errors import line_and_column

__all__ = ["csv_line", "error_lines", "table_lines", "text_lines"]

_NULL: Final = "NULL"


def table_lines(
    columns: Sequence[str], rows: Sequence[Sequence[str | None]], numbers: Iterable[int] = ()
) -> Iterator[str]:
    """Yield the lines of a table.

    Args:
        columns: The names of the columns.
        rows: The values.
        numbers: The places of the columns that are aligned to the right.
    """
    cells = [[_printable(value) for value in row] for row in ([*columns], *rows)]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    right = set(numbers)
    head, *body = (
        " | ".join(
            _padded(value, width, right=place in right)
            for place, (value, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )
    yield head.rstrip()
    yield "-+-".join("-" * width for width in widths)
    yield from (line.rstrip() for line in body)


def text_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text, such as a plan or a message."""
    return map(_printable, text.splitlines())


def csv_line(values: Iterable[str | None]) -> str:
    """Return values as a line of CSV (RFC 4180), without its end."""
    text = io.StringIO()
    csv.writer(text).writerow(values)  # quotes the characters of its line ends
    return text.getvalue().removesuffix("\r\n")


def error_lines(error: Exception, text: str, *, name: str | None, start: int = 0) -> Iterator[str]:
    """Yield the lines that explain why a statement failed.

    Args:
        error: The error.
        text: The whole text with the statement.
        name: The name of the file with the text, if any.
        start: The first character of the statement, for errors without a place.
    """
    position = error.position if isinstance(error, SqlError) else None
    shown = str(error) if isinstance(error, ConnectorError) else f"{type(error).__name__}: {error}"
    first, *more = mask_text(shown).splitlines()
    line, column = line_and_column(text, start if position is None else position)
    where = "" if name is None else f"{name}:{line}:{column}: "
    yield f"{where}{first}"
    yield from more
    if position is not None:
        yield from _pointed(text, position, line)


def _pointed(text: str, position: int, number: int) -> Iterator[str]:
    """Yield the line with a place, and a caret below it. Secrets are masked."""
    try:
        parts = without_secrets(text)
    except SqlError:
        return  # nothing tells secrets from the rest
    shown, at = "", 0
    for part, start, end in parts:
        if start <= position:
            at = len(shown) + min(position - start, len(part), end - start)
        shown += part
    first = shown.rfind("\n", 0, at) + 1
    line = shown[first:].partition("\n")[0]
    lead = f"{number} | " if "\n" in text.strip() else ""
    before = _printable(line[: at - first])
    yield ""
    yield f"{lead}{_printable(line)}".rstrip()
    yield " " * (len(lead) + cell_len(before)) + "^"


def _padded(value: str, width: int, *, right: bool) -> str:
    space = " " * (width - cell_len(value))
    return space + value if right else value + space


def _printable(value: str | None) -> str:
    """Return a value in one line that no terminal takes as a command."""
    if value is None:
        return _NULL
    if value.isprintable():
        return value
    return "".join(each if each.isprintable() else _escaped(each) for each in value)


def _escaped(character: str) -> str:
    if character == "\t":
        return " "
    return character if character == "\u00a0" else repr(character)[1:-1]
