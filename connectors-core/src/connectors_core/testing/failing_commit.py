# SPDX-License-Identifier: Apache-2.0
"""A sink whose commit fails once, after the first of several committables."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from connectors_core.sink import CommitRequest, Committer, CommitterInitContext, Sink
from connectors_core.testing.faults import FaultInjected

_S = TypeVar("_S", bound=Sink)


def with_failing_commit(sink: _S, marker: Path) -> _S:
    """A copy of a two-phase sink with all its abilities; its driver fails in one commit.

    Args:
        sink: The sink.
        marker: File that appears when the commit fails.
    """
    copied = copy.copy(sink)
    # Its class is not touched: the copy keeps what it is an instance of. It may be frozen.
    object.__setattr__(copied, "create_committer", _CreateCommitter(sink, marker))
    return copied


@dataclass(frozen=True)
class _CreateCommitter:
    sink: Any
    marker: Path

    def __call__(self, context: CommitterInitContext) -> Committer[Any]:
        return _FailsOnce(self.sink.create_committer(context), self.marker)


class _FailsOnce(Committer[Any]):
    def __init__(self, committer: Committer[Any], marker: Path) -> None:
        self._committer = committer
        self._marker = marker

    def commit(self, requests: Sequence[CommitRequest[Any]]) -> None:
        if len(requests) > 1 and not self._marker.exists():
            self._committer.commit(requests[:1])
            self._marker.touch()
            raise FaultInjected("the driver fails in the middle of a commit")
        self._committer.commit(requests)

    def sweep(self, checkpoint_id: int) -> None:
        self._committer.sweep(checkpoint_id)

    def recover(self, last_decided: int) -> None:
        self._committer.recover(last_decided)

    def close(self) -> None:
        self._committer.close()
