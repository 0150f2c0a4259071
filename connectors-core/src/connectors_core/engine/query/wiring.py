# SPDX-License-Identifier: Apache-2.0
"""Connects the coordinator, epochs, and committer of a query. Driver."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from connectors_core.engine.coordinator.dead_letters import DeadLetters
from connectors_core.engine.coordinator.epoch_committer import CommitRetries, EpochCommitter
from connectors_core.engine.coordinator.held_sets import HeldSets
from connectors_core.engine.coordinator.query_coordinator import QueryCallbacks, QueryCoordinator
from connectors_core.engine.coordinator.registrations import policies_of
from connectors_core.engine.coordinator.sink_settings import SinkSettings
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.execution.writer_task import SinkTask
from connectors_core.engine.query.compactions import Compactions
from connectors_core.engine.query.epoch_engine import EpochEngine
from connectors_core.engine.query.epochs import EpochProgress, EpochRunner
from connectors_core.engine.state import Lease, StateStore
from connectors_core.source.alignment import CoordinatorStore

BatchT = TypeVar("BatchT")


@dataclass(frozen=True, kw_only=True)
class Query(Generic[BatchT]):
    """One query with its sources, sinks, and state.

    Attributes:
        folder: Its folder below the state location of the pipeline.
        sources: Its sources.
        sinks: Its sinks.
        tasks: The sinks with their writer settings.
        engine: Runs the rows of an epoch.
        root: The state location of the pipeline.
        pipeline_id: The pipeline.
        lease: The lease of this driver.
        commit_retries: Retries of commits that request one.
    """

    folder: str
    sources: Sequence[SourceSettings]
    sinks: Sequence[SinkSettings]
    tasks: Sequence[SinkTask]
    engine: EpochEngine[BatchT]
    root: StateStore
    pipeline_id: str
    lease: Lease
    commit_retries: CommitRetries

    @property
    def store(self) -> StateStore:
        """The state location of the query."""
        return self.root.child(self.folder)


def wire_epochs(
    query: Query[BatchT],
    *,
    reported: Callable[[int], None] = lambda _plan: None,
    decided: Callable[[int], None] = lambda _epoch: None,
    stateful: Callable[[], bool] = lambda: False,
    keeps_state: Callable[[], bool] = lambda: False,
    trigger_interval: float | None = None,
    reader_stores: Mapping[str, StateStore] | None = None,
) -> EpochRunner[BatchT]:
    """Create the epochs of a query, with their committer and dead letters.

    Args:
        query: The query.
        reported: Called with the number of a plan when all its reports exist.
        decided: Called with each epoch between its decision and its commit.
        stateful: Whether each micro-batch needs a decision, because Spark keeps state or reads
            streams of its own.
        keeps_state: Whether Spark keeps state for the query.
        trigger_interval: Minimum number of seconds between two epochs; None in a batch run.
        reader_stores: The stores with the spools of sources, by uid, if not the query's store.
    """
    store = query.store
    dead_letters = DeadLetters(
        policies_of(query.sources, query.sinks),
        store=store,
        pipeline_id=query.pipeline_id,
        reader_stores=reader_stores,
    )
    progress = EpochProgress()
    sinks = {each.uid: each.sink for each in query.sinks} | dead_letters.sinks
    held = HeldSets()
    committer = EpochCommitter(
        sinks,
        store=store,
        pipeline_id=query.pipeline_id,
        lease=query.lease,
        retries=query.commit_retries,
        trigger_interval=trigger_interval,
        progress=progress.committed,
        held=held,
        run_tasks=query.engine.commit,
    )
    compactions = Compactions(
        sinks,
        held=held,
        run=query.engine.compact,
        cancel=query.engine.cancel_compactions,
        pipeline_id=query.pipeline_id,
        metrics=lambda uid: progress.sink(uid).metrics,
    )
    return EpochRunner(
        query.engine,
        sinks=query.tasks,
        committer=committer,
        compactions=compactions,
        store=store,
        pipeline_id=query.pipeline_id,
        lease=query.lease,
        dead_letters=dead_letters,
        reported=reported,
        decided=decided,
        stateful=stateful,
        keeps_state=keeps_state,
        spark_inputs={sink.uid: sink.spark_inputs for sink in query.sinks},
        progress=progress,
    )


def wire_stream(
    query: Query[BatchT],
    callbacks: QueryCallbacks,
    *,
    trigger_interval: float,
    available_now: bool,
    drain: bool,
    only_windows: bool = False,
    groups: CoordinatorStore | None = None,
    stateful: Callable[[], bool] = lambda: False,
    keeps_state: Callable[[], bool] = lambda: False,
) -> tuple[QueryCoordinator, EpochRunner[BatchT]]:
    """Create the coordinator and the epochs of a streaming query.

    Args:
        query: The query.
        callbacks: The coordinator's callbacks; `decided` is replaced by that of the epochs.
        trigger_interval: Minimum time between two plans, in seconds.
        available_now: Read the data that is available at the start, then end.
        drain: Whether an end by ``available_now`` also moves the watermark to the end of time.
        only_windows: Whether only windows use Spark's watermark.
        groups: Alignment groups, shared by all queries of the pipeline.
        stateful: Whether each micro-batch needs a decision, because Spark keeps state or reads
            streams of its own.
        keeps_state: Whether Spark keeps state for the query.
    """
    epochs = wire_epochs(
        query,
        reported=lambda plan: coordinator.reports_durable(plan),
        stateful=stateful,
        keeps_state=keeps_state,
        trigger_interval=trigger_interval,
    )
    coordinator = QueryCoordinator(
        query.sources,
        store=query.store,
        pipeline_id=query.pipeline_id,
        query=query.folder,
        lease=query.lease,
        callbacks=dataclasses.replace(callbacks, decided=lambda: epochs.last_decided),
        trigger_interval=trigger_interval,
        available_now=available_now,
        drain=drain,
        only_windows=only_windows,
        groups=groups,
    )
    return coordinator, epochs
