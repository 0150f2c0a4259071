# SPDX-License-Identifier: Apache-2.0
"""Marks of stability, for public names that are not stable.

A name is public if it is in the `__all__` of a package that `docs/reference/public-api.md` lists.
It is stable unless it has a mark.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, TypeVar, cast

__all__ = [
    "ConnectorDeprecationWarning",
    "Stability",
    "deprecated",
    "experimental",
    "public",
    "stability_of",
]

_T = TypeVar("_T", bound=Callable[..., Any])

_ATTRIBUTE: Final = "__stability__"
_warned_lock: Final = threading.Lock()


class Stability(StrEnum):
    """What users may rely on; a name without a mark changes only with a major version."""

    EXPERIMENTAL = "experimental"
    """May change or go with any minor version."""
    DEPRECATED = "deprecated"
    """Works, warns, and goes with the version it names."""


class ConnectorDeprecationWarning(DeprecationWarning):
    """Something of a connector or the core is used that will be removed.

    Args:
        message: What is deprecated and what to use instead.
        since: Version that deprecated it.
        removal: Version that removes it, or None where that is not decided.
    """

    def __init__(self, message: str, *, since: str = "", removal: str | None = None) -> None:
        super().__init__(message)
        self.since: str = since
        self.removal: str | None = removal


def public(target: _T) -> _T:
    """Deprecated since 1.0.0, removed in 2.0.0: it does nothing. Released connectors import it."""
    return target


def experimental(target: _T) -> _T:
    """Mark a class or function as open to change with any minor version."""
    setattr(target, _ATTRIBUTE, Stability.EXPERIMENTAL)
    return target


def deprecated(
    *, since: str, removal: str | None = None, instead: str | None = None
) -> Callable[[_T], _T]:
    """Mark a class or function as going away; its first use in a process warns once.

    Args:
        since: Version that deprecates it.
        removal: Version that removes it.
        instead: What to use instead.

    Returns:
        A decorator. A function is wrapped; a class stays the same object and warns when it is
        instantiated or subclassed and instantiated.
    """

    def decorate(target: _T) -> _T:
        until = f" and will be removed in {removal}" if removal else ""
        other = f"; use {instead} instead" if instead else ""
        message = f"{target.__qualname__} is deprecated since {since}{until}{other}"
        warning = ConnectorDeprecationWarning(message, since=since, removal=removal)
        warned = False

        def warn_once() -> None:
            nonlocal warned
            with _warned_lock:
                if warned:
                    return
                warned = True
            warnings.warn(warning, stacklevel=3)

        called: Any = target.__init__ if isinstance(target, type) else target  # type: ignore[misc]

        @functools.wraps(called)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            warn_once()
            return called(*args, **kwargs)

        if isinstance(target, type):
            target.__init__ = wrapper  # type: ignore[misc]
            result: Any = target
        else:
            result = wrapper
        setattr(result, _ATTRIBUTE, Stability.DEPRECATED)
        return cast(_T, result)

    return decorate


def stability_of(target: object) -> Stability | None:
    """Return the mark of a class or function, None where it has none of its own.

    A subclass does not inherit the mark: a user's class is not promised because its base is.
    """
    own = vars(target) if hasattr(target, "__dict__") else {}
    mark = own.get(_ATTRIBUTE)
    return mark if isinstance(mark, Stability) else None
