# SPDX-License-Identifier: Apache-2.0
"""The plans, reports, and decisions of one query in the state location. Driver."""

from __future__ import annotations

from functools import cached_property
from typing import TypeVar

from connectors_core.engine.coordinator.document_numbers import document_numbers, folder_numbers
from connectors_core.engine.coordinator.identity import QueryIdentity, read_identity
from connectors_core.engine.protocol import (
    DECISIONS,
    DECISIONS_FOLDER,
    GIVEN_UP_FOLDER,
    PLANS,
    PLANS_FOLDER,
    REPORTS,
    REWRITES,
    Decision,
    Plan,
    Report,
    Rewrite,
    decided_path,
    decision_path,
    done_path,
    encode_entry,
    plan_path,
    report_path,
    rewrites_path,
)
from connectors_core.engine.state import StateStore, decode_document
from connectors_core.errors import StateCorruptedError

DocumentT = TypeVar("DocumentT")


class StoredPlans:
    """The plans of one source, for the carriers; runs on the driver host.

    The query of the source is known only after the pipeline has started, so the first use looks
    it up.

    Args:
        root: The state location of the pipeline.
        source: Uid of the source.
    """

    def __init__(self, root: StateStore, source: str) -> None:
        self._root = root
        self._source = source
        self._last: Plan | None = None

    @cached_property
    def _query(self) -> QueryIdentity:
        identity = read_identity(self._root)
        if identity is None:
            raise StateCorruptedError(
                f"the state location does not know the source {self._source!r}",
                hint="start the query through Pipeline.run or Pipeline.start",
            )
        return identity.query_of(self._source)

    @cached_property
    def _store(self) -> StateStore:
        return self._root.child(self._query.folder)

    def initial(self) -> int:
        """Return the plan before the first plan of this Spark checkpoint."""
        return self._query.first

    def newest_after(self, plan: int) -> int:
        """Return the next plan that is not a fence, or ``plan`` if there is none."""
        following = plan + 1
        while self._store.exists(plan_path(following)):
            if not self._plan(following).is_fence:
                return following
            following += 1
        return plan

    def entries(self, plan: int) -> list[str]:
        """Return the entries of this source in a plan, in the order of readers; none in a fence."""
        document = self._plan(plan)
        if document.is_fence:
            return []
        return [encode_entry(entry) for entry in document.sources[self._source].entries]

    @cached_property
    def _given_up(self) -> frozenset[tuple[str, str]]:
        return given_up_splits(self._store)

    def _plan(self, number: int) -> Plan:
        if self._last is None or self._last.number != number:  # callers read it twice in a row
            self._last = read_plan(self._store, number).giving_up(self._given_up)
        return self._last

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_last": None}


def read_plan(store: StateStore, number: int) -> Plan:
    """Read a plan that must exist.

    Raises:
        StateCorruptedError: It is missing.
    """
    return _existing(PLANS.read(store, plan_path(number)), f"plan {number}")


def given_up_splits(store: StateStore) -> frozenset[tuple[str, str]]:
    """Return the splits that a person gave up, each the uid of its source and its id."""
    found = (
        store.read_or_none(f"{GIVEN_UP_FOLDER}/{name}") for name in store.list(GIVEN_UP_FOLDER)
    )
    marks = (decode_document(GIVEN_UP_FOLDER, data) for data in found if data is not None)
    return frozenset((mark["source"], mark["split"]) for mark in marks)


def read_decision(store: StateStore, epoch: int) -> Decision:
    """Read a decision that must exist, in its original form without rewrites.

    Raises:
        StateCorruptedError: It is missing.
    """
    return _existing(DECISIONS.read(store, decision_path(epoch)), f"the decision on epoch {epoch}")


def _existing(document: DocumentT | None, name: str) -> DocumentT:
    if document is None:
        raise StateCorruptedError(f"{name} is missing from the state location")
    return document


def read_reports(store: StateStore, plan: Plan) -> dict[str, list[Report | None]]:
    """Return the reports of a plan, by source and entry; None for a missing report."""
    return {
        uid: [
            REPORTS.read(store, report_path(plan.number, uid, entry.subtask))
            for entry in source.entries
        ]
        for uid, source in plan.sources.items()
    }


def complete_reports(store: StateStore, plan: Plan) -> dict[str, list[Report]] | None:
    """Return all reports of a plan, or None while one is missing."""
    reports = read_reports(store, plan)
    if any(report is None for own in reports.values() for report in own):
        return None
    return {uid: [r for r in own if r is not None] for uid, own in reports.items()}


