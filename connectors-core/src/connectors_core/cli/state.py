# SPDX-License-Identifier: Apache-2.0
"""`connectors state show`: shows the state of a pipeline. Read-only."""

from __future__ import annotations

import time
from typing import Annotated

import orjson
import typer

from connectors_core.cli.state_options import LocationArgument, StorageOption
from connectors_core.cli.state_tables import print_state
from connectors_core.cli.state_view import view_state
from connectors_core.cli.tables import output
from connectors_core.engine.state import StateStore
from connectors_core.options import parse_storage_options

state = typer.Typer(no_args_is_help=True, help="Inspect, copy, or repair the state of a pipeline.")


@state.command("show")
def show_state(
    path: LocationArgument,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    storage_option: StorageOption = None,
    decisions: Annotated[int, typer.Option(min=0, help="Number of decisions to show.")] = 5,
) -> None:
    """Show plan, positions, watermarks, writer states, epochs, and lease. Changes nothing."""
    view = view_state(StateStore(path, parse_storage_options(storage_option)), decisions)
    if as_json:
        typer.echo(orjson.dumps(view, option=orjson.OPT_INDENT_2).decode())
    else:
        print_state(view, output(), time.time())
