# SPDX-License-Identifier: Apache-2.0
"""`connectors state backup` and `connectors state restore`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from connectors_core._display import count, size
from connectors_core.cli.state_options import (
    CheckpointOption,
    DryRunOption,
    LocationArgument,
    StorageOption,
    locations_of,
)
from connectors_core.engine.recovery import backup
from connectors_core.engine.recovery.copies import Manifest
from connectors_core.engine.recovery.selection import QueryCut
from connectors_core.options import parse_storage_options
from connectors_core.secrets import mask_url

CopyOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE", help="Option for the file system of the copy; can be repeated."
    ),
]


def back_up_state(
    location: LocationArgument,
    target: Annotated[
        str,
        typer.Argument(help="A folder, or an archive whose name ends with .zip; a path or URL."),
    ],
    *,
    checkpoint: CheckpointOption = None,
    storage_option: StorageOption = None,
    target_option: CopyOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Copy the checkpoint and state of a running or stopped pipeline, and verify the copy.

    The copy of a running pipeline ends with the last micro-batch that Spark has finished. The copy
    of a stopped pipeline is complete, and no driver can start meanwhile. A driver that is paused or
    on another machine counts as running, and keeps its lease. The command overwrites nothing.
    """
    locations = locations_of(location, checkpoint, storage_option)
    with backup.held(locations) as stopped:
        plan = backup.plan_backup(locations, running=not stopped)
        typer.echo(
            f"pipeline {plan.identity.name}, "
            + (
                "which runs or did not release its lease"
                if plan.running
                else "which is not running"
            )
        )
        for cut in plan.cuts:
            typer.echo(_cut_text(cut))
        if dry_run:
            typer.echo(f"would copy {count(len(plan.files))} files; nothing was changed")
            return
        with _progress("copying") as progress:
            manifest = backup.back_up(
                locations, plan, target, parse_storage_options(target_option), progress=progress
            )
    typer.echo(f"copied {_sum(manifest)} to {mask_url(target)}; the copy is complete")


def restore_state(
    source: Annotated[str, typer.Argument(help="A copy created by `connectors state backup`.")],
    location: Annotated[str, typer.Argument(help="The new state location; it must be empty.")],
    *,
    checkpoint: CheckpointOption = None,
    storage_option: StorageOption = None,
    source_option: CopyOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Restore the state of a pipeline from a copy into an empty location.

    The pipeline continues as if it had been stopped at the time of the backup. Rows that it wrote
    later stay in the sinks, and are read and written again. Run only one of the two: the restored
    or the original pipeline.
    """
    locations = locations_of(location, checkpoint, storage_option)
    options = parse_storage_options(source_option)
    if dry_run:
        manifest = backup.verify_copy(source, options)
        _describe(manifest)
        typer.echo(f"would restore {_sum(manifest)}; nothing was changed")
        return
    with _progress("restoring") as progress:
        manifest = backup.restore(source, options, locations, progress=progress)
    _describe(manifest)
    typer.echo(f"restored {_sum(manifest)} to {locations.state}")


def _describe(manifest: Manifest) -> None:
    taken = datetime.fromtimestamp(manifest.taken_at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    typer.echo(f"pipeline {manifest.name}, copied at {taken}Z")
    for cut in manifest.cuts:
        typer.echo(_cut_text(cut))


def _cut_text(cut: QueryCut) -> str:
    def shown(number: int) -> str:
        return "none" if number < 0 else str(number)

    return (
        f"{cut.query}: last batch {shown(cut.batch)}, last plan {shown(cut.plan)}, "
        f"last epoch {shown(cut.epoch)}"
    )


def _sum(manifest: Manifest) -> str:
    total = sum(file.size for file in manifest.files)
    return f"{count(len(manifest.files))} files, {size(total)},"


@contextmanager
def _progress(what: str) -> Iterator[backup.Progress]:
    """Show a progress bar on standard error if that is a terminal."""
    with Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, all_files: bar.update(task, completed=done, total=all_files)
