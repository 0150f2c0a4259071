# SPDX-License-Identifier: Apache-2.0
"""Rewinds the sources of a query to their positions at a decided epoch.

Rewinding removes nothing. A fence plan under the next number names the plan to continue from, and
the query gets a new Spark checkpoint that begins after the fence. Epoch numbers keep growing, so no
sink mistakes a new epoch for one that it already has.
"""

from __future__ import annotations

import dataclasses
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from connectors_core.engine.coordinator.document_numbers import document_numbers
from connectors_core.engine.coordinator.identity import QueryIdentity, record_identity
from connectors_core.engine.coordinator.plan_log import (
    complete_reports,
    decisions_since,
    newest_decision,
    newest_number,
    plans_since_snapshot,
    read_plan,
    read_reports,
)
from connectors_core.engine.protocol import GIVEN_UP_FOLDER, PLANS, PLANS_FOLDER, Plan, plan_path
from connectors_core.engine.recovery.locations import Locations
from connectors_core.engine.state import Lease, StateStore
from connectors_core.errors import ConfigurationError, StateCorruptedError, UnsupportedError

TO_START = -1
"""Stands for an epoch: the sources restart as at the first start."""


@dataclass(frozen=True, kw_only=True)
class Rewinding:
    """The effect of rewinding a query.

    Attributes:
        query: Folder of the query.
        epoch: The epoch to go back to, -1 for the start.
        plan: The last plan that is not read again, -1 for none.
        newest: The newest plan.
        plans: Number of plans to read again.
        read_again: Rows that these plans read, by source. The source may have more rows by now.
            After a rewind to the start, only the sources know which of the rows they read again.
        written: Rows of the later epochs, by sink. The target keeps them, and they are written
            again.
        forgotten: Whether some of these plans are no longer recorded, so the counts are too low.
    """

    query: str
    epoch: int
    plan: int
    newest: int
    plans: int
    read_again: dict[str, int]
    written: dict[str, int]
    forgotten: bool


def epochs_to_rewind_to(store: StateStore) -> list[int]:
    """Return the epochs to which a query can be rewound, in order."""
    plans = set(document_numbers(store, PLANS_FOLDER))
    return [
        epoch
        for epoch, decision in sorted(decisions_since(store, 0).items())
        if decision.plan in plans and _is_readable(store, decision.plan)
    ]


def plan_rewinding(locations: Locations, query: QueryIdentity, epoch: int) -> Rewinding:
    """Determine the effect of rewinding a query to an epoch. Read-only.

    Args:
        locations: The locations of the pipeline.
        query: A streaming query.
        epoch: A decided epoch whose plan is still recorded, or :data:`TO_START`.

    Raises:
        ConfigurationError: The epoch is no longer recorded.
        UnsupportedError: Spark keeps state for the query, or positions of its own streams.
    """
    kept = None
    if locations.spark(query).has_state:
        kept = "has Spark state (a join, an aggregation, a deduplication), which cannot"
    elif query.reads_spark_stream:
        kept = "reads a stream of Spark, whose positions in Spark's checkpoint cannot"
    if kept is not None:
        raise UnsupportedError(
            f"{query.folder} {kept} be rewound to an epoch",
            hint="restore a backup of that time with `connectors state restore`, or start with "
            "another checkpoint location",
        )
    store = locations.state.child(query.folder)
    plan = TO_START if epoch == TO_START else _plan_of(store, epoch)
    return rewinding_to(store, query, epoch=epoch, plan=plan)


def rewinding_to(store: StateStore, query: QueryIdentity, *, epoch: int, plan: int) -> Rewinding:
    """Determine the effect of rewinding a query to a plan. Read-only."""
    read_again = dict.fromkeys(query.uids, 0)
    known = document_numbers(store, PLANS_FOLDER)
    later = [number for number in known if number > plan]
    count = 0
    for number in later:
        document = read_plan(store, number)
        if document.is_fence:
            continue
        count += 1
        for uid, reports in read_reports(store, document).items():
            rows = sum(report.rows for report in reports if report is not None)
            read_again[uid] = read_again.get(uid, 0) + rows
    written = dict.fromkeys(query.sinks, 0)
    for decision in decisions_since(store, epoch + 1).values():
        for uid, sink in decision.sinks.items():
            written[uid] = written.get(uid, 0) + sink.rows
    return Rewinding(
        query=query.folder,
        epoch=epoch,
        plan=plan,
        newest=newest_number(store, PLANS_FOLDER),
        plans=count,
        read_again=read_again,
        written=written,
        forgotten=bool(known) and known[0] > plan + 1,
    )


def _plan_of(store: StateStore, epoch: int) -> int:
    decisions = decisions_since(store, epoch)
    possible = epochs_to_rewind_to(store)
    if epoch not in decisions or epoch not in possible:
        shown = f"{possible[0]} to {possible[-1]}" if possible else "none"
        raise ConfigurationError(
            f"the query cannot be rewound to epoch {epoch}",
            expected=f"an epoch whose plan and reports still exist: {shown}",
            option="epoch",
            hint="choose another one, use --to-start, or restore a backup; "
            "spark.sql.streaming.minBatchesToRetain determines which epochs are kept",
        )
    return decisions[epoch].plan


def _is_readable(store: StateStore, plan: int) -> bool:
    try:
        plans = plans_since_snapshot(store, plan)
        return all(complete_reports(store, each) is not None for each in plans)
    except StateCorruptedError:
        return False


def rewind(
    locations: Locations,
    rewinding: Rewinding,
    lease: Lease,
    starts: Mapping[str, str] | None = None,
) -> None:
    """Rewind a query. The lease keeps drivers out meanwhile.

    Splits that were given up are read again. If it is interrupted, the pipeline refuses to start
    until the rewind is repeated.

    Args:
        locations: The locations of the pipeline.
        rewinding: The rewind to perform.
        lease: The lease, held by the caller.
        starts: Start positions of sources in their own terms, by uid, for a rewind to the start.
    """
    identity = locations.identity()
    store = locations.state.child(rewinding.query)
    store.delete_tree(GIVEN_UP_FOLDER)
    fence = newest_number(store, PLANS_FOLDER) + 1
    queries = []
    for query in identity.queries:
        if query.folder == rewinding.query:
            query = dataclasses.replace(
                query,
                generation=query.generation + 1,
                first=fence,
                spark_query_id=str(uuid.uuid4()),
            )
            locations.spark(query).write_query_id(query.spark_query_id)
        queries.append(query)
    # A source that starts again has no state, so its options may change.
    options = identity.options if rewinding.plan >= 0 else {}
    rewound = dataclasses.replace(identity, queries=tuple(queries), options=options)
    record_identity(locations.state, rewound)
    document = Plan(
        pipeline_id=identity.pipeline_id,
        number=fence,
        nonce=secrets.token_hex(8),
        incarnation=lease.incarnation,
        sources={},
        previous=rewinding.plan,
        decided=newest_decision(store),
        starts=dict(starts or {}),
    )
    if not PLANS.create(store, plan_path(fence), document):
        raise StateCorruptedError(
            f"plan {fence} appeared while {rewinding.query} was being rewound"
        )
