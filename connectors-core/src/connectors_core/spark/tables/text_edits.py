# SPDX-License-Identifier: Apache-2.0
"""Replaces parts of a statement's text, so that Spark receives the rest as it was written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope

from connectors_core.table.sql.statements import Name

__all__ = ["Edits", "name_of", "span", "tables_of"]


@dataclass
class Edits:
    """Replacements in a text, in any order.

    Attributes:
        text: The text.
    """

    text: str
    _parts: list[tuple[int, int, str]] = field(default_factory=list)

    def replace(self, start: int, end: int, by: str) -> None:
        """Replace the characters of a range."""
        self._parts.append((start, end, by))

    def result(self, start: int = 0, end: int | None = None) -> str:
        """Return a part of the text with the replacements in it."""
        end = len(self.text) if end is None else end
        found, at = [], start
        for left, right, by in self._applied(start, end):
            found += [self.text[at:left], by]
            at = right
        return "".join([*found, self.text[at:end]])

    def origin(self, place: int) -> int:
        """Return the place in the text of a character of the whole result.

        Within a replacement, it is that of the first replaced character.
        """
        shift = 0  # from the text to the result
        for left, right, by in self._applied(0, len(self.text)):
            if place < left + shift + len(by):
                return min(left, place - shift)
            shift += len(by) - (right - left)
        return min(place - shift, len(self.text))

    def _applied(self, start: int, end: int) -> Iterator[tuple[int, int, str]]:
        """Yield the replacements that are within a range, and not within another one."""
        at = start
        for left, right, by in sorted(self._parts, key=lambda part: (part[0], -part[1])):
            if at <= left and right <= end:
                yield left, right, by
                at = right


def span(node: exp.Expr) -> tuple[int, int]:
    """Return the range of a name in the text."""
    parts = node.parts if isinstance(node, exp.Table | exp.Column) else [node]
    places = [part.meta for part in parts if "start" in part.meta]
    return places[0]["start"], places[-1]["end"] + 1


def name_of(table: exp.Table) -> Name:
    """Return the name of a table as the query writes it."""
    return tuple(part.name for part in table.parts)


def tables_of(query: exp.Expr) -> Iterator[exp.Table]:
    """Yield the tables that a query names, without those that it defines itself by WITH."""
    if not isinstance(query, exp.Query):
        return  # VALUES
    seen: set[int] = set()
    for scope in traverse_scope(query):
        for source in scope.sources.values():
            if isinstance(source, exp.Table) and id(source) not in seen:
                seen.add(id(source))
                yield source
