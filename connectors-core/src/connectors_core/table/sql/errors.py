# SPDX-License-Identifier: Apache-2.0
"""Errors in statements, with their place."""

from __future__ import annotations

import re
from typing import Final, Self

from connectors_core.errors import ConfigurationError

__all__ = ["SqlError"]

_PART: Final = re.compile(r"\w+|\S")
_QUOTES: Final = ("'", '"')


class SqlError(ConfigurationError):
    """A statement is wrong."""

    code = "SQL"

    @classmethod
    def at(
        cls,
        text: str,
        at: int,
        message: str,
        *,
        expected: object = None,
        hint: str | None = None,
    ) -> Self:
        """Return an error with the line and column of a place in the text.

        It shows only the word at the place, and no quoted text, which can be a secret.

        Args:
            text: The whole text.
            at: The number of the character.
            message: One sentence that states the problem.
            expected: The valid text.
            hint: An instruction that fixes the problem.
        """
        line = text.count("\n", 0, at) + 1
        column = at - (text.rfind("\n", 0, at) + 1) + 1
        part = _PART.match(text, at)
        shown = "the end"
        if part is not None:
            shown = "a text" if part[0] in _QUOTES else repr(part[0])
        found = f"{shown} in line {line}, column {column}"
        return cls(message, expected=expected, found=found, hint=hint)
