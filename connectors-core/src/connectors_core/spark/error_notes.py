# SPDX-License-Identifier: Apache-2.0
"""An error of a task tells its causes in its own text: Spark cuts them off on the way."""

from __future__ import annotations

from typing import Final

from connectors_core.secrets import mask_text

_MAX_CAUSES: Final = 8


def add_notes(error: BaseException, doing: str) -> None:
    """Add what was being done, and the causes. Executor."""
    error.add_note(doing)
    cause, shown = error.__cause__, 0
    while cause is not None and shown < _MAX_CAUSES:
        error.add_note(f"caused by {type(cause).__name__}: {mask_text(str(cause))}")
        cause, shown = cause.__cause__, shown + 1
