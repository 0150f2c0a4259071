# SPDX-License-Identifier: Apache-2.0
"""Committables and states with their route, and the sinks of routes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pyarrow as pa

from connectors_core.errors import UnsupportedError
from connectors_core.sink.abilities import SupportsRewriting
from connectors_core.sink.compaction import SupportsCompaction
from connectors_core.sink.demultiplexing.router import SinkRouter
from connectors_core.sink.sink import DeliveryGuarantee, Sink, TwoPhaseCommittingSink
from connectors_core.sink.stateful_sink import StatefulSink
from connectors_core.sink.topology import TOPOLOGIES


@dataclass(frozen=True)
class Routed:
    """A committable or a state of the sink of a route, in the form of its serializer.

    Attributes:
        route: The route.
        version: Version of the serializer.
        data: The serialized object.
    """

    route: str
    version: int
    data: bytes


@dataclass(frozen=True, kw_only=True)
class Routes:
    """Creates the sinks of routes, and refuses sinks with abilities that a route cannot have.

    Attributes:
        router: Creates the sinks.
        guarantee: The guarantee that each sink must have.
        stateful: Whether the sinks may keep state.
    """

    router: SinkRouter
    guarantee: DeliveryGuarantee
    stateful: bool

    def sink(self, route: str, schema: pa.Schema | None = None) -> Sink | None:
        """Return the sink of a route; None if the route is unknown.

        Args:
            route: The route.
            schema: The schema of its rows, if known.

        Raises:
            UnsupportedError: The sink needs more than writers and committers of its own.
            ConfigurationError: The sink cannot write these rows.
        """
        sink = self.router.create_sink(route)
        if sink is not None:
            self._check(sink)
            if schema is not None:
                sink.validate(schema)
        return sink

    def _check(self, sink: Sink) -> None:
        name = type(sink).__name__
        needs = [what for ability, what in TOPOLOGIES if isinstance(sink, ability)]
        if isinstance(sink, SupportsCompaction) and sink.create_compaction() is not None:
            needs.append("compacts")
        if isinstance(sink, SupportsRewriting):
            needs.append("rewrites lost rows")
        if isinstance(sink, StatefulSink) and not self.stateful:
            needs.append("keeps state, for which StatefulDemultiplexingSink exists")
        if sink.writer_parallelism() is not None:
            needs.append("chooses its number of writers")
        if needs:
            raise UnsupportedError(
                f"{name} cannot be the sink of a route: it {' and '.join(needs)}",
                expected="a sink with writers and committers only",
                found=name,
            )
        once = self.guarantee is DeliveryGuarantee.EXACTLY_ONCE
        if once and not (
            isinstance(sink, TwoPhaseCommittingSink)
            and sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
        ):
            raise UnsupportedError(
                f"{name} is not exactly-once, but its rows have this guarantee",
                expected="an exactly-once sink for each route",
                found=name,
                option="delivery_guarantee",
                hint="set delivery_guarantee to at-least-once",
            )


def uid_of(sink_uid: str, route: str) -> str:
    """Return the uid of the sink of a route. Any route gives a uid that is safe in file names."""
    return f"{sink_uid}.{route_digest(route)}"


def route_digest(route: str) -> str:
    """Return a short name of a route."""
    return hashlib.blake2s(route.encode(), digest_size=8).hexdigest()
