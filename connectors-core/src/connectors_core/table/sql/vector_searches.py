# SPDX-License-Identifier: Apache-2.0
"""`LATERAL TABLE(VECTOR_SEARCH(TABLE t, DESCRIPTOR(column), a.vector, 10)) AS s` (FLIP-540).

sqlglot has no such table function, so its parser receives a join: `JOIN t AS s ON
connectors_vector_search('column', a.vector, 10)`. The parts keep their places in the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import Token, TokenType, exp

from connectors_core.table.sql.errors import SqlError

__all__ = ["VectorSearch", "vector_search_of", "with_vector_searches"]

_NAME: Final = "VECTOR_SEARCH"
_CALL: Final = "connectors_vector_search"
_FIRST: Final = frozenset({"TABLE", "SEARCH_TABLE"})
_FORM: Final = "LATERAL TABLE(VECTOR_SEARCH(TABLE t, DESCRIPTOR(column), a.vector, 10)) AS s"
_JOINED: Final = frozenset({TokenType.CROSS, TokenType.INNER})


@dataclass(frozen=True)
class VectorSearch:
    """A search in a query.

    Attributes:
        search_column: The column of the table.
        query: The vector, as the query writes it.
        top_k: The maximum number of rows for a vector.
    """

    search_column: str
    query: exp.Expr
    top_k: int


def vector_search_of(table: exp.Table) -> VectorSearch | None:
    """Return the search whose table this is, or None for any other table."""
    condition = table.parent.args.get("on") if isinstance(table.parent, exp.Join) else None
    if not isinstance(condition, exp.Anonymous) or condition.name != _CALL:
        return None
    column, query, top_k = condition.expressions
    return VectorSearch(column.name, query, int(top_k.name))


def with_vector_searches(tokens: Sequence[Token], text: str) -> list[Token]:
    """Return the tokens of a query with joins in place of vector searches.

    Raises:
        SqlError: A search has another form.
    """
    found = list(tokens)
    at = 0
    while at + 2 < len(found):
        is_search = found[at].text.upper() == _NAME and found[at + 2].text.upper() in _FIRST
        if is_search and found[at + 1].token_type is TokenType.L_PAREN:
            start, end, join = _join(found, at, text)
            found[start:end] = join
            at = start + len(join)
        at += 1
    return found


def _join(tokens: Sequence[Token], at: int, text: str) -> tuple[int, int, list[Token]]:
    """Return the range of a search among the tokens, and the tokens of its join."""
    parts = _Parts(tokens, at + 2, text)
    start = at - 1
    is_wrapped = tokens[start].token_type is TokenType.L_PAREN
    if is_wrapped:
        start -= 2
    if start < 1 or tokens[start].token_type is not TokenType.LATERAL:
        raise parts.wrong(at)
    start -= 1
    if tokens[start].token_type not in (TokenType.COMMA, TokenType.JOIN):
        raise parts.wrong(start)
    join = _made(TokenType.JOIN, "JOIN", tokens[start])
    if tokens[start].token_type is TokenType.JOIN and tokens[start - 1].token_type in _JOINED:
        start -= 1

    parts.take("TABLE")
    table = parts.until_comma()
    parts.take("DESCRIPTOR")
    parts.take("(")
    column = parts.next()
    parts.take(")")
    comma = parts.take(",")
    query = parts.until_comma()
    top_k = parts.next()
    if top_k.token_type is not TokenType.NUMBER or not top_k.text.isdigit():
        raise parts.wrong(parts.at - 1)
    close = parts.take(")")
    if is_wrapped:
        parts.take(")")
    alias = parts.alias()
    if parts.text_at(0) == "ON" and parts.text_at(1) == "TRUE":
        parts.at += 2
    name, opening = tokens[at : at + 2]
    searched = _made(TokenType.STRING, column.text, column)
    call = [
        _made(TokenType.VAR, _CALL, name),
        opening,
        searched,
        comma,
        *query,
        comma,
        top_k,
        close,
    ]
    return start, parts.at, [join, *table, *alias, _made(TokenType.ON, "ON", name), *call]


@dataclass
class _Parts:
    """The parts of a search, read from left to right."""

    tokens: Sequence[Token]
    at: int
    text: str

    def wrong(self, at: int) -> SqlError:
        last = self.tokens[min(at, len(self.tokens) - 1)]
        return SqlError.at(
            self.text,
            last.start if at < len(self.tokens) else len(self.text),
            "this form of VECTOR_SEARCH is not supported",
            expected=_FORM,
            hint="write the arguments in this order, and set options of the table in place of "
            "CONFIG; in Python, use Pipeline.vector_search",
        )

    def text_at(self, offset: int) -> str:
        at = self.at + offset
        return self.tokens[at].text.upper() if at < len(self.tokens) else ""

    def next(self) -> Token:
        if self.at >= len(self.tokens):
            raise self.wrong(self.at)
        self.at += 1
        return self.tokens[self.at - 1]

    def take(self, word: str) -> Token:
        if self.text_at(0) != word:
            raise self.wrong(self.at)
        return self.next()

    def until_comma(self) -> list[Token]:
        """Return what is before the next comma, and skip it."""
        found, depth = [], 0
        while depth or self.text_at(0) != ",":
            found.append(self.next())
            depth += {"(": 1, ")": -1}.get(found[-1].text, 0)
            if depth < 0:
                raise self.wrong(self.at - 1)
        if not found:
            raise self.wrong(self.at)
        self.at += 1
        return found

    def alias(self) -> list[Token]:
        found = []
        if self.text_at(0) == "AS":
            found.append(self.next())
        names = {TokenType.VAR, TokenType.IDENTIFIER}
        if self.at < len(self.tokens) and self.tokens[self.at].token_type in names:
            found.append(self.next())
            if self.text_at(0) == "(":
                raise self.wrong(self.at)  # names of columns
        return found


def _made(kind: TokenType, text: str, place: Token) -> Token:
    """Return a token in place of another one."""
    return Token(kind, text, place.line, place.col, place.start, place.end)
