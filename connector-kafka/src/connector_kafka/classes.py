# SPDX-License-Identifier: Apache-2.0
"""Objects of classes that options name."""

from __future__ import annotations

import importlib
from typing import Any, TypeVar

__all__ = ["created"]

T = TypeVar("T")


def created(path: str, kind: type[T], *arguments: Any) -> T:
    """Import a class and create an object of it.

    Args:
        path: The class, as `module:Class`.
        kind: The class from which it is derived.
        *arguments: The arguments of its constructor.

    Raises:
        ValueError: There is no such class, or it does not accept the arguments. The message says
            what is expected.
    """
    expected = f"a subclass of {kind.__name__} as module:Class"
    module, _, name = path.partition(":")
    try:
        made = getattr(importlib.import_module(module), name)(*arguments)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{expected} ({type(error).__name__}: {error})") from error
    if not isinstance(made, kind):
        raise ValueError(expected)
    return made
