# SPDX-License-Identifier: Apache-2.0
"""Selects the files of a consistent copy of a pipeline's state.

A backup copies a stopped pipeline as a whole. It cuts a running pipeline after the newest
micro-batch that Spark has finished: the files of this batch and earlier ones no longer change, and
the copy omits later ones. The copy equals the state of a pipeline that was stopped at that moment.
The pipeline may remove old files meanwhile, in ascending order. The backup copies in descending
order, so a removed file only shortens the history in the copy.
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
    GIVEN_UP_FOLDER,
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
_BY_EPOCH: Final = frozenset({"decisions", "done", "rewrites", "decided", "replays"})
_BY_BATCH: Final = frozenset({"offsets", "commits"})
_OTHERS: Final = frozenset({"spool", LOOKUP_PINS_FOLDER, GIVEN_UP_FOLDER})
_NUMBER: Final = re.compile(r"(?:\d{4}-)?(\d+)")
# A file of Spark's state store, with the version that a micro-batch wrote: its number plus one.
_STATE_VERSION: Final = re.compile(r"(?:.*/)?(\d+)(?:_[\w-]+)?\.(?:delta|snapshot|changelog|zip)")


@dataclass(frozen=True, kw_only=True)
class QueryCut:
    """The end of a query's copy; all numbers are inclusive.

    Attributes:
        query: Folder of the query.
        whole: Whether the copy is not cut.
        batch: The last micro-batch of Spark, -1 for none.
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
    """Determine the end of a query's copy.

    Args:
        locations: The locations of the pipeline.
        identity: The pipeline.
        query: One of its queries.
        running: Whether a driver writes during the backup.

    Raises:
        StateCorruptedError: A required document is missing.
    """
    store = locations.state.child(query.folder)
    log = locations.spark(query)
    batch = log.last_committed  # read first, so that its decision is listed
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
    """Yield the relative paths of a query's files within a cut, newest first."""
    # List Spark's log first: the documents that its commits imply exist by then.
    spark = locations.checkpoint.child(query.spark_folder)
    logs = [name for name in spark.list("", recursive=True) if _wanted_of_spark(name, cut)]
    state = locations.state.child(query.folder)
    own = [name for name in state.list("", recursive=True) if _wanted(name, cut)]
    yield from (f"{query.folder}/{name}" for name in sorted(own, key=_descending))
    yield from (f"{query.spark_folder}/{name}" for name in sorted(logs, key=_descending))


def files_of_pipeline(locations: Locations, *, whole: bool) -> Iterator[str]:
    """Yield the relative paths of files that belong to no query."""
    for folder in (IDENTITIES_FOLDER, _LOOKUP_FOLDER, *((RUNS_FOLDER,) if whole else ())):
        for name in sorted(locations.state.list(folder, recursive=True), reverse=True):
            yield f"{folder}/{name}"


def _wanted(name: str, cut: QueryCut) -> bool:
    folder, _, rest = name.partition("/")
    if not rest or folder not in _BY_PLAN | _BY_EPOCH | _OTHERS:
        return False
    if cut.whole or folder == GIVEN_UP_FOLDER:
        return True
    number = _number(rest)
    if folder in _BY_PLAN:
        return number is not None and number <= cut.plan
    if folder in _BY_EPOCH:
        return number is not None and number <= cut.epoch
    # Spools before the cut are already written.
    return folder == LOOKUP_PINS_FOLDER and number is not None and number <= cut.batch


def _wanted_of_spark(name: str, cut: QueryCut) -> bool:
    folder, _, rest = name.partition("/")
    if name.rsplit("/", 1)[-1].startswith("."):
        return False  # checksums of Hadoop's local file system, and unfinished files
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
