# SPDX-License-Identifier: Apache-2.0
"""Suggestions for mistyped keywords."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

from connectors_core.options.suggestions import suggested

__all__ = ["suggesting_keywords", "unexpected_keyword"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def unexpected_keyword(
    call: str, keyword: str, suggestions: Iterable[str], *, instead: str | None = None
) -> TypeError:
    """Return Python's error about an unknown keyword, with its replacement or suggestions.

    Args:
        call: The name of the class or function.
        keyword: The keyword from the caller.
        suggestions: Keywords that may have been meant, best first.
        instead: The replacement of the keyword, if it is known.
    """
    meant = " or ".join(each if "=" in each else repr(each) for each in suggestions)
    hint = instead or (f"did you mean {meant}?" if meant else "")
    return TypeError(
        f"{call}() got an unexpected keyword argument {keyword!r}" + (f"; {hint}" if hint else "")
    )


def suggesting_keywords(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function or method: its error about an unknown keyword has suggestions."""
    known = {
        name: name
        for name, each in inspect.signature(method).parameters.items()
        if each.kind is not each.POSITIONAL_ONLY and name != "self"
    }
    call = method.__qualname__.removesuffix(".__init__")

    @functools.wraps(method)
    def called(*arguments: _P.args, **named: _P.kwargs) -> _R:
        stranger = next((name for name in named if name not in known), None)
        if stranger is not None:
            raise unexpected_keyword(call, stranger, suggested(stranger, known))
        return method(*arguments, **named)

    return called
