# SPDX-License-Identifier: Apache-2.0
"""The sources of a hybrid source, some of which are created only at their switch."""

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
        source: The source, or its factory.
        boundedness: Whether it ends.
        traits: Guarantees of its splits.
        starts_at: The event time at which it starts, if known.
        allow_gap: Whether rows between the previous source and ``starts_at`` may be missing.
    """

    source: AnySource | SourceFactory
    boundedness: Boundedness
    traits: SplitTraits
    starts_at: datetime | None = None
    allow_gap: bool = False

    def made(self, context: SourceSwitchContext) -> AnySource:
        """Check a created source against its declaration and return it.

        Raises:
            ConfigurationError: It differs from its declaration.
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
    """Creates the sources in order, each from the switches before it. Picklable.

    Args:
        first: The source that is read first.
        later: The sources that follow.
    """

    def __init__(self, first: AnySource, later: Sequence[Member]) -> None:
        self.first = first
        self.members = (_known(first), *later)
        self._made: dict[int, tuple[tuple[Switch, ...], AnySource]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the created sources: every process creates its own."""
        return self.__dict__ | {"_made": {}}

    def source(self, index: int, switches: Sequence[Switch]) -> AnySource:
        """Return the source with this index.

        Args:
            index: Its index, from 0.
            switches: The switches before it, one fewer than started sources.

        Raises:
            StateCorruptedError: No source has this index.
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
        """Return a source after checking that it continues the previous one. Driver.

        Raises:
            ConfigurationError: Its schema differs.
            DataLossError: It starts later than the previous source ended.
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
        """Return this chain with one more source."""
        return SourceChain(self.first, (*self.members[1:], member))

    def schema(self) -> pa.Schema:
        """The schema of all sources.

        Raises:
            ConfigurationError: The schemas of the existing sources differ.
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
    boundedness: Boundedness | str | None,
    traits: SplitTraits | None,
    starts_at: datetime | None,
    allow_gap: bool,
) -> Member:
    """Create a member from a source or a factory.

    Raises:
        ConfigurationError: An argument repeats what the source declares, or a time has no time
            zone.
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
            boundedness=_boundedness(boundedness),
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


def _boundedness(declared: Boundedness | str | None) -> Boundedness:
    if declared is None:
        return Boundedness.CONTINUOUS_UNBOUNDED
    try:
        return Boundedness(declared)
    except ValueError:
        raise ConfigurationError(
            "the boundedness is unknown",
            expected=" or ".join(repr(each.value) for each in Boundedness),
            found=repr(declared),
            option="boundedness",
        ) from None


def weakest(traits: Sequence[SplitTraits]) -> SplitTraits:
    """Guarantees of the splits of all sources."""
    return SplitTraits(
        end=all(each.end for each in traits),
        ordered=all(each.ordered for each in traits),
        replayable=all(each.replayable for each in traits),
        skips_unreadable=any(each.skips_unreadable for each in traits),
    )


def assert_same_schema(schema: pa.Schema, source: AnySource) -> None:
    """Reject a source with other columns."""
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
    """Return the columns that differ between two schemas; all if only the order differs."""
    columns = [str(column) for column in schema]
    return [text for text in columns if text not in map(str, other)] or columns
