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
    """Return the parts of a text that are values of secret options."""
    found: list[Word] = []
    for statement in _statements(words_of(text)):
        pairs = _set(statement) if statement[0].upper == "SET" else _pairs(statement)
        found += [value for key, value in pairs if _is_secret(key, value.value)]
    return found


def _statements(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    for is_end, statement in groupby(words, lambda word: word.upper == ";"):
        if not is_end:
            yield list(statement)


def _set(words: Sequence[Word]) -> Iterator[tuple[str, Word]]:
    """Yield the key of SET with each part of its value."""
    equals = next((at for at, word in enumerate(words) if word.upper == "="), len(words))
    key = "".join(word.value for word in words[1:equals])
    yield from ((key, value) for value in words[equals + 1 :])


def _pairs(words: Sequence[Word]) -> Iterator[tuple[str, Word]]:
    """Yield `'key' = 'value'`, and what OPTIONS also allows: `'key' 'value'` and `key 'value'`."""
    is_options = any(word.upper == "OPTIONS" for word in words)
    for at, value in enumerate(words):
        has_equals = at > 0 and words[at - 1].upper == "="
        end = at - has_equals
        start = end - 1
        if value.kind is not Kind.TEXT or start < 0:
            continue
        while start > 1 and words[start - 1].upper == "." and words[start].kind is not Kind.TEXT:
            start -= 2
        is_text = words[start].kind is Kind.TEXT
        is_listed = start > 0 and words[start - 1].upper in {"(", ","}
        if (has_equals and is_text) or (is_listed and (is_text or is_options)):
            yield "".join(word.value for word in words[start:end]), value


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
