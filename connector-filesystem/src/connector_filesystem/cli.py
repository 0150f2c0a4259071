# SPDX-License-Identifier: Apache-2.0
"""`connectors files compact`: merges the small files of an existing folder."""

from __future__ import annotations

from typing import Annotated

import typer

from connector_filesystem.filesystem import FileLocation
from connector_filesystem.folder_compaction import FileGroup, FolderCompaction
from connector_filesystem.formats import CsvOptions
from connectors_core.errors import InvalidOptionError
from connectors_core.options import MEMORY_SIZE, parse_storage_options

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Manage folders of files.")


@app.callback()
def files() -> None:
    """Manage folders of files."""


@app.command("compact")
def compact_folder(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Folder, a path or fsspec URL.")],
    *,
    file_size: Annotated[
        str, typer.Option(metavar="SIZE", help="Merge smaller files up to this size.")
    ] = "128mb",
    csv_header: Annotated[
        bool | None,
        typer.Option(
            "--csv-header/--no-csv-header",
            help="Whether CSV files begin with a header. Required if there are CSV files.",
        ),
    ] = None,
    csv_newlines: Annotated[
        bool, typer.Option("--csv-newlines-in-values", help="Fields of CSV can hold line breaks.")
    ] = False,
    storage_option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Option for the file system; can be repeated."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, then exit.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    take_lock: Annotated[
        bool, typer.Option("--take-lock", help="Continue after a run that was killed elsewhere.")
    ] = False,
) -> None:
    """Merge the small files of a folder, and of each folder below it.

    Readers never see a row twice, but can miss the rows of a merge for a moment. A run that is
    interrupted in between is completed by the next one. Stop pipelines that write to the folder
    first. A source that reads it continuously would read the merged files as new ones.
    """
    compaction = FolderCompaction(
        FileLocation(path, parse_storage_options(storage_option)),
        _size(file_size),
        None
        if csv_header is None
        else CsvOptions(header=csv_header, newlines_in_values=csv_newlines),
        take_lock,
    )
    groups = compaction.groups()
    for group in groups:
        typer.echo(_line(compaction, group))
    if dry_run:
        typer.echo(f"would merge {_number(groups)}")
        return
    if groups and not yes:
        typer.confirm(f"merge {_number(groups)}?", abort=True)
    typer.echo(f"merged {compaction.run()} files")


def _line(compaction: FolderCompaction, group: FileGroup) -> str:
    first = compaction.location.relative(group.files[0].path)
    return f"{len(group.files)} files, {group.size} bytes, from {first}"


def _number(groups: list[FileGroup]) -> str:
    return f"{sum(len(each.files) for each in groups)} files into {len(groups)}"


def _size(text: str) -> int:
    try:
        size: int = MEMORY_SIZE.parse(text)
    except ValueError as error:
        raise InvalidOptionError(
            "the size cannot be read", expected=str(error), found=text, option="--file-size"
        ) from error
    return size
