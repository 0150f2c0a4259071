# SPDX-License-Identifier: Apache-2.0
"""The sources of a hybrid source, some of which are made only when their turn comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from connectors_core.errors import ConfigurationError, DataLossError, StateCorruptedError
from connectors_core.source.hybrid.switches import SourceSwitchContext, Switch
from connectors_core.source.source import AnySource, Boundedness, Source
from connectors_core.source.split import SplitTraits

SourceFactory = Callable[[SourceSwitchContext], AnySource]


@dataclass(frozen=True, kw_only=True)
class Member:
    """One source of a chain.

    Attributes:
        source: The source, or what makes it.
        boundedness: Whether it ends.
        traits: What holds for its splits.
        starts_at: The event time from which it delivers, where that is known.
        allow_gap: Rows between the source before and ``starts_at`` may be missing.
    """

    source: AnySource | SourceFactory
    boundedness: Boundedness
    traits: SplitTraits
    starts_at: datetime | None = None
    allow_gap: bool = False

    def made(self, context: SourceSwitchContext) -> AnySource:
        """The source, which is as it was announced.

        Raises:
            ConfigurationError: It is not.
        """
        source = self.source if isinstance(self.source, Source) else self.source(context)
        traits = source.split_traits()
        if weakest([traits, self.traits]) != self.traits:
            raise ConfigurationError(
                f"{type(source).__name__} guarantees less than the declared split traits",
                expected=self.traits,
                found=traits,
                option="traits",
                hint="pass its split traits to add_source()",
            )
        if source.boundedness() is not self.boundedness:
            raise ConfigurationError(
                f"{type(source).__name__} does not have the declared boundedness",
                expected=self.boundedness.value,
                found=source.boundedness().value,
                option="boundedness",
            )
        return source


class SourceChain:
    """Makes the sources in their order, each from the switches up to it. Picklable.

    Args:
        first: The source that is read first.
        later: Those after it.
    """

    def __init__(self, first: AnySource, later: Sequence[Member]) -> None:
        self.first = first
        self.members = (_known(first), *later)
        self._made: dict[int, tuple[tuple[Switch, ...], AnySource]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without the sources that were made: every process makes its own."""
        return self.__dict__ | {"_made": {}}

    def source(self, index: int, switches: Sequence[Switch]) -> AnySource:
        """The source of this place.

        Args:
            index: Its place, from 0.
            switches: The switches that led to it, one less than sources that were begun.

        Raises:
            StateCorruptedError: There is none in this place.
        """
        if index == 0:
            return self.first
        if not 0 < index < len(self.members) or index > len(switches):
            raise StateCorruptedError(
                "the state belongs to a hybrid source with other members",
                expected=f"a position in one of {len(self.members)} sources",
                found=f"a position in source {index} after {len(switches)} switches",
                hint="use the original members, and append new ones",
            )
        led = tuple(switches[:index])
        known = self._made.get(index)
        if known is not None and known[0] == led:
            return known[1]
        source = self.members[index].made(self._context(index, led))
        self._made[index] = led, source
        return source

    def _context(self, index: int, switches: Sequence[Switch]) -> SourceSwitchContext:
        previous = self.source(index - 1, switches)
        return SourceSwitchContext(previous_source=previous, switch=switches[index - 1])

    def begin(self, index: int, switches: Sequence[Switch]) -> AnySource:
        """The source of this place, checked to continue those before it. Driver.

        Raises:
            ConfigurationError: Its schema is another one.
            DataLossError: It begins later than the source before it ended.
        """
        source = self.source(index, switches)
        assert_same_schema(self.first.schema(), source)
        member = self.members[index]
        if member.starts_at is not None and not member.allow_gap:
            end = self._context(index, switches).max_event_time
            if member.starts_at > end:
                raise DataLossError(
                    f"{type(source).__name__} starts later than the previous source ended",
                    expected=f"a start at or before {end.isoformat()}",
                    found=member.starts_at.isoformat(),
                    option="allow_gap",
                    hint="start it earlier (duplicate rows are late, or you drop them), or pass "
                    "allow_gap=True",
                )
        return source

    def with_member(self, member: Member) -> SourceChain:
        """This chain and one more source."""
        return SourceChain(self.first, (*self.members[1:], member))

    def schema(self) -> pa.Schema:
        """The schema of all sources.

        Raises:
            ConfigurationError: They do not agree, as far as they are there.
        """
        schema = self.first.schema()
        for member in self.members[1:]:
            if isinstance(member.source, Source):
                assert_same_schema(schema, member.source)
        return schema


def _known(source: AnySource) -> Member:
    return Member(source=source, boundedness=source.boundedness(), traits=source.split_traits())


def member_of(
    source: AnySource | SourceFactory,
    boundedness: Boundedness | None,
    traits: SplitTraits | None,
    starts_at: datetime | None,
    allow_gap: bool,
) -> Member:
    """A member, of a source or of what makes one.

    Raises:
        ConfigurationError: What a source says itself was said for it, or a time has no time zone.
    """
    if starts_at is not None and starts_at.tzinfo is None:
        raise ConfigurationError(
            "the start of a source has no time zone",
            expected="an aware datetime",
            found=starts_at.isoformat(),
            option="starts_at",
        )
    if not isinstance(source, Source):
        return Member(
            source=source,
            boundedness=boundedness or Boundedness.CONTINUOUS_UNBOUNDED,
            traits=traits or SplitTraits(),
            starts_at=starts_at,
            allow_gap=allow_gap,
        )
    if boundedness is not None or traits is not None:
        raise ConfigurationError(
            "boundedness and traits come from the source that was added",
            expected="boundedness= and traits= only with a factory",
            found=type(source).__name__,
            option="boundedness" if boundedness is not None else "traits",
        )
    return replace(_known(source), starts_at=starts_at, allow_gap=allow_gap)


def weakest(traits: Sequence[SplitTraits]) -> SplitTraits:
    """What holds for the splits of all."""
    return SplitTraits(
        end=all(each.end for each in traits),
        ordered=all(each.ordered for each in traits),
        replayable=all(each.replayable for each in traits),
    )


def assert_same_schema(schema: pa.Schema, source: AnySource) -> None:
    """Refuse a source of other columns."""
    found = source.schema()
    if not schema.equals(found):
        raise ConfigurationError(
            f"{type(source).__name__} has a different schema than the first member of the hybrid "
            "source",
            expected=_columns(schema, found),
            found=_columns(found, schema),
            hint="give all members the same columns, in the same order, types and nullability",
        )


def _columns(schema: pa.Schema, other: pa.Schema) -> list[str]:
    """The columns in which one schema differs from another; all where only the order does."""
    columns = [str(column) for column in schema]
    return [text for text in columns if text not in map(str, other)] or columns
