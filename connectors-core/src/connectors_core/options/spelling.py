# SPDX-License-Identifier: Apache-2.0
"""Lets errors name an option as the caller spells it: a Python keyword or an option key."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Final, ParamSpec, Protocol, TypeVar, cast

from connectors_core.errors import ConnectorError

__all__ = ["by_key", "is_by_key", "named_by", "spell", "spelled_as_made"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_MOST_CAUSES: Final = 32
_DEPTH: Final = 3
_by_key: Final[ContextVar[bool]] = ContextVar("connectors_options_by_key", default=False)


class _Maker(Protocol):
    def names_of_options(self) -> Mapping[str, str]: ...


@contextlib.contextmanager
def by_key() -> Iterator[None]:
    """Within the context, parts are created from options: errors name the keys."""
    token = _by_key.set(True)
    try:
        yield
    finally:
        _by_key.reset(token)


def is_by_key() -> bool:
    """Return whether parts are currently created from options."""
    return _by_key.get()


@contextlib.contextmanager
def named_by(keywords: Mapping[str, str] | None) -> Iterator[None]:
    """Let errors within the context name options by their keywords.

    Args:
        keywords: The keywords by key; None keeps the keys.
    """
    try:
        yield
    except ConnectorError as error:
        if keywords is not None and error.option is not None and error.keyword is None:
            error.keyword = keywords.get(error.option)
            error.keywords = dict(keywords)
        raise


def spell(error: BaseException, parts: Iterable[object]) -> None:
    """Let an error and its causes name all options as the parts of a pipeline were created.

    If some parts were created by keyword and others by key, the error shows the key.

    Args:
        error: The error of a pipeline.
        parts: Its sources, sinks, and tables.
    """
    names = _names(each for part in parts for each in _makers(part))
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if isinstance(cause, ConnectorError) and not cause.keywords:
            cause.keyword = cause.keyword or names.get(cause.option or "")
            cause.keywords = names
        cause = None if cause is None else cause.__cause__


def _names(makers: Iterable[_Maker]) -> dict[str, str]:
    """Return the names of options by key, without those that differ between the parts."""
    found: dict[str, set[str]] = {}
    for maker in makers:
        for key, name in maker.names_of_options().items():
            found.setdefault(key, set()).add(name)
    return {key: next(iter(names)) for key, names in found.items() if len(names) == 1}


def spelled_as_made(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a method that takes parts: its errors name options as the parts were created."""

    @functools.wraps(method)
    def called(*arguments: _P.args, **named: _P.kwargs) -> _R:
        try:
            return method(*arguments, **named)
        except ConnectorError as error:
            spell(error, (*arguments[1:], *named.values()))
            raise

    return called


def _makers(part: object, depth: int = _DEPTH) -> Iterator[_Maker]:
    """Yield the parts that know how they were created: a part itself, or those within it."""
    # Check the type, since a JVM object claims to have every attribute.
    if hasattr(type(part), "names_of_options"):
        yield cast(_Maker, part)
    elif depth:
        held = part if isinstance(part, tuple | list) else getattr(part, "__dict__", {}).values()
        for each in held:
            yield from _makers(each, depth - 1)
