# SPDX-License-Identifier: Apache-2.0
"""Source events of the members of a hybrid source."""

from __future__ import annotations

from dataclasses import dataclass

from connectors_core.source.event_codec import decode_event, encode_event
from connectors_core.source.events import EventDocument, SourceEvent
from connectors_core.source.hybrid.chain import SourceChain
from connectors_core.source.hybrid.switches import Switch


@dataclass(frozen=True)
class HybridSourceEvent(SourceEvent):
    """An event between the enumerator and the readers of a member."""

    member: int
    switches: tuple[Switch, ...]
    event: EventDocument

    @staticmethod
    def of(member: int, switches: tuple[Switch, ...], event: SourceEvent) -> HybridSourceEvent:
        """Wrap the event of a member."""
        return HybridSourceEvent(member, switches, encode_event(event))

    def inner(self, chain: SourceChain) -> SourceEvent:
        """Return the event of the member.

        Raises:
            ConfigurationError: The member does not list its class in ``event_types``.
        """
        return decode_event(chain.source(self.member, self.switches), self.event)
