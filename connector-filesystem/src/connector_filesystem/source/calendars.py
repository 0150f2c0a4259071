# SPDX-License-Identifier: Apache-2.0
"""Dates and timestamps of Parquet that do not count days as Arrow does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors_core.schema import MisfitError

__all__ = ["LegacyCalendar", "check_int96"]

# The legacy calendar is Julian before this day.
_FIRST_GREGORIAN_DATE: Final = date(1582, 10, 15)
_FIRST_GREGORIAN_DAY: Final = (_FIRST_GREGORIAN_DATE - date(1970, 1, 1)).days
# 1900-01-01. Before, the time zones of Java's former calendar differ from today's.
_FIRST_SURE_SECOND: Final = -2_208_988_800

_PER_SECOND: Final[Mapping[str, int]] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS_PER_DAY: Final = 86_400
_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
# The Julian day of 1970-01-01, and days from the start of March of the Julian year -4800 to day 0.
_JULIAN_DAY_OF_EPOCH: Final = 2_440_588
_MARCH_BEFORE_DAY_ZERO: Final = 32_082
# The highest second of a timestamp in microseconds.
_MAX_SECOND: Final = (2**63 - 1) // 10**6

_Numbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class LegacyCalendar:
    """Which values of a file follow the calendar of Spark 2, Julian before 1582-10-15.

    Attributes:
        datetimes: Whether dates and timestamps of 64 bits do.
        int96: Whether timestamps of 96 bits do.
        offset: The offset of the writer's time zone in seconds, or None if it is unknown or varies.
    """

    datetimes: bool = False
    int96: bool = False
    offset: int | None = None

    @classmethod
    def of(cls, metadata: Mapping[bytes, bytes] | None) -> LegacyCalendar:
        """Return the calendar that the footer of a file names.

        Args:
            metadata: The key-value metadata of the file.
        """
        found = metadata or {}
        zone = found.get(b"org.apache.spark.timeZone", b"").decode()
        version = re.match(rb"(\d+)\.(\d+)", found.get(b"org.apache.spark.version", b""))
        if version is None:
            return cls()
        release = (int(version[1]), int(version[2]))
        datetimes = release < (3, 0) or b"org.apache.spark.legacyDateTime" in found
        int96 = release < (3, 1) or b"org.apache.spark.legacyINT96" in found
        offset = _fixed_offset(zone) if datetimes or int96 else None
        return cls(datetimes=datetimes, int96=int96, offset=offset)

    def may_shift(self, low: Any) -> bool:
        """Return whether values from this one on, as stored, can mean others."""
        if not self.datetimes or not isinstance(low, date):
            return False
        if isinstance(low, datetime):
            return low.tzinfo is not None and low.timestamp() < _FIRST_SURE_SECOND
        return low < _FIRST_GREGORIAN_DATE

    def dates(self, column: pa.Array) -> pa.Array:
        """Return dates with the same year, month, and day as in the legacy calendar."""
        days = _numbers(column.view(pa.int32()).cast(pa.int64()))
        days = np.where(days < _FIRST_GREGORIAN_DAY, days + _shift(days), days)
        return _like(column, days * (_SECONDS_PER_DAY * 1000)).view(pa.date64())

    def timestamps(self, column: pa.Array) -> pa.Array:
        """Return timestamps with the same local time as in the legacy calendar.

        Raises:
            pa.ArrowInvalid: A value is so old that it depends on rules of an unknown zone.
        """
        per_second = _PER_SECOND[column.type.unit]
        found = _numbers(column.view(pa.int64()))
        if self.offset is None:
            if np.any((found < _FIRST_SURE_SECOND * per_second) & _is_valid(column)):
                raise MisfitError(
                    "a timestamp before 1900-01-01 in the legacy calendar of Spark 2, whose time "
                    "zone is not fixed; write the file again with Spark, with the setting "
                    "spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED"
                )
            return column
        days = (found + self.offset * per_second) // (_SECONDS_PER_DAY * per_second)
        shifted = found + _shift(days) * (_SECONDS_PER_DAY * per_second)
        return _like(column, np.where(days < _FIRST_GREGORIAN_DAY, shifted, found)).view(
            column.type
        )


def check_int96(seconds: pa.Array) -> None:
    """Refuse timestamps of 96 bits that do not fit microseconds.

    Arrow drops the bits that do not fit, without an error. The same values in seconds always fit.

    Args:
        seconds: The values as Arrow reads them in seconds.

    Raises:
        pa.ArrowInvalid: A value does not fit. Before the Julian day 0, none does: Spark and others
            store such days with different signs.
    """
    if np.any(_numbers(seconds.view(pa.int64())) > _MAX_SECOND):
        raise MisfitError("a timestamp of 96 bits is out of the range of microseconds")


def _shift(days: _Numbers) -> _Numbers:
    """Return by how many days the same date of the two calendars differs.

    A year starts in March, so that both calendars count its days alike up to the leap day.
    """
    march = days + (_JULIAN_DAY_OF_EPOCH + _MARCH_BEFORE_DAY_ZERO)
    years = (4 * march + 3) // 1461 - 4800
    return years // 400 - years // 100 + 2


def _fixed_offset(zone: str) -> int | None:
    written = _OFFSET.fullmatch(zone)
    if written:
        sign, *parts = written.groups()
        hours, minutes, seconds = (int(part or 0) for part in parts)
        return (hours * 3600 + minutes * 60 + seconds) * (-1 if sign == "-" else 1)
    if zone == "Z":
        return 0
    try:
        found = ZoneInfo(zone) if zone else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        found = None
    if found is None:
        return None
    moments = (datetime(year, month, 2, tzinfo=UTC) for year in range(2, 2038) for month in (1, 7))
    offsets = {each.astimezone(found).utcoffset() or timedelta(0) for each in moments}
    return int(offsets.pop().total_seconds()) if len(offsets) == 1 else None


def _numbers(column: pa.Array) -> _Numbers:
    found: Any = column.fill_null(0).to_numpy(zero_copy_only=False)
    return found  # type: ignore[no-any-return]


def _is_valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    found: Any = column.is_valid().to_numpy(zero_copy_only=False)
    return found  # type: ignore[no-any-return]


def _like(column: pa.Array, values: _Numbers) -> pa.Array:
    """Return values with the nulls of a column."""
    return pa.array(values, pa.int64(), mask=~_is_valid(column) if column.null_count else None)
