# SPDX-License-Identifier: Apache-2.0
"""Committables and states with their route, and the sinks of routes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from connectors_core.errors import CommitError, UnsupportedError
from connectors_core.sink.abilities import SupportsRewriting
from connectors_core.sink.demultiplexing.router import SinkRouter
from connectors_core.sink.sink import DeliveryGuarantee, Sink, TwoPhaseCommittingSink
from connectors_core.sink.stateful_sink import StatefulSink
from connectors_core.sink.topology import SupportsPreWriteTopology


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

    def committable_of(self, sink: TwoPhaseCommittingSink[Any]) -> Any:
        """Return the committable, given the sink of the route."""
        return sink.committable_serializer().deserialize(self.version, self.data)


@dataclass(frozen=True, kw_only=True)
class Routes:
    """Creates the sinks of routes, and refuses those with an ability that a route cannot have.

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
            UnsupportedError: The sink has an ability that a route cannot have.
            ConfigurationError: The sink cannot write these rows.
        """
        sink = self.router.create_sink(route)
        if sink is not None:
            self._check(route, sink)
            if schema is not None:
                sink.validate(schema)
        return sink

    def committing(self, route: str) -> TwoPhaseCommittingSink[Any] | None:
        """Return the sink of a route; None if it has nothing to commit, or is unknown."""
        sink = self.sink(route)
        return sink if isinstance(sink, TwoPhaseCommittingSink) else None

    def _check(self, route: str, sink: Sink) -> None:
        name = type(sink).__name__
        if isinstance(sink, SupportsPreWriteTopology):
            raise refused(route, name, "SupportsPreWriteTopology", "rearranges rows before a write")
        if isinstance(sink, SupportsRewriting):
            raise refused(route, name, "SupportsRewriting", "rewrites lost rows")
        if isinstance(sink, StatefulSink) and not self.stateful:
            raise refused(
                route, name, "StatefulSink", "keeps state", hint="use StatefulDemultiplexingSink"
            )
        if sink.writer_parallelism() is not None:
            raise refused(
                route,
                name,
                "writer_parallelism",
                "chooses its number of writers",
                hint="set parallelism of the DemultiplexingSink instead",
            )
        once = self.guarantee is DeliveryGuarantee.EXACTLY_ONCE
        if once and not (
            isinstance(sink, TwoPhaseCommittingSink)
            and sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
        ):
            raise UnsupportedError(
                f"{name} of route {route!r} is not exactly-once, but its rows have this guarantee",
                expected="an exactly-once sink for each route",
                found=name,
                option="delivery_guarantee",
                hint="set delivery_guarantee to at-least-once",
            )


def refused(
    route: str,
    name: str,
    trait: str,
    what: str,
    hint: str = "filter the rows of this route, and write them with a sink_to of their own",
) -> UnsupportedError:
    """Return the error for a sink that cannot be the sink of a route.

    Args:
        route: The route.
        name: The class of its sink.
        trait: The ability that a sink of a route must not have.
        what: The predicate of the message, such as `rewrites lost rows`.
        hint: The remedy.
    """
    return UnsupportedError(
        f"{name} cannot be the sink of route {route!r}: it {what}",
        expected=f"a sink without {trait}",
        found=name,
        hint=hint,
    )


def gone(route: str) -> CommitError:
    """Return the error for a decided route that has nothing to commit any more."""
    return CommitError(
        f"the sink of the decided route {route!r} no longer exists",
        expected="the router that wrote its rows",
        found="no sink for the route, or one without two-phase commit",
        hint="let create_sink() return the former sink of this route, and restart",
    )


def request_of(route: str, request_id: str) -> str:
    """Return the name of a request of a route; see `split_request`."""
    return f"{request_id} {route}"


def split_request(name: str) -> tuple[str, str]:
    """Return the route of a request, and its id."""
    request_id, _, route = name.partition(" ")
    return route, request_id


def uid_of(sink_uid: str, route: str) -> str:
    """Return the uid of the sink of a route. Any route gives a uid that is safe in file names."""
    return f"{sink_uid}.{route_digest(route)}"


def route_digest(route: str) -> str:
    """Return a short name of a route."""
    return hashlib.blake2s(route.encode(), digest_size=8).hexdigest()
