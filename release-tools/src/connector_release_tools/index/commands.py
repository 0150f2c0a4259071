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

index = typer.Typer(no_args_is_help=True, help="A package index that is a folder.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the index.")]


@index.command()
def add(
    folder: Folder,
    files: Annotated[list[Path], typer.Argument(help="Wheels and source distributions.")],
) -> None:
    """Add copies of files; refuse a file whose name exists with other content."""
    for file in [Distribution.of(path) for path in files]:
        added = DirectoryIndex(folder).add(file)
        typer.echo(f"{file.path.name}: {'added' if added else 'there already'}")


@index.command()
def remove(
    folder: Folder, names: Annotated[list[str], typer.Argument(help="Names of files.")]
) -> None:
    """Remove files."""
    for name in names:
        removed = DirectoryIndex(folder).remove(name)
        typer.echo(f"{name}: {'removed' if removed else 'not there'}")


@index.command()
def serve(
    folder: Folder,
    *,
    port: Annotated[int, typer.Option(help="0 takes one that is free.")] = 0,
) -> None:
    """Serve the index to this machine until Ctrl-C."""
    with IndexServer(DirectoryIndex(folder), port=port) as server:
        typer.echo(f"{folder} is at {server.url} (Ctrl-C ends)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("ended")
