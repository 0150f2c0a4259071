# SPDX-License-Identifier: Apache-2.0
"""The offsets outside of which the conditions of a query exclude all records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from connectors_core.source import And, Comparison, IsIn, Or, Predicate

__all__ = ["Bounds", "bounds_of"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Where the records of a query can be. None stands for no bound.

    Timestamps have no upper bound, because a later record can have an earlier timestamp.

    Attributes:
        first: The lowest offset.
        last: The highest offset.
        since: The lowest timestamp, in milliseconds since the epoch.
    """

    first: int | None = None
    last: int | None = None
    since: int | None = None


def bounds_of(
    conditions: Sequence[Predicate], *, offset: str | None, timestamp: str | None
) -> Bounds:
    """Return the bounds of records that satisfy all conditions.

    Args:
        conditions: The conditions.
        offset: The name of the column with offsets, or None without one.
        timestamp: The name of the column with timestamps, or None without one.
    """

    def of(condition: Predicate) -> Bounds:
        match condition:
            case And(inner):
                return _combined(map(of, inner), max, min)
            case Or(inner):
                return _united(map(of, inner))
            case Comparison((name,), operator, value) if name == offset:
                return _of_offset(operator, value)
            case Comparison((name,), "=" | ">" | ">=", value) if name == timestamp:
                return Bounds(since=_milliseconds(value))
            case IsIn((name,), values) if name == offset:
                return Bounds(first=min(values), last=max(values))
            case IsIn((name,), values) if name == timestamp:
                return Bounds(since=_milliseconds(min(values)))
        return Bounds()

    return _combined(map(of, conditions), max, min)


def _of_offset(operator: str, value: int) -> Bounds:
    match operator:
        case "=":
            return Bounds(first=value, last=value)
        case ">":
            return Bounds(first=value + 1)
        case ">=":
            return Bounds(first=value)
        case "<":
            return Bounds(last=value - 1)
        case "<=":
            return Bounds(last=value)
    return Bounds()


def _milliseconds(moment: datetime) -> int | None:
    found = (moment - _EPOCH) // timedelta(milliseconds=1)
    return found if found > 0 else None  # brokers give negative times another meaning


def _combined(
    bounds: Iterable[Bounds], higher: Callable[..., Any], lower: Callable[..., Any]
) -> Bounds:
    found = list(bounds)
    return Bounds(
        first=_of_known(higher, [each.first for each in found]),
        last=_of_known(lower, [each.last for each in found]),
        since=_of_known(higher, [each.since for each in found]),
    )


def _of_known(choose: Callable[..., Any], values: Iterable[int | None]) -> int | None:
    known = [each for each in values if each is not None]
    return choose(known) if known else None


def _united(bounds: Iterable[Bounds]) -> Bounds:
    """Return bounds that contain all others."""
    found = list(bounds)
    outer = _combined(found, min, max)
    return Bounds(
        first=None if any(each.first is None for each in found) else outer.first,
        last=None if any(each.last is None for each in found) else outer.last,
        since=None if any(each.since is None for each in found) else outer.since,
    )
