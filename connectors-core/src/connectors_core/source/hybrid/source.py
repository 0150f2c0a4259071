# SPDX-License-Identifier: Apache-2.0
"""Several sources, read one after another as one source (Flink's FLIP-150)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Literal, final

import pyarrow as pa

from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.errors import ConfigurationError
from connectors_core.lineage import LineageDataset, LineageVertexProvider
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
class HybridSource(
    Source[HybridSplit, HybridState], SupportsConnectionCheck, LineageVertexProvider
):
    """A backlog, then live data: each source is read to its end, then the next one starts.

    All have the same schema, and all but the last are bounded. If the start of a source depends on
    where the previous one ended, add it as a factory, which is called when it is needed::

        HybridSource.builder(files).add_source(
            lambda switch: log_from(switch.max_event_time)
        ).build()

    The switch takes place between two plans: the first plan after it contains the state of the next
    source's enumerator and the input of the factory. After a restart, the pipeline continues either
    with the old source or with the new one. The watermark continues: rows of the next source below
    it are late. A batch run reads all sources at once.

    If ``from_source`` sets no limits or rate, those of the first source apply. Keep the members and
    their order across restarts; you may append more.

    Args:
        chain: The sources; use :meth:`builder`.
    """

    event_types: tuple[type[SourceEvent], ...] = (HybridSourceEvent,)

    def __init__(self, chain: SourceChain) -> None:
        self._chain = chain

    @staticmethod
    def builder(first: AnySource) -> HybridSourceBuilder:
        """Return a builder that starts with the source that is read first."""
        return HybridSourceBuilder(SourceChain(first, ()))

    def check_connection(self, timeout: float) -> None:
        """Check the connections of all existing sources; factories have not created theirs yet."""
        members: list[object] = [each.source for each in self._chain.members]
        asked = [each for each in members if isinstance(each, SupportsConnectionCheck)]
        for source in asked:
            source.check_connection(timeout / len(asked))

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """Those of all existing sources, and of factories that are a `LineageVertexProvider`."""
        members: list[object] = [each.source for each in self._chain.members]
        found = [m.lineage_datasets() for m in members if isinstance(m, LineageVertexProvider)]
        return tuple(dict.fromkeys(each for datasets in found for each in datasets))

    def boundedness(self) -> Boundedness:
        """The boundedness of the last source."""
        return self._chain.members[-1].boundedness

    def schema(self) -> pa.Schema:
        """Return the schema of all sources.

        Raises:
            ConfigurationError: The schemas differ. Sources of factories are checked when
                created.
        """
        return self._chain.schema()

    def create_enumerator(
        self, context: SplitEnumeratorContext[HybridSplit]
    ) -> HybridSplitEnumerator:
        """Create an enumerator at the first source."""
        return HybridSplitEnumerator(context, self._chain)

    def restore_enumerator(
        self, context: SplitEnumeratorContext[HybridSplit], state: HybridState
    ) -> HybridSplitEnumerator:
        """Create an enumerator at the source that was active then."""
        return HybridSplitEnumerator(context, self._chain, state)

    def create_reader(self, context: SourceReaderContext) -> SourceReader[HybridSplit]:
        """Create a reader for the sources of the assigned splits."""
        return HybridSourceReader(context, self._chain)

    def split_serializer(self) -> VersionedSerializer[HybridSplit]:
        """Return a serializer with the index of the source and the output of its own serializer."""
        return HybridSplitSerializer(self._chain)

    def enumerator_state_serializer(self) -> VersionedSerializer[HybridState]:
        """Return a serializer of JSON around the output of the active source's serializer."""
        return JsonDataclassSerializer(HybridState)

    def split_traits(self) -> SplitTraits:
        """Guarantees of the splits of all sources."""
        return weakest([member.traits for member in self._chain.members])

    def input_version(self, splits: Sequence[HybridSplit]) -> str | None:
        """Those of all sources; None if one of them has none."""
        by_member: dict[int, list[HybridSplit]] = {}
        for each in splits:
            by_member.setdefault(each.member, []).append(each)
        versions = {
            member: self._chain.source(member, own[0].switches).input_version(
                [each.split for each in own]
            )
            for member, own in sorted(by_member.items())
        }
        return None if None in versions.values() else json.dumps(versions)

    def rate_limiter_strategy(self) -> RateLimiterStrategy:
        """The rate of the first source."""
        return self._chain.first.rate_limiter_strategy()

    def default_limits(self) -> ReadLimits:
        """The limits of the first source."""
        return self._chain.first.default_limits()


class HybridSourceBuilder:
    """Builds a :class:`HybridSource`; every call returns a new builder.

    Args:
        chain: The sources so far.
    """

    def __init__(self, chain: SourceChain) -> None:
        self._chain = chain

    def add_source(
        self,
        source: AnySource | SourceFactory,
        *,
        boundedness: Boundedness | Literal["bounded", "continuous unbounded"] | None = None,
        traits: SplitTraits | None = None,
        starts_at: datetime | None = None,
        allow_gap: bool = False,
    ) -> HybridSourceBuilder:
        """Add the source that is read next.

        Args:
            source: The source, or a function that creates it from a
                :class:`SourceSwitchContext`: on the driver and in tasks, always from the same
                context.
            boundedness: Whether the source of a factory ends; by default it does not.
            traits: Minimum guarantees of the splits of a factory's source; by default
                ``SplitTraits()``.
            starts_at: The event time of the source's first rows, if known. If it is later
                than the last event time before it, rows between them may be missing, and the
                pipeline fails.
            allow_gap: Continue anyway.

        Raises:
            ConfigurationError: The previous source has no end, or an option does not fit.
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
        """Return the source."""
        return HybridSource(self._chain)
