# SPDX-License-Identifier: Apache-2.0
"""A sink that creates a sink for each route at its first row (Flink's FLIP-515)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from connectors_core.errors import InvalidOptionError
from connectors_core.lineage import LineageDataset, LineageVertexProvider
from connectors_core.serialization import JsonDataclassSerializer, VersionedSerializer
from connectors_core.sink.commit_tasks import CommitTasks, SupportsCommitTasks
from connectors_core.sink.committer import Committer, CommitterInitContext
from connectors_core.sink.demultiplexing.committer import DemultiplexingCommitter
from connectors_core.sink.demultiplexing.routed import Routed, Routes
from connectors_core.sink.demultiplexing.router import SinkRouter
from connectors_core.sink.demultiplexing.writer import (
    DemultiplexingWriter,
    StatefulDemultiplexingWriter,
)
from connectors_core.sink.sink import DeliveryGuarantee, TwoPhaseCommittingSink, WriterInitContext
from connectors_core.sink.stateful_sink import StatefulSink

__all__ = ["DemultiplexingSink", "StatefulDemultiplexingSink"]


class DemultiplexingSink(
    TwoPhaseCommittingSink[Routed], SupportsCommitTasks[Routed], LineageVertexProvider
):
    """Writes each row to the sink of its route, which is created at its first row.

    A two-phase sink of a route may have pre-commit and post-commit topologies, compaction, and
    commits in tasks, as if it were written alone. Pre-write topologies, rewriting, leases, and a
    number of writers of its own are refused. An epoch commits the committables of all routes with
    one decision.

    A row whose route is null or unknown goes to the record policy of the sink.

    Args:
        router: Chooses the route of each row, and creates the sinks.
        delivery_guarantee: The guarantee of all rows. Exactly-once requires an exactly-once sink
            for each route.
        max_open_writers: Maximum number of open writers in a task. Beyond it, the task completes
            the writer of the least recently used route, which may write smaller outputs.
        parallelism: Number of writers. If columns determine the route, each route has one writer.
    """

    _stateful = False

    def __init__(
        self,
        router: SinkRouter,
        *,
        delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE,
        max_open_writers: int = 100,
        parallelism: int | None = None,
    ) -> None:
        for option, value in (("max_open_writers", max_open_writers), ("parallelism", parallelism)):
            if value is not None and value < 1:
                raise InvalidOptionError(
                    f"{option} must be positive", expected="above 0", found=value, option=option
                )
        self._routes = Routes(router=router, guarantee=delivery_guarantee, stateful=self._stateful)
        self._max_open_writers = max_open_writers
        self._parallelism = parallelism

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        """The guarantee of all rows."""
        return self._routes.guarantee

    def writer_parallelism(self) -> int | None:
        """Return `parallelism`."""
        return self._parallelism

    def writer_keys(self) -> Sequence[str]:
        """Return the columns that determine the route."""
        return self._routes.router.keys()

    def validate(self, schema: pa.Schema) -> None:
        """Check the columns of the router, and the sinks of known routes."""
        self._routes.router.validate(schema)
        for route in self._routes.router.known_routes():
            self._routes.sink(route, schema)

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """Return the datasets of known routes."""
        datasets: list[LineageDataset] = []
        for route in self._routes.router.known_routes():
            sink = self._routes.sink(route)
            if isinstance(sink, LineageVertexProvider):
                datasets += sink.lineage_datasets()
        return tuple(datasets)

    def create_writer(self, context: WriterInitContext) -> DemultiplexingWriter:
        """Create the writer of a task. Executor."""
        return DemultiplexingWriter(self._routes, context, self._max_open_writers, ())

    def sink_of_route(self, route: str) -> TwoPhaseCommittingSink[Any] | None:
        """Return the two-phase sink of a route; None if it has nothing to commit, or is unknown."""
        return self._routes.committing(route)

    def create_committer(self, context: CommitterInitContext) -> DemultiplexingCommitter:
        """Create the committer of all routes. Driver."""
        known = self._routes.router.known_routes()
        return DemultiplexingCommitter(self._routes, context, _create_committer, known)

    def commit_tasks(self) -> CommitTasks | None:
        """Return None: the sink of each route has its own settings, see `commit_tasks_of`."""
        return None

    def commit_tasks_of(self, committables: Sequence[Routed]) -> Sequence[CommitTasks | None]:
        """Return the settings of the sinks of their routes. Driver."""
        sinks = {each: self.sink_of_route(each) for each in {each.route for each in committables}}
        settings = {
            route: sink.commit_tasks() if isinstance(sink, SupportsCommitTasks) else None
            for route, sink in sinks.items()
        }
        return [settings[each.route] for each in committables]

    def create_task_committer(self, context: CommitterInitContext) -> DemultiplexingCommitter:
        """Create the committer of a task, for routes whose sinks commit in tasks. Executor."""
        return DemultiplexingCommitter(self._routes, context, _create_task_committer)

    def committable_serializer(self) -> VersionedSerializer[Routed]:
        """Return the serializer of routes; that of a route's sink serializes its committables."""
        return JsonDataclassSerializer(Routed, version=1)


def _create_committer(
    sink: TwoPhaseCommittingSink[Any], context: CommitterInitContext
) -> Committer[Any]:
    return sink.create_committer(context)


def _create_task_committer(
    sink: TwoPhaseCommittingSink[Any], context: CommitterInitContext
) -> Committer[Any]:
    assert isinstance(sink, SupportsCommitTasks)  # the driver commits for all other routes
    return sink.create_task_committer(context)


class StatefulDemultiplexingSink(DemultiplexingSink, StatefulSink[Routed]):
    """A `DemultiplexingSink` whose sinks may keep state. It needs a fixed number of writers.

    Each writer keeps the states of its routes, also of those without rows in an epoch. Each
    decision contains all of them. A sink drops the state of an ended route by an empty snapshot.

    Args:
        router: Chooses the route of each row, and creates the sinks.
        delivery_guarantee: The guarantee of all rows.
        max_open_writers: Maximum number of open writers in a task.
        parallelism: Number of writers.
        max_state_bytes: Maximum size of the states of all routes of a writer.
    """

    _stateful = True

    def __init__(
        self,
        router: SinkRouter,
        *,
        delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE,
        max_open_writers: int = 100,
        parallelism: int | None = None,
        max_state_bytes: int = 1 << 20,
    ) -> None:
        super().__init__(
            router,
            delivery_guarantee=delivery_guarantee,
            max_open_writers=max_open_writers,
            parallelism=parallelism,
        )
        self._max_state_bytes = max_state_bytes

    def create_writer(self, context: WriterInitContext) -> StatefulDemultiplexingWriter:
        """Create the writer of a task without state. Executor."""
        return self.restore_writer(context, ())

    def restore_writer(
        self, context: WriterInitContext, states: Sequence[Routed]
    ) -> StatefulDemultiplexingWriter:
        """Create the writer of a task with the states of its routes. Executor."""
        return StatefulDemultiplexingWriter(self._routes, context, self._max_open_writers, states)

    def writer_state_serializer(self) -> VersionedSerializer[Routed]:
        """Return the serializer of routes; that of a route's sink serializes its states."""
        return JsonDataclassSerializer(Routed, version=1)

    def max_writer_state_bytes(self) -> int:
        """Return `max_state_bytes`."""
        return self._max_state_bytes
