# SPDX-License-Identifier: Apache-2.0
"""The state of a pipeline, read from its state location. Read-only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from connectors_core.cli.positions import stored_text
from connectors_core.engine.coordinator.held_sets import HeldSets
from connectors_core.engine.coordinator.identity import (
    PipelineIdentity,
    QueryIdentity,
    read_identity,
)
from connectors_core.engine.coordinator.plan_log import (
    decisions_since,
    is_given_up,
    newest_decision,
    newest_plan,
    plans_since_snapshot,
    read_plan,
    read_reports,
    rewrites_of,
)
from connectors_core.engine.coordinator.planned_stops import splits_after
from connectors_core.engine.protocol import (
    Decision,
    Rewrite,
    SplitRecord,
    done_path,
)
from connectors_core.engine.state import LeaseOwner, StateStore, decode_document
from connectors_core.errors import StateLocationError
from connectors_core.secrets import mask_text

MAX_STATE: Final = 200


@dataclass(frozen=True, kw_only=True)
class LeaseView:
    """The current or last holder of the pipeline.

    Attributes:
        incarnation: Number of the claim.
        host: Name of the machine.
        pid: Process id of the driver.
        description: A description for people.
        claimed_at: When it was claimed, seconds since the epoch.
        seen_at: The last heartbeat.
        released: Whether it was released.
        running: Whether its process runs, None if this machine cannot see it.
    """

    incarnation: int
    host: str
    pid: int
    description: str
    claimed_at: float
    seen_at: float
    released: bool
    running: bool | None


@dataclass(kw_only=True)
class SplitView:
    """An assigned split at the position where the next read starts.

    Attributes:
        split_id: The split.
        subtask: The reader to which it is assigned.
        position: Its state as the connector stores it.
        skip: Rows after that position that were already emitted.
        read: Whether a reader has read from it.
        watermark: Its watermark in microseconds.
    """

    split_id: str
    subtask: int
    position: str
    skip: int = 0
    read: bool = False
    watermark: int | None = None


@dataclass(kw_only=True)
class SourceView:
    """A source as of the newest plan and its reports.

    Attributes:
        uid: The source.
        finished: Whether it is read to its end.
        watermark: Its watermark in microseconds.
        entries: Entries of the newest plan.
        reported: Number of these entries that have a report.
        splits: Assigned, unfinished splits.
    """

    uid: str
    finished: bool = False
    watermark: int | None = None
    entries: int = 0
    reported: int = 0
    splits: list[SplitView] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class DecisionView:
    """A decided epoch.

    Attributes:
        epoch: Its number.
        batch: Spark's batch.
        plan: The last plan whose rows it holds, -1 for a batch run.
        rows: Rows by sink.
        bytes: Bytes by sink.
        committables: Committables by sink.
        skipped: Records dropped by record policies.
        dead_letters: Records that became dead letters.
        not_done: Sinks that have not committed it yet.
        rewritten: Writers whose lost rows were rewritten, by sink.
        given_up: Sinks that never got its rows, by `connectors state give-up`.
    """

    epoch: int
    batch: int
    plan: int
    rows: dict[str, int]
    bytes: dict[str, int]
    committables: dict[str, int]
    skipped: int
    dead_letters: int
    not_done: list[str]
    rewritten: dict[str, list[int]]
    given_up: list[str]


@dataclass(frozen=True, kw_only=True)
class WriterView:
    """The states from which a writer of the next epoch continues.

    Attributes:
        sink: Uid of the sink.
        writer: Number of the writer.
        states: Each as the connector stores it; several if there are fewer writers than before,
            none if there are more.
    """

    sink: str
    writer: int
    states: list[str]


@dataclass(frozen=True, kw_only=True)
class HeldView:
    """The committables that a sink holds for later epochs.

    Attributes:
        sink: The sink.
        committables: Number of held committables.
        requests: Number of compactions that have no decided result yet.
        since: The oldest epoch that a restart needs for them.
    """

    sink: str
    committables: int
    requests: int
    since: int | None


@dataclass(frozen=True, kw_only=True)
class QueryView:
    """A query of the pipeline.

    Attributes:
        name: Its folder.
        spark_query_id: Spark's id of it.
        sources: Its sources.
        sinks: Uids of its sinks.
        plan: The newest plan, None before the first.
        last_plan: Whether no plan follows: all sources have ended.
        epoch: The newest decided epoch, None before the first.
        undecided: Plans after the last decision. Those without rows never get one.
        held: Decided epochs that not all sinks have committed.
        writers: The writers that keep states, as of the newest decision.
        compaction: The sinks that hold committables for later epochs.
        decisions: The last decisions, newest first.
    """

    name: str
    spark_query_id: str
    sources: list[SourceView]
    sinks: list[str]
    plan: int | None
    last_plan: bool
    epoch: int | None
    undecided: list[int]
    held: list[int]
    writers: list[WriterView]
    compaction: list[HeldView]
    decisions: list[DecisionView]


@dataclass(frozen=True, kw_only=True)
class StateView:
    """The state of a pipeline in its state location."""

    pipeline_id: str
    name: str
    streaming: bool
    lease: LeaseView | None
    queries: list[QueryView]
    unfinished_runs: list[str]


def view_state(store: StateStore, decisions: int = 5) -> StateView:
    """Read the state of a pipeline.

    Args:
        store: The state location of a pipeline.
        decisions: How many decisions to read.

    Raises:
        StateLocationError: The location holds no pipeline.
        StateCorruptedError: A document is damaged or missing.
    """
    identity = read_identity(store)
    if identity is None:
        raise StateLocationError(
            f"there is no pipeline at {store}",
            expected="the state_location of a pipeline, by default its checkpoint_location",
            hint="check the path; a pipeline writes its state there on its first start",
        )
    runs = {name.partition("/")[0] for name in store.list("runs", recursive=True)}
    return StateView(
        pipeline_id=identity.pipeline_id,
        name=identity.name,
        streaming=identity.streaming,
        lease=_lease(store),
        queries=[_query(store, identity, query, decisions) for query in identity.queries],
        unfinished_runs=sorted(runs),
    )


def _lease(store: StateStore) -> LeaseView | None:
    names = store.list("lease")
    claims = [name for name in names if name.endswith(".json")]
    if not claims:
        return None
    stem = max(claims).removesuffix(".json")
    data = store.read_or_none(f"lease/{stem}.json")
    if data is None:
        return None  # a driver that is taking over has just removed it
    claim = decode_document("lease", data)
    stamp = store.read_or_none(f"lease/{stem}.alive")
    seen_at = claim["claimed_at"]
    if stamp is not None:
        seen_at = max(seen_at, decode_document("lease-alive", stamp)["at"])
    owner = LeaseOwner.of_claim(claim)
    return LeaseView(
        incarnation=claim["incarnation"],
        host=owner.host,
        pid=owner.pid,
        description=owner.description,
        claimed_at=claim["claimed_at"],
        seen_at=seen_at,
        released=f"{stem}.released" in names,
        running=owner.is_running(),
    )


def _query(
    root: StateStore, identity: PipelineIdentity, query: QueryIdentity, shown: int
) -> QueryView:
    store = root.child(query.folder)
    plan, epoch = newest_plan(store), newest_decision(store)
    known = decisions_since(store, 0)
    done = set(store.list("done", recursive=True))
    undone = {
        number: [uid for uid in decision.sinks if _done_name(number, uid) not in done]
        for number, decision in known.items()
    }
    decided = max((decision.plan for decision in known.values()), default=query.first)
    return QueryView(
        name=query.folder,
        spark_query_id=query.spark_query_id if identity.streaming else "",
        sources=view_sources(store, query),
        sinks=list(query.sinks),
        plan=plan if plan >= 0 else None,
        last_plan=plan >= 0 and read_plan(store, plan).last,
        epoch=epoch if epoch >= 0 else None,
        undecided=list(range(decided + 1, plan + 1)),
        held=sorted(number for number, sinks in undone.items() if sinks),
        writers=_writers(known[epoch]) if epoch in known else [],
        compaction=_held(known.values()),
        decisions=[
            _decision(
                known[number],
                undone[number],
                rewrites_of(store, number),
                [uid for uid in known[number].sinks if is_given_up(store, number, uid)],
            )
            for number in sorted(known, reverse=True)[:shown]
        ],
    )


def view_sources(store: StateStore, query: QueryIdentity) -> list[SourceView]:
    """Read the positions of a query's sources.

    Args:
        store: The state location of the query.
        query: The query.

    Raises:
        StateCorruptedError: A document is damaged or missing.
    """
    plan = newest_plan(store)
    sources = {uid: SourceView(uid=uid) for uid in query.uids}
    splits: dict[str, dict[str, SplitRecord]] = {}
    for each in plans_since_snapshot(store, plan) if plan >= 0 else []:
        reports = read_reports(store, each)
        for uid, part in each.sources.items():
            splits[uid] = splits_after(splits.get(uid, {}), part, reports[uid])
            sources[uid] = SourceView(
                uid=uid,
                finished=part.finished,
                watermark=part.watermark,
                entries=len(part.entries),
                reported=sum(report is not None for report in reports[uid]),
                splits=[_split(record) for record in splits[uid].values()],
            )
    return list(sources.values())


def _held(decisions: Iterable[Decision]) -> list[HeldView]:
    sets = HeldSets()
    for decision in decisions:
        sets.decided(decision)
    return [
        HeldView(sink=uid, committables=len(held), requests=len(held.requests), since=held.since)
        for uid, held in sorted(sets.holding().items())
    ]


def _writers(newest: Decision) -> list[WriterView]:
    return [
        WriterView(
            sink=uid, writer=number, states=[stored_text(state, MAX_STATE) for state in states]
        )
        for uid, sink in newest.sinks.items()
        for number, states in enumerate(sink.writer_states)
    ]


def _split(record: SplitRecord) -> SplitView:
    planned = record.split
    return SplitView(
        split_id=mask_text(planned.split_id),
        subtask=record.subtask,
        position=stored_text(planned.state),
        skip=planned.skip,
        read=record.read,
        watermark=record.watermark,
    )


def _done_name(epoch: int, uid: str) -> str:
    return done_path(epoch, uid).partition("/")[2]


def _decision(
    decision: Decision, not_done: list[str], rewrites: Sequence[Rewrite], given_up: list[str]
) -> DecisionView:
    sinks = decision.sinks
    rewritten: dict[str, set[int]] = {}
    for rewrite in rewrites:
        for uid, each in rewrite.sinks.items():
            rewritten.setdefault(uid, set()).update(each.subtasks)
    return DecisionView(
        epoch=decision.epoch,
        batch=decision.batch_id,
        plan=decision.plan,
        rows={uid: sink.rows for uid, sink in sinks.items()},
        bytes={uid: sink.bytes for uid, sink in sinks.items()},
        committables={uid: len(sink.committables) for uid, sink in sinks.items()},
        skipped=decision.skipped + sum(sink.skipped for sink in sinks.values()),
        dead_letters=decision.dead_letters + sum(sink.dead_letters for sink in sinks.values()),
        not_done=not_done,
        rewritten={uid: sorted(subtasks) for uid, subtasks in rewritten.items()},
        given_up=given_up,
    )
