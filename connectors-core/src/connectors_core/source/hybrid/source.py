# SPDX-License-Identifier: Apache-2.0
"""Several sources, one after another, as one (Flink's FLIP-150)."""

from __future__ import annotations

from datetime import datetime
from typing import final

import pyarrow as pa

from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.errors import ConfigurationError
from connectors_core.serialization import JsonDataclassSerializer, VersionedSerializer
from connectors_core.source.enumerator import SplitEnumeratorContext
from connectors_core.source.events import SourceEvent
from connectors_core.source.hybrid.chain import (
    SourceChain,
    SourceFactory,
    member_of,
    weakest,
)
from connectors_core.source.hybrid.enumerator import HybridSplitEnumerator, HybridState
from connectors_core.source.hybrid.events import HybridSourceEvent
from connectors_core.source.hybrid.reader import HybridSourceReader
from connectors_core.source.hybrid.split import HybridSplit, HybridSplitSerializer
from connectors_core.source.rate_limiter import RateLimiterStrategy
from connectors_core.source.reader import SourceReader, SourceReaderContext
from connectors_core.source.source import AnySource, Boundedness, Source
from connectors_core.source.split import ReadLimits, SplitTraits


@final
class HybridSource(Source[HybridSplit, HybridState], SupportsConnectionCheck):
    """A backlog, then what is live: each source is read to its end, then the next one begins.

    All have the same schema, all but the last are bounded. A source whose start depends on where
    the one before ended is given as a factory, and made when it is needed::

        HybridSource.builder(files).add_source(
            lambda switch: log_from(switch.max_event_time)
        ).build()

    The switch takes place between two plans: the next source's enumerator is in the first plan
    that is made after it, together with all that the factory was told. A restart finds either the
    old source or the new one. The watermark goes on from where it was: rows of the next source
    below it are late. In batch mode all sources are read at once.

    Limits and rate are those of the first source where ``from_source`` sets none. The members must
    stay what and where they are over restarts; others may be added behind them.

    Args:
        chain: The sources; use :meth:`builder`.
    """

    event_types: tuple[type[SourceEvent], ...] = (HybridSourceEvent,)

    def __init__(self, chain: SourceChain) -> None:
        self._chain = chain

    @staticmethod
    def builder(first: AnySource) -> HybridSourceBuilder:
        """Begin with the source that is read first."""
        return HybridSourceBuilder(SourceChain(first, ()))

    def check_connection(self, timeout: float) -> None:
        """Ask the systems of all sources that can be asked; factories have made none yet."""
        members: list[object] = [each.source for each in self._chain.members]
        asked = [each for each in members if isinstance(each, SupportsConnectionCheck)]
        for source in asked:
            source.check_connection(timeout / len(asked))

    def boundedness(self) -> Boundedness:
        """That of the last source."""
        return self._chain.members[-1].boundedness

    def schema(self) -> pa.Schema:
        """The schema of all.

        Raises:
            ConfigurationError: They do not agree; those that factories make are checked when made.
        """
        return self._chain.schema()

    def create_enumerator(
        self, context: SplitEnumeratorContext[HybridSplit]
    ) -> HybridSplitEnumerator:
        """An enumerator at the first source."""
        return HybridSplitEnumerator(context, self._chain)

    def restore_enumerator(
        self, context: SplitEnumeratorContext[HybridSplit], state: HybridState
    ) -> HybridSplitEnumerator:
        """An enumerator at the source that was read then."""
        return HybridSplitEnumerator(context, self._chain, state)

    def create_reader(self, context: SourceReaderContext) -> SourceReader[HybridSplit]:
        """A reader for whichever source the splits belong to."""
        return HybridSourceReader(context, self._chain)

    def split_serializer(self) -> VersionedSerializer[HybridSplit]:
        """The place of the source, and what its own serialiser gives."""
        return HybridSplitSerializer(self._chain)

    def enumerator_state_serializer(self) -> VersionedSerializer[HybridState]:
        """JSON around what the serialiser of the present source gives."""
        return JsonDataclassSerializer(HybridState)

    def split_traits(self) -> SplitTraits:
        """What holds for the splits of all."""
        return weakest([member.traits for member in self._chain.members])

    def rate_limiter_strategy(self) -> RateLimiterStrategy:
        """That of the first source."""
        return self._chain.first.rate_limiter_strategy()

    def default_limits(self) -> ReadLimits:
        """Those of the first source."""
        return self._chain.first.default_limits()


class HybridSourceBuilder:
    """Builds a :class:`HybridSource`; every call gives a new builder.

    Args:
        chain: The sources so far.
    """

    def __init__(self, chain: SourceChain) -> None:
        self._chain = chain

    def add_source(
        self,
        source: AnySource | SourceFactory,
        *,
        boundedness: Boundedness | None = None,
        traits: SplitTraits | None = None,
        starts_at: datetime | None = None,
        allow_gap: bool = False,
    ) -> HybridSourceBuilder:
        """Add the source that is read next.

        Args:
            source: The source, or a function that makes it from a :class:`SourceSwitchContext`:
                on the driver and in tasks, always from the same context.
            boundedness: Whether what a factory makes ends; by default it does not.
            traits: What holds at least for the splits of what a factory makes; by default
                ``SplitTraits()``.
            starts_at: The event time of the source's first rows, where that is known. If it is
                later than the last event time before it, rows between them may be missing, and
                the pipeline fails.
            allow_gap: Go on all the same.

        Raises:
            ConfigurationError: The source before has no end, or an option does not fit.
        """
        if self._chain.members[-1].boundedness is not Boundedness.BOUNDED:
            raise ConfigurationError(
                "another source follows an unbounded source",
                expected="only the last source of a hybrid source is unbounded",
                found=f"source {len(self._chain.members) - 1} of them is unbounded",
                option="boundedness",
            )
        member = member_of(source, boundedness, traits, starts_at, allow_gap)
        return HybridSourceBuilder(self._chain.with_member(member))

    def build(self) -> HybridSource:
        """The source."""
        return HybridSource(self._chain)
