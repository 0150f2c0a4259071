# SPDX-License-Identifier: Apache-2.0
"""What the enumerator and the readers tell each other, always by way of a plan or a report."""

from __future__ import annotations

from dataclasses import dataclass


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
