# SPDX-License-Identifier: Apache-2.0
"""Event times of rows, as microseconds since the epoch, UTC.

Spark's watermark is a number of whole milliseconds, and Spark compares it in two ways (measured on
3.5.9 and 4.3.0). A window closes, and its rows are late, if its *end* is at or below the watermark.
For windows, a watermark ``v`` therefore means that no row *below* ``v`` is expected. Every other
operator on event times (a stream-stream join, a deduplication, a group by the event time itself)
also drops a row *at* ``v``. Spark's own ``highest event time - delay`` fits windows, but loses
on-time rows in the other operators. If only windows use Spark's watermark, this module sets it to
``w + 1`` microsecond, rounded down. Windows then close at the same row as in Flink and in Spark.
Otherwise it is ``w``, rounded down, and Spark drops no row that is on time.

One row per plan with the event time ``w + EVENT_TIME_DELAY`` drives Spark's watermark. The
watermark starts at 0, and a row with event time 0 is late immediately (measured on 3.5.9 and
4.3.0). A row of ``EVENT_TIME_DELAY`` or more would move the watermark by itself. Valid event times
are therefore between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.errors import ConfigurationError, InvalidOptionError

EVENT_TIME_DELAY: Final = timedelta(days=36_500)
"""Delay of Spark's watermark behind the event time of a heartbeat row."""

MIN_EVENT_TIME: Final = 1
"""First valid event time: one microsecond into 1970, because Spark's watermark starts at 0."""

END_OF_TIME: Final = EVENT_TIME_DELAY // timedelta(microseconds=1)
"""2069-12-07: the watermark of a finished source, and the first event time that is not valid."""

MIN_WATERMARK: Final = -(2**63)
"""Below every watermark. As the maximum, it admits no row with an event time."""

MAX_WATERMARK: Final = 2**63 - 1
"""Above every watermark. As the maximum, it is no limit."""

EVENT_TIME_TYPE: Final = pa.timestamp("us", tz="UTC")
"""Type of the event-time column of every batch that leaves a source."""

EpochUnit: TypeAlias = Literal["s", "ms", "us", "ns"]

EventTimes: TypeAlias = npt.NDArray[np.int64]

# Marks a row without a valid event time. Below every watermark, so it never moves one.
NO_EVENT_TIME: Final = MIN_WATERMARK

# (factor, divisor) from a unit to microseconds.
_UNITS: Final[Mapping[str, tuple[int, int]]] = {
    "s": (1_000_000, 1),
    "ms": (1_000, 1),
    "us": (1, 1),
    "ns": (1, 1_000),
}

_DAY: Final = 86_400_000_000


def micros(duration: timedelta) -> int:
    """Return a duration in microseconds."""
    return duration // timedelta(microseconds=1)


def heartbeat_event_time(watermark: int, *, only_windows: bool = False) -> int:
    """Return the event time of the row that moves Spark's watermark to this one.

    It is rounded down to the millisecond, as Spark does.

    Args:
        watermark: No row with this or an earlier event time is expected.
        only_windows: Whether only windows compare event times with Spark's watermark. They use
            their end, so for them it is the lowest event time that is still expected.
    """
    return (watermark + only_windows) // 1_000 * 1_000 + END_OF_TIME


@dataclass(frozen=True)
class TimestampAssigner:
    """The origin of event times; see ``WatermarkStrategy.with_timestamp_assigner``.

    Attributes:
        column: Name of a column, or a function of the batch.
        column_name: Name of the event-time column.
        epoch_unit: Unit of integers since the epoch; None if integers are not accepted.
    """

    column: str | Callable[[pa.RecordBatch], pa.Array]
    column_name: str
    epoch_unit: EpochUnit | None = None


