# SPDX-License-Identifier: Apache-2.0
"""The source: a factory of enumerators, readers and serialisers (Flink's FLIP-27)."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import Any, Generic

import pyarrow as pa

from connectors_core.serialization import VersionedSerializer
from connectors_core.source.enumerator import (
    EnumStateT,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from connectors_core.source.events import SourceEvent
from connectors_core.source.rate_limiter import RateLimiterStrategy
from connectors_core.source.reader import SourceReader, SourceReaderContext
from connectors_core.source.split import ReadLimits, SplitT, SplitTraits


class Boundedness(enum.Enum):
    """Whether a source ends."""

    BOUNDED = "bounded"
    CONTINUOUS_UNBOUNDED = "continuous unbounded"


class Source(ABC, Generic[SplitT, EnumStateT]):
    """What a connector gives to ``Pipeline.from_source``: one implementation, batch and streaming.

    Immutable and picklable: it is shipped to executors. No I/O in the constructor.
    """

    #: Classes of events that travel between enumerator and readers.
    event_types: tuple[type[SourceEvent], ...] = ()

    @abstractmethod
    def boundedness(self) -> Boundedness:
        """Whether the source ends."""

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Schema of the batches that readers emit. May look at the external system (driver)."""

    @abstractmethod
    def create_enumerator(
        self, context: SplitEnumeratorContext[SplitT]
    ) -> SplitEnumerator[SplitT, EnumStateT]:
        """A new enumerator, for a first start. Driver."""

    @abstractmethod
    def restore_enumerator(
        self, context: SplitEnumeratorContext[SplitT], state: EnumStateT
    ) -> SplitEnumerator[SplitT, EnumStateT]:
        """An enumerator that goes on from a snapshot. Driver."""

    @abstractmethod
    def create_reader(self, context: SourceReaderContext) -> SourceReader[SplitT]:
        """A reader for one plan entry. Executor."""

    @abstractmethod
    def split_serializer(self) -> VersionedSerializer[SplitT]:
        """How splits are stored in plans and reports."""

    @abstractmethod
    def enumerator_state_serializer(self) -> VersionedSerializer[EnumStateT]:
        """How the enumerator's snapshot is stored."""

    def split_traits(self) -> SplitTraits:
        """What holds for all splits; the default suits splits that end and can be read again."""
        return SplitTraits()

    def rate_limiter_strategy(self) -> RateLimiterStrategy:
        """Rate over the whole source where the user sets none."""
        return RateLimiterStrategy.none()

    def default_limits(self) -> ReadLimits:
        """Limits per plan where the user sets none."""
        return ReadLimits()


class SupportsRewinding(ABC, Generic[SplitT, EnumStateT]):
    """Ability of a source: begins where a person says, in the terms of its system.

    ``connectors state rewind --to-start --at UID=POSITION`` takes a pipeline back to it.
    """

    def check_position(self, position: str) -> None:
        """Refuse a position that is not understood. Driver, without I/O.

        The start of a pipeline that was taken back asks for it before anything is read. By default
        ``create_enumerator_at`` refuses, which comes later.

        Args:
            position: As the person wrote it.

        Raises:
            ConfigurationError: It is not understood; says what is.
        """

    @abstractmethod
    def create_enumerator_at(
        self, context: SplitEnumeratorContext[SplitT], position: str
    ) -> SplitEnumerator[SplitT, EnumStateT]:
        """A new enumerator that begins at a position. Driver.

        Called in the place of ``create_enumerator`` by the next start, and again by the one after
        if that ended before its first plan.

        Args:
            context: What the enumerator works with.
            position: As the person wrote it, such as `timestamp:2026-01-31T00:00:00Z`.

        Raises:
            ConfigurationError: It is not understood; says what is.
        """


AnySource = Source[Any, Any]
