# SPDX-License-Identifier: Apache-2.0
"""Errors in statements, with their place."""

from __future__ import annotations

from typing import Self

from connectors_core.errors import ConfigurationError

__all__ = ["SqlError"]


class SqlError(ConfigurationError):
    """A statement is wrong."""

    code = "SQL"

    @classmethod
    def at(
        cls, text: str, at: int, message: str, *, expected: object = None, found: object = None
    ) -> Self:
        """Return an error with the line and column of a place in the text.

        Args:
            text: The whole text.
            at: The number of the character.
            message: One sentence that states the problem.
            expected: The valid text.
            found: The actual text; by default the text at the place.
        """
        line = text.count("\n", 0, at) + 1
        column = at - (text.rfind("\n", 0, at) + 1) + 1
        shown = found if found is not None else repr(text[at : at + 20] or "the end")
        return cls(message, expected=expected, found=f"{shown} in line {line}, column {column}")
