# SPDX-License-Identifier: Apache-2.0
"""Checks that the state of a query is complete, as far as its files prove it. Driver, read-only.

A missing file causes no error by itself. A driver that does not see the last decision writes its
epoch again under the same number, and the sink mistakes it for one that it already has. These
checks therefore compare the existing files with the files that they imply:

- Plans and decisions are numbered without gaps. The pipeline removes old ones in ascending order:
  decisions before their done marks, reports after their plans.
- A done mark or a rewrite implies its decision. A report implies its plan.
- A decision implies the plan whose rows it holds, with all its reports.
- A plan names the newest decision at its time. In a copy of the state, plans may be newer than
  decisions.
- The newest decision names the oldest one that holds committables for later epochs.
- Each epoch with rows has a decision. If Spark keeps state or reads streams of its own, each
  micro-batch has one. A micro-batch that Spark has finished implies its decision.
- A batch run has no log in Spark, so it marks that it has decided.
- Every document names the pipeline.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from connectors_core.engine.coordinator.document_numbers import (
    document_numbers,
    folder_numbers,
    unrelated_files,
)
from connectors_core.engine.coordinator.identity import FIRST_QUERY, IDENTITIES_FOLDER
from connectors_core.engine.coordinator.plan_log import (
    complete_reports,
    newest_decision,
    newest_number,
    newest_plan,
    read_decision,
    read_plan,
    read_reports,
)
from connectors_core.engine.protocol import DECISIONS_FOLDER, PLANS_FOLDER, Decision, Plan
from connectors_core.engine.state import StateStore
from connectors_core.errors import StateCorruptedError

_LOGGER: Final = logging.getLogger(__name__)


def verify_complete(store: StateStore, *, pipeline_id: str) -> None:
    """Check that the state of a query is complete. Read-only.

    Args:
        store: The state location of the query.
        pipeline_id: The pipeline.

    Raises:
        StateCorruptedError: A file is missing; with the evidence and the remedies.
    """
    folders = PLANS_FOLDER, DECISIONS_FOLDER
    plans, decisions = (document_numbers(store, folder) for folder in folders)
    foreign = [name for folder in folders for name in unrelated_files(store, folder)]
    if foreign:
        _LOGGER.warning(
            "%s: ignored files that the pipeline did not write: %s", store, ", ".join(foreign)
        )
    _refuse_gap(store, "plan", plans, lambda number: read_plan(store, number).previous)
    _refuse_gap(store, "decision", decisions, lambda epoch: read_decision(store, epoch).previous)
    for what, folder, known, needs in (
        ("a done mark", "done", decisions, "decision"),
        ("a rewrite", "rewrites", decisions, "decision"),
        ("the mark of a batch run", "decided", decisions, "decision"),
        ("a report", "reports", plans, "plan"),
    ):
        _refuse_orphans(store, what, folder_numbers(store, folder), known, needs)
    plan, epoch = newest_plan(store), newest_decision(store)
    planned = read_plan(store, plan) if plan >= 0 else None
    decided = read_decision(store, epoch) if epoch >= 0 else None
    for document in (planned, decided):
        _refuse_stranger(store, document, pipeline_id)
    _refuse_forgotten(store, plans, decisions)
    _refuse_not_held(store, decided, decisions)
    if decided is not None:
        _refuse_unread(store, decided, planned, plans)


def verify_same_moment(
    store: StateStore, *, spark_query_id: str, logged_batch: int, logged_plan: int
) -> None:
    """Check that Spark's log is neither older than the decisions nor newer than the plans.

    With an older log, Spark reuses the numbers of decided micro-batches for other rows. A newer log
    names plans that the pipeline would create again for rows that are already written. Read-only.

    Args:
        store: The state location of the query.
        spark_query_id: Spark's id of the query.
        logged_batch: The newest micro-batch in Spark's checkpoint; -1 for none.
        logged_plan: The last plan that this batch reads; -1 before the first.

    Raises:
        StateCorruptedError: The log is older or newer.
    """
    newest_plan_number = newest_number(store, PLANS_FOLDER)
    if logged_plan > newest_plan_number:
        raise _missing(
            store,
            f"plan {logged_plan} is missing",
            expected=f"plan {logged_plan}, which micro-batch {logged_batch} in Spark's log reads",
            found="no plan"
            if newest_plan_number < 0
            else f"plan {newest_plan_number} as the newest",
        )
    epoch = newest_decision(store)
    if epoch < 0:
        return
    newest = read_decision(store, epoch)
    if newest.spark_query_id == spark_query_id and newest.batch_id > logged_batch:
        raise _missing(
            store,
            "Spark's checkpoint is older than the decisions",
            expected=f"micro-batch {newest.batch_id} of epoch {newest.epoch} in its log",
            found="none" if logged_batch < 0 else f"micro-batch {logged_batch} as the newest",
        )


def verify_decided(
    store: StateStore,
    *,
    spark_query_id: str,
    first: int,
    batch: int,
    plan: int,
    stateful: bool,
    spark_streams: bool = False,
) -> None:
    """Check that every micro-batch that Spark has finished is decided. Read-only.

    The check skips plans of early releases, which did not decide on micro-batches without rows.

    Args:
        store: The state location of the query.
        spark_query_id: Spark's id of the query.
        first: The plan before the first plan of Spark's checkpoint.
        batch: The newest batch that Spark has finished; -1 for none.
        plan: The last plan that this batch reads.
        stateful: Spark keeps state for the query, so even a micro-batch without rows writes state.
        spark_streams: Spark also reads streams of its own, so plans do not show which micro-batches
            have rows.

    Raises:
        StateCorruptedError: A decision is missing.
    """
    decided = last_decided_batch(store, spark_query_id)
    decided_batch, decided_plan = (-1, -1) if decided is None else (decided.batch_id, decided.plan)
    if decided_batch >= batch:
        return
    if spark_streams:
        raise _undecided(store, f"micro-batch {batch}, which Spark has finished", decided)
    for number in document_numbers(store, PLANS_FOLDER):
        if not max(first, plan - 1 if stateful else decided_plan) < number <= plan:
            continue
        document = read_plan(store, number)
        if document.decided is not None and (stateful or _has_rows(store, document)):
            what = f"micro-batch {batch}" if stateful else f"the rows of plan {number}"
            raise _undecided(store, f"{what}, which Spark has finished", decided)


def last_decided_batch(store: StateStore, spark_query_id: str) -> Decision | None:
    """Return the newest decision on a micro-batch of a query, abandoned ones included, or None."""
    for epoch in reversed(document_numbers(store, DECISIONS_FOLDER)):
        decision = read_decision(store, epoch)
        if decision.spark_query_id == spark_query_id:
            return decision
    return None


def verify_identified(root: StateStore) -> None:
    """Check that a location without a recorded pipeline has no query state. Read-only.

    Args:
        root: The state location of a pipeline that has no recorded identity.

    Raises:
        StateCorruptedError: It holds the state of a query.
    """
    first = root.child(FIRST_QUERY)
    if document_numbers(first, PLANS_FOLDER) or document_numbers(first, DECISIONS_FOLDER):
        raise _missing(
            root,
            "it does not say which pipeline it belongs to",
            expected=f"a document in {IDENTITIES_FOLDER}/",
            found=f"none, and the state of {FIRST_QUERY}",
        )


def missing_numbers(
    numbers: Sequence[int], previous: Callable[[int], int | None]
) -> Iterator[range]:
    """Yield the gaps in the numbers of plans or decisions.

    A fence names the newest document before it, so nothing is missing between the two.

    Args:
        numbers: The existing numbers, in order.
        previous: Returns the document that a fence names as its predecessor; None if the document
            is not a fence.
    """
    for before, after in itertools.pairwise(numbers):
        if after != before + 1:
            fences = (previous(number) for number in numbers if number >= after)
            if not any(fenced is not None and fenced <= before for fenced in fences):
                yield range(before + 1, after)


def missing_decisions(store: StateStore) -> list[int]:
    """Return the epochs whose decisions are missing although later ones exist."""
    known = document_numbers(store, DECISIONS_FOLDER)
    gaps = missing_numbers(known, lambda epoch: read_decision(store, epoch).previous)
    return [epoch for gap in gaps for epoch in gap]


def _refuse_gap(
    store: StateStore,
    what: str,
    numbers: Sequence[int],
    previous: Callable[[int], int | None],
) -> None:
    for gap in missing_numbers(numbers, previous):
        raise _missing(
            store,
            f"{_named(what, gap)} missing",
            expected=f"{what}s {numbers[0]} to {numbers[-1]} without a gap",
            found=f"{what} {gap.start - 1}, then {what} {gap.stop}",
        )


def _refuse_orphans(
    store: StateStore, what: str, found: Sequence[int], known: Sequence[int], needs: str
) -> None:
    """Refuse documents after the last known number; `_refuse_gap` finds gaps."""
    lost = [number for number in found if not known or number > known[-1]]
    if lost:
        raise _missing(
            store,
            f"{needs} {lost[0]} is missing",
            expected=f"{needs} {lost[0]}, because it has {what}",
            found=f"{needs}s {known[0]} to {known[-1]}" if known else f"no {needs}",
        )


def _refuse_stranger(store: StateStore, document: Plan | Decision | None, pipeline_id: str) -> None:
    if document is None or document.pipeline_id == pipeline_id:
        return
    what = f"plan {document.number}" if isinstance(document, Plan) else f"epoch {document.epoch}"
    raise _missing(
        store,
        f"{what} belongs to another pipeline than the one that is recorded",
        expected=f"pipeline {pipeline_id}",
        found=f"pipeline {document.pipeline_id}",
    )


def _refuse_forgotten(store: StateStore, plans: Sequence[int], decisions: Sequence[int]) -> None:
    """Refuse a newest plan that names a missing decision."""
    known = read_plan(store, plans[-1]).decided if plans else None
    if known is not None and known > max(decisions, default=-1):
        raise _missing(
            store,
            f"decision {known} is missing",
            expected=f"decision {known}, which plan {plans[-1]} names",
            found=f"decision {decisions[-1]} as the newest" if decisions else "no decision",
        )


def _refuse_not_held(store: StateStore, newest: Decision | None, decisions: Sequence[int]) -> None:
    """Refuse a newest decision after one that is missing and still holds committables."""
    since = None if newest is None else newest.holds_since
    if since is not None and since not in decisions:
        raise _missing(
            store,
            f"decision {since} is missing",
            expected=f"decision {since}, which holds committables",
            found=f"decision {decisions[0]} as the oldest",
        )


def _refuse_unread(
    store: StateStore, decision: Decision, newest: Plan | None, plans: Sequence[int]
) -> None:
    """Refuse a decision whose plan or reports are missing."""
    if decision.plan < 0:
        return
    if not plans or plans[-1] < decision.plan:
        raise _missing(
            store,
            f"plan {decision.plan} is missing",
            expected=f"plan {decision.plan}, whose rows epoch {decision.epoch} holds",
            found=f"plan {plans[-1]} as the newest" if plans else "no plan",
        )
    if (
        newest is not None
        and newest.number == decision.plan
        and complete_reports(store, newest) is None
    ):
        raise _missing(
            store,
            f"a report of plan {decision.plan} is missing",
            expected=f"all reports of the plan, whose rows epoch {decision.epoch} holds",
        )


def _undecided(store: StateStore, what: str, newest: Decision | None) -> StateCorruptedError:
    return _missing(
        store,
        f"decision {newest_number(store, DECISIONS_FOLDER) + 1} is missing",
        expected=f"a decision on {what}",
        found="no decision"
        if newest is None
        else f"the one on micro-batch {newest.batch_id} as the newest",
    )


def _has_rows(store: StateStore, plan: Plan) -> bool:
    reports = read_reports(store, plan).values()
    return any(
        report is not None and (report.rows or report.skipped or report.dead_letters)
        for own in reports
        for report in own
    )


def _named(what: str, numbers: range) -> str:
    if len(numbers) == 1:
        return f"{what} {numbers[0]} is"
    return f"{what}s {numbers[0]} to {numbers[-1]} are"


def _missing(
    store: StateStore, message: str, *, expected: str | None = None, found: str | None = None
) -> StateCorruptedError:
    return StateCorruptedError(
        f"the state at {store} is not complete: {message}",
        expected=expected,
        found=found,
    )
