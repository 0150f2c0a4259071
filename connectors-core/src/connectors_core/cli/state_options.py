# SPDX-License-Identifier: Apache-2.0
"""The shared arguments of the commands on a state location."""

from __future__ import annotations

from typing import Annotated

import typer

from connectors_core.engine.coordinator.identity import PipelineIdentity, QueryIdentity
from connectors_core.engine.recovery.locations import Locations
from connectors_core.engine.state import StateStore
from connectors_core.errors import ConfigurationError
from connectors_core.options import parse_storage_options

LocationArgument = Annotated[
    str, typer.Argument(help="The state (or checkpoint) location, a path or URL.")
]
CheckpointOption = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="URL",
        help="The checkpoint location, a path or fsspec URL, if it differs from the state "
        "location.",
    ),
]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Option for the file system; can be repeated."),
]
QueryOption = Annotated[
    str | None, typer.Option(help="Folder of the query, if the pipeline has several.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done, then exit.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def locations_of(location: str, checkpoint: str | None, options: list[str] | None) -> Locations:
    """Return the locations of a pipeline's state."""
    given = parse_storage_options(options)
    state = StateStore(location, given)
    return Locations(state, state if checkpoint is None else StateStore(checkpoint, given))


def query_of(identity: PipelineIdentity, folder: str | None) -> QueryIdentity:
    """Return the selected query.

    Raises:
        ConfigurationError: The query does not exist, or there are several and none is selected.
    """
    known = {query.folder: query for query in identity.queries}
    if folder is None and len(known) == 1:
        return identity.queries[0]
    if folder not in known:
        raise ConfigurationError(
            f"pipeline {identity.name!r} has several queries"
            if folder is None
            else f"pipeline {identity.name!r} has no query {folder!r}",
            expected=", ".join(
                f"{query.folder} ({', '.join(dict.fromkeys(query.sources))})"
                for query in identity.queries
            ),
            option="query",
        )
    return known[folder]


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation; "no" ends the command with exit code 1."""
    if not yes:
        typer.confirm(question, abort=True)
