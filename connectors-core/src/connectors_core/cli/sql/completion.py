# SPDX-License-Identifier: Apache-2.0
"""Completes statements: a function of the text around the cursor and of the known names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol

from connectors_core.cli.sql.cursor import Cursor
from connectors_core.cli.sql.keywords import FOLLOWING, OF_DEFINITIONS, OF_QUERIES, STATEMENTS
from connectors_core.table.catalog_table import CONNECTOR
from connectors_core.table.sql.dialect import Kind, Word

__all__ = ["Candidate", "Names", "OptionHelp", "candidates"]

_PLAIN: Final = re.compile(r"[A-Za-z_]\w*")
_TYPE: Final = "type"

_BEFORE_TABLE: Final = frozenset({"FROM", "JOIN", "INTO", "LIKE", "DESC", "DESCRIBE"})
_OF_ROWS: Final = frozenset({"SELECT", "INSERT", "DELETE", "UPDATE", "WITH", "EXPLAIN", "EXECUTE"})
_BEFORE_OBJECT: Final = frozenset({"TABLE", "VIEW"})
_BEFORE_OPTIONS: Final = frozenset({"WITH", "OPTIONS", "SET", "RESET"})
_NO_ALIAS: Final = frozenset({*OF_QUERIES, "CROSS", "RIGHT", "FULL", "LATERAL"})


@dataclass(frozen=True, kw_only=True)
class OptionHelp:
    """An option for completion.

    Attributes:
        key: Its key. A key that ends with a dot is the beginning of others.
        values: The values that it allows; empty if they cannot be listed.
        doc: Its purpose.
    """

    key: str
    values: Sequence[str] = ()
    doc: str = ""


@dataclass(frozen=True)
class Candidate:
    """A completion.

    Attributes:
        text: The text that replaces the characters from the start to the cursor.
        start: The number of the first replaced character.
        shown: The text in the menu.
        doc: A note in the menu.
    """

    text: str
    start: int
    shown: str
    doc: str = ""


class Names(Protocol):
    """The names that statements can use. A system that cannot be asked has none."""

    def catalogs(self) -> Sequence[str]:
        """Return the catalogs."""

    def databases(self, catalog: str | None = None) -> Sequence[str]:
        """Return the databases of a catalog, or of the current one."""

    def tables(self, database: Sequence[str] = ()) -> Sequence[str]:
        """Return the tables and views of a database, or of the current one."""

    def columns(self, table: Sequence[str]) -> Sequence[str]:
        """Return the columns of a table."""

    def jobs(self) -> Sequence[str]:
        """Return the jobs."""

    def session_options(self) -> Sequence[OptionHelp]:
        """Return the options of SET."""

    def table_options(self, connector: str | None) -> Sequence[OptionHelp]:
        """Return the options of a connector, or only the one that names it."""

    def catalog_options(self, type_: str | None) -> Sequence[OptionHelp]:
        """Return the options of a type of catalogs, or only the one that names it."""

    def connector_of(self, table: Sequence[str]) -> str | None:
        """Return the connector of a table."""


def candidates(before: str, after: str, names: Names) -> list[Candidate]:
    """Return the completions at the cursor.

    Args:
        before: The text before the cursor.
        after: The text after it.
        names: The known names.
    """
    cursor = Cursor.of(before, after)
    return [] if cursor is None else sorted(set(_found(cursor, names)), key=lambda each: each.shown)


def _found(cursor: Cursor, names: Names) -> Iterator[Candidate]:
    key = _option_at(cursor)
    if key is not None:
        yield from _options(cursor, names, key)
        return
    if cursor.quote == "`":
        yield from _identifiers(cursor, [*_objects(cursor, names), *_columns(cursor, names)])
        return
    if cursor.quote:
        if cursor.said() == "JOB":
            yield from _texts(cursor, names.jobs())
        return
    if cursor.path:
        yield from _identifiers(cursor, [*_objects(cursor, names), *_columns(cursor, names)])
        return
    yield from _keywords(cursor)
    if cursor.first == "USE":
        databases = () if cursor.said() == "CATALOG" else names.databases()
        yield from _identifiers(cursor, [*databases, *names.catalogs()])
    elif _is_of_table(cursor):
        yield from _identifiers(cursor, _objects(cursor, names))
    elif cursor.said() in {"IN", "FROM"} and cursor.first == "SHOW":
        yield from _identifiers(cursor, [*names.databases(), *names.catalogs()])
    elif cursor.first in _OF_ROWS:
        yield from _identifiers(cursor, _columns(cursor, names))


def _is_of_table(cursor: Cursor) -> bool:
    """Return whether a table, a view, or a part of its name follows."""
    said = cursor.said()
    if cursor.first == "SHOW":
        return cursor.said(2) == "CREATE"
    if said in _BEFORE_OBJECT:
        return cursor.first != "CREATE"
    if said == "EXISTS":
        return cursor.first == "DROP" and cursor.said(3) in _BEFORE_OBJECT
    if said == ",":
        clause = [word.upper for word in cursor.words if word.upper in {"FROM", "SELECT", "WHERE"}]
        return bool(clause) and clause[-1] == "FROM"
    return said in _BEFORE_TABLE


def _objects(cursor: Cursor, names: Names) -> Iterable[str]:
    """Return the catalogs, databases, and tables that can follow the path."""
    match cursor.path:
        case ():
            return [*names.tables(), *names.databases(), *names.catalogs()]
        case (one,):
            inside = names.databases(one) if one in names.catalogs() else ()
            return [*inside, *(names.tables((one,)) if one in names.databases() else ())]
        case path:
            return names.tables(path)


def _columns(cursor: Cursor, names: Names) -> Iterable[str]:
    """Return the columns of the tables in the statement, or of the one before the dot."""
    tables = _tables_in([*cursor.words, *cursor.later])
    if not cursor.path:
        found = [column for table in tables.values() for column in names.columns(table)]
        return [*found, *(alias for alias in tables if alias)]
    if len(cursor.path) == 1 and cursor.path[0].lower() in tables:
        return names.columns(tables[cursor.path[0].lower()])
    return names.columns(cursor.path) if cursor.path in tables.values() else ()


def _tables_in(words: Sequence[Word]) -> dict[str, tuple[str, ...]]:
    """Return the tables that a statement reads or writes, by their names in the query."""
    found = {}
    at = 0
    while at < len(words):
        at += 1
        if words[at - 1].upper not in {"FROM", "JOIN", "INTO"}:
            continue
        parts: list[str] = []
        while at < len(words) and words[at].kind in {Kind.WORD, Kind.NAME}:
            parts.append(words[at].value)
            at += 1
            if at >= len(words) or words[at].upper != ".":
                break
            at += 1
        if not parts:
            continue
        at += at < len(words) and words[at].upper == "AS"
        alias = parts[-1]
        if at < len(words) and words[at].kind in {Kind.WORD, Kind.NAME}:
            alias = alias if words[at].upper in _NO_ALIAS else words[at].value
        found[alias.lower()] = tuple(parts)
    return found


def _keywords(cursor: Cursor) -> Iterator[Candidate]:
    known, is_short = _known_keywords(cursor)
    lower = cursor.prefix.islower()
    for each in known:
        text = each.lower() if lower else each
        if is_short or cursor.prefix:
            yield from _starting(cursor, text)


def _known_keywords(cursor: Cursor) -> tuple[Sequence[str], bool]:
    """Return the keywords that can follow, and whether these are few enough to show all."""
    first, count = cursor.first, len(cursor.words)
    if count == 0 or (first == "EXPLAIN" and count == 1):
        return STATEMENTS, True
    if count == 1 and first in FOLLOWING:
        return FOLLOWING[first], True
    if first in {"CREATE", "ALTER", "DROP"} and "SELECT" not in _said(cursor.words):
        return OF_DEFINITIONS, False
    if first in _OF_ROWS | {"CREATE"}:
        return OF_QUERIES, False
    return (), False


def _starting(cursor: Cursor, text: str) -> Iterator[Candidate]:
    if text.lower().startswith(cursor.prefix.lower()):
        yield Candidate(text, cursor.start, text)


def _said(words: Iterable[Word]) -> set[str]:
    return {word.upper for word in words}


def _identifiers(cursor: Cursor, found: Iterable[str]) -> Iterator[Candidate]:
    prefix = cursor.prefix.lower()
    for name in found:
        if not name.lower().startswith(prefix):
            continue
        if cursor.quote:
            text = name.replace("`", "``") + ("" if cursor.closed else "`")
        else:
            text = name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"
        yield Candidate(text, cursor.start, name)


def _texts(cursor: Cursor, found: Iterable[str]) -> Iterator[Candidate]:
    for value in found:
        if value.startswith(cursor.prefix):
            yield Candidate(value + ("" if cursor.closed else cursor.quote), cursor.start, value)


# --- Options ---


def _option_at(cursor: Cursor) -> str | None:
    """Return the key whose value is completed, nothing if it is a key, or None elsewhere."""
    if cursor.first in {"SET", "RESET"}:
        inside = cursor.words[1:]
    else:
        start = _open_parenthesis(cursor.words)
        if start is None or cursor.words[start - 1].upper not in _BEFORE_OPTIONS:
            return None
        inside = cursor.words[start + 1 :]
        ends = [number for number, word in enumerate(inside) if word.upper == ","]
        inside = inside[ends[-1] + 1 :] if ends else inside
    match inside:
        case []:
            return ""
        case [key, equals] if equals.upper == "=":
            return key.value
        case _:
            return None


def _open_parenthesis(words: Sequence[Word]) -> int | None:
    depth = 0
    for number in range(len(words) - 1, 0, -1):
        depth += (words[number].upper == ")") - (words[number].upper == "(")
        if depth < 0:
            return number
    return None


def _options(cursor: Cursor, names: Names, key: str) -> Iterator[Candidate]:
    known = _known_options(cursor, names)
    if key:
        if cursor.quote:
            yield from _texts(cursor, [v for each in known if each.key == key for v in each.values])
        return
    given = {word.value for word in (*cursor.words, *cursor.later) if word.kind is Kind.TEXT}
    quote = cursor.quote or "'"
    is_reset = "RESET" in {cursor.first, *(_said(cursor.words[-2:]))}
    ending = quote if is_reset else f"{quote} = {quote}"
    for each in known:
        if each.key in given or not each.key.startswith(cursor.prefix):
            continue
        closes = "" if cursor.closed or each.key.endswith(".") else ending
        text = f"{'' if cursor.quote else quote}{each.key}{closes}"
        yield Candidate(text, cursor.start, each.key, each.doc)


def _known_options(cursor: Cursor, names: Names) -> Sequence[OptionHelp]:
    if cursor.first in {"SET", "RESET"}:
        return names.session_options()
    words = [*cursor.words, *cursor.later]
    if len(words) > 1 and words[1].upper == "CATALOG":
        return names.catalog_options(_value_of(words, _TYPE))
    connector = _value_of(words, CONNECTOR) or _used(words)
    if connector is None and cursor.first == "ALTER":
        connector = names.connector_of(_table_after(words, "TABLE"))
        return [each for each in names.table_options(connector) if each.key != CONNECTOR]
    return names.table_options(connector)


def _value_of(words: Sequence[Word], key: str) -> str | None:
    for at in range(len(words) - 2):
        pair = words[at : at + 3]
        if pair[0].value == key and pair[1].upper == "=" and pair[2].kind is Kind.TEXT:
            return pair[2].value
    return None


def _used(words: Sequence[Word]) -> str | None:
    for word, following in pairwise(words):
        if word.upper == "USING" and following.value.lower().startswith("connector_"):
            return following.value.lower().removeprefix("connector_").replace("_", "-")
    return None


def _table_after(words: Sequence[Word], keyword: str) -> tuple[str, ...]:
    at = next(number for number, word in enumerate(words) if word.upper == keyword) + 1
    return next(iter(_tables_in([Word(Kind.WORD, "FROM", 0, 0), *words[at:]]).values()), ())
