# SPDX-License-Identifier: Apache-2.0
"""`python -m connector_release_tools` is `release-tools`."""

from __future__ import annotations

from connector_release_tools.cli import app

if __name__ == "__main__":
    app(prog_name="release-tools")
