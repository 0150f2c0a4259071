# SPDX-License-Identifier: Apache-2.0
"""Sinks with one faulty commit, which fails or comes too late."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from connectors_core.sink import (
    CommitRequest,
    Committer,
    CommitterInitContext,
    Sink,
    SupportsCommittedEpoch,
    SupportsHeldCommittables,
    SupportsLeases,
)
from connectors_core.testing.faults import FaultInjected

_S = TypeVar("_S", bound=Sink)
_Before = Callable[[Committer[Any], Sequence[CommitRequest[Any]]], None]


def with_failing_commit(sink: _S, marker: Path) -> _S:
    """Copy a two-phase sink with all its capabilities. Its driver fails in one commit.

    Args:
        sink: The sink.
        marker: The file that appears when the commit fails.
    """

    def fail(committer: Committer[Any], requests: Sequence[CommitRequest[Any]]) -> None:
        committer.commit(requests[:1])
        raise FaultInjected("the driver fails in the middle of a commit")

    return _with_committer(sink, _CreateCommitter(sink, marker, 2, fail))


def with_lost_commit(sink: _S, marker: Path, lose: Callable[[Sequence[Any]], None]) -> _S:
    """Copy a two-phase sink with all its capabilities. It loses a committable before its commit.

    Args:
        sink: The sink.
        marker: The file that appears at the loss.
        lose: `SinkExternalContext.lose`.
    """

    def come_too_late(_: Committer[Any], requests: Sequence[CommitRequest[Any]]) -> None:
        lose([requests[0].committable])

    return _with_committer(sink, _CreateCommitter(sink, marker, 1, come_too_late))


def with_interrupted_commit(sink: _S, marker: Path, begin: Callable[[], None]) -> _S:
    """Copy a two-phase sink with all its capabilities. An action starts before its first commit.

    Args:
        sink: The sink.
        marker: The file that appears when the action starts.
        begin: The action, which the driver calls.
    """

    def interrupt(_: Committer[Any], __: Sequence[CommitRequest[Any]]) -> None:
        begin()

    return _with_committer(sink, _CreateCommitter(sink, marker, 1, interrupt))


def _with_committer(sink: _S, create: _CreateCommitter) -> _S:
    copied = copy.copy(sink)
    # The original class stays unchanged, so the copy is still an instance of it. The sink may be
    # frozen.
    object.__setattr__(copied, "create_committer", create)
    return copied


@dataclass(frozen=True)
class _CreateCommitter:
    sink: Any
    marker: Path
    requests: int
    before: _Before

    def __call__(self, context: CommitterInitContext) -> Committer[Any]:
        committer = self.sink.create_committer(context)
        abilities = [own for ability, own in _ABILITIES.items() if isinstance(committer, ability)]
        made: Committer[Any] = type("_OnceAble", (*abilities, _Once), {})(committer, self)
        return made

    def __getstate__(self) -> None:
        """Executors use the sink, but create no committers."""


class _Once(Committer[Any]):
    """Runs an action before the first commit with at least this number of requests."""

    def __init__(self, committer: Any, what: _CreateCommitter) -> None:
        self._committer = committer
        self._what = what

    def commit(self, requests: Sequence[CommitRequest[Any]]) -> None:
        if len(requests) >= self._what.requests and not self._what.marker.exists():
            self._what.marker.touch()
            self._what.before(self._committer, requests)
        self._committer.commit(requests)

    def sweep(self, checkpoint_id: int) -> None:
        self._committer.sweep(checkpoint_id)

    def recover(self, last_decided: int) -> None:
        self._committer.recover(last_decided)

    def close(self) -> None:
        self._committer.close()


class _Leasing(SupportsLeases):
    _committer: Any

    def lease(self, checkpoint_id: int, number_of_writers: int) -> Any:
        return self._committer.lease(checkpoint_id, number_of_writers)


class _Holding(SupportsHeldCommittables[Any]):
    _committer: Any

    def sweep_others(self, checkpoint_id: int, held: Sequence[Any]) -> None:
        self._committer.sweep_others(checkpoint_id, held)

    def sweep_request(self, request_id: str) -> None:
        self._committer.sweep_request(request_id)


class _Telling(SupportsCommittedEpoch):
    _committer: Any

    def newest_committed_epoch(self) -> int | None:
        newest: int | None = self._committer.newest_committed_epoch()
        return newest

    def epoch_committed(self, checkpoint_id: int) -> None:
        self._committer.epoch_committed(checkpoint_id)


_ABILITIES: Final[dict[type, type]] = {
    SupportsCommittedEpoch: _Telling,
    SupportsLeases: _Leasing,
    SupportsHeldCommittables: _Holding,
}
