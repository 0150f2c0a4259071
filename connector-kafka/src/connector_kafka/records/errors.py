# SPDX-License-Identifier: Apache-2.0
"""What this folder raises where it does not know yet which batch of which topic is at fault."""

from __future__ import annotations

__all__ = ["MalformedError", "TooLargeError"]


class MalformedError(ValueError):
    """Bytes do not follow the format."""


class TooLargeError(MalformedError):
    """What is compressed expands to more than is allowed."""
