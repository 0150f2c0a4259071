# SPDX-License-Identifier: Apache-2.0
"""Runs `release-tools` as `python -m connector_release_tools`."""

from __future__ import annotations

from connector_release_tools.cli import app

if __name__ == "__main__":
    app(prog_name="release-tools")
