# SPDX-License-Identifier: Apache-2.0
"""The cursor in a statement: the parts around it, and the text that is being completed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from connectors_core.table.sql import SqlError
from connectors_core.table.sql.dialect import Kind, Word, words_of

__all__ = ["Cursor"]

_QUOTES: Final = ("'", '"', "`")


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """The cursor in a statement.

    Attributes:
        words: The parts of the statement before it.
        later: Those after it.
        path: The names with dots right before it.
        prefix: The text that is being completed.
        start: The number of its first character, behind a quote.
        quote: The quote before it, if any.
        closed: Whether a quote follows.
    """

    words: Sequence[Word]
    later: Sequence[Word]
    path: tuple[str, ...]
    prefix: str
    start: int
    quote: str
    closed: bool

    @staticmethod
    def of(before: str, after: str) -> Cursor | None:
        """Return the place of the cursor, or None in a comment."""
        quote = ""
        try:
            words = words_of(before)
        except SqlError:
            quote, words = _open_quote(before)
            if not quote:
                return None
        if not quote and "--" in before[words[-1].end if words else 0 :].rpartition("\n")[2]:
            return None
        prefix, start = "", len(before)
        if quote:
            start = words[-1].start + 1
            prefix = before[start:]
            words = words[:-1]
        elif words and words[-1].kind is Kind.WORD and words[-1].end == len(before):
            prefix, start = words[-1].value, words[-1].start
            words = words[:-1]
        path: list[str] = []
        while len(words) > 1 and words[-1].upper == "." and words[-2].kind is not Kind.TEXT:
            path.insert(0, words[-2].value)
            words = words[:-2]
        return Cursor(
            words=words[_after_semicolon(words) :],
            later=_later(after, quote),
            path=tuple(path),
            prefix=prefix,
            start=start,
            quote=quote,
            closed=bool(quote) and after.startswith(quote),
        )

    def said(self, back: int = 1) -> str:
        """Return a keyword or a symbol before the cursor, in upper case."""
        return self.words[-back].upper if len(self.words) >= back else ""

    @property
    def first(self) -> str:
        """The first keyword of the statement."""
        return self.words[0].upper if self.words else ""


def _open_quote(before: str) -> tuple[str, list[Word]]:
    """Return the quote that is open at the end of a text, and the parts up to there."""
    for quote in _QUOTES:
        try:
            words = words_of(before + quote)
        except SqlError:
            continue
        if words and words[-1].end > len(before) and before[words[-1].start] == quote:
            return quote, words
    return "", []


def _after_semicolon(words: Sequence[Word]) -> int:
    ends = [number + 1 for number, word in enumerate(words) if word.upper == ";"]
    return ends[-1] if ends else 0


def _later(after: str, quote: str) -> list[Word]:
    """Return the parts of the statement after the cursor, as far as they can be read."""
    try:
        words = words_of(quote + after)
    except SqlError:
        return []
    end = next((n for n, word in enumerate(words) if word.upper == ";"), len(words))
    return words[:end]
