# SPDX-License-Identifier: Apache-2.0
"""Formats numbers and times for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime(2069, 1, 1, tzinfo=UTC)  # later values represent the end of time
NOTHING = "-"


def count(number: float | None) -> str:
    return NOTHING if number is None else f"{number:,.0f}"


def size(number: float | None) -> str:
    if number is None:
        return NOTHING
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(number) < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def moment(micros: int | None) -> str:
    """Format a watermark or an event time."""
    if micros is None:
        return NOTHING
    try:
        time = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return "end" if micros > 0 else "start"
    if time >= _LAST:
        return "end"
    text = time.replace(tzinfo=None).isoformat(" ", "milliseconds")
    return text.removesuffix(".000") + "Z"


def span(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    if seconds < 0:
        return "-" + span(-seconds)
    for limit, factor, unit in (
        (1, 1e-3, "ms"),
        (100, 1, "s"),
        (6000, 60, "min"),
        (360_000, 3600, "h"),
    ):
        if seconds < limit:
            number = seconds / factor
            return f"{number:.1f} {unit}" if unit != "ms" else f"{number:.0f} ms"
    return f"{seconds / 86_400:,.0f} d"
