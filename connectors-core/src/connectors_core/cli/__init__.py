# SPDX-License-Identifier: Apache-2.0
"""The command `connectors`.

A connector adds subcommands with a `typer.Typer` under the entry-point group `connectors.commands`.
"""

from __future__ import annotations

from connectors_core.cli.main import app

__all__ = ["app"]
