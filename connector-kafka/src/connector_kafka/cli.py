# SPDX-License-Identifier: Apache-2.0
"""`connectors kafka transactions list|abort|commit`: transactions that sinks left in a cluster.

Use it if an open transaction blocks the readers of a topic, or to remove a pipeline permanently. A
pipeline that restarts settles its own transactions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from connector_kafka.client.config import PRODUCER_PROPERTIES, ClientConfig
from connector_kafka.client.transactions import TransactionClient, TransactionDescription
from connector_kafka.client.wire import Wire
from connector_kafka.sink.transactional_ids import TransactionalId
from connectors_core.errors import ConfigurationError, ConnectorError, InvalidOptionError
from connectors_core.options import format_duration, parse_duration

__all__ = ["app"]

_OPEN: Final = "Ongoing"
_ALL: Final = "all"
_FAILED_EXIT: Final = 1

app = typer.Typer(
    no_args_is_help=True, help="Manage the transactions that connector-kafka left in a cluster."
)
transactions = typer.Typer(
    no_args_is_help=True,
    help="Manage transactions of exactly-once sinks. Open transactions block readers of their "
    "topics.",
)
app.add_typer(transactions, name="transactions")

Servers = Annotated[
    str,
    typer.Option("--bootstrap-server", metavar="HOST:PORT", help="Bootstrap brokers."),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        help="File of client properties, one key=value per line. Put passwords here.",
    ),
]
Property = Annotated[
    list[str] | None,
    typer.Option("--property", metavar="KEY=VALUE", help="Client property; can be repeated."),
]
Prefix = Annotated[
    str | None, typer.Option(help="Only IDs of sinks with this sink.transactional-id-prefix.")
]
Pipeline = Annotated[
    str | None, typer.Option(help="Only transactions of the pipeline with this ID.")
]
Sink = Annotated[str | None, typer.Option(help="Only transactions of the sink with this UID.")]
OlderThan = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION", help="Only transactions open for at least this time, such as '10 min'."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, then exit.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@dataclass(frozen=True, kw_only=True)
class TransactionView:
    """A transactional ID of a sink, for display.

    Attributes:
        transactional_id: The ID.
        pipeline: The ID of the pipeline.
        sink: The UID of the sink.
        writer: The number of the writer.
        state: Kafka's name of the state.
        age_seconds: How long the transaction has been open, or None if it is not open.
        timeout_seconds: The age at which the broker aborts it.
        topics: The topics that it wrote to.
    """

    transactional_id: str
    pipeline: str
    sink: str
    writer: int
    state: str
    age_seconds: float | None
    timeout_seconds: float
    topics: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Filter:
    """Selects transactional IDs."""

    prefix: str | None = None
    pipeline: str | None = None
    sink: str | None = None
    older_than: str | None = None
    names: tuple[str, ...] = ()

    def takes(self, found: TransactionalId) -> bool:
        """Whether the name matches."""
        return (
            (not self.names or found.name in self.names)
            and self.prefix in (None, found.prefix)
            and self.pipeline in (None, found.pipeline_id)
            and self.sink in (None, found.sink_uid)
        )

    def is_old_enough(self, description: TransactionDescription, now_ms: float) -> bool:
        """Whether the transaction has been open for long enough."""
        if self.older_than is None:
            return True
        try:
            least = parse_duration(self.older_than)
        except ValueError as error:
            raise InvalidOptionError(
                "the age cannot be read",
                expected=str(error),
                found=self.older_than,
                option="--older-than",
            ) from error
        started = description.started_ms
        return started is not None and now_ms - started >= least.total_seconds() * 1000


@transactions.command("list")
def list_transactions(
    bootstrap_server: Servers,
    *,
    command_config: CommandConfig = None,
    client_property: Property = None,
    prefix: Prefix = None,
    pipeline: Pipeline = None,
    sink: Sink = None,
    older_than: OlderThan = None,
    state: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Kafka's state. Can be repeated, and '{_ALL}' selects any. Default: {_OPEN}."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the transactions of sinks. Changes nothing."""
    wanted = _Filter(prefix=prefix, pipeline=pipeline, sink=sink, older_than=older_than)
    states = state or [_OPEN]
    with _connected(bootstrap_server, command_config, client_property) as client:
        found = _find(client, wanted, [] if _ALL in states else states)
    views = [_view(description) for description in found]
    if as_json:
        typer.echo(orjson.dumps(views, option=orjson.OPT_INDENT_2).decode())
    else:
        _print(views, Console())


