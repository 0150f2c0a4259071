# SPDX-License-Identifier: Apache-2.0
"""Reads the keyword arguments of a class that declares its settings in its body."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import griffe

__all__ = ["Keyword", "keywords_of", "signature"]

_SETTING: Final = "Setting"
_LONGEST_DEFAULT: Final = 40


@dataclass(frozen=True, kw_only=True)
class Keyword:
    """A keyword argument of a constructor.

    Attributes:
        name: Its name.
        accepted: The accepted types.
        default: The default value as code; None if it is required.
        is_keyword_only: Whether it cannot be positional.
        doc: Its description.
    """

    name: str
    accepted: str
    default: str | None
    is_keyword_only: bool
    doc: str


def keywords_of(target: griffe.Class) -> tuple[Keyword, ...]:
    """Return the keywords of a class and its bases in order; none for other classes."""
    found = {
        member.name: _keyword(member, member.annotation)
        for each in (*reversed(target.mro()), target)
        for member in each.members.values()
        if isinstance(member, griffe.Attribute)
        and isinstance(member.annotation, griffe.ExprSubscript)
        and str(member.annotation.left) == _SETTING
    }
    return tuple(sorted(found.values(), key=lambda each: each.is_keyword_only))


def signature(name: str, keywords: Sequence[Keyword]) -> str:
    """Return the signature of a constructor as Python code."""
    shown = [
        f"{each.name}: {each.accepted}" + ("" if each.default is None else f" = {each.default}")
        for each in keywords
    ]
    positional = sum(not each.is_keyword_only for each in keywords)
    if positional < len(keywords):
        shown.insert(positional, "*")
    return f"{name}({', '.join(shown)})"


def _keyword(member: griffe.Attribute, annotation: griffe.ExprSubscript) -> Keyword:
    types = annotation.slice
    accepted = types.elements[-1] if isinstance(types, griffe.ExprTuple) else types
    call = member.value if isinstance(member.value, griffe.ExprCall) else None
    arguments = call.arguments if call is not None else ()
    given = {each.name: each.value for each in arguments if isinstance(each, griffe.ExprKeyword)}
    default = str(given["default"]) if "default" in given else None
    if default is not None and len(default) > _LONGEST_DEFAULT:
        default = "..."
    return Keyword(
        name=_text(given.get("alias")) or member.name,
        accepted=str(accepted),
        default=default if call is not None else "...",
        is_keyword_only=str(given.get("kw_only", True)) != "False",
        doc=_text(given.get("doc")),
    )


def _text(expression: str | griffe.Expr | None) -> str:
    """Return the value of a literal; empty for other expressions."""
    try:
        return str(ast.literal_eval(str(expression))) if expression is not None else ""
    except (SyntaxError, ValueError):
        return ""
