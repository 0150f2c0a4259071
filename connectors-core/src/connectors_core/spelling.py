# SPDX-License-Identifier: Apache-2.0
"""Errors name an option as the caller spells it: a keyword in Python, a key among options."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
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
    def name_of_option(self, key: str) -> str | None: ...


@contextlib.contextmanager
def by_key() -> Iterator[None]:
    """What is made within is made of options: errors name these by their keys."""
    token = _by_key.set(True)
    try:
        yield
    finally:
        _by_key.reset(token)


def is_by_key() -> bool:
    """Whether what is made now is made of options by key."""
    return _by_key.get()


@contextlib.contextmanager
def named_by(keyword_of_key: Callable[[str], str | None] | None) -> Iterator[None]:
    """Errors within name options by their keywords.

    Args:
        keyword_of_key: The keyword of an option's key; None leaves the keys.
    """
    try:
        yield
    except ConnectorError as error:
        if keyword_of_key is not None and error.option is not None and error.keyword is None:
            error.keyword = keyword_of_key(error.option)
        raise


def spell(error: BaseException, parts: Iterable[object]) -> None:
    """Let an error and its causes name options as the parts of a pipeline were made.

    Where some parts were made by a keyword and others by the key, the key is shown.

    Args:
        error: What a pipeline raises.
        parts: Its sources, sinks and tables.
    """
    makers = [each for part in parts for each in _makers(part)]
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if isinstance(cause, ConnectorError) and cause.option is not None:
            found = {name for each in makers if (name := each.name_of_option(cause.option))}
            if len(found) == 1 and cause.keyword is None:
                cause.keyword = found.pop()
        cause = None if cause is None else cause.__cause__


def spelled_as_made(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """A decorator of methods that take parts: their errors name options as these were made."""

    @functools.wraps(method)
    def called(*arguments: _P.args, **named: _P.kwargs) -> _R:
        try:
            return method(*arguments, **named)
        except ConnectorError as error:
            spell(error, (*arguments[1:], *named.values()))
            raise

    return called


def _makers(part: object, depth: int = _DEPTH) -> Iterator[_Maker]:
    """The parts that know how they were made: a part itself, or else those that it holds."""
    # Of the type: an object of the JVM claims to have every attribute.
    if hasattr(type(part), "name_of_option"):
        yield cast(_Maker, part)
    elif depth:
        held = part if isinstance(part, tuple | list) else getattr(part, "__dict__", {}).values()
        for each in held:
            yield from _makers(each, depth - 1)
