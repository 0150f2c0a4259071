# SPDX-License-Identifier: Apache-2.0
"""Writes each row with the writer of its route. Executor."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa

from connectors_core.records import BadRecord
from connectors_core.schema.python_values import python_values
from connectors_core.sink.demultiplexing.routed import Routed, Routes, route_digest, uid_of
from connectors_core.sink.demultiplexing.router import rows_by_route
from connectors_core.sink.sink import (
    CommittingSinkWriter,
    Sink,
    SinkWriter,
    TwoPhaseCommittingSink,
    WriterInitContext,
)
from connectors_core.sink.stateful_sink import StatefulSink, StatefulSinkWriter


class DemultiplexingWriter(CommittingSinkWriter[Routed]):
    """Keeps the writers of the most recent routes open, and completes the others early.

    Args:
        routes: Creates the sinks of routes.
        context: The context of the attempt.
        max_open_writers: Maximum number of open writers.
        states: The states to continue from.
    """

    def __init__(
        self,
        routes: Routes,
        context: WriterInitContext,
        max_open_writers: int,
        states: Sequence[Routed],
    ) -> None:
        self._routes = routes
        self._context = context
        self._max_open = max_open_writers
        self._sinks: dict[str, Sink | None] = {}
        self._open: OrderedDict[str, SinkWriter] = OrderedDict()
        self._committables: list[Routed] = []
        self._rows = 0
        self._states: dict[str, list[Routed]] = {}
        for state in states:
            self._states.setdefault(state.route, []).append(state)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of each route with its writer."""
        routes = self._routes.router.routes(batch)
        for route, rows, positions in rows_by_route(batch, routes):
            if route is None:
                self._refuse(rows, positions.tolist(), "the row has no route: its value is null")
            elif self._sink(route) is None:
                self._refuse(rows, positions.tolist(), "the route of the row is unknown")
            else:
                self._writer(route).write(rows)
        self._rows += batch.num_rows

    def _sink(self, route: str) -> Sink | None:
        if route not in self._sinks:
            self._sinks[route] = self._routes.sink(route, self._context.schema)
        return self._sinks[route]

    def _writer(self, route: str) -> SinkWriter:
        if route not in self._open:
            while len(self._open) >= self._max_open:
                self._complete(next(iter(self._open)))
            self._open[route] = self._new_writer(route)
        self._open.move_to_end(route)
        return self._open[route]

    def _new_writer(self, route: str) -> SinkWriter:
        sink = self._sink(route)
        assert sink is not None
        outer, digest = self._context, route_digest(route)
        context = replace(
            outer,
            sink_uid=uid_of(outer.sink_uid, route),
            nonce=secrets.token_hex(8),  # a route can have several writers one after another
            claim=lambda name: outer.claim(f"{digest}-{name}"),
        )
        states = self._states.get(route)
        if isinstance(sink, StatefulSink) and states:
            serializer = sink.writer_state_serializer()
            return sink.restore_writer(
                context, [serializer.deserialize(each.version, each.data) for each in states]
            )
        return sink.create_writer(context)

    def _refuse(self, rows: pa.RecordBatch, positions: Sequence[int], reason: str) -> None:
        """Hand rows without a sink to the record policy, one by one."""
        values = python_values(rows.to_struct_array())
        for row, position in zip(values, positions, strict=True):
            self._context.record_errors.handle(
                BadRecord(
                    reason=reason,
                    source_uid=self._context.sink_uid,
                    code="NO_ROUTE",
                    position=f"row {self._rows + position} of subtask {self._context.subtask_id}",
                    raw=orjson.dumps(row, default=str),
                )
            )

    def _complete(self, route: str) -> None:
        """Flush the writer of a route, and keep its committables and its state."""
        writer = self._open[route]
        writer.flush()
        self._committables += self._committables_of(route, writer)
        self._states[route] = self._states_of(route, writer)
        del self._open[route]
        writer.close()

    def _committables_of(self, route: str, writer: SinkWriter) -> list[Routed]:
        sink: Any = self._sinks[route]
        if not isinstance(writer, CommittingSinkWriter):
            return []
        assert isinstance(sink, TwoPhaseCommittingSink)
        return _routed(route, sink.committable_serializer(), writer.prepare_commit())

    def _states_of(self, route: str, writer: SinkWriter) -> list[Routed]:
        sink: Any = self._sinks[route]
        if not (isinstance(sink, StatefulSink) and isinstance(writer, StatefulSinkWriter)):
            return self._states.get(route, [])
        states = writer.snapshot_state(self._context.checkpoint_id)
        return _routed(route, sink.writer_state_serializer(), states)

    def flush(self) -> None:
        """Flush all open writers."""
        for writer in self._open.values():
            writer.flush()

    def prepare_commit(self) -> Sequence[Routed]:
        """Return the committables of all routes."""
        for route, writer in self._open.items():
            self._committables += self._committables_of(route, writer)
        return self._committables

    def close(self) -> None:
        """Close all open writers, even if one of them fails."""
        with ExitStack() as stack:
            for writer in self._open.values():
                stack.callback(writer.close)


class StatefulDemultiplexingWriter(DemultiplexingWriter, StatefulSinkWriter[Routed]):
    """Also passes the states of all routes to the next writer."""

    def snapshot_state(self, checkpoint_id: int) -> Sequence[Routed]:
        """Return the states of all routes, also of those without rows."""
        for route, writer in self._open.items():
            self._states[route] = self._states_of(route, writer)
        return [state for states in self._states.values() for state in states]


def _routed(route: str, serializer: Any, objects: Sequence[Any]) -> list[Routed]:
    return [Routed(route, serializer.version, serializer.serialize(each)) for each in objects]
