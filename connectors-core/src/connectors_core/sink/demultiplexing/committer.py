# SPDX-License-Identifier: Apache-2.0
"""Commits each committable with the committer of its route. Driver, and tasks that commit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

from connectors_core.errors import RetryableError, UnsupportedError
from connectors_core.sink.abilities import SupportsLeases
from connectors_core.sink.committer import (
    CommitOutcome,
    CommitRequest,
    Committer,
    CommitterInitContext,
)
from connectors_core.sink.demultiplexing.routed import (
    Routed,
    Routes,
    gone,
    refused,
    split_request,
    uid_of,
)
from connectors_core.sink.held import SupportsHeldCommittables
from connectors_core.sink.sink import TwoPhaseCommittingSink

_REMEMBERED_SWEEPS: Final = 32

CreateCommitter = Callable[[TwoPhaseCommittingSink[Any], CommitterInitContext], Committer[Any]]
"""Creates the committer of a route's sink."""


class DemultiplexingCommitter(Committer[Routed], SupportsHeldCommittables[Routed]):
    """Creates the committer of a route at its first commit.

    A failed epoch may have staged data for routes that are new to the driver. When a commit shows
    such a route, its committer repeats the recovery, and the next sweep repeats the latest ones.

    Args:
        routes: Creates the sinks of routes.
        context: The context of the committers.
        create: Creates the committer of a route.
        known: The routes whose committers are created now.
    """

    def __init__(
        self,
        routes: Routes,
        context: CommitterInitContext,
        create: CreateCommitter,
        known: Sequence[str] = (),
    ) -> None:
        self._routes = routes
        self._context = context
        self._create = create
        self._committers: dict[str, tuple[TwoPhaseCommittingSink[Any], Committer[Any]]] = {}
        self._new: set[str] = set()
        self._swept: deque[int] = deque(maxlen=_REMEMBERED_SWEEPS)
        self._last_decided: int | None = None
        with ExitStack() as made:  # closes the others if one cannot be created
            made.callback(self.close)
            self.open(known)
            made.pop_all()

    def open(self, routes: Iterable[str]) -> None:
        """Create the committers of routes, so that sweeps include them."""
        for route in routes:
            self._committer(route)

    def commit(self, requests: Sequence[CommitRequest[Routed]]) -> None:
        """Commit the requests of each route, and signal their results."""
        by_route: dict[str, list[CommitRequest[Routed]]] = {}
        for request in requests:
            by_route.setdefault(request.committable.route, []).append(request)
        for route, own in by_route.items():
            try:
                found = self._committer(route)
            except RetryableError as error:
                for request in own:
                    request.retry_later(error)
                continue
            if found is None:
                for request in own:
                    request.signal_failed(gone(route))
            else:
                _commit(*found, own)

    def sweep(self, checkpoint_id: int) -> None:
        """Sweep an epoch for all known routes."""
        self.sweep_others(checkpoint_id, ())

    def sweep_others(self, checkpoint_id: int, held: Sequence[Routed]) -> None:
        """Sweep an epoch for all known routes, except what the sinks of some routes hold."""
        kept: dict[str, list[Any]] = {}
        for each in held:
            found = self._committer(each.route)
            if found is None:
                raise gone(each.route)
            sink, committer = found
            if not isinstance(committer, SupportsHeldCommittables):
                raise UnsupportedError(
                    f"the sink of route {each.route!r} holds committables, but its committer "
                    "cannot keep them",
                    expected="a committer with the ability SupportsHeldCommittables",
                    found=type(committer).__name__,
                    hint="report this to the author of the sink",
                )
            kept.setdefault(each.route, []).append(each.committable_of(sink))
        for route, (_, committer) in self._committers.items():
            if route in self._new:
                for earlier in sorted(set(self._swept) - {checkpoint_id}):
                    if earlier < checkpoint_id:
                        committer.sweep(earlier)
                self._new.discard(route)
            if route in kept:
                assert isinstance(committer, SupportsHeldCommittables)
                committer.sweep_others(checkpoint_id, kept[route])
            else:
                committer.sweep(checkpoint_id)
        self._swept.append(checkpoint_id)

    def sweep_request(self, request_id: str) -> None:
        """Sweep a request of a route."""
        route, own = split_request(request_id)
        found = self._committer(route)
        if found is not None and isinstance(found[1], SupportsHeldCommittables):
            found[1].sweep_request(own)

    def recover(self, last_decided: int) -> None:
        """Recover all known routes, and later ones when they become known."""
        self._last_decided = last_decided
        for _, committer in self._committers.values():
            committer.recover(last_decided)

    def close(self) -> None:
        """Close the committers of all routes, even if one of them fails."""
        with ExitStack() as stack:
            for _, committer in self._committers.values():
                stack.callback(committer.close)

    def _committer(self, route: str) -> tuple[TwoPhaseCommittingSink[Any], Committer[Any]] | None:
        """Return the sink and the committer of a route; None if it has nothing to commit."""
        if route not in self._committers:
            sink = self._routes.committing(route)
            if sink is None:
                return None
            context = replace(self._context, sink_uid=uid_of(self._context.sink_uid, route))
            committer = self._create(sink, context)
            with ExitStack() as made:  # closes it if it cannot be used
                made.callback(committer.close)
                if isinstance(committer, SupportsLeases):
                    raise refused(
                        route,
                        type(sink).__name__,
                        "SupportsLeases",
                        "leases resources before the routes of an epoch are known",
                    )
                if self._last_decided is not None:
                    committer.recover(self._last_decided)
                made.pop_all()
            self._committers[route] = sink, committer
            self._new.add(route)
        return self._committers[route]


def _commit(
    sink: TwoPhaseCommittingSink[Any],
    committer: Committer[Any],
    requests: Sequence[CommitRequest[Routed]],
) -> None:
    """Commit the requests of one route, and signal the results on them."""
    serializer = sink.committable_serializer()
    inner: list[CommitRequest[Any]] = [
        CommitRequest(each.committable.committable_of(sink), each.number_of_retries)
        for each in requests
    ]
    try:
        committer.commit(inner)
    except RetryableError as error:  # regardless of the outcomes so far
        for each in inner:
            each.retry_later(error)
    for outer, each in zip(requests, inner, strict=True):
        match each.outcome:
            case CommitOutcome.ALREADY_COMMITTED:
                outer.signal_already_committed()
            case CommitOutcome.RETRY:
                data = serializer.serialize(each.committable)
                routed = Routed(outer.committable.route, serializer.version, data)
                outer.update_and_retry_later(routed, each.error)
            case CommitOutcome.FAILED:
                assert each.error is not None
                outer.signal_failed(each.error)
            case CommitOutcome.LOST:
                outer.signal_lost()
            case CommitOutcome.COMMITTED:
                pass