@transactions.command("abort")
def abort_transactions(
    bootstrap_server: Servers,
    ids: Annotated[list[str] | None, typer.Argument(help="Transactional ids.")] = None,
    *,
    command_config: CommandConfig = None,
    client_property: Property = None,
    prefix: Prefix = None,
    pipeline: Pipeline = None,
    sink: Sink = None,
    older_than: OlderThan = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Abort open transactions, and fence their writers.

    If a pipeline has already decided to commit one of them, it writes the rows again when it
    restarts.
    """
    wanted = _Filter(
        prefix=prefix, pipeline=pipeline, sink=sink, older_than=older_than, names=tuple(ids or ())
    )
    if wanted == _Filter():
        raise ConfigurationError(
            "this would abort the transactions of every sink of the cluster",
            expected="transactional ids, --prefix, --pipeline, --sink, or --older-than",
            found="none of them",
        )
    with _connected(bootstrap_server, command_config, client_property) as client:
        chosen = _find(client, wanted, [_OPEN])
        if _is_confirmed(chosen, "abort", dry_run=dry_run, yes=yes):
            failed = [each for each in chosen if not _abort(client, each)]
            _end_with(len(chosen) - len(failed), "aborted", failed)


@transactions.command("commit")
def commit_transactions(
    bootstrap_server: Servers,
    ids: Annotated[list[str], typer.Argument(help="Transactional ids.")],
    *,
    command_config: CommandConfig = None,
    client_property: Property = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Commit open transactions by name.

    Only use it for a pipeline that will never restart: `connectors state show` lists the
    transactions that it has decided to commit but has not committed yet. Any other transaction
    contains duplicate rows, or only a part of an epoch.
    """
    with _connected(bootstrap_server, command_config, client_property) as client:
        chosen = _find(client, _Filter(names=tuple(ids)), [_OPEN])
        missing = set(ids) - {each.transaction.transactional_id for each in chosen}
        if missing:
            raise ConfigurationError(
                "some of these are not open transactions of sinks",
                expected="ids listed by `connectors kafka transactions list`",
                found=", ".join(sorted(missing)),
            )
        if _is_confirmed(chosen, "commit", dry_run=dry_run, yes=yes):
            answers = client.end([each.transaction for each in chosen], commit=True)
            failed = [each for each, error in zip(chosen, answers, strict=True) if error]
            for error in filter(None, answers):
                Console(stderr=True).print(str(error), markup=False, highlight=False)
            _end_with(len(chosen) - len(failed), "committed", failed)


@contextmanager
def _connected(
    servers: str, command_config: Path | None, given: Sequence[str] | None
) -> Iterator[TransactionClient]:
    lines = command_config.read_text(encoding="utf-8").splitlines() if command_config else []
    lines = [line for line in map(str.strip, lines) if line and line[0] not in "#!"]
    properties: dict[str, str] = {}
    for line in [*lines, *(given or ())]:
        key, found, value = line.partition("=")
        if not found:
            # The line can be a secret, so the error does not contain it.
            raise ConfigurationError(
                "a client property cannot be read", expected="key=value", option="--property"
            )
        properties[key.strip()] = value.strip()
    wire = Wire(ClientConfig.of({**properties, "bootstrap.servers": servers}, PRODUCER_PROPERTIES))
    try:
        yield TransactionClient(wire)
    finally:
        wire.close()


def _find(
    client: TransactionClient, wanted: _Filter, states: Sequence[str]
) -> list[TransactionDescription]:
    names = [
        each.transactional_id
        for each in client.list_transactions(states=states)
        if (parsed := TransactionalId.parse(each.transactional_id)) and wanted.takes(parsed)
    ]
    now = time.time() * 1000
    found = client.describe_transactions(sorted(names))
    return [
        each
        for each in found
        if (not states or each.state in states) and wanted.is_old_enough(each, now)
    ]


def _abort(client: TransactionClient, description: TransactionDescription) -> bool:
    name = description.transaction.transactional_id
    try:
        client.init_producer_ids([name], timeout_ms=description.timeout_ms)
    except ConnectorError as error:
        Console(stderr=True).print(str(error), markup=False, highlight=False)
        return False
    return True


def _is_confirmed(
    chosen: Sequence[TransactionDescription], verb: str, *, dry_run: bool, yes: bool
) -> bool:
    _print([_view(each) for each in chosen], Console())
    if dry_run:
        typer.echo(f"would {verb} {len(chosen)}")
        return False
    return bool(chosen) and (yes or typer.confirm(f"{verb} {len(chosen)}?", abort=True))


def _end_with(done: int, what: str, failed: Sequence[TransactionDescription]) -> None:
    typer.echo(f"{what} {done}")
    if failed:
        typer.echo(f"not {what}: {', '.join(f.transaction.transactional_id for f in failed)}")
        raise typer.Exit(_FAILED_EXIT)


def _view(description: TransactionDescription) -> TransactionView:
    parsed = TransactionalId.parse(description.transaction.transactional_id)
    assert parsed is not None, "others were skipped"
    started = description.started_ms
    return TransactionView(
        transactional_id=parsed.name,
        pipeline=parsed.pipeline_id,
        sink=parsed.sink_uid,
        writer=parsed.subtask_id,
        state=description.state,
        age_seconds=None if started is None else max(0.0, time.time() - started / 1000),
        timeout_seconds=description.timeout_ms / 1000,
        topics=tuple(sorted({topic for topic, _ in description.partitions})),
    )


def _print(views: Sequence[TransactionView], console: Console) -> None:
    if not views:
        console.print("no transactions")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("state", "open for", "time-out", "sink", "writer", "topics", "transactional id"):
        table.add_column(column, overflow="fold")
    for view in views:
        table.add_row(
            view.state,
            "-" if view.age_seconds is None else _seconds(view.age_seconds),
            _seconds(view.timeout_seconds),
            Text(view.sink),
            str(view.writer),
            Text(", ".join(view.topics)),
            Text(view.transactional_id),
        )
    console.print(table)


def _seconds(seconds: float) -> str:
    return format_duration(parse_duration(f"{round(seconds)} s"))
