# SPDX-License-Identifier: Apache-2.0
"""The topologies and compactions of the sinks of routes, before the decision. Driver.

A decision has the committables of all routes in one sink. Each route sees only its own, in a held
set of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from connectors_core.engine.coordinator.held_sets import HeldSet
from connectors_core.engine.coordinator.topologies import check_topologies
from connectors_core.engine.execution.compactor_task import RecordedRequest
from connectors_core.engine.execution.routes import RouteSinks
from connectors_core.engine.protocol import DecidedCommittable, HeldRef, SinkDecision
from connectors_core.engine.query.pre_commit import pre_commit
from connectors_core.engine.query.waiting import Holding, Result, cannot_hold
from connectors_core.sink.demultiplexing import DemultiplexingSink
from connectors_core.sink.sink import TwoPhaseCommittingSink
from connectors_core.sink.topology import SupportsPreCommitTopology

CreateHolding = Callable[[str, TwoPhaseCommittingSink[Any]], Holding | None]
"""Returns how a sink holds committables; None if it does not."""


class RouteTopologies:
    """Passes the committables of each route through the topologies of its sink.

    Together, the routes hold at most as many committables as the largest limit of one of them.

    Args:
        uid: The uid of the sink.
        sink: The sink.
        create: Returns how the sink of a route holds committables.
    """

    def __init__(self, uid: str, sink: DemultiplexingSink, create: CreateHolding) -> None:
        self.sink = sink
        self._uid = uid
        self._sinks = RouteSinks(sink)
        self._create = create
        self._routes: dict[str, Holding | None] = {}
        self._held = HeldSet()
        self._parts: dict[str, HeldSet] = {}
        self._read: dict[DecidedCommittable, tuple[str, DecidedCommittable]] = {}

    @property
    def tasks(self) -> int:
        """The largest number of tasks that a route asks for."""
        return max((each.tasks for each in self._routes.values() if each), default=1)

    @property
    def max_held(self) -> int:
        """The largest limit of a route."""
        return max((each.max_held for each in self._routes.values() if each), default=0)

    def step(
        self, held: HeldSet, epoch: int, decision: SinkDecision, *, everything: bool
    ) -> SinkDecision:
        """Return a decision that holds and combines what the topologies of the routes say."""
        parts = self._parts_of(held)
        new = self._sinks.by_route(decision.committables)
        holding = {route: self._holding(route) for route in {**parts, **new}}
        number = len(held) + sum(len(own) for route, own in new.items() if holding[route])
        everything = everything or number > self.max_held
        steps: dict[str, SinkDecision] = {}
        for route, own in holding.items():
            sink, committables = self._sinks[route], tuple(new.get(route, ()))
            if committables and isinstance(sink, SupportsPreCommitTopology):
                committables = pre_commit(sink, committables, epoch, decision.number_of_subtasks)
            steps[route] = SinkDecision(committables=committables)
            if own is not None:
                part = parts.get(route, HeldSet())
                steps[route] = own.step(part, epoch, steps[route], everything=everything)
        return self._joined(decision, epoch, steps, _without_members(held))

    def _joined(
        self,
        decision: SinkDecision,
        epoch: int,
        steps: Mapping[str, SinkDecision],
        compacted: Iterable[HeldRef],
    ) -> SinkDecision:
        """Return a decision on all routes, with one numbering of held committables and requests."""
        committables: list[DecidedCommittable] = []
        held: list[DecidedCommittable] = []
        requests: list[tuple[HeldRef, ...]] = []
        settled = list(compacted)

        def moved(refs: Iterable[HeldRef], by: int) -> tuple[HeldRef, ...]:
            return tuple(HeldRef(epoch, r.number + by) if r.epoch == epoch else r for r in refs)

        for route, step in steps.items():
            first_held, first_request = len(held), len(requests)
            committables += (self._sinks.put_on(route, each) for each in step.committables)
            held += (self._sinks.put_on(route, each) for each in step.held)
            requests += (moved(members, first_held) for members in step.requests)
            settled += moved(step.compacted, first_request)
        return replace(
            decision,
            committables=tuple(committables),
            held=tuple(held),
            requests=tuple(requests),
            compacted=tuple(settled),
        )

    def is_ready(self, held: HeldSet) -> bool:
        """Whether a decision could settle or request something of a route now."""
        ready = (own.is_ready(part) for _, own, part in self._held_by_route(held))
        return any(ready) or bool(_without_members(held))

    def open_requests(self, held: HeldSet) -> tuple[RecordedRequest, ...]:
        """Return the requests that the compactors of the routes must run."""
        return tuple(
            replace(each, route=route)
            for route, own, part in self._held_by_route(held)
            for each in own.open_requests(part)
        )

    def take(self, request: HeldRef, result: Result) -> None:
        """Take over the result of a job, for the route of the request."""
        for _, own, part in self._held_by_route(self._held):
            if request in part.requests:
                own.take(request, result)

    def decided(self, held: HeldSet) -> None:
        """Forget what is no longer held.

        Raises:
            ConfigurationError: A route cannot hold what earlier epochs hold of it.
        """
        parts = {route: part for route, _, part in self._held_by_route(held)}
        for route, own in self._routes.items():
            if own is not None:
                own.decided(parts.get(route, HeldSet()))

    def _held_by_route(self, held: HeldSet) -> Iterator[tuple[str, Holding, HeldSet]]:
        for route, part in self._parts_of(held).items():
            own = self._holding(route)
            if own is None:
                raise cannot_hold(self._name(route), len(part))
            yield route, own, part

    def _parts_of(self, held: HeldSet) -> dict[str, HeldSet]:
        """Return the held set of each route, with the same references."""
        if held is self._held:
            return self._parts
        known, self._read = self._read, {}
        waiting: dict[str, dict[HeldRef, DecidedCommittable]] = {}
        requests: dict[str, dict[HeldRef, dict[HeldRef, DecidedCommittable]]] = {}

        def read(each: DecidedCommittable) -> tuple[str, DecidedCommittable]:
            self._read[each] = known.get(each) or self._sinks.taken_off(each)
            return self._read[each]

        for ref, each in held.waiting.items():
            route, own = read(each)
            waiting.setdefault(route, {})[ref] = own
        for request, members in held.requests.items():
            for ref, each in members.items():
                route, own = read(each)
                requests.setdefault(route, {}).setdefault(request, {})[ref] = own
        self._held = held
        self._parts = {
            route: HeldSet(waiting.get(route, {}), requests.get(route, {}))
            for route in {**waiting, **requests}
        }
        return self._parts

    def _holding(self, route: str) -> Holding | None:
        if route not in self._routes:
            sink = self._sinks[route]
            check_topologies(sink, self._name(route))
            self._routes[route] = self._create(self._name(route), sink)
        return self._routes[route]

    def _name(self, route: str) -> str:
        return f"{self._uid}/{route}"


def _without_members(held: HeldSet) -> list[HeldRef]:
    """Return requests whose members were all given up, and which therefore have no route."""
    return [request for request, members in held.requests.items() if not members]
