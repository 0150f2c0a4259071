# SPDX-License-Identifier: Apache-2.0
"""The history of the prompt, in a file that only its user can read and that has no secrets."""

from __future__ import annotations

import os
from typing import Self

from prompt_toolkit.history import FileHistory

from connectors_core.cli.sql.secret_values import has_secrets
from connectors_core.cli.sql.state_folder import state_folder

__all__ = ["StatementHistory"]


class StatementHistory(FileHistory):
    """Remembers all statements of a session, and stores those without secrets."""

    @classmethod
    def of_user(cls) -> Self:
        """Return the history of the user, whose file is created if it does not exist."""
        path = state_folder(os.environ) / "sql_history"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        return cls(str(path))

    def store_string(self, string: str) -> None:
        """Append a statement to the file, unless it has the value of a secret option."""
        if not has_secrets(string):
            super().store_string(string)
