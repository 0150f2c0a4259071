# SPDX-License-Identifier: Apache-2.0
"""Encoding of source events in plans and reports: a class name and JSON, never pickle."""

from __future__ import annotations

from connectors_core.errors import ConfigurationError
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source.events import EventDocument, SourceEvent
from connectors_core.source.source import AnySource


def encode_event(event: SourceEvent) -> EventDocument:
    """Return the stored form of an event."""
    cls = type(event)
    return EventDocument(
        name=cls.__name__, data=JsonDataclassSerializer(cls, version=1).serialize(event)
    )


def decode_event(source: AnySource, document: EventDocument) -> SourceEvent:
    """Return the event of a stored form.

    Raises:
        ConfigurationError: The source does not list the class in ``event_types``.
    """
    for cls in source.event_types:
        if cls.__name__ == document.name:
            return JsonDataclassSerializer(cls, version=1).deserialize(1, document.data)
    raise ConfigurationError(
        f"{type(source).__name__} does not know the source event {document.name!r}",
        expected=[cls.__name__ for cls in source.event_types],
        found=document.name,
        hint="add its class to the source's event_types",
    )
