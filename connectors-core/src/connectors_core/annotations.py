# SPDX-License-Identifier: Apache-2.0
"""Stability marks for public names that are not stable.

A name is public if it is in the `__all__` of a package that `docs/reference/public-api.md` lists.
It is stable unless it has a mark.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar, cast

__all__ = [
    "ConnectorDeprecationWarning",
    "Stability",
    "deprecated",
    "experimental",
    "public",
    "removed_names",
    "stability_of",
]

_T = TypeVar("_T", bound=Callable[..., Any])

_ATTRIBUTE: Final = "__stability__"
_warned_lock: Final = threading.Lock()

# Their released 2.x import former names, and their tests turn the warning into an error.
_RELEASED: Final = ("connector_elasticsearch", "connector_filesystem", "connector_kafka")


class Stability(StrEnum):
    """The stability of a name. A name without a mark changes only in a major version."""

    EXPERIMENTAL = "experimental"
    """It may change or be removed in any minor version."""
    DEPRECATED = "deprecated"
    """It works with a warning, and is removed in the named version."""


class ConnectorDeprecationWarning(DeprecationWarning):
    """The program uses a name that will be removed from a connector or the core.

    Args:
        message: What is deprecated and what to use instead.
        since: Version that deprecated it.
        removal: Version that removes it, or None if that is undecided.
    """

    def __init__(self, message: str, *, since: str = "", removal: str | None = None) -> None:
        super().__init__(message)
        self.since: str = since
        self.removal: str | None = removal


def public(target: _T) -> _T:
    """Deprecated since 1.0.0, removed in 2.0.0: a name is public if an `__all__` lists it."""
    _warn_of_former(f"{__name__}.public", "`__all__`")
    return target


def experimental(target: _T) -> _T:
    """Mark a class or function that may change in any minor version."""
    setattr(target, _ATTRIBUTE, Stability.EXPERIMENTAL)
    return target


def deprecated(
    *, since: str, removal: str | None = None, instead: str | None = None
) -> Callable[[_T], _T]:
    """Mark a class or function as deprecated; its first use in a process warns once.

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


def former_names(module: str, paths: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module whose names have moved; using one of them warns.

    Args:
        module: The module.
        paths: The dotted path of the object by its former name.
    """

    def get(name: str) -> Any:
        if name not in paths:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn_of_former(f"{module}.{name}", paths[name])
        home, _, found = paths[name].rpartition(".")
        return getattr(importlib.import_module(home), found)

    return get


def removed_names(module: str, instead: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module: importing a removed name fails with its replacement.

    The error is an `ImportError`, because Python hides the text of an `AttributeError` in
    `from module import name`.

    Args:
        module: The module.
        instead: The replacement of each removed name, for the error.
    """

    def get(name: str) -> Any:
        if name not in instead:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise ImportError(f"{name} is removed from {module}; use {instead[name]}", name=module)

    return get


def _warn_of_former(name: str, instead: str) -> None:
    """Warn the caller's caller, unless it is a released connector."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_globals.get("__name__") == "importlib._bootstrap":
        frame = frame.f_back
    if str(frame.f_globals.get("__name__")).startswith(_RELEASED):
        return
    message = f"{name} is deprecated since 1.0.0 and will be removed in 2.0.0; use {instead}"
    warning = ConnectorDeprecationWarning(message, since="1.0.0", removal="2.0.0")
    warnings.warn(warning, stacklevel=3)


def stability_of(target: object) -> Stability | None:
    """Return the mark of a class or function; None if it has none.

    A subclass does not inherit the mark of its base.
    """
    own = vars(target) if hasattr(target, "__dict__") else {}
    mark = own.get(_ATTRIBUTE)
    return mark if isinstance(mark, Stability) else None