def event_times_of(values: Any) -> EventTimes:
    """Return the microseconds of an event-time column; marks rows without a valid event time."""
    if not isinstance(values, np.ndarray):
        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], "int64")
        values = values.view(pa.int64())
        if values.null_count:
            values = values.fill_null(NO_EVENT_TIME)
        values = values.to_numpy(zero_copy_only=False)
    times: EventTimes = values.astype(np.int64, copy=False)
    valid = (times >= MIN_EVENT_TIME) & (times < END_OF_TIME)
    return times if valid.all() else np.where(valid, times, NO_EVENT_TIME)


def to_event_times(values: pa.Array, assigner: TimestampAssigner) -> pa.Array:
    """Convert a column to event times; values that do not fit end up outside the valid range."""
    if values.type == EVENT_TIME_TYPE:
        return values
    factor, divisor = epoch_scale(values.type, assigner)
    if pa.types.is_integer(values.type):
        numbers = values.cast(pa.int64(), safe=False)  # above 2**63: negative, so invalid
    elif pa.types.is_date32(values.type):
        numbers = values.view(pa.int32()).cast(pa.int64())
    else:
        numbers = values.view(pa.int64())
    if factor > 1:
        # One absurd value must not fail its batch: a value that would overflow stays out of range.
        most = MAX_WATERMARK // factor
        numbers = pc.max_element_wise(numbers, pa.scalar(-most), skip_nulls=False)
        numbers = pc.min_element_wise(numbers, pa.scalar(most), skip_nulls=False)
        numbers = pc.multiply(numbers, factor)
    if divisor > 1:
        numbers = pc.divide(numbers, divisor)
    return numbers.view(EVENT_TIME_TYPE)


def epoch_scale(data_type: pa.DataType, assigner: TimestampAssigner) -> tuple[int, int]:
    """Return the factor and divisor that convert a type's integers to microseconds."""
    if pa.types.is_integer(data_type):
        if assigner.epoch_unit is None:
            raise InvalidOptionError(
                f"the event time {assigner.column_name!r} is an integer without a unit",
                expected="one of " + ", ".join(get_args(EpochUnit)),
                option="epoch_unit",
                hint='call with_timestamp_assigner(..., epoch_unit="ms")',
            )
        return _UNITS[assigner.epoch_unit]
    if assigner.epoch_unit is not None:
        raise InvalidOptionError(
            f"the event time {assigner.column_name!r} has a unit, but is not an integer",
            expected="an integer column, or no epoch_unit",
            found=str(data_type),
            option="epoch_unit",
        )
    if pa.types.is_timestamp(data_type):
        return _UNITS[data_type.unit]
    if pa.types.is_date32(data_type):
        return _DAY, 1
    if pa.types.is_date64(data_type):
        return _UNITS["ms"]
    raise InvalidOptionError(
        f"the type of the event time {assigner.column_name!r} is not a time",
        expected="a timestamp, a date, or an integer with epoch_unit",
        found=str(data_type),
        option="column",
        hint="give with_timestamp_assigner a function that computes the event time",
    )


def index_of(schema: pa.Schema, name: str) -> int:
    """Return the index of the event-time column.

    Raises:
        ConfigurationError: There is no column of this name, or more than one.
    """
    index: int = schema.get_field_index(name)
    if index < 0:
        parent, dot, _ = name.partition(".")
        is_nested = bool(dot) and parent in schema.names
        raise InvalidOptionError(
            f"the source has no column {name!r} (or more than one) to take the event time from",
            expected="one of " + ", ".join(schema.names),
            found=name,
            option="column",
            hint="give with_timestamp_assigner a function that returns the nested field, and a "
            "column_name"
            if is_nested
            else None,
        )
    return index


def computed(values: Any, rows: int) -> pa.Array:
    """Return the result of an assigner's function as one array.

    Raises:
        ConfigurationError: The result is not an array with one value per row.
    """
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)
    if not isinstance(values, pa.Array) or len(values) != rows:
        raise ConfigurationError(
            "the timestamp assigner did not return one event time per row",
            expected=f"a pyarrow array of {rows} values",
            found=f"{type(values).__name__} of {len(values)}"
            if isinstance(values, pa.Array)
            else type(values).__name__,
            option="column",
        )
    return values
