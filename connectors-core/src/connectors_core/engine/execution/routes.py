# SPDX-License-Identifier: Apache-2.0
"""The sinks of the routes of a sink, and their committables. Driver and executor."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from connectors_core.engine.protocol import DecidedCommittable, Versioned
from connectors_core.errors import StateCorruptedError, StateVersionError, UnsupportedError
from connectors_core.sink.demultiplexing.routed import Routed, gone
from connectors_core.sink.demultiplexing.sink import DemultiplexingSink
from connectors_core.sink.sink import TwoPhaseCommittingSink


class RouteSinks:
    """The two-phase sinks of routes, each created once.

    Args:
        sink: A `DemultiplexingSink`.

    Raises:
        UnsupportedError: The sink has no routes.
    """

    def __init__(self, sink: TwoPhaseCommittingSink[Any]) -> None:
        if not isinstance(sink, DemultiplexingSink):
            raise UnsupportedError(f"{type(sink).__name__} has no routes")
        self._sink = sink
        self._serializer = sink.committable_serializer()
        self._known: dict[str, TwoPhaseCommittingSink[Any]] = {}

    def __getitem__(self, route: str) -> TwoPhaseCommittingSink[Any]:
        """Return the sink of a route.

        Raises:
            CommitError: The router no longer creates it.
        """
        if route not in self._known:
            sink = self._sink.sink_of_route(route)
            if sink is None:
                raise gone(route)
            self._known[route] = sink
        return self._known[route]

    def by_route(
        self, committables: Iterable[DecidedCommittable]
    ) -> dict[str, list[DecidedCommittable]]:
        """Return the committables of each route, as its own sink has stored them."""
        found: dict[str, list[DecidedCommittable]] = {}
        for each in committables:
            route, own = self.taken_off(each)
            found.setdefault(route, []).append(own)
        return found

    def routes_of(self, committables: Iterable[DecidedCommittable]) -> set[str]:
        """Return the routes of committables, except those that a former sink has stored."""
        found = set()
        for each in committables:
            with contextlib.suppress(StateCorruptedError, StateVersionError):
                found.add(self.taken_off(each)[0])
        return found

    def taken_off(self, decided: DecidedCommittable) -> tuple[str, DecidedCommittable]:
        """Return the route of a committable, and what its own sink has stored."""
        stored = decided.committable
        routed = self._serializer.deserialize(stored.version, stored.data)
        own = Versioned(version=routed.version, data=routed.data)
        return routed.route, replace(decided, committable=own)

    def put_on(self, route: str, own: DecidedCommittable) -> DecidedCommittable:
        """Return a committable of a route with its route."""
        stored = own.committable
        data = self._serializer.serialize(Routed(route, stored.version, stored.data))
        return replace(own, committable=Versioned(version=self._serializer.version, data=data))
