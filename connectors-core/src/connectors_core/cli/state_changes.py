# SPDX-License-Identifier: Apache-2.0
"""`connectors state rewind`, `give-up`, `give-up-split`, and `accept-replay`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer
from rich.text import Text

from connectors_core._display import count
from connectors_core.cli.positions import position_text
from connectors_core.cli.state_options import (
    CheckpointOption,
    DryRunOption,
    LocationArgument,
    QueryOption,
    StorageOption,
    YesOption,
    confirm,
    locations_of,
    query_of,
)
from connectors_core.cli.state_view import view_sources
from connectors_core.cli.tables import output, plain_table
from connectors_core.engine.coordinator.identity import PipelineIdentity, QueryIdentity
from connectors_core.engine.recovery import abandonment, replays, rewind
from connectors_core.engine.recovery.locations import Locations
from connectors_core.engine.state import Lease
from connectors_core.errors import ConfigurationError, StateCorruptedError
from connectors_core.secrets import mask_text


def rewind_state(
    location: LocationArgument,
    epoch: Annotated[
        int | None,
        typer.Argument(min=0, help="Rewind the sources to their positions after this epoch."),
    ] = None,
    *,
    to_start: Annotated[
        bool,
        typer.Option(
            help="Rewind to the first start: all sources of the query start where their options "
            "or --at say."
        ),
    ] = False,
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="UID=POSITION",
            help="With --to-start: the start position of a source in its own terms, such as "
            "flights=timestamp:2026-01-31T00:00:00Z for Kafka; can be repeated. The next "
            "start validates the position, and reads nothing if it is invalid.",
        ),
    ] = None,
    query: QueryOption = None,
    checkpoint: CheckpointOption = None,
    storage_option: StorageOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Rewind a stopped pipeline, so that it reads again the rows after an epoch.

    Rows that were written stay in the sinks and are written again. All sources of the query are
    rewound together, because its epochs hold rows of all of them. Without an epoch, the command
    lists the possible epochs. It refuses a query with Spark state. It removes nothing.
    """
    locations = locations_of(location, checkpoint, storage_option)
    identity = locations.whole_identity()
    if not identity.streaming:
        raise ConfigurationError(
            "a batch pipeline cannot be rewound: each run reads everything in its sources"
        )
    chosen = query_of(identity, query)
    starts = _starts(at or [], chosen)
    if starts and not to_start:
        raise ConfigurationError("--at requires --to-start", option="at")
    if epoch is None and not to_start:
        _show_epochs(locations, chosen)
        return
    if epoch is not None and to_start:
        raise ConfigurationError(
            "an epoch and --to-start are mutually exclusive", option="to_start"
        )
    target = rewind.TO_START if epoch is None else epoch
    if dry_run:
        _show_rewinding(locations, chosen, rewind.plan_rewinding(locations, chosen, target), starts)
        typer.echo("nothing was changed")
        return
    with Lease.acquire(locations.state) as lease:
        found = rewind.plan_rewinding(locations, chosen, target)
        _show_rewinding(locations, chosen, found, starts)
        confirm("Rewind the pipeline?", yes=yes)
        rewind.rewind(locations, found, lease, starts)
    typer.echo("rewound; the next start resumes from there")


def _starts(given: list[str], query: QueryIdentity) -> dict[str, str]:
    starts = {}
    for each in given:
        uid, _, position = each.partition("=")
        if uid not in query.uids or not position:
            raise ConfigurationError(
                f"{each!r} is not a start position for a source of {query.folder}",
                expected=f"UID=POSITION, with a uid of {', '.join(query.uids)}",
                option="at",
            )
        starts[uid] = position
    return starts


