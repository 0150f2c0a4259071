# SPDX-License-Identifier: Apache-2.0
"""Commits each committable with the committer of its route. Driver."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

from connectors_core.errors import CommitError, RetryableError, UnsupportedError
from connectors_core.sink.abilities import SupportsLeases
from connectors_core.sink.committer import (
    CommitOutcome,
    CommitRequest,
    Committer,
    CommitterInitContext,
)
from connectors_core.sink.demultiplexing.routed import Routed, Routes, uid_of
from connectors_core.sink.sink import TwoPhaseCommittingSink

_REMEMBERED_SWEEPS: Final = 32


class DemultiplexingCommitter(Committer[Routed]):
    """Creates the committer of a route at its first commit.

    A failed epoch may have staged data for routes that are new to the driver. When a commit shows
    such a route, its committer repeats the recovery, and the next sweep repeats the latest ones.

    Args:
        routes: Creates the sinks of routes.
        context: The context of the committers.
    """

    def __init__(self, routes: Routes, context: CommitterInitContext) -> None:
        self._routes = routes
        self._context = context
        self._committers: dict[str, tuple[TwoPhaseCommittingSink[Any], Committer[Any]]] = {}
        self._new: set[str] = set()
        self._swept: deque[int] = deque(maxlen=_REMEMBERED_SWEEPS)
        self._last_decided: int | None = None
        with ExitStack() as made:  # closes the others if one cannot be created
            made.callback(self.close)
            for route in routes.router.known_routes():
                self._committer(route)
            made.pop_all()

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
                gone = CommitError(
                    "the sink of a decided route no longer exists",
                    expected="the router that wrote its rows",
                    found="no sink for the route, or one without two-phase commit",
                )
                for request in own:
                    request.signal_failed(gone)
            else:
                _commit(*found, own)

    def sweep(self, checkpoint_id: int) -> None:
        """Sweep an epoch for all known routes."""
        for route, (_, committer) in self._committers.items():
            if route in self._new:
                for earlier in sorted(set(self._swept) - {checkpoint_id}):
                    if earlier < checkpoint_id:
                        committer.sweep(earlier)
                self._new.discard(route)
            committer.sweep(checkpoint_id)
        self._swept.append(checkpoint_id)

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
            sink = self._routes.sink(route)
            if not isinstance(sink, TwoPhaseCommittingSink):
                return None
            context = replace(self._context, sink_uid=uid_of(self._context.sink_uid, route))
            committer = sink.create_committer(context)
            with ExitStack() as made:  # closes it if it cannot be used
                made.callback(committer.close)
                if isinstance(committer, SupportsLeases):
                    raise UnsupportedError(
                        f"{type(sink).__name__} cannot be the sink of a route: its committer "
                        "leases resources before the routes of an epoch are known",
                        expected="a committer without the ability SupportsLeases",
                        found=type(committer).__name__,
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
        CommitRequest(
            serializer.deserialize(each.committable.version, each.committable.data),
            each.number_of_retries,
        )
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
