# SPDX-License-Identifier: Apache-2.0
"""The commands `release-tools docs ...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from connector_release_tools.git import Repository
from connector_release_tools.site.browser import find, photograph
from connector_release_tools.site.checks import check as check_documents
from connector_release_tools.site.code import LANGUAGES
from connector_release_tools.site.site_build import build as build_site
from connector_release_tools.terminal import Root
from connector_release_tools.terminal import console as _console

__all__ = ["docs"]

SITE: Final = Path("build/site")

_PICTURES: Final = Path("build/site-screenshots")

docs = typer.Typer(no_args_is_help=True, help="Check the documents, and build the site.")


@docs.command()
def check(*, root: Root = Path()) -> None:
    """Check that links within the repository have a target, and that code blocks parse.

    Exit code: 0 no findings, 1 findings.
    """
    repository = Repository.around(root)
    checked = check_documents(repository.root, repository.files())
    for finding in checked.findings:
        typer.echo(str(finding))
    blocks = ", ".join(
        f"{count} {name or 'without a language'}{'' if name in LANGUAGES else ' (no check)'}"
        for name, count in sorted(checked.blocks.items())
    )
    _console().print(
        f"{checked.documents} documents, {checked.links} links, code blocks: {blocks}",
        style="red" if checked.findings else "green",
    )
    raise typer.Exit(bool(checked.findings))


@docs.command()
def build(
    *,
    out: Annotated[
        Path | None, typer.Option(help="The folder of the site.", show_default=str(SITE))
    ] = None,
    root: Root = Path(),
) -> None:
    """Build the site from all documents, including those of the pinned connector releases."""
    repository = Repository.around(root)
    folder = out or repository.root / SITE
    console = _console()
    with console.status("building the site"):
        pages = build_site(repository, folder)
    console.print(f"{pages} pages: {folder / 'index.html'}", style="green")


@docs.command()
def screenshot(
    *,
    site: Annotated[
        Path | None, typer.Option(help="The folder of the site.", show_default=str(SITE))
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The screenshot folder.", show_default=str(_PICTURES))
    ] = None,
    root: Root = Path(),
) -> None:
    """Take screenshots of all pages, wide and narrow, light and dark, with an installed Chromium.

    Exit code: 0 all screenshots exist, or no Chromium is installed; 2 a screenshot failed.
    """
    top = Repository.around(root).root
    console = _console()
    if (browser := find()) is None:
        console.print("browser check: not run, no browser found (chromium)", style="yellow")
        return
    folder = out or top / _PICTURES
    with console.status("") as status:
        count = photograph(browser, site or top / SITE, folder, on_page=status.update)
    console.print(f"browser check: {count} screenshots in {folder}", style="green")
