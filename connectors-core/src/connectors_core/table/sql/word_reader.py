# SPDX-License-Identifier: Apache-2.0
"""Reads the parts of a statement one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from connectors_core.table.sql.dialect import Kind, Word
from connectors_core.table.sql.errors import SqlError
from connectors_core.table.sql.statements import Name

__all__ = ["WordReader"]

T = TypeVar("T")


class WordReader:
    """A place in the parts of a statement.

    Args:
        text: The whole text.
        words: The parts of the statement.
    """

    def __init__(self, text: str, words: Sequence[Word]) -> None:
        self.text = text
        self.words = words
        self.at = 0

    @property
    def is_done(self) -> bool:
        """Whether nothing follows."""
        return self.at >= len(self.words)

    @property
    def place(self) -> int:
        """The number of the next character."""
        if not self.is_done:
            return self.words[self.at].start
        return self.words[-1].end if self.words else len(self.text)

    def peek(self, ahead: int = 0) -> str:
        """Return a keyword or symbol that follows, or nothing."""
        at = self.at + ahead
        return self.words[at].upper if at < len(self.words) else ""

    def take(self, *keywords: str) -> bool:
        """Go past these keywords if all of them follow."""
        follow = all(self.peek(ahead) == each for ahead, each in enumerate(keywords))
        self.at += len(keywords) if follow else 0
        return follow

    def ends_with(self, *keywords: str) -> bool:
        """Return whether these keywords are the last ones."""
        return tuple(word.upper for word in self.words[-len(keywords) :]) == keywords

    def expect(self, *keywords: str) -> None:
        """Go past these keywords.

        Raises:
            SqlError: Something else follows.
        """
        for each in keywords:
            if not self.take(each):
                raise self.wrong(f"{each} is missing", expected=each)

    def end(self) -> None:
        """Check that nothing follows.

        Raises:
            SqlError: Something does.
        """
        if not self.is_done:
            raise self.wrong("the statement has a part that is not known")

    def word(self) -> Word:
        """Return the next part.

        Raises:
            SqlError: There is none.
        """
        if self.is_done:
            raise self.wrong("the statement is not complete")
        self.at += 1
        return self.words[self.at - 1]

    def identifier(self) -> str:
        """Return the next name.

        Raises:
            SqlError: No name follows.
        """
        found = self.words[self.at] if not self.is_done else None
        if found is None or found.kind not in {Kind.WORD, Kind.NAME}:
            raise self.wrong("a name is missing")
        self.at += 1
        return found.value

    def name(self) -> Name:
        """Return a name of up to three parts.

        Raises:
            SqlError: No name follows, or it has more parts.
        """
        start = self.place
        parts = [self.identifier()]
        while self.take("."):
            parts.append(self.identifier())
        if len(parts) > 3:
            raise SqlError.at(self.text, start, "the name has too many parts", expected="c.b.a")
        return tuple(parts)

    def string(self) -> str:
        """Return the next text.

        Raises:
            SqlError: No text follows.
        """
        found = self.words[self.at] if not self.is_done else None
        if found is None or found.kind is not Kind.TEXT:
            raise self.wrong("a text in quotes is missing", expected="'...'")
        self.at += 1
        return found.value

    def listed(self, read: Callable[[], T]) -> list[T]:
        """Read parts in parentheses that commas separate, at least one.

        Raises:
            SqlError: The list is wrong.
        """
        self.expect("(")
        found = [read()]
        while self.take(","):
            found.append(read())
        self.expect(")")
        return found

    def options(self, *, as_in_spark: bool = False) -> dict[str, str]:
        """Read `('key' = 'value', ...)`.

        Args:
            as_in_spark: Whether `=` can be missing.

        Raises:
            SqlError: The options are wrong, or a key comes twice.
        """
        found: dict[str, str] = {}

        def read() -> None:
            start = self.place
            is_text = not self.is_done and self.words[self.at].kind is Kind.TEXT
            key = self.string() if is_text else ".".join(self.name_of_any_length())
            if not as_in_spark or self.peek() == "=":
                self.expect("=")
            if key in found:
                raise SqlError.at(self.text, start, f"the option {key!r} comes twice")
            found[key] = self.string()

        if self.peek() == "(" and self.peek(1) == ")":
            self.at += 2
            return found
        self.listed(read)
        return found

    def name_of_any_length(self) -> list[str]:
        """Return a name with dots.

        Raises:
            SqlError: No name follows.
        """
        parts = [self.identifier()]
        while self.take("."):
            parts.append(self.identifier())
        return parts

    def until(self, stops: Callable[[], bool]) -> str:
        """Return the text up to a place outside of parentheses, or up to the end.

        Args:
            stops: Whether the text ends here.

        Raises:
            SqlError: There is no text.
        """
        start, first, depth = self.place, self.at, 0
        while not self.is_done:
            if depth == 0 and (self.peek() == ")" or stops()):
                break
            depth += (self.peek() == "(") - (self.peek() == ")")
            self.at += 1
        if self.at == first:
            raise self.wrong("an expression is missing")
        return self.text[start : self.words[self.at - 1].end]

    def rest(self) -> str:
        """Return the text of everything that follows.

        Raises:
            SqlError: Nothing follows.
        """
        if self.is_done:
            raise self.wrong("the query is missing")
        start, self.at = self.place, len(self.words)
        return self.text[start : self.words[-1].end]

    def wrong(self, message: str, expected: object = None) -> SqlError:
        """Return an error at this place."""
        return SqlError.at(self.text, self.place, message, expected=expected)
