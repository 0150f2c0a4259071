# SPDX-License-Identifier: Apache-2.0
"""Columns and the lowest event time from the path of a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from typing import Final
from urllib.parse import unquote
from zoneinfo import ZoneInfo

import pyarrow as pa

from connector_filesystem.time_zones import check_time_zone
from connectors_core.errors import FatalError, InvalidOptionError

__all__ = ["NULL_PARTITIONS", "PathColumns", "PathTime", "event_time_of"]

#: The names of folders for null in a partition column.
NULL_PARTITIONS: Final = frozenset({"__HIVE_DEFAULT_PARTITION__", "__DEFAULT_PARTITION__"})

_HINT: Final = (
    "exclude such files with source.path.regex-pattern, or move them to a path that has the value"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = timedelta(days=1)
_MICROSECOND: Final = timedelta(microseconds=1)
_CYCLE_YEARS: Final = 400
_CYCLE: Final = 146_097 * _DAY
_LAST_CYCLE: Final = 9600
_MOMENT: Final = re.compile(
    r"([+-]?\d{4,6})-(\d\d)-(\d\d)"
    r"(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(?P<fraction>\d{1,6}))?)?)?"
)
_ZONE_HINT: Final = (
    "set partition.time-zone to the zone of the writer, for Spark its spark.sql.session.timeZone; "
)


@dataclass(frozen=True, kw_only=True)
class PathColumns:
    """Columns from the path: folders `key=value`, or named groups of a pattern.

    Attributes:
        fields: The columns.
        regex: Pattern for the path relative to the source's path. A named group is a column.
        time_zone: The zone of times without one in TIMESTAMP columns; None to refuse them.
        roots: The folders that paths are relative to.
    """

    fields: tuple[pa.Field, ...] = ()
    regex: str | None = None
    time_zone: str | None = None
    roots: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(field.name for field in self.fields)

    def values_of(self, path: str) -> tuple[pa.Scalar, ...]:
        """Return the values for a file.

        Raises:
            FatalError: The path lacks a value, or the value does not fit the type.
        """
        if not self.fields:
            return ()
        relative = relative_to(self.roots, path)
        texts: dict[str, str | None] = {}
        for part in relative.split("/")[:-1]:
            key, equals, value = part.partition("=")
            if equals:
                texts[unquote(key)] = None if value in NULL_PARTITIONS else unquote(value)
        match = re.fullmatch(self.regex, relative) if self.regex else None
        if match:
            texts.update(match.groupdict())
        return tuple(self._value(field, texts, path) for field in self.fields)

    def _value(self, field: pa.Field, texts: dict[str, str | None], path: str) -> pa.Scalar:
        if field.name not in texts:
            raise FatalError(
                f"the path {path} does not contain the partition column {field.name!r}",
                expected=f"a folder {field.name}=..., or a group of path-regex of that name",
                found=sorted(texts) or "no columns",
                option="partition.columns",
                hint=_HINT,
                code="PARTITION",
            )
        text = texts[field.name]
        if text is None:
            return pa.scalar(None, field.type)
        try:
            return _scalar(text, field.type, self.time_zone)
        except (ValueError, OverflowError) as exc:
            is_instant = pa.types.is_timestamp(field.type) and field.type.tz is not None
            raise FatalError(
                f"the path {path} has no value for the partition column {field.name!r}",
                expected=f"{field.type}, with a zone" if is_instant else field.type,
                found=text,
                option="partition.columns",
                hint=(_ZONE_HINT if is_instant else "") + _HINT,
                code="PARTITION",
            ) from exc


def _scalar(text: str, kind: pa.DataType, time_zone: str | None) -> pa.Scalar:
    """Return the value of a text in a type.

    Spark writes dates of any year, and times without a zone. Arrow reads only four digits of years.

    Raises:
        ValueError: It is not a value of the type, or an instant without a zone.
        OverflowError: The type cannot hold it.
    """
    is_timestamp = pa.types.is_timestamp(kind)
    zone = time_zone if is_timestamp and kind.tz is not None else "UTC"
    moment = _MOMENT.fullmatch(text)
    if moment is None or zone is None or not (is_timestamp or pa.types.is_date32(kind)):
        return pa.scalar(text, pa.string()).cast(kind)
    year, month, day, hour, minute, second = (int(part or 0) for part in moment.groups()[:-1])
    cycles = 0
    if not MINYEAR <= year <= MAXYEAR:  # calendars and zones are then those of other 400 years
        cycles = (year - (_LAST_CYCLE if year > MAXYEAR else MINYEAR)) // _CYCLE_YEARS
    fraction = int((moment["fraction"] or "").ljust(6, "0"))
    local = datetime(
        year - cycles * _CYCLE_YEARS, month, day, hour, minute, second, fraction, ZoneInfo(zone)
    )
    micros = (local - _EPOCH) // _MICROSECOND + cycles * (_CYCLE // _MICROSECOND)
    if not is_timestamp:
        return pa.scalar(micros // (_DAY // _MICROSECOND), pa.int32()).cast(kind)
    return pa.scalar(micros, pa.int64()).cast(pa.timestamp("us", kind.tz)).cast(kind)


@dataclass(frozen=True, kw_only=True)
class PathTime:
    """Takes the lowest event time in a file from its path, for `event_time_lower_bound`.

    Args:
        regex: A pattern to search for in the path. Its groups, joined by `-`, are the time. Without
            groups, the whole match is.
        format: The `strptime` pattern of the time.
        time_zone: The zone of the time, unless the pattern contains a zone.

    Raises:
        InvalidOptionError: The pattern cannot be compiled, or the time zone is unknown.
    """

    regex: str
    format: str
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        try:
            re.compile(self.regex)
        except re.error as exc:
            raise InvalidOptionError(
                "the pattern of the event time is not a regular expression",
                found=self.regex,
                option="event-time.path-regex",
            ) from exc
        check_time_zone(self.time_zone, "event-time.time-zone")

    def __call__(self, path: str) -> datetime | None:
        """Return the time, or None if the path does not contain one."""
        match = re.search(self.regex, path)
        if match is None:
            return None
        text = "-".join(group or "" for group in match.groups()) if match.groups() else match[0]
        try:
            moment = datetime.strptime(text, self.format)
        except ValueError as exc:
            raise InvalidOptionError(
                f"the path {path} contains no event time",
                expected=self.format,
                found=text,
                option="event-time.format",
            ) from exc
        return moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(self.time_zone))


def event_time_of(bound: Callable[[str], datetime | None] | None, path: str) -> int | None:
    """Return the lowest event time in a file in microseconds, or None if it is not known."""
    moment = bound(path) if bound is not None else None
    if moment is None:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def relative_to(roots: Sequence[str], path: str) -> str:
    """Return a path relative to its longest root. For a root itself, return its name."""
    best = ""
    for root in roots:
        plain = root.rstrip("/")
        if path == plain:
            return path.rpartition("/")[2]
        if path.startswith(plain + "/") and len(plain) >= len(best):
            best = plain
    return path[len(best) :].lstrip("/")
