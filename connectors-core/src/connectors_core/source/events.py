# SPDX-License-Identifier: Apache-2.0
"""What the enumerator and the readers tell each other, always by way of a plan or a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from connectors_core.source.split import SplitT


class SourceEvent:
    """A message of a connector's own between enumerator and reader (Flink's FLIP-27).

    Subclass it as a frozen dataclass of plain JSON values and name the class in
    ``Source.event_types``; it travels as JSON. A reader that Spark tries again gets the events of
    its entry again, and a restored enumerator those that came after its state was taken.
    """


@dataclass(frozen=True, kw_only=True)
class EventDocument:
    """A source event as it is stored: its class by name and its fields as JSON."""

    name: str
    data: bytes


class OperatorEvent:
    """An event of the runtime itself, handled by the coordinator."""


@dataclass(frozen=True)
class ReaderRegistered(OperatorEvent):
    """The first report of a reader was read. Spark's driver sees no task start before that."""

    subtask_id: int


@dataclass(frozen=True)
class ReaderFailed(OperatorEvent):
    """A reader will not go on with its splits: the parallelism shrank, or its entry was abandoned.

    A failed Spark task is retried by Spark and never seen here.
    """

    subtask_id: int
    reason: str


@dataclass(frozen=True)
class AddSplits(OperatorEvent, Generic[SplitT]):
    """Splits for a reader."""

    subtask_id: int
    splits: tuple[SplitT, ...]


@dataclass(frozen=True)
class RequestSplit(OperatorEvent):
    """A reader has read all it was given."""

    subtask_id: int


@dataclass(frozen=True)
class NoMoreSplits(OperatorEvent):
    """A reader will be given no further splits."""

    subtask_id: int
