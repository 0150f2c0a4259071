# SPDX-License-Identifier: Apache-2.0
"""Which files make a consistent copy of a pipeline's state.

A pipeline that does not run is copied whole. One that runs is cut behind the newest micro-batch
that Spark has finished: all that this batch and those before it left is written and never changes,
and nothing of a later batch is taken. The copy is what the pipeline would have left, had it been
stopped at that moment. Old files may be removed meanwhile, in ascending order; so files are copied
in descending order, and one that has vanished only shortens what the copy remembers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from connectors_core.engine.coordinator.document_numbers import document_numbers
from connectors_core.engine.coordinator.identity import (
    IDENTITIES_FOLDER,
    PipelineIdentity,
    QueryIdentity,
)
from connectors_core.engine.coordinator.plan_log import is_done
from connectors_core.engine.protocol import (
    DECISIONS,
    LOOKUP_PINS_FOLDER,
    RUNS_FOLDER,
    Decision,
    decision_path,
)
from connectors_core.engine.recovery.locations import Locations
from connectors_core.engine.state import StateStore
from connectors_core.errors import StateCorruptedError

_LOOKUP_FOLDER: Final = "lookup"
_BY_PLAN: Final = frozenset({"plans", "reports"})
_BY_EPOCH: Final = frozenset({"decisions", "done", "rewrites", "decided"})
_BY_BATCH: Final = frozenset({"offsets", "commits"})
_OTHERS: Final = frozenset({"spool", LOOKUP_PINS_FOLDER})
_NUMBER: Final = re.compile(r"(?:\d{4}-)?(\d+)")
# A file of Spark's state store: all that its tasks wrote up to a version, the batch after it.
_STATE_VERSION: Final = re.compile(r"(?:.*/)?(\d+)(?:_[\w-]+)?\.(?:delta|snapshot|changelog|zip)")


@dataclass(frozen=True, kw_only=True)
class QueryCut:
    """How far a query is copied; all of these are inclusive.

    Attributes:
        query: Folder of the query.
        whole: Nothing is cut off.
        batch: The last micro-batch of Spark's, -1 for none.
        plan: The last plan, -1 for none.
        epoch: The last decision, -1 for none.
    """

    query: str
    whole: bool
    batch: int
    plan: int
    epoch: int


def cut_of(
    locations: Locations, identity: PipelineIdentity, query: QueryIdentity, *, running: bool
) -> QueryCut:
    """How far a query can be copied now.

    Args:
        locations: Where the pipeline is.
        identity: The pipeline.
        query: One of its queries.
        running: A driver writes while the files are copied.

    Raises:
        StateCorruptedError: A document that must be there is missing.
    """
    store = locations.state.child(query.folder)
    log = locations.spark(query)
    batch = log.last_committed  # first: what it decided is listed then
    plans = document_numbers(store, "plans")
    decisions = document_numbers(store, "decisions")
    if not running:
        return QueryCut(
            query=query.folder,
            whole=True,
            batch=max(log.logged(), default=-1),
            plan=max(plans, default=-1),
            epoch=max(decisions, default=-1),
        )
    epoch = max(decisions, default=-1)
    for number in reversed(decisions):
        decision = _decision(store, number)
        if identity.streaming:
            later = decision.spark_query_id == query.spark_query_id and decision.batch_id > batch
        else:
            later = not all(is_done(store, number, uid) for uid in decision.sinks)
        if later:
            epoch = number - 1
        elif not decision.is_fence:
            break
    return QueryCut(
        query=query.folder, whole=False, batch=batch, plan=log.plan_after(batch), epoch=epoch
    )


def _decision(store: StateStore, number: int) -> Decision:
    decision = DECISIONS.read(store, decision_path(number))
    if decision is None:
        raise StateCorruptedError(f"epoch {number} at {store} is missing")
    return decision


def files_of_query(locations: Locations, query: QueryIdentity, cut: QueryCut) -> Iterator[str]:
    """The relative paths of a query's files within a cut, newest first."""
    # Spark's log first: what its commits presuppose is there by now.
    spark = locations.checkpoint.child(query.spark_folder)
    logs = [name for name in spark.list("", recursive=True) if _wanted_of_spark(name, cut)]
    state = locations.state.child(query.folder)
    own = [name for name in state.list("", recursive=True) if _wanted(name, cut)]
    yield from (f"{query.folder}/{name}" for name in sorted(own, key=_descending))
    yield from (f"{query.spark_folder}/{name}" for name in sorted(logs, key=_descending))


def files_of_pipeline(locations: Locations, *, whole: bool) -> Iterator[str]:
    """The relative paths of files that belong to no query."""
    for folder in (IDENTITIES_FOLDER, _LOOKUP_FOLDER, *((RUNS_FOLDER,) if whole else ())):
        for name in sorted(locations.state.list(folder, recursive=True), reverse=True):
            yield f"{folder}/{name}"


def _wanted(name: str, cut: QueryCut) -> bool:
    folder, _, rest = name.partition("/")
    if not rest or folder not in _BY_PLAN | _BY_EPOCH | _OTHERS:
        return False
    if cut.whole:
        return True
    number = _number(rest)
    if folder in _BY_PLAN:
        return number is not None and number <= cut.plan
    if folder in _BY_EPOCH:
        return number is not None and number <= cut.epoch
    # What is spooled before the cut is written and done.
    return folder == LOOKUP_PINS_FOLDER and number is not None and number <= cut.batch


def _wanted_of_spark(name: str, cut: QueryCut) -> bool:
    folder, _, rest = name.partition("/")
    if name.rsplit("/", 1)[-1].startswith("."):
        return False  # checksums of Hadoop's local file system, and files that are being written
    if cut.whole:
        return True
    if folder in _BY_BATCH:
        number = _number(rest)
        return number is not None and number <= cut.batch
    if folder == "state" and (version := _STATE_VERSION.fullmatch(rest)):
        return int(version[1]) <= cut.batch + 1
    return True


def _number(rest: str) -> int | None:
    match = _NUMBER.match(rest)
    return None if match is None else int(match[1])


def _descending(name: str) -> tuple[int, str]:
    number = _number(name.partition("/")[2])
    return (0 if number is None else -number, name)
