# SPDX-License-Identifier: Apache-2.0
"""`connectors sql`: runs statements on tables, from a prompt, an argument, or a file."""

from __future__ import annotations

from connectors_core.cli.sql.command import sql

__all__ = ["sql"]
