# SPDX-License-Identifier: Apache-2.0
"""The command `release-tools`: its command groups, and error output without a traceback."""

from __future__ import annotations

from typing import Any, Final

import typer
from rich.console import Console
from typer.core import TyperGroup

from connector_release_tools.api.commands import api
from connector_release_tools.cells.commands import run_cells
from connector_release_tools.errors import ReleaseToolsError
from connector_release_tools.flips.commands import flip
from connector_release_tools.forge.commands import doctor
from connector_release_tools.help_types import with_words
from connector_release_tools.impact.commands import show_impact
from connector_release_tools.index.commands import index
from connector_release_tools.installation.commands import install
from connector_release_tools.matrix.commands import matrix
from connector_release_tools.releases.commands import release
from connector_release_tools.review.commands import review
from connector_release_tools.site.commands import docs
from connector_release_tools.template.commands import template

__all__ = ["app"]

ERROR_EXIT: Final = 2


class ReleaseToolsGroup(TyperGroup):
    """Prints the message and hint of an error, and exits with code 2."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Create the context of a call."""
        with_words(self)
        return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except ReleaseToolsError as error:
            console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
            console.print("error:", style="bold red", end=" ")
            console.print(str(error))
            if error.hint:
                console.print("hint:", style="bold", end=" ")
                console.print(error.hint)
            raise typer.Exit(ERROR_EXIT) from error


app = typer.Typer(
    cls=ReleaseToolsGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Develop and release connectors.",
)
app.add_typer(docs, name="docs")
app.add_typer(api, name="api")
app.add_typer(template, name="template")
app.add_typer(matrix, name="matrix")
app.command("impact")(show_impact)
app.command("test")(run_cells)
app.command()(install)
app.add_typer(release, name="release")
app.add_typer(index, name="index")
app.add_typer(flip, name="flip")
app.add_typer(review, name="review")
app.command()(doctor)
