# SPDX-License-Identifier: Apache-2.0
"""Prints the state of a pipeline as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from connectors_core._display import NOTHING, count, moment, size, span
from connectors_core.cli.state_view import (
    DecisionView,
    LeaseView,
    QueryView,
    SourceView,
    StateView,
)
from connectors_core.cli.tables import plain_table, rows_with_details

_PROCESS: Final = {
    True: "; its process is running",
    False: "; its process has ended, so the next driver takes over at once",
    None: "",
}


def print_state(view: StateView, console: Console, now: float) -> None:
    """Print the state of a pipeline.

    Args:
        view: The state.
        console: The console.
        now: Current time in seconds since 1970.
    """
    kind = "streaming" if view.streaming else "batch"
    console.print(Text.assemble(("pipeline ", "dim"), (view.name, "bold"), f"  {kind}"))
    console.print(Text(f"id       {view.pipeline_id}"))
    console.print(Text(f"lease    {_lease_text(view.lease, now)}"))
    for run in view.unfinished_runs:
        console.print(Text(f"run      {run} is not finished", style="yellow"))
    for query in view.queries:
        console.print()
        console.print(Text.assemble((query.name, "bold"), f"  {query.spark_query_id}"))
        for line in _query_lines(query):
            console.print(Text(line))
        for table in _tables(query, console.width):
            console.print()
            for part in table:
                console.print(part)


def _lease_text(lease: LeaseView | None, now: float) -> str:
    if lease is None:
        return "never taken"
    who = f"incarnation {lease.incarnation}, host {lease.host}, pid {lease.pid}"
    who += f" ({lease.description})" if lease.description else ""
    if lease.released:
        return f"released; last held by {who}"
    held = f"held by {who}, last heartbeat {span(max(0.0, now - lease.seen_at))} ago"
    return held + _PROCESS[lease.running]


def _query_lines(query: QueryView) -> Iterator[str]:
    plan = NOTHING if query.plan is None else str(query.plan)
    yield f"plan     {plan}" + (" (the last)" if query.last_plan else "")
    yield f"epoch    {NOTHING if query.epoch is None else query.epoch}"
    if query.undecided:
        yield f"plans after the last decision      {_ranges(query.undecided)}"
    if query.held:
        yield f"epochs decided but not committed   {_ranges(query.held)}"
    for held in query.compaction:
        yield (
            f"{held.sink} holds {count(held.committables)} committables for later epochs since "
            f"epoch {held.since}, {count(held.requests)} compactions are open"
        )


def _ranges(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def _tables(query: QueryView, width: int) -> Iterator[Iterable[RenderableType]]:
    """Return the tables of a query, each as the parts to print."""
    if query.plan is not None:
        table = plain_table("source", "splits", "watermark", "reports of the plan", "")
        for source in query.sources:
            table.add_row(
                source.uid,
                count(len(source.splits)),
                moment(source.watermark),
                f"{source.reported}/{source.entries}",
                "finished" if source.finished else "",
            )
        yield [table]
    for source in query.sources:
        if source.splits:
            yield _splits(source, width)
    for uid in dict.fromkeys(writer.sink for writer in query.writers):
        table = plain_table(f"writer of {uid}", "states")
        for writer in query.writers:
            if writer.sink == uid:
                table.add_row(str(writer.writer), Text("\n".join(writer.states) or NOTHING))
        yield [table]
    if query.decisions:
        columns = ("epoch", "batch", "plan", "sink", "rows", "bytes", "committables", "state")
        table = plain_table(*columns)
        for decision in query.decisions:
            _add_decision(table, decision)
        yield [table]


def _splits(source: SourceView, width: int) -> Iterator[RenderableType]:
    columns = (f"split of {source.uid}", "reader", "watermark", "skip", "position")
    rows = [
        (
            split.split_id,
            str(split.subtask),
            moment(split.watermark),
            count(split.skip),
            split.position if split.read else f"not read: {split.position}",
        )
        for split in source.splits
    ]
    return rows_with_details(columns, rows, width)


def _add_decision(table: Table, decision: DecisionView) -> None:
    for index, uid in enumerate(decision.rows):
        where = (decision.epoch, decision.batch, decision.plan) if index == 0 else ("", "", "")
        table.add_row(
            *map(str, where),
            Text(uid),
            count(decision.rows[uid]),
            size(decision.bytes[uid]),
            count(decision.committables[uid]),
            _fate(decision, uid),
        )


def _fate(decision: DecisionView, uid: str) -> str:
    if uid in decision.given_up:
        return "given up"
    fate = "not committed" if uid in decision.not_done else "committed"
    return fate + (", rewritten" if uid in decision.rewritten else "")
