# SPDX-License-Identifier: Apache-2.0
"""Errors name an option as the caller spells it: a keyword in Python, a key among options."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, TypeVar, cast

from connectors_core.annotations import public
from connectors_core.errors import ConnectorError

__all__ = ["keyword_of", "spelled_in_python"]

_T = TypeVar("_T", bound=type)
_by_key: Final[ContextVar[bool]] = ContextVar("connectors_options_by_key", default=False)


@public
def spelled_in_python(
    keywords: Mapping[str, str] | None = None, *, made_of_options: Sequence[str] = ("from_options",)
) -> Callable[[_T], _T]:
    """A decorator of classes that users make by keywords or of options.

    An error that their constructor raises shows the keyword in the place of the option's key; its
    attribute ``option`` keeps the key. What is made of options shows the key.

    Args:
        keywords: Keywords by the key of their option, where the end of the key is not the keyword.
        made_of_options: Class methods that take options by key.
    """

    def decorate(cls: _T) -> _T:
        names = [name for name in inspect.signature(cls).parameters if name != "self"]
        known = dict(keywords or {})
        init = cast(Any, cls).__init__

        @functools.wraps(init)
        def spelled(self: Any, *arguments: Any, **named: Any) -> None:
            try:
                init(self, *arguments, **named)
            except ConnectorError as error:
                if error.option is not None and error.keyword is None and not _by_key.get():
                    error.keyword = known.get(error.option) or keyword_of(error.option, names)
                raise

        cast(Any, cls).__init__ = spelled
        for name in made_of_options:
            setattr(cls, name, classmethod(_of_options(cls.__dict__[name].__func__)))
        return cls

    return decorate


def keyword_of(key: str, keywords: Sequence[str]) -> str | None:
    """The longest keyword that an option's key ends with, word by word; None for none.

    Args:
        key: As in ``scan.poll-interval``.
        keywords: As in ``poll_interval``.
    """
    words = re.sub(r"[.\-]", "_", key.removesuffix(".*"))
    fitting = [each for each in keywords if words == each or words.endswith("_" + each)]
    return max(fitting, key=len, default=None)


def _of_options(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def made(*arguments: Any, **named: Any) -> Any:
        token = _by_key.set(True)
        try:
            return method(*arguments, **named)
        finally:
            _by_key.reset(token)

    return made