def newest_plan(store: StateStore) -> int:
    """Return the number of the newest plan that is not a fence, -1 for none."""
    number = newest_number(store, PLANS_FOLDER)
    return number if number < 0 else _before_fences(number, read_plan(store, number).previous)


def newest_decision(store: StateStore) -> int:
    """Return the number of the newest decided epoch, fences excluded; -1 for none."""
    number = newest_number(store, DECISIONS_FOLDER)
    return number if number < 0 else _before_fences(number, read_decision(store, number).previous)


def _before_fences(number: int, previous: int | None) -> int:
    return number if previous is None else previous


def newest_number(store: StateStore, folder: str) -> int:
    """Return the highest number of a plan or decision, fences included; -1 for none.

    Args:
        store: The state location of the query.
        folder: The folder of the plans or of the decisions.
    """
    return max(document_numbers(store, folder), default=-1)


def starts_of_sources(store: StateStore) -> dict[str, str]:
    """Return the start positions of rewound sources, in their own terms, by uid."""
    number = newest_number(store, PLANS_FOLDER)
    return {} if number < 0 else read_plan(store, number).starts


def plans_since_snapshot(store: StateStore, newest: int) -> list[Plan]:
    """Return the newest plan that holds a snapshot and all later plans, without fences.

    Args:
        store: The state location of the query.
        newest: Number of the newest plan.
    """
    plans: list[Plan] = []
    number = newest
    while number >= 0:
        plan = read_plan(store, number)
        if plan.previous is not None:
            number = plan.previous
            continue
        plans.insert(0, plan)
        if plan.holds_snapshot:
            return plans
        number -= 1
    if plans:
        raise StateCorruptedError(
            "no plan in the state location holds a snapshot",
        )
    return plans


def decisions_since(store: StateStore, oldest: int) -> dict[int, Decision]:
    """Return the decisions from epoch ``oldest``, with their rewrites, without fences."""
    rewritten = set(folder_numbers(store, "rewrites"))
    found = {}
    for number in document_numbers(store, DECISIONS_FOLDER):
        if number >= oldest:
            decision = read_decision(store, number)
            if decision.is_fence:
                continue
            if number in rewritten:
                for rewrite in rewrites_of(store, number):
                    decision = decision.rewritten(rewrite)
            found[number] = decision
    return found


def rewrites_of(store: StateStore, epoch: int) -> list[Rewrite]:
    """Return the rewrites of an epoch, in order."""
    folder = rewrites_path(epoch)
    names = (f"{folder}/{name}" for name in store.list(folder) if name.endswith(".json"))
    found = (REWRITES.read(store, name) for name in names)
    return [rewrite for rewrite in found if rewrite is not None]


def purge(store: StateStore, *, plans_below: int, epochs_below: int) -> None:
    """Remove documents that neither a restart nor Spark can need any more."""
    for number in document_numbers(store, PLANS_FOLDER):
        if number < plans_below:
            store.delete(plan_path(number))
    for number in folder_numbers(store, "reports"):
        if number < plans_below:
            store.delete_tree(f"reports/{number:010d}")
    for number in document_numbers(store, DECISIONS_FOLDER):
        if number < epochs_below:
            store.delete(decision_path(number))
    for folder in ("done", "rewrites", "replays"):
        for number in folder_numbers(store, folder):
            if number < epochs_below:
                store.delete_tree(f"{folder}/{number:010d}")
    for name in store.list("spool", recursive=True):
        _, _, rest = name.partition("/")
        of = rest.partition("/")[0]  # a plan or an epoch
        if of.isdigit() and int(of) < min(plans_below, epochs_below):
            store.delete(f"spool/{name}")


def is_done(store: StateStore, epoch: int, sink: str) -> bool:
    """Return whether a sink has committed an epoch."""
    return store.exists(done_path(epoch, sink))


def is_given_up(store: StateStore, epoch: int, sink: str) -> bool:
    """Return whether a sink's part of an epoch was given up, according to its done mark."""
    return bool(store.read_or_none(done_path(epoch, sink)))


def mark_done(store: StateStore, epoch: int, sink: str) -> None:
    """Mark that a sink has committed an epoch."""
    store.create(done_path(epoch, sink), b"")


def mark_decided(store: StateStore, epoch: int) -> None:
    """Mark the decision of a batch run, so that its loss is detected.

    Args:
        store: The state location of the query.
        epoch: The newest decided epoch; earlier ones lose their mark.
    """
    store.create(decided_path(epoch), b"")
    for number in folder_numbers(store, "decided"):
        if number < epoch:
            store.delete_tree(f"decided/{number:010d}")
