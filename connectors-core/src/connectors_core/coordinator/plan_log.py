# SPDX-License-Identifier: Apache-2.0
"""Plans, reports and decisions of one query as they lie in the state location. Driver."""

from __future__ import annotations

from functools import cached_property

from connectors_core.coordinator.identity import QueryIdentity, read_identity
from connectors_core.errors import StateCorruptedError
from connectors_core.protocol import (
    DECISIONS,
    PLANS,
    REPORTS,
    REWRITES,
    Decision,
    Plan,
    Report,
    Rewrite,
    decision_path,
    done_path,
    encode_entry,
    plan_path,
    report_path,
    rewrites_path,
)
from connectors_core.state import StateStore


class StoredPlans:
    """The plans of one source as the carriers see them; runs on the driver host.

    Which query the source belongs to is known when the pipeline has started: it is looked up on
    first use.

    Args:
        root: The state location of the pipeline.
        source: Uid of the source.
    """

    def __init__(self, root: StateStore, source: str) -> None:
        self._root = root
        self._source = source

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
        """The plan before the first one of this Spark checkpoint."""
        return self._query.first

    def newest_after(self, plan: int) -> int:
        """``plan + 1`` where that exists, else ``plan``."""
        return plan + 1 if self._store.exists(plan_path(plan + 1)) else plan

    def entries(self, plan: int) -> list[str]:
        """The entries of this source in a plan, in order of their readers."""
        document = read_plan(self._store, plan)
        return [encode_entry(entry) for entry in document.sources[self._source].entries]


def read_plan(store: StateStore, number: int) -> Plan:
    """A plan that must exist.

    Raises:
        StateCorruptedError: It does not.
    """
    plan = PLANS.read(store, plan_path(number))
    if plan is None:
        raise StateCorruptedError(
            f"plan {number} is missing from the state location",
            hint="restore checkpoint and state location from the same moment",
        )
    return plan


def read_reports(store: StateStore, plan: Plan) -> dict[str, list[Report | None]]:
    """The reports of a plan, per source and entry; None where there is none yet."""
    return {
        uid: [
            REPORTS.read(store, report_path(plan.number, uid, entry.subtask))
            for entry in source.entries
        ]
        for uid, source in plan.sources.items()
    }


def complete_reports(store: StateStore, plan: Plan) -> dict[str, list[Report]] | None:
    """All reports of a plan, or None while one is missing."""
    reports = read_reports(store, plan)
    if any(report is None for own in reports.values() for report in own):
        return None
    return {uid: [r for r in own if r is not None] for uid, own in reports.items()}


def newest_plan(store: StateStore) -> int:
    """Number of the newest plan, -1 for none."""
    return _newest(store, "plans")


def newest_decision(store: StateStore) -> int:
    """Number of the newest decided epoch, -1 for none."""
    return _newest(store, "decisions")


def _newest(store: StateStore, folder: str) -> int:
    return max((_number(name) for name in store.list(folder)), default=-1)


def _number(name: str) -> int:
    return int(name.rsplit("/", 1)[-1].removesuffix(".json"))


def plans_since_snapshot(store: StateStore, newest: int) -> list[Plan]:
    """The newest plan that holds a snapshot, and all after it, in order."""
    plans: list[Plan] = []
    number = newest
    while number >= 0:
        plan = read_plan(store, number)
        plans.insert(0, plan)
        if all(source.snapshot is not None for source in plan.sources.values()):
            return plans
        number -= 1
    if plans:
        raise StateCorruptedError(
            "no plan in the state location holds a snapshot",
            hint="restore checkpoint and state location from the same moment",
        )
    return plans


def decisions_since(store: StateStore, oldest: int) -> dict[int, Decision]:
    """The decisions from epoch ``oldest`` on, with all that was written again since."""
    numbers = sorted(_number(name) for name in store.list("decisions"))
    amended = _folders(store, "rewrites")
    found = {}
    for number in numbers:
        if number >= oldest:
            decision = DECISIONS.read(store, decision_path(number))
            assert decision is not None
            if f"{number:010d}" in amended:
                for rewrite in rewrites_of(store, number):
                    decision = decision.rewritten(rewrite)
            found[number] = decision
    return found


def rewrites_of(store: StateStore, epoch: int) -> list[Rewrite]:
    """The amendments to a decision, in order."""
    folder = rewrites_path(epoch)
    names = (f"{folder}/{name}" for name in store.list(folder))
    found = (REWRITES.read(store, name) for name in names)
    return [rewrite for rewrite in found if rewrite is not None]


def purge(store: StateStore, *, plans_below: int, epochs_below: int) -> None:
    """Remove what neither a restart nor Spark can ask for any more."""
    for name in store.list("plans"):
        if _number(name) < plans_below:
            store.delete(f"plans/{name.rsplit('/', 1)[-1]}")
    for number in _folders(store, "reports"):
        if int(number) < plans_below:
            store.delete_tree(f"reports/{number}")
    for name in store.list("decisions"):
        if _number(name) < epochs_below:
            store.delete(f"decisions/{name.rsplit('/', 1)[-1]}")
    for folder in ("done", "rewrites"):
        for number in _folders(store, folder):
            if int(number) < epochs_below:
                store.delete_tree(f"{folder}/{number}")
    for name in store.list("spool", recursive=True):
        _, number, _ = name.split("/")
        if int(number) < min(plans_below, epochs_below):
            store.delete(f"spool/{name}")


def _folders(store: StateStore, folder: str) -> list[str]:
    names = store.list(folder, recursive=True)  # a store lists files only
    return sorted({name.split("/", 1)[0] for name in names})


def is_done(store: StateStore, epoch: int, sink: str) -> bool:
    """Whether a sink has committed an epoch."""
    return store.exists(done_path(epoch, sink))


def mark_done(store: StateStore, epoch: int, sink: str) -> None:
    """Mark that a sink has committed an epoch."""
    store.create(done_path(epoch, sink), b"")
