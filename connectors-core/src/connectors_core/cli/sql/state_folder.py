# SPDX-License-Identifier: Apache-2.0
"""Where the programs of a user keep state (the XDG base directory specification)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["state_folder"]


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the connectors, which need not exist.

    Args:
        environ: The environment variables.
    """
    home = environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "connectors"
