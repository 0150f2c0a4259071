# SPDX-License-Identifier: Apache-2.0
"""The console that commands print to: texts as they are, lines as long as they are."""

from __future__ import annotations

from rich.console import Console

__all__ = ["console"]


def console(*, stderr: bool = False) -> Console:
    """A console that marks nothing up and breaks no line, so that output can be read by programs.

    Args:
        stderr: Whether it prints where errors go.
    """
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
