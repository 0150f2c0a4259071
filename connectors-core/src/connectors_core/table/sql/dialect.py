# SPDX-License-Identifier: Apache-2.0
"""Tokens and trees of statements. sqlglot makes both, in Spark's dialect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Final

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError

from connectors_core.table.sql.errors import SqlError
from connectors_core.table.sql.vector_searches import with_vector_searches

__all__ = ["Kind", "Word", "parse_query", "refuse_hints", "words_of"]


_OPTIONS_HINT: Final = re.compile(r"/\*\+\s*OPTIONS\s*\(", re.IGNORECASE)


class _Words(Spark):
    """Spark's dialect with a token for each word, so that keywords have no other meaning."""

    class Tokenizer(Spark.Tokenizer):
        """Knows symbols and no keywords."""

        KEYWORDS: ClassVar = {
            key: kind
            for key, kind in Spark.Tokenizer.KEYWORDS.items()
            if not key[0].isalpha() and not key[0].isdigit()
        }
        COMMANDS: ClassVar = set()


class Kind(Enum):
    """The kind of a part of a statement."""

    WORD = "word"
    NAME = "name in backticks"
    TEXT = "text"
    NUMBER = "number"
    SYMBOL = "symbol"


_KINDS = {
    TokenType.IDENTIFIER: Kind.NAME,
    TokenType.NUMBER: Kind.NUMBER,
    TokenType.VAR: Kind.WORD,
}


@dataclass(frozen=True)
class Word:
    """A part of a statement.

    Attributes:
        kind: Its kind.
        value: Its text without quotes.
        start: The number of its first character.
        end: The number of the character after it.
    """

    kind: Kind
    value: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        """A keyword or a symbol in upper case; nothing for texts and quoted names."""
        return self.value.upper() if self.kind in {Kind.WORD, Kind.SYMBOL} else ""


def words_of(text: str) -> list[Word]:
    """Split statements into their parts, without comments.

    Raises:
        SqlError: A quoted text or a comment does not end.
    """
    try:
        tokens = _Words().tokenize(text)
    except TokenError:  # its text is a part of the statement, which can have secrets
        message = "a quoted text or a comment does not end"
        raise SqlError.at(text, len(text), message) from None
    words: list[Word] = []
    for token in tokens:
        kind = _KINDS.get(token.token_type, Kind.SYMBOL)
        if text[token.start] in "'\"" or token.token_type.name.endswith("STRING"):
            kind = Kind.TEXT
        found = Word(kind, token.text, token.start, token.end + 1)
        before = words[-1] if words else None
        if before is not None and before.kind is kind is Kind.TEXT and before.end == found.start:
            quote = text[found.start]  # 'it''s', as in the standard
            found = Word(kind, before.value + quote + found.value, before.start, found.end)
            words.pop()
        words.append(found)
    return words


def parse_query(text: str) -> exp.Expr:
    """Parse a query, whose identifiers then know their places in the text.

    Raises:
        SqlError: The query is wrong.
    """
    refuse_hints(text)
    try:
        tokens = with_vector_searches(_with_window_functions(Spark().tokenize(text)), text)
        found = Spark().parser().parse(tokens, text)
    except ParseError as error:  # its text is the statement, which can have secrets
        first = error.errors[0]
        line, column = int(first["line"]), int(first["col"])
        shown = str(first["highlight"])
        start = sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column - len(shown)
        raise SqlError.at(text, max(start, 0), "the query is wrong") from None
    except TokenError:
        raise SqlError.at(text, len(text), "a quoted text or a comment does not end") from None
    if len(found) != 1 or not isinstance(found[0], exp.Query | exp.Values):
        raise SqlError("the text is not one query", expected="SELECT ... FROM ...")
    return found[0]


def _with_window_functions(tokens: Sequence[Token]) -> list[Token]:
    """Return tokens in which `window` is a name, unless `WINDOW w AS` begins a clause."""
    found = list(tokens)
    for at, token in enumerate(tokens):
        begins_clause = any(each.token_type is TokenType.ALIAS for each in tokens[at + 2 : at + 3])
        if token.token_type is TokenType.WINDOW and not begins_clause:
            place = (token.line, token.col, token.start, token.end)
            found[at] = Token(TokenType.VAR, token.text, *place)
    return found


def refuse_hints(text: str) -> None:
    """Refuse hints with options of tables, which are comments outside of quoted texts.

    Raises:
        SqlError: There is one.
    """
    hints = [hint.start() for hint in _OPTIONS_HINT.finditer(text)]
    texts = [word for word in words_of(text) if word.kind is Kind.TEXT] if hints else []
    for start in hints:
        if not any(each.start <= start < each.end for each in texts):
            raise SqlError.at(
                text,
                start,
                "a hint cannot change the options of a table",
                expected="CREATE TABLE other WITH (...) LIKE table",
            )
