# SPDX-License-Identifier: Apache-2.0
"""The output and the verified release of the commands `release-tools release ...`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import typer

from connector_release_tools.errors import ReleaseError
from connector_release_tools.git import Repository
from connector_release_tools.releases.artefacts import Step
from connector_release_tools.releases.findings import Finding
from connector_release_tools.releases.record import Record
from connector_release_tools.terminal import Root, console

__all__ = ["Root", "say", "show", "steps", "undo", "verified_path", "verified_record"]

_VERIFIED: Final = "build/releases"


def verified_path(repository: Repository, name: str) -> Path:
    """Return the path of the record that `verify` writes."""
    return repository.root / _VERIFIED / f"{name}.yaml"


def verified_record(repository: Repository, name: str) -> Record:
    """Return the record of a verified release.

    Raises:
        ReleaseError: The release was not verified here.
    """
    path = verified_path(repository, name)
    if Path(name).name != name or not path.is_file():
        raise ReleaseError(
            f"{name} was not verified here",
            hint="run release-tools release build and verify",
        )
    return Record.read(path)


def show(found: Sequence[Finding]) -> None:
    """Show findings, and exit with 1 if there are any."""
    printed = console()
    for finding in found:
        printed.print(finding.what, style="red")
        if finding.hint:
            printed.print(f"  hint: {finding.hint}")
    if found:
        raise typer.Exit(1)


@contextmanager
def steps() -> Iterator[Step]:
    """Show the steps of a long operation."""
    with console(stderr=True).status("") as status:
        yield status.update


def undo(how: str) -> None:
    """Say how to undo a step."""
    console().print(f"undo: {how}", style="dim")


def say(text: str) -> None:
    """Print a line."""
    console().print(text)
