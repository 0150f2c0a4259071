# SPDX-License-Identifier: Apache-2.0
"""The application: the core's and connectors' commands, and errors without tracebacks."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from typer.core import TyperGroup

from connectors_core.cli.doctor import doctor
from connectors_core.cli.help_types import with_words
from connectors_core.cli.sql import sql
from connectors_core.cli.state import state
from connectors_core.cli.state_changes import (
    accept_replay,
    give_up_epoch,
    give_up_split,
    rewind_state,
)
from connectors_core.cli.state_copies import back_up_state, restore_state
from connectors_core.errors import ConfigurationError, ConnectorError
from connectors_core.secrets import mask_text

COMMAND_GROUP: Final = "connectors.commands"
ERROR_EXIT: Final = 2


def command_plugins() -> dict[str, importlib.metadata.EntryPoint]:
    """Return the subcommands that installed connectors declare, by name."""
    points = importlib.metadata.entry_points(group=COMMAND_GROUP)
    return {point.name: point for point in sorted(points, key=lambda point: point.name)}


class ConnectorsGroup(TyperGroup):
    """Loads a connector's commands on demand, and shows errors by their message."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Create the context of a call."""
        with_words(self)
        return super().make_context(*args, **kwargs)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, the core's first."""
        own = list(super().list_commands(ctx))
        return own + [name for name in command_plugins() if name not in own]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command of the core or, by its entry point, of a connector."""
        command = super().get_command(ctx, cmd_name)
        if command is None:
            point = command_plugins().get(cmd_name)
            command = None if point is None else load_plugin(point)
        return None if command is None else with_words(command)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; show a connector error without a traceback and exit with 2."""
        try:
            return super().invoke(ctx)
        except ConnectorError as error:
            if ctx.params.get("traceback"):
                raise
            console = Console(stderr=True)
            console.print("error:", style="bold red", end=" ")
            console.print(str(error), markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(ERROR_EXIT) from error


def load_plugin(point: importlib.metadata.EntryPoint) -> Any:
    """Load the command of an entry point; if that fails, calling the command fails."""
    try:
        plugin = point.load()
        if not isinstance(plugin, typer.Typer):
            raise ConfigurationError(
                f"{point.value} is not a typer application", found=type(plugin).__name__
            )
    except Exception as error:
        return _command(point.name, _broken(point, error), context={"allow_extra_args": True})
    command = typer.main.get_command(plugin)
    command.name = point.name
    return command


def _broken(point: importlib.metadata.EntryPoint, cause: Exception) -> Callable[[], None]:
    owner = point.dist.name if point.dist is not None else point.module
    reason = mask_text(f"{type(cause).__name__}: {cause}".splitlines()[0])

    def fail() -> None:
        raise ConfigurationError(
            f"the command {point.name!r} of {owner} cannot be loaded",
            expected=f"a typer application at {point.value}",
            found=reason,
            hint=f"update or remove {owner}; run `connectors doctor` to find incompatible packages",
        ) from cause

    fail.__doc__ = f"Cannot be loaded: {reason}."
    return fail


def _command(name: str, function: Callable[..., None], context: dict[str, bool]) -> Any:
    single = typer.Typer(add_completion=False)
    single.command(
        name, context_settings={**context, "ignore_unknown_options": True}, add_help_option=False
    )(function)
    command = typer.main.get_command(single)
    command.name = name
    return command


app = typer.Typer(
    name="connectors",
    cls=ConnectorsGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # they show local variables, which may be secrets
)
"""The command `connectors`, with the subcommands of the installed connectors."""


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"connectors-core {importlib.metadata.version('connectors-core')}")
        raise typer.Exit


@app.callback()
def main(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_show_version),
    ] = False,
    traceback: Annotated[bool, typer.Option(help="Show errors with their traceback.")] = False,
) -> None:
    """Connectors for Apache Spark."""


app.command()(doctor)
app.command()(sql)
state.command("backup")(back_up_state)
state.command("restore")(restore_state)
state.command("rewind")(rewind_state)
state.command("give-up")(give_up_epoch)
state.command("give-up-split")(give_up_split)
state.command("accept-replay")(accept_replay)
app.add_typer(state, name="state")
