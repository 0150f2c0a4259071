# SPDX-License-Identifier: Apache-2.0
"""The lineage of a pipeline, and the events of its runs. Driver."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from connectors_core.engine.coordinator.registrations import Registrations
from connectors_core.engine.execution.reader_task import HEARTBEAT_COLUMN
from connectors_core.engine.query.status import PipelineStatus, error_kinds
from connectors_core.lineage.delivery import EventDelivery
from connectors_core.lineage.events import (
    JobCreatedEvent,
    JobExecutionStatusEvent,
    JobStatus,
    JobStatusChangedListener,
    RuntimeExecutionMode,
)
from connectors_core.lineage.graph import (
    ColumnOrigin,
    LineageDataset,
    LineageEdge,
    LineageGraph,
    LineageVertexProvider,
    Transformation,
)
from connectors_core.spark.internals.arrow_types import arrow_schema
from connectors_core.spark.internals.plan_rewrites import optimized_plan
from connectors_core.spark.internals.plans import analyzed_plan
from connectors_core.spark.lookups import RegisteredLookup
from connectors_core.spark.pushdown.column_origins import PlanInputs, PlanOrigins, plan_origins
from connectors_core.spark.pushdown.occurrences import (
    PushableSource,
    lookup_occurrences,
    source_occurrences,
)
from connectors_core.spark.pushdown.plan_tree import PlanTree
from connectors_core.spark.pushdown.source_needs import (
    LookupOccurrence,
    SourceOccurrence,
    column_ids,
)
from connectors_core.spark.spark_inputs import SparkInput, spark_inputs
from connectors_core.spark.writing_job import RegisteredSink

_LOGGER: Final = logging.getLogger(__name__)


def lineage_graph(
    registered: Registrations,
    sources: Mapping[str, PushableSource],
    lookups: Mapping[str, RegisteredLookup],
    sinks: Sequence[RegisteredSink],
) -> LineageGraph:
    """Return the lineage of a pipeline.

    Args:
        registered: Its parts.
        sources: Its sources.
        lookups: Its lookups.
        sinks: Its sinks.
    """
    parts: dict[str, object] = {uid: each.source for uid, each in registered.sources.items()}
    parts |= registered.tables
    parts |= {sink.uid: sink.sink for sink in sinks}
    datasets = {uid: _datasets_of(part) for uid, part in parts.items()}
    schemas = {uid: each.reader.schema for uid, each in sources.items()}
    schemas |= {uid: each.join.read for uid, each in lookups.items()}
    edges = []
    for sink in sinks:
        by_spark = spark_inputs(sink.df)
        datasets |= {each.uid: each.datasets for each in by_spark}
        schemas |= {each.uid: each.schema for each in by_spark if each.schema is not None}
        edges.append(_edge(sink, sources, lookups, by_spark))
    return LineageGraph(datasets=datasets, schemas=schemas, edges=tuple(edges))


def _datasets_of(part: object) -> tuple[LineageDataset, ...]:
    return part.lineage_datasets() if isinstance(part, LineageVertexProvider) else ()


def _edge(
    sink: RegisteredSink,
    sources: Mapping[str, PushableSource],
    lookups: Mapping[str, RegisteredLookup],
    by_spark: Sequence[SparkInput],
) -> LineageEdge:
    read, joined = source_occurrences(sink.df, sources), lookup_occurrences(sink.df, lookups)
    names = sink.df.columns
    found = PlanOrigins()
    try:
        output = column_ids(analyzed_plan(sink.df).column_texts, names)
        if output is not None:
            plan = PlanTree.of(optimized_plan(sink.df, {each.text for each in read}))
            found = plan_origins(plan, output, _plan_inputs(read, joined, by_spark))
    except (LookupError, TypeError, ValueError) as error:
        # Lineage is no reason to refuse a query whose plan has an unknown form.
        _LOGGER.warning("the origins of the columns of sink %r are unknown: %r", sink.uid, error)
    inputs = [each.uid for parts in (read, joined, by_spark) for each in parts]
    return LineageEdge(
        sink=sink.uid,
        inputs=tuple(dict.fromkeys(inputs)),
        schema=arrow_schema(sink.df.schema),
        columns=dict(zip(names, found.columns, strict=True)) if found.columns else {},
        row_origins=found.rows,
    )


def _plan_inputs(
    read: Sequence[SourceOccurrence],
    joined: Sequence[LookupOccurrence],
    by_spark: Sequence[SparkInput],
) -> PlanInputs:
    columns = {
        column: ColumnOrigin(uid=each.uid, column=name, transformation=Transformation.IDENTITY)
        for each in by_spark
        for column, name in each.columns.items()
    }
    return PlanInputs(read, joined, columns, own_columns=[HEARTBEAT_COLUMN])


class JobEvents:
    """Reports the state of one run to the listeners of its pipeline. Thread-safe.

    Args:
        name: The name of the pipeline.
        listeners: The listeners.
        status: Returns the status of the pipeline.
    """

    def __init__(
        self,
        name: str,
        listeners: Sequence[JobStatusChangedListener],
        status: Callable[[], PipelineStatus],
    ) -> None:
        self._name = name
        self._listeners = listeners
        self._status = status
        self._delivery = EventDelivery(listeners)
        self._job_id = str(uuid.uuid4())
        self._state: JobStatus | None = None
        self._lock = threading.Lock()

    def created(self, mode: RuntimeExecutionMode, graph: Callable[[], LineageGraph]) -> None:
        """Report a run that is about to start.

        Args:
            mode: Its mode.
            graph: Returns its lineage; not called without listeners.
        """
        if not self._listeners:
            return
        try:
            found = graph()
        except Exception:
            _LOGGER.warning("pipeline %r has no lineage", self._name, exc_info=True)
            return
        self._state = JobStatus.CREATED
        self._send(JobCreatedEvent, execution_mode=mode, lineage_graph=found)

    def running(self) -> None:
        """Report that it runs."""
        self._change(JobStatus.RUNNING)

    def ended(self, status: JobStatus, error: BaseException | None = None) -> None:
        """Report its end. Only the first call counts.

        Args:
            status: A terminal status.
            error: Why it failed. Its text may have values of rows, so it stays here.
        """
        self._change(status, None if error is None else error_kinds(error))

    def close(self) -> None:
        """Wait some seconds for listeners."""
        self._delivery.close()

    def _change(self, status: JobStatus, cause: str | None = None) -> None:
        with self._lock:
            before = self._state
            if before is None or before.is_terminal:
                return
            self._state = status
        written: dict[str, int] = {}
        if status.is_terminal:
            written = {sink.uid: sink.rows for sink in self._status().sinks}
        self._send(
            JobExecutionStatusEvent,
            old_status=before,
            new_status=status,
            cause=cause,
            written=written,
        )

    def _send(self, kind: Any, **facts: Any) -> None:
        self._delivery.send(kind(job_id=self._job_id, job_name=self._name, **facts))
