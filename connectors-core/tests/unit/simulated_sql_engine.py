# SPDX-License-Identifier: Apache-2.0
"""An engine without Spark, for the flow of the shell: a few statements with fixed effects."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from connectors_core.engine.query.status import (
    PipelineState,
    PipelineStatus,
    QueryStatus,
    SinkStatus,
    SourceStatus,
)
from connectors_core.errors import ConfigurationError
from connectors_core.table.sql import SqlError


@dataclass(frozen=True)
class FixedResult:
    """A result whose rows are known."""

    columns: Sequence[str] = ()
    values: Sequence[tuple[str | None, ...]] = ()
    numbers: frozenset[int] = frozenset()
    job: str | None = None

    def rows(self, limit: int | None = None) -> Iterator[Sequence[str | None]]:
        yield from self.values[:limit]

    def json_rows(self, limit: int | None = None) -> Iterator[str]:
        yield from (str(dict(zip(self.columns, row, strict=True))) for row in self.values[:limit])


@dataclass
class SimulatedEngine:
    """Knows SELECT, FAIL, WRONG, BLOCK, and START; other statements do nothing.

    Attributes:
        executed: The statements, without the spaces before them.
        states: The jobs.
        blocked: Set while BLOCK runs.
        canceled: Set once a statement was canceled.
        closed: Whether it was closed.
    """

    executed: list[str] = field(default_factory=list)
    states: dict[str, PipelineState] = field(default_factory=dict)
    blocked: threading.Event = field(default_factory=threading.Event)
    closed: bool = False
    canceled: threading.Event = field(default_factory=threading.Event)

    def execute(self, text: str) -> FixedResult:
        statement = text.strip()
        self.executed.append(statement)
        match statement.split():
            case ["SELECT", *values]:
                return FixedResult(("n",), [(each.rstrip(","),) for each in values])
            case ["FAIL"]:
                raise ConfigurationError("it failed")
            case ["WRONG", "AT", _]:
                raise SqlError.at(text, text.index("AT"), "it is wrong")
            case ["BLOCK"]:
                self.blocked.set()
                assert self.canceled.wait(30)
                raise ConfigurationError("it was canceled")
            case ["START", name, state]:
                self.states[name] = PipelineState(state)
                return FixedResult(job=name)
            case ["SHOW", "CURRENT", kind]:
                return FixedResult((kind,), [(kind.lower(),)])
            case _:
                return FixedResult()

    def cancel(self) -> None:
        self.canceled.set()

    def jobs(self) -> dict[str, PipelineStatus]:
        return {name: _status(name, state) for name, state in self.states.items()}

    def close(self) -> None:
        self.closed = True


def _status(name: str, state: PipelineState) -> PipelineStatus:
    sources = (SourceStatus(uid="in", rows=30, pending_records=5),)
    sinks = (SinkStatus(uid="out", rows=20),)
    query = QueryStatus(name="0", state=state, epoch=7, sources=sources, sinks=sinks)
    error = "disk full" if state is PipelineState.FAILED else None
    return PipelineStatus(name=name, state=state, queries=(query,), error=error)
