# SPDX-License-Identifier: Apache-2.0
"""Errors in statements, with their place."""

from __future__ import annotations

import re
from typing import Final, Self

from connectors_core.errors import ConfigurationError

__all__ = ["SqlError", "line_and_column"]

_PART: Final = re.compile(r"\w+|\S")
_QUOTES: Final = ("'", '"')


class SqlError(ConfigurationError):
    """A statement is wrong.

    Attributes:
        position: The number of the character, if known.
        line: Its line, from 1.
        column: Its column, from 1.
    """

    code = "SQL"
    position: int | None = None
    line: int | None = None
    column: int | None = None

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
        line, column = line_and_column(text, at)
        part = _PART.match(text, at)
        shown = "the end"
        if part is not None:
            shown = "a text" if part[0] in _QUOTES else repr(part[0])
        found = f"{shown} in line {line}, column {column}"
        error = cls(message, expected=expected, found=found, hint=hint)
        error.position, error.line, error.column = at, line, column
        return error

    def within(self, text: str, part: str) -> Self:
        """Return the error, which names a place in a part of a text, with the place in the text.

        It has no place if the text does not contain the part, such as the query of a view.
        """
        start = text.find(part)
        if self.position is None or start == 0:
            return self
        if start < 0:
            return type(self)(
                self.message, expected=self.expected, found=self.found, hint=self.hint
            )
        at = start + self.position
        return type(self).at(text, at, self.message, expected=self.expected, hint=self.hint)


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """Return the line and the column of a character, both from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
