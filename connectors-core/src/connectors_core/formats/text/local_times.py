# SPDX-License-Identifier: Apache-2.0
"""Converts local times to moments, also those that a change of the clocks repeats or leaves out."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.errors import InvalidOptionError
from connectors_core.schema.misfits import MisfitError

__all__ = ["AmbiguousTimes", "TimesText", "check_zone", "moments_of"]


class AmbiguousTimes(StrEnum):
    """What a local time means that occurs twice or never, because the clocks change."""

    EARLIER = "earlier"
    """The clocks have not changed yet, as in Spark and Flink."""
    LATER = "later"
    """The clocks have changed already."""
    BAD = "bad"
    """A bad record."""


TimesText: TypeAlias = Literal["earlier", "later", "bad"]
"""The values of `AmbiguousTimes`."""


def check_zone(zone: str, option: str) -> None:
    """Refuse the name of a time zone that does not exist.

    Args:
        zone: The name.
        option: The option with the name.

    Raises:
        InvalidOptionError: There is no such time zone.
    """
    try:
        pc.assume_timezone(pa.array([0], pa.timestamp("s")), zone)
    except pa.ArrowInvalid as error:
        raise InvalidOptionError(
            "the time zone is unknown",
            expected="a name such as 'UTC' or 'Europe/Berlin'",
            found=zone,
            option=option,
        ) from error


def moments_of(times: pa.Array, zone: str, ambiguous: AmbiguousTimes) -> pa.Array:
    """Return local times, a column of timestamps without a zone, as moments.

    Args:
        times: The local times.
        zone: Their time zone.
        ambiguous: The meaning of times that occur twice or never.

    Raises:
        MisfitError: There are such times, and they are bad.
    """
    if ambiguous is AmbiguousTimes.BAD:
        try:
            return pc.assume_timezone(times, zone)
        except pa.ArrowInvalid as error:  # its text contains the time
            raise MisfitError("a time occurs twice or never, as the clocks change") from error
    side = "earliest" if ambiguous is AmbiguousTimes.EARLIER else "latest"
    nearest = pc.assume_timezone(times, zone, ambiguous=side, nonexistent=side)
    # For a time that never occurs, this is the last moment before the change, or the first after
    # it. The clocks of that moment also give the time its meaning.
    offset = pc.subtract(pc.local_timestamp(nearest).view(pa.int64()), nearest.view(pa.int64()))
    return pc.subtract(times.view(pa.int64()), offset).view(nearest.type)
