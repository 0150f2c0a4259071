# SPDX-License-Identifier: Apache-2.0
"""Gives up an epoch that can never be committed or whose decision is lost, or a split."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Final

from connectors_core.engine.coordinator.completeness import missing_decisions
from connectors_core.engine.coordinator.document_numbers import document_numbers, folder_numbers
from connectors_core.engine.coordinator.identity import PipelineIdentity, QueryIdentity
from connectors_core.engine.coordinator.plan_log import (
    decisions_since,
    is_done,
    newest_number,
    newest_plan,
    plans_since_snapshot,
    read_plan,
    read_reports,
)
from connectors_core.engine.coordinator.planned_stops import splits_after
from connectors_core.engine.protocol import (
    DECISIONS,
    DECISIONS_FOLDER,
    GIVEN_UP_FOLDER,
    PLANS,
    PLANS_FOLDER,
    Decision,
    PlannedSplit,
    SplitRecord,
    SplitReport,
    decision_path,
    done_path,
    given_up_path,
    plan_path,
)
from connectors_core.engine.recovery.locations import Locations
from connectors_core.engine.recovery.rewind import Rewinding, plan_rewinding, rewinding_to
from connectors_core.engine.state import Lease, StateStore, encode_document
from connectors_core.errors import ConfigurationError, StateCorruptedError
from connectors_core.secrets import mask_text

_SHOWN_SPLITS: Final = 20


@dataclass(frozen=True, kw_only=True)
class Abandoned:
    """The output of one writer of a sink that is given up.

    Attributes:
        sink: Uid of the sink.
        subtask: Number of the writer.
        committables: Number of its committables.
        rows: Rows in them; None if the decision does not record it.
    """

    sink: str
    subtask: int
    committables: int
    rows: int | None


@dataclass(frozen=True, kw_only=True)
class ReadPart:
    """The part of one split that plans read.

    Attributes:
        source: Uid of the source.
        begin: The split at the position where the read began.
        last: The split in the last of the plans.
        end: The report of that last plan.
        rows: Rows that were read.
    """

    source: str
    begin: PlannedSplit
    last: PlannedSplit
    end: SplitReport
    rows: int


@dataclass(frozen=True, kw_only=True)
class GivingUp:
    """The effect of giving up an epoch.

    Attributes:
        query: Folder of the query.
        epoch: The epoch.
        lost_decision: Its decision is missing, so its rows are unknown.
        abandoned: The output that is given up, by sink and writer.
        done: Sinks that have committed the epoch; they keep its rows.
        rows: Rows that are given up, by sink.
        read: The parts of splits that the epoch read. If its decision is lost, they include the
            neighboring micro-batches. None if that is no longer recorded.
    """

    query: str
    epoch: int
    lost_decision: bool
    abandoned: tuple[Abandoned, ...]
    done: tuple[str, ...]
    rows: dict[str, int]
    read: tuple[ReadPart, ...] | None


def unfinished_epochs(locations: Locations, query: QueryIdentity) -> list[int]:
    """Return the epochs that can be given up: uncommitted ones, or those without a decision."""
    store = locations.state.child(query.folder)
    decisions = decisions_since(store, 0)
    known = document_numbers(store, DECISIONS_FOLDER)
    unfinished = [
        epoch
        for epoch, decision in decisions.items()
        if not all(is_done(store, epoch, uid) for uid in decision.sinks)
    ]
    marked = {*folder_numbers(store, "done"), *folder_numbers(store, "decided")} - set(known)
    gone = {epoch for epoch in marked if not known or epoch > known[0]}
    return sorted({*unfinished, *gone, *missing_decisions(store), *_lost_newest(locations, query)})


def _lost_newest(locations: Locations, query: QueryIdentity) -> list[int]:
    try:
        locations.verify_decided(query)
    except StateCorruptedError:
        return [newest_number(locations.state.child(query.folder), DECISIONS_FOLDER) + 1]
    return []


def plan_giving_up(locations: Locations, query: QueryIdentity, epoch: int) -> GivingUp:
    """Determine the effect of giving up an epoch. Read-only.

    Args:
        locations: The locations of the pipeline.
        query: One of its queries.
        epoch: The epoch.

    Raises:
        ConfigurationError: The epoch is committed, or was never decided.
    """
    store = locations.state.child(query.folder)
    possible = unfinished_epochs(locations, query)
    if epoch not in possible:
        raise ConfigurationError(
            f"epoch {epoch} of {query.folder} cannot be given up",
            expected="an epoch that is decided but not committed"
            + (f": {', '.join(map(str, possible))}" if possible else "; there is none"),
            option="epoch",
            hint="run `connectors state show` to list the uncommitted epochs",
        )
    decisions = decisions_since(store, 0)
    decision = decisions.get(epoch)
    read = None
    if locations.identity().streaming:
        after = max((each.plan for number, each in decisions.items() if number < epoch), default=-1)
        to = min((each.plan for number, each in decisions.items() if number >= epoch), default=None)
        if to is None:
            log = locations.spark(query)
            to = log.plan_after(log.last_committed)
        read = _read_between(store, after, to)
    if decision is None:
        return GivingUp(
            query=query.folder,
            epoch=epoch,
            lost_decision=True,
            abandoned=(),
            done=(),
            rows={},
            read=read,
        )
    done = tuple(uid for uid in decision.sinks if is_done(store, epoch, uid))
    return GivingUp(
        query=query.folder,
        epoch=epoch,
        lost_decision=False,
        abandoned=tuple(_abandoned(decision, done)),
        done=done,
        rows={uid: sink.rows for uid, sink in decision.sinks.items() if uid not in done},
        read=read,
    )


def _read_between(store: StateStore, after: int, to: int) -> tuple[ReadPart, ...] | None:
    """Return the parts of splits that a range of plans read."""
    parts: dict[tuple[str, str], ReadPart] = {}
    number = to
    while number > after:  # backward, since a fence names the valid plan before it
        plan = PLANS.read(store, plan_path(number))
        if plan is None:
            return None
        number = number - 1 if plan.previous is None else plan.previous
        for uid, reports in read_reports(store, plan).items():
            planned = plan.sources[uid].planned_splits()
            for report in reports:
                if report is None:
                    return None
                for split in report.splits:
                    later = parts.get((uid, split.split_id))
                    parts[uid, split.split_id] = ReadPart(
                        source=uid,
                        begin=planned[split.split_id],
                        last=planned[split.split_id] if later is None else later.last,
                        end=split if later is None else later.end,
                        rows=split.rows + (0 if later is None else later.rows),
                    )
    return tuple(part for _, part in sorted(parts.items()) if part.rows)


def _abandoned(decision: Decision, done: tuple[str, ...]) -> list[Abandoned]:
    found = []
    for uid, sink in decision.sinks.items():
        if uid in done:
            continue
        subtasks = sorted({each.subtask for each in sink.committables})
        for subtask in subtasks:
            own = [each for each in sink.committables if each.subtask == subtask]
            rows = own[0].rows or None  # each records all rows of its writer
            found.append(Abandoned(sink=uid, subtask=subtask, committables=len(own), rows=rows))
    return found


def plan_reading_again(
    locations: Locations, identity: PipelineIdentity, query: QueryIdentity, epoch: int
) -> Rewinding:
    """Determine the effect of reading the rows of the newest epoch again. Read-only.

    Raises:
        ConfigurationError: A later epoch is decided, or the plans before it are no longer recorded.
        UnsupportedError: Spark keeps state for the query.
    """
    if not identity.streaming:
        raise ConfigurationError(
            "a batch pipeline reads everything again on its next run",
            hint="give the epoch up without --read-again, then run the pipeline",
        )
    store = locations.state.child(query.folder)
    decisions = decisions_since(store, 0)
    before = [number for number in decisions if number < epoch]
    if epoch not in decisions or max(decisions) > epoch:
        raise ConfigurationError(
            f"the rows of epoch {epoch} cannot be read again separately",
            expected="the newest epoch, with its decision",
            option="read_again",
            hint="use `connectors state rewind`, which also reads later rows again",
        )
    if before:
        return plan_rewinding(locations, query, max(before))
    plans = document_numbers(store, PLANS_FOLDER)
    if plans and plans[0] > 0:
        raise ConfigurationError(
            f"the plan before epoch {epoch} is no longer recorded", option="read_again"
        )
    plan_rewinding(locations, query, -1)  # refuses queries that cannot be rewound
    return rewinding_to(store, query, epoch=-1, plan=-1)


def give_up(
    locations: Locations, query: QueryIdentity, giving_up: GivingUp, pipeline_id: str, lease: Lease
) -> None:
    """Mark an epoch as done for the sinks that have not committed it.

    Args:
        locations: The locations of the pipeline.
        query: One of its queries.
        giving_up: The epoch to give up.
        pipeline_id: The pipeline.
        lease: The lease, held by the caller.
    """
    store = locations.state.child(query.folder)
    epoch = giving_up.epoch
    if giving_up.lost_decision:
        log = locations.spark(query)  # the fence covers Spark's finished batches
        previous = [number for number in decisions_since(store, 0) if number < epoch]
        fence = Decision(
            pipeline_id=pipeline_id,
            epoch=epoch,
            incarnation=lease.incarnation,
            spark_query_id=query.spark_query_id,
            batch_id=log.last_committed,
            plan=log.plan_after(log.last_committed),
            sinks={},
            previous=max(previous, default=-1),
        )
        DECISIONS.create(store, decision_path(epoch), fence)
        return
    for uid, rows in giving_up.rows.items():
        note = {"at": time.time(), "rows": rows}
        store.create(done_path(epoch, uid), encode_document("given-up", note))


@dataclass(frozen=True, kw_only=True)
class GivingUpSplit:
    """The effect of giving up a split.

    Attributes:
        query: Folder of the query.
        source: Uid of the source.
        split: The split at the position after which it is not read.
        rows: Rows before that position that the next start may have to read again.
    """

    query: str
    source: str
    split: PlannedSplit
    rows: int


def plan_giving_up_split(locations: Locations, source: str, split_id: str) -> GivingUpSplit:
    """Determine the effect of giving up a split. Read-only.

    Args:
        locations: The locations of the pipeline.
        source: Uid of the source.
        split_id: Id of the split, as errors and `connectors state show` spell it.

    Raises:
        ConfigurationError: No reader has the split, or it is a batch pipeline.
        IdentityError: The pipeline has no such source.
    """
    identity = locations.whole_identity()
    query = identity.query_of(source)
    if not identity.streaming:
        raise ConfigurationError(
            "a batch pipeline has no splits to give up: each run reads everything in its sources",
            hint="exclude the data with the options of the source, then run the pipeline",
        )
    store, log = locations.state.child(query.folder), locations.spark(query)
    done, newest = log.plan_after(log.last_committed), newest_plan(store)
    records: dict[str, SplitRecord] = {}
    for plan in plans_since_snapshot(store, newest) if newest >= 0 else []:
        records = splits_after(records, plan.sources[source], read_reports(store, plan)[source])
    again: dict[str, PlannedSplit] = {}  # of plans that the next start may read again
    rows: Counter[str] = Counter()
    for plan in (read_plan(store, n) for n in document_numbers(store, PLANS_FOLDER) if n > done):
        if not plan.is_fence:
            again |= plan.sources[source].planned_splits()
            for report in filter(None, read_reports(store, plan)[source]):
                rows.update({split.split_id: split.rows for split in report.splits})
    known = again | {name: record.split for name, record in records.items()}
    chosen = [split_id] if split_id in known else [n for n in known if mask_text(n) == split_id]
    if len(chosen) != 1:
        shown = [mask_text(name) for name in list(known)[:_SHOWN_SPLITS]]
        raise ConfigurationError(
            f"{len(chosen) or 'no'} unfinished splits of source {source!r} are named {split_id!r}",
            expected=", ".join(map(repr, shown)) or "an unfinished split; there is none",
            option="split",
            hint="write the name with its secrets, which are not shown"
            if chosen
            else "run `connectors state show` to list the unfinished splits",
        )
    (name,) = chosen
    return GivingUpSplit(query=query.folder, source=source, split=known[name], rows=rows[name])


def give_up_split(locations: Locations, giving_up: GivingUpSplit) -> None:
    """Mark a split, so that no reader reads it. The caller holds the lease."""
    source, split_id = giving_up.source, giving_up.split.split_id
    mark = {"at": time.time(), "source": source, "split": split_id}
    locations.state.child(giving_up.query).create(
        given_up_path(source, split_id), encode_document(GIVEN_UP_FOLDER, mark)
    )
