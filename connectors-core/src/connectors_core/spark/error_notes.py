# SPDX-License-Identifier: Apache-2.0
"""Adds the causes of a task's error to its text, since Spark drops them."""

from __future__ import annotations

from typing import Final

from connectors_core.secrets import mask_text

_MAX_CAUSES: Final = 8


def add_notes(error: BaseException, doing: str) -> None:
    """Add the current activity and the causes to an error. Executor."""
    error.add_note(doing)
    cause, shown = error.__cause__, 0
    while cause is not None and shown < _MAX_CAUSES:
        error.add_note(f"caused by {type(cause).__name__}: {mask_text(str(cause))}")
        cause, shown = cause.__cause__, shown + 1
