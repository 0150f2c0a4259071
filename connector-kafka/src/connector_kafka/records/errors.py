# SPDX-License-Identifier: Apache-2.0
"""Errors of this folder, raised before the topic and batch at fault are known."""

from __future__ import annotations

__all__ = ["MalformedError", "TooLargeError"]


class MalformedError(ValueError):
    """The bytes do not follow the format."""


class TooLargeError(MalformedError):
    """Compressed data expands beyond the limit."""
