# SPDX-License-Identifier: Apache-2.0
"""A sink with watched topologies: their calls, and a driver that fails at one of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from connectors_core.sink import (
    CommittableWithLineage,
    Sink,
    SupportsPostCommitTopology,
    SupportsPreCommitTopology,
    SupportsPreCommitTopologyOverEpochs,
    SupportsPreWriteTopology,
)
from connectors_core.testing.faults import FaultInjected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Topology(StrEnum):
    """A topology of a sink, before or after its writers or commits."""

    PRE_WRITE = "pre-write"
    PRE_COMMIT = "pre-commit"
    OVER_EPOCHS = "pre-commit-over-epochs"
    POST_COMMIT = "post-commit"

    def is_of(self, sink: Sink) -> bool:
        """Return whether a sink has the topology."""
        return isinstance(sink, _ABILITIES[self])

    @property
    def method(self) -> str:
        """The method of a sink with the topology."""
        if self is Topology.OVER_EPOCHS:
            return "add_pre_commit_topology_over_epochs"
        return f"add_{self.name.lower()}_topology"


_ABILITIES: Final[dict[Topology, type]] = {
    Topology.PRE_WRITE: SupportsPreWriteTopology,
    Topology.PRE_COMMIT: SupportsPreCommitTopology,
    Topology.OVER_EPOCHS: SupportsPreCommitTopologyOverEpochs,
    Topology.POST_COMMIT: SupportsPostCommitTopology,
}


@dataclass(frozen=True)
class Pass:
    """A call of a topology.

    Attributes:
        given: The rows that it received, by split and number, or the committables. Over epochs, the
            held committables.
        result: The rows, committables, or combinations that it returned.
        epoch: The epoch of the committables.
        before: The result of the watch's `look` when it began.
    """

    given: Sequence[Any]
    result: Sequence[Any]
    epoch: int
    before: Any


@dataclass
class Watch:
    """Watches the topologies of a driver.

    Attributes:
        look: Inspects the external system before each call.
        fails_at: The topology at whose second call the driver fails, once.
        before: Whether the driver fails before or after that call.
        marker: The file that appears at the failure.
        passes: The recorded calls.
    """

    look: Callable[[], Any]
    fails_at: Topology | None = None
    before: bool = False
    marker: Path = Path()
    passes: dict[Topology, list[Pass]] = field(default_factory=lambda: {t: [] for t in Topology})

    def over(self, sink: Sink) -> Sink:
        """Return a copy of a sink with all its capabilities and watched topologies."""
        copied = copy.copy(sink)
        for topology in Topology:
            if topology.is_of(sink):
                name = topology.method
                # The original class stays unchanged, so the copy is still an instance of it.
                object.__setattr__(copied, name, _Watched(self, topology, getattr(copied, name)))
        return copied

    def call(
        self, topology: Topology, step: Callable[..., Any], argument: Any, *rest: Any, **named: Any
    ) -> Any:
        """Call a topology and record its input and output."""
        passes = self.passes[topology]
        self._fail(topology, len(passes) == 1, before=True)
        seen = self.look()
        if topology is Topology.PRE_WRITE:
            result = step(argument)
            passes.append(Pass(_ids(argument), _ids(result), -1, seen))
        elif topology is Topology.OVER_EPOCHS:
            result = step(argument, *rest, **named)
            passes.append(Pass(list(argument), list(result), rest[0], seen))
        else:
            messages = list(argument)
            result = step(iter(messages))
            given = [each.committable for each in messages if _has_committable(each)]
            epoch = max((each.checkpoint_id for each in messages), default=-1)
            passes.append(Pass(given, list(result or ()), epoch, seen))
        self._fail(topology, len(passes) == 2, before=False)
        return result

    def _fail(self, topology: Topology, now: bool, *, before: bool) -> None:
        if now and (topology, before) == (self.fails_at, self.before) and not self.marker.exists():
            self.marker.touch()
            raise FaultInjected(f"the driver fails at the {topology} topology")


class _Watched:
    def __init__(self, watch: Watch, topology: Topology, step: Callable[..., Any]) -> None:
        self._called = watch, topology, step

    def __call__(self, argument: Any, *rest: Any, **named: Any) -> Any:
        watch, topology, step = self._called
        return watch.call(topology, step, argument, *rest, **named)

    def __getstate__(self) -> None:
        """Executors use the sink, but call no topology."""


def _ids(df: DataFrame) -> Sequence[Any]:
    return sorted(tuple(row) for row in df.select("split", "seq").collect())


def _has_committable(message: object) -> bool:
    return isinstance(message, CommittableWithLineage)
