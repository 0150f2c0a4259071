# SPDX-License-Identifier: Apache-2.0
"""Errors name an option as the caller spells it: a keyword in Python, a key among options."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, ParamSpec, TypeVar, cast

from connectors_core.errors import ConnectorError

__all__ = ["keyword_of", "spell", "spelled_as_made", "spelled_in_python"]

_T = TypeVar("_T", bound=type)
_P = ParamSpec("_P")
_R = TypeVar("_R")
_SPELLING: Final = "_spelling_of_options"
_MADE_OF_OPTIONS: Final = "_made_of_options"
_MOST_CAUSES: Final = 32
_DEPTH: Final = 3
_by_key: Final[ContextVar[bool]] = ContextVar("connectors_options_by_key", default=False)


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


def spelled_in_python(
    keywords: Mapping[str, str] | None = None, *, made_of_options: Sequence[str] = ("from_options",)
) -> Callable[[_T], _T]:
    """A decorator of classes that users make by keywords or of options.

    An error that their constructor raises, or a pipeline that they are a part of, shows the keyword
    in the place of the option's key; its attribute ``option`` keeps the key. What is made of
    options shows the key.

    Args:
        keywords: Keywords by the key of their option, where the end of the key is not the keyword.
        made_of_options: Class methods that take options by key.
    """

    def decorate(cls: _T) -> _T:
        names = [name for name in inspect.signature(cls).parameters if name != "self"]
        known = dict(keywords or {})
        init = cast(Any, cls).__init__

        def spelling(key: str) -> str | None:
            return known.get(key) or keyword_of(key, names)

        @functools.wraps(init)
        def spelled(self: Any, *arguments: Any, **named: Any) -> None:
            try:
                init(self, *arguments, **named)
            except ConnectorError as error:
                if error.option is not None and error.keyword is None and not _by_key.get():
                    error.keyword = spelling(error.option)
                raise
            object.__setattr__(self, _MADE_OF_OPTIONS, _by_key.get())

        cast(Any, cls).__init__ = spelled
        setattr(cls, _SPELLING, staticmethod(spelling))
        for name in made_of_options:
            setattr(cls, name, classmethod(_of_options(cls.__dict__[name].__func__)))
        return cls

    return decorate


def spell(error: BaseException, parts: Iterable[object]) -> None:
    """Let an error and its causes name options as the parts of a pipeline were made.

    Where some parts were made by a keyword and others by the key, the key is shown.

    Args:
        error: What a pipeline raises.
        parts: Its sources, sinks and tables.
    """
    makers = [each for part in parts for each in _spelled(part)]
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if isinstance(cause, ConnectorError) and cause.option is not None:
            key = cause.option
            found = {
                key if getattr(each, _MADE_OF_OPTIONS, False) else keyword
                for each in makers
                if (keyword := getattr(each, _SPELLING)(key)) is not None
            }
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


def keyword_of(key: str, keywords: Sequence[str]) -> str | None:
    """The longest keyword that an option's key ends with, word by word; None for none.

    Args:
        key: As in ``scan.poll-interval``.
        keywords: As in ``poll_interval``.
    """
    words = re.sub(r"[.\-]", "_", key.removesuffix(".*"))
    fitting = [each for each in keywords if words == each or words.endswith("_" + each)]
    return max(fitting, key=len, default=None)


def _spelled(part: object, depth: int = _DEPTH) -> Iterator[object]:
    """A part, and those that it holds, as far as they know how they were made."""
    if hasattr(type(part), _SPELLING):
        yield part
    if hasattr(type(part), "SETTINGS"):
        return  # it names what its parts hold, too
    if depth:
        held = part if isinstance(part, tuple | list) else getattr(part, "__dict__", {}).values()
        for each in held:
            yield from _spelled(each, depth - 1)


def _of_options(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def made(*arguments: Any, **named: Any) -> Any:
        token = _by_key.set(True)
        try:
            return method(*arguments, **named)
        finally:
            _by_key.reset(token)

    return made
