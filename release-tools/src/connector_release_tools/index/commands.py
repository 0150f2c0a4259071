# SPDX-License-Identifier: Apache-2.0
"""The commands `release-tools index ...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from connector_release_tools.distributions import Distribution
from connector_release_tools.index.directory import DirectoryIndex
from connector_release_tools.index.server import IndexServer

__all__ = ["index"]

index = typer.Typer(no_args_is_help=True, help="Manage a package index in a folder.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the index.")]


@index.command()
def add(
    folder: Folder,
    files: Annotated[list[Path], typer.Argument(help="Wheels and source distributions.")],
) -> None:
    """Add copies of files. Reject a file if its name exists with other contents."""
    for file in [Distribution.of(path) for path in files]:
        added = DirectoryIndex(folder).add(file)
        typer.echo(f"{file.path.name}: {'added' if added else 'already in the index'}")


@index.command()
def remove(folder: Folder, names: Annotated[list[str], typer.Argument(help="File names.")]) -> None:
    """Remove files."""
    for name in names:
        removed = DirectoryIndex(folder).remove(name)
        typer.echo(f"{name}: {'removed' if removed else 'not in the index'}")


@index.command()
def serve(
    folder: Folder,
    *,
    port: Annotated[int, typer.Option(help="The port; 0 selects a free one.")] = 0,
) -> None:
    """Serve the index to this machine until Ctrl-C."""
    with IndexServer(DirectoryIndex(folder), port=port) as server:
        typer.echo(f"{folder} is served at {server.url} (press Ctrl-C to stop)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("ended")
