# SPDX-License-Identifier: Apache-2.0
"""The command `release-tools install`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from connector_release_tools import terminal
from connector_release_tools.installation.installation_plan import (
    Installer,
    Request,
    Target,
    confirm,
    plan,
)
from connector_release_tools.programs import output

__all__ = ["install"]


def install(
    name: Annotated[
        str,
        typer.Argument(metavar="RELEASE", help="The release, such as connector-kafka==3.1.2-3.5."),
    ],
    *,
    python: Annotated[
        Path | None,
        typer.Option(
            help="The Python to install for.", show_default="Python of the active environment"
        ),
    ] = None,
    index_url: Annotated[
        str | None, typer.Option(help="The package index.", show_default="index of uv or pip")
    ] = None,
    extra_index_url: Annotated[
        str | None, typer.Option(help="An additional index, such as that of `index serve`.")
    ] = None,
    find_links: Annotated[
        Path | None, typer.Option(help="A folder with additional distributions.")
    ] = None,
    no_deps: Annotated[
        bool,
        typer.Option(
            "--no-deps",
            help="Do not install its requirements; for a Spark that the platform provides.",
        ),
    ] = False,
    installer: Annotated[
        Installer | None, typer.Option(help="The installer.", show_default="uv if available")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the command.")] = False,
) -> None:
    """Install a release of a connector without changing the installed Spark."""
    request = Request.parse(name)
    target = Target.inspect(python or _active_python(), request.connector)
    made = plan(
        request,
        target,
        installer=installer or Installer.available(),
        index_url=index_url,
        extra_index_url=extra_index_url,
        find_links=find_links,
        no_deps=no_deps,
    )
    console = terminal.console()
    console.print(f"the package requirement for {made.release} is {made.release.requirement}")
    console.print(f"{'would run' if dry_run else 'running'}: {made}")
    if dry_run:
        return
    with console.status("installing"):
        output(made.command, folder=Path.cwd(), env={**os.environ, **made.env})
    found = Target.inspect(target.python, request.connector)
    confirm(made.release, before=target, after=found)
    console.print(f"installed {made.release} next to pyspark {found.pyspark}", style="green")


def _active_python() -> Path:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if folder := os.environ.get(variable):
            return Path(folder) / "bin" / "python"
    return Path(sys.executable)
