# SPDX-License-Identifier: Apache-2.0
"""Events between the enumerator and the readers, always sent in a plan or a report."""

from __future__ import annotations

from dataclasses import dataclass


class SourceEvent:
    """A connector-specific message between enumerator and reader (Flink's FLIP-27).

    Subclass it as a frozen dataclass of plain JSON values and add the class to
    ``Source.event_types``; it is sent as JSON. If Spark retries a task, the reader gets the events
    of its entry again. A restored enumerator gets the events that followed its state again.
    """


@dataclass(frozen=True, kw_only=True)
class EventDocument:
    """The stored form of a source event: the name of its class, and its fields as JSON."""

    name: str
    data: bytes
