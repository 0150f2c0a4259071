# SPDX-License-Identifier: Apache-2.0
"""The command `release-tools doctor`."""

from __future__ import annotations

import os
import re
from typing import Annotated, Final

import typer

from connector_release_tools.forge.client import Client
from connector_release_tools.forge.settings import Settings
from connector_release_tools.terminal import console as _console

__all__ = ["doctor"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+", re.ASCII)


def doctor(
    *,
    forge: Annotated[
        str,
        typer.Option(metavar="OWNER/REPOSITORY", help="Check the settings of this repository."),
    ],
    api_url: Annotated[
        str, typer.Option(envvar="GITHUB_API_URL", help="The address of GitHub's REST API.")
    ] = "https://api.github.com",
) -> None:
    """Check the settings that protect the main branch on the forge.

    GH_TOKEN or GITHUB_TOKEN contains the token of an administrator.

    Exit code: 0 protected, 1 findings, 2 the check could not run.
    """
    if not _NAME.fullmatch(forge):
        raise typer.BadParameter(f"{forge!r} is not OWNER/REPOSITORY")
    token = os.environ.get("GH_TOKEN") or os.environ.get("GITHUB_TOKEN")
    settings = Settings.read(Client(api_url, token), forge)
    found = settings.findings()
    console = _console()
    for each in found:
        console.print(f"{each.what}: {each.hint}", style="red")
    if not found:
        console.print(
            f"{settings.repository.default_branch} of {forge} is protected", style="green"
        )
    raise typer.Exit(int(bool(found)))
