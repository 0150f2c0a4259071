# SPDX-License-Identifier: Apache-2.0
"""Finds the values of secret options in statements, so that nothing shows or stores them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import groupby

from connectors_core.catalog.factory import TYPE, catalog_factory, catalog_types
from connectors_core.secrets import MASK, mask_text, masked
from connectors_core.table.factory import connectors, factory_of
from connectors_core.table.references import is_reference
from connectors_core.table.sql import SqlError
from connectors_core.table.sql.dialect import Kind, Word, words_of

__all__ = ["has_secrets", "without_secrets"]


def has_secrets(text: str) -> bool:
    """Return whether a statement has the literal value of a secret option.

    A text that cannot be read counts as one with secrets.
    """
    try:
        return bool(_secrets(text))
    except SqlError:
        return True


def without_secrets(text: str) -> list[tuple[str, int, int]]:
    """Return the parts of a text, each with the range that it replaces. Secrets are masked.

    Raises:
        SqlError: A quoted text or a comment does not end.
    """
    parts, at = [], 0
    for word in _secrets(text):
        parts += [(text[at : word.start], at, word.start), (f"'{MASK}'", word.start, word.end)]
        at = word.end
    return [*parts, (text[at:], at, len(text))]


def _secrets(text: str) -> list[Word]:
    """Return the parts of a text that are values of secret options, in their order."""
    found = {
        value.start: value
        for statement in _statements(words_of(text))
        for keys, value in _pairs(statement)
        if any(_is_secret(key, value.value) for key in keys)
    }
    return [found[start] for start in sorted(found)]


def _statements(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    for is_end, statement in groupby(words, lambda word: word.upper == ";"):
        if not is_end:
            yield list(statement)


def _pairs(statement: Sequence[Word]) -> Iterator[tuple[Sequence[str], Word]]:
    """Yield the values in a statement, right or wrong, each with what its key can be."""
    if statement[0].upper == "SET":
        yield from _set(statement[1:])
    for words in _entries(statement):
        for at, value in enumerate(words):
            # A comment follows the name and the type of a column.
            is_comment = at > 0 and words[at - 1].upper == "COMMENT"
            if value.kind in {Kind.TEXT, Kind.NUMBER} and not is_comment:
                yield _keys(words[:at]), value


def _set(words: Sequence[Word]) -> Iterator[tuple[Sequence[str], Word]]:
    """Yield each part of a value of SET, which needs no quotes."""
    equals = next((at for at, word in enumerate(words) if "=" in word.upper), len(words))
    space = next((at for at in range(1, len(words)) if _is_apart(words, at)), len(words))
    for end in {equals, space}:
        yield from ((_keys(words[:end]), each) for each in words[end:] if "=" not in each.upper)


def _entries(statement: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Yield the words between parentheses and commas, except those of a query."""
    in_query, entry = [False], list[Word]()
    for word in statement:
        if word.upper not in {"(", ",", ")", "SELECT"}:
            entry.append(word)
            continue
        if not in_query[-1]:
            yield entry
        entry = []
        match word.upper:
            case "SELECT":
                in_query[-1] = True
            case "(":
                in_query.append(False)
            case ")" if len(in_query) > 1:
                in_query.pop()
    if not in_query[-1]:
        yield entry


def _keys(words: Sequence[Word]) -> Sequence[str]:
    """Return all keys that end before a value: a wrong statement has more before its key."""
    end = len(words)
    while end and words[end - 1].kind is Kind.SYMBOL:
        end -= 1
    starts = [at for at in range(end) if at == 0 or _is_apart(words, at)]
    return ["".join(word.value for word in words[start:end]) for start in starts] or [""]


def _is_apart(words: Sequence[Word], at: int) -> bool:
    """Return whether a word is no continuation of the one before it, as in `a.b`."""
    before, word = words[at - 1], words[at]
    return before.end < word.start or Kind.TEXT in {before.kind, word.kind}


def _is_secret(key: str, value: str) -> bool:
    if is_reference(value):
        return False
    by_name = masked({key: value})[key] != value or mask_text(value) != value
    return by_name or any(is_secret(key) for is_secret in _declared())


@cache
def _declared() -> tuple[Callable[[str], bool], ...]:
    """Return how each installed connector and catalog names its secrets."""
    found: list[Callable[[str], bool]] = []
    for each in connectors():
        with suppress(Exception):  # a package that cannot be loaded
            found.append(factory_of(each).is_secret)
    for each in catalog_types():
        with suppress(Exception):
            found.append(catalog_factory(each, {TYPE: each}).is_secret)
    return tuple(found)