def give_up_epoch(
    location: LocationArgument,
    epoch: Annotated[int, typer.Argument(min=0, help="The epoch to give up.")],
    *,
    read_again: Annotated[
        bool,
        typer.Option(
            help="Read the rows of the epoch again on the next start, and write them to all "
            "sinks. Only for the newest epoch of a query without Spark state."
        ),
    ] = False,
    query: QueryOption = None,
    checkpoint: CheckpointOption = None,
    storage_option: StorageOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Give up an epoch that can never be committed or whose decision is lost.

    Use this as a last resort. First fix the cause in the commit's error, or restore a backup. The
    command lists the rows that it abandons, by sink and writer, and their source positions. With
    --read-again, the rows are not lost.
    """
    locations = locations_of(location, checkpoint, storage_option)
    identity = locations.whole_identity()
    chosen = query_of(identity, query)
    if dry_run:
        _plan_giving_up(locations, identity, chosen, epoch, read_again=read_again)
        typer.echo("nothing was changed")
        return
    with Lease.acquire(locations.state) as lease:
        found, again = _plan_giving_up(locations, identity, chosen, epoch, read_again=read_again)
        confirm(f"Give up epoch {epoch}?", yes=yes)
        abandonment.give_up(locations, chosen, found, identity.pipeline_id, lease)
        if again is not None:
            rewind.rewind(locations, again, lease)
    typer.echo(f"epoch {epoch} is given up; the next start continues after it")


def give_up_split(
    location: LocationArgument,
    source: Annotated[str, typer.Argument(metavar="UID", help="Uid of the source.")],
    split: Annotated[
        str, typer.Argument(help="The split, as the error and `connectors state show` spell it.")
    ],
    *,
    checkpoint: CheckpointOption = None,
    storage_option: StorageOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Give up the rest of a split that can never be read, such as a damaged file.

    Use this as a last resort. First fix the cause in the error, or let the source skip what it
    cannot read. The command names the position after which the split is not read. A rewind reads
    the split again.
    """
    locations = locations_of(location, checkpoint, storage_option)
    if dry_run:
        _show_giving_up_split(abandonment.plan_giving_up_split(locations, source, split))
        typer.echo("nothing was changed")
        return
    locations.whole_identity()
    with Lease.acquire(locations.state):
        found = abandonment.plan_giving_up_split(locations, source, split)
        _show_giving_up_split(found)
        confirm("Give up the split?", yes=yes)
        abandonment.give_up_split(locations, found)
    typer.echo("the split is given up; the next start continues without it")


def _show_giving_up_split(found: abandonment.GivingUpSplit) -> None:
    split = found.split
    typer.echo(
        f"split {mask_text(split.split_id)} of {found.source}: the rows that follow are LOST"
    )
    typer.echo(f"    from {position_text(split.state, split.skip)}")
    if found.rows:
        typer.echo(
            f"A plan whose micro-batch Spark has not finished read {count(found.rows)} rows before "
            "this position. If no epoch has written them, they are LOST too."
        )


def accept_replay(
    location: LocationArgument,
    epoch: Annotated[int, typer.Argument(min=0, help="The epoch that the error names.")],
    *,
    query: QueryOption = None,
    checkpoint: CheckpointOption = None,
    storage_option: StorageOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Accept that a repeated micro-batch has other rows than those that its epoch wrote.

    Spark runs the last micro-batch again after a crash, for its state. If an input that Spark reads
    itself has changed meanwhile, the pipeline refuses to start. After this command, it starts: the
    sinks keep the rows that they have, and Spark's state has the rows as they are now.
    """
    locations = locations_of(location, checkpoint, storage_option)
    chosen = query_of(locations.whole_identity(), query)
    if dry_run:
        _show_replay(replays.pending_replay(locations, chosen, epoch))
        typer.echo("nothing was changed")
        return
    with Lease.acquire(locations.state):
        found = replays.pending_replay(locations, chosen, epoch)
        _show_replay(found)
        confirm("Accept other rows in Spark's state?", yes=yes)
        replays.accept_replay(locations, found)
    typer.echo("accepted; the next start runs the micro-batch again and continues after it")


def _show_replay(found: replays.Replay) -> None:
    for uid, rows in found.rows.items():
        typer.echo(
            f"{uid} keeps its {count(rows)} rows of epoch {found.epoch} of {found.query}; Spark's "
            f"state has the rows that micro-batch {found.batch} has now"
        )


def _plan_giving_up(
    locations: Locations,
    identity: PipelineIdentity,
    query: QueryIdentity,
    epoch: int,
    *,
    read_again: bool,
) -> tuple[abandonment.GivingUp, rewind.Rewinding | None]:
    found = abandonment.plan_giving_up(locations, query, epoch)
    again = None
    if read_again:
        again = abandonment.plan_reading_again(locations, identity, query, epoch)
    _show_giving_up(found, again)
    if again is not None:
        _show_rewinding(locations, query, again)
    return found, again


def _show_epochs(locations: Locations, query: QueryIdentity) -> None:
    epochs = rewind.epochs_to_rewind_to(locations.state.child(query.folder))
    if not epochs:
        typer.echo(f"{query.folder} has no epoch to rewind to; use --to-start instead")
        return
    typer.echo(f"you can rewind {query.folder} to these epochs:")
    typer.echo(", ".join(map(str, epochs)))


def _show_rewinding(
    locations: Locations,
    query: QueryIdentity,
    found: rewind.Rewinding,
    starts: Mapping[str, str] | None = None,
) -> None:
    more = "at least " if found.forgotten else ""
    table = plain_table("source or sink", "rows")
    if found.epoch < 0:
        typer.echo(f"{found.query} is rewound to the start")
        _show_beginnings(locations, query, found, starts or {})
    else:
        plan = "no plan" if found.plan < 0 else f"plan {found.plan}"
        typer.echo(
            f"{found.query} is rewound to epoch {found.epoch}, after {plan}: {found.plans} plans "
            "are read again"
        )
        for uid, rows in found.read_again.items():
            table.add_row(Text(uid), f"{more}{count(rows)} are read again")
    for uid, rows in found.written.items():
        table.add_row(Text(uid), f"{more}{count(rows)} were written since then, and stay")
    output().print(table)


def _show_beginnings(
    locations: Locations,
    query: QueryIdentity,
    found: rewind.Rewinding,
    starts: Mapping[str, str],
) -> None:
    """Show the known positions; only the sources themselves could compare them."""
    try:
        views = view_sources(locations.state.child(query.folder), query)
        stand = {source.uid: source.splits for source in views}
    except StateCorruptedError:  # the positions are unknown
        stand = {}
    more = "at least " if found.forgotten else ""
    for uid, rows in found.read_again.items():
        place = f"at {starts[uid]}" if uid in starts else "as its options specify"
        typer.echo(
            f"{uid} starts {place}. Rows after that position are read again; unread rows before "
            f"it are never read. The number of rows is unknown; {more}{count(rows)} were read."
        )
        for split in stand.get(uid, []):
            read = f"read up to {split.position}" if split.read else f"not read: {split.position}"
            typer.echo(f"  split {split.split_id} was {read}")
    if starts:
        typer.echo(
            "This command cannot check whether the sources accept these positions. The next "
            "start rejects invalid ones and reads nothing. In that case, rewind again."
        )


def _show_giving_up(found: abandonment.GivingUp, again: rewind.Rewinding | None) -> None:
    if found.lost_decision:
        typer.echo(
            f"epoch {found.epoch} of {found.query} has no decision, so its rows are unknown. "
            "Sinks that have committed it have them; others may not. If Spark has not finished "
            "its micro-batch, that micro-batch writes them again."
        )
        _show_read(found, "Its rows are among these rows, which were read:")
        return
    fate = "are LOST"
    if again is not None:
        fate = "are read again"
        if again.epoch < 0:
            fate += " if the sources start before them"
    for uid, rows in found.rows.items():
        typer.echo(f"epoch {found.epoch} of {found.query}: {count(rows)} rows of {uid} {fate}")
    table = plain_table("sink", "writer", "committables", "rows")
    for each in found.abandoned:
        table.add_row(
            Text(each.sink), str(each.subtask), count(each.committables), count(each.rows)
        )
    output().print(table)
    _show_read(found, "The epoch read these rows:")
    for uid in found.done:
        kept = "keeps its rows" if again is None else "gets its rows twice"
        typer.echo(f"{uid} has committed the epoch and {kept}")
    typer.echo("Committables that were committed before the error stay committed.")


def _show_read(found: abandonment.GivingUp, title: str) -> None:
    if found.read is None:
        typer.echo("The source positions of its rows are not recorded.")
        return
    typer.echo(title)
    for part in found.read:
        split_id = mask_text(part.begin.split_id)
        typer.echo(f"  {count(part.rows)} of {part.source}, split {split_id}")
        typer.echo(f"    from {position_text(part.begin.state, part.begin.skip)}")
        typer.echo(f"    to   {_end_text(part)}")


def _end_text(part: abandonment.ReadPart) -> str:
    if part.end.ended or not part.end.finished:
        return position_text(part.end.state, part.end.skip)
    if part.last == part.begin:
        return "its end"
    return f"the end of {position_text(part.last.state, part.last.skip)}"
