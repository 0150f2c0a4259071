# SPDX-License-Identifier: Apache-2.0
"""Event times of rows, as microseconds since the epoch, UTC.

Spark's watermark is a number of whole milliseconds, and Spark compares it in two ways (measured on
3.5.9 and 4.3.0). A window closes, and its rows are late, when its *end* is the watermark or less:
there the watermark ``v`` says that no row *below* ``v`` is expected. Every other operator that
looks at event times (a stream-stream join, a deduplication, a group by the event time itself) drops
a row *at* ``v`` too. Spark's own ``highest event time - delay`` fits windows, and loses rows on
time in the others. So where windows are all that looks at Spark's watermark, it is ``w + 1``
microsecond here, rounded down: windows close with the row that closes them in Flink and in Spark.
Elsewhere it is ``w``, rounded down, and no row that is on time here is dropped there.

Spark's watermark is driven by one row per plan with the event time ``w + EVENT_TIME_DELAY``. It
starts at 0, and a row of event time 0 is late at once (measured on 3.5.9 and 4.3.0); a row of
``EVENT_TIME_DELAY`` or more would move it by itself. So event times lie between the two.
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
"""Below every watermark: as the highest allowed one it lets no row with an event time pass."""

MAX_WATERMARK: Final = 2**63 - 1
"""Above every watermark: as the highest allowed one it is no limit."""

EVENT_TIME_TYPE: Final = pa.timestamp("us", tz="UTC")
"""Type of the event-time column of every batch that leaves a source."""

EpochUnit: TypeAlias = Literal["s", "ms", "us", "ns"]

EventTimes: TypeAlias = npt.NDArray[np.int64]

# Stands for a row without a (valid) event time; below every watermark, so it never moves one.
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
    """Return the event time of the row that brings Spark's watermark to this one.

    Rounded down to the millisecond, as Spark does itself.

    Args:
        watermark: No row of this event time or an earlier one is expected.
        only_windows: Windows are all that compares event times with Spark's watermark, by their
            end: for them it is the lowest event time that is still expected.
    """
    return (watermark + only_windows) // 1_000 * 1_000 + END_OF_TIME


@dataclass(frozen=True)
class TimestampAssigner:
    """Where the event time of a row comes from; see ``WatermarkStrategy.with_timestamp_assigner``.

    Attributes:
        column: Name of a column, or a function of the batch.
        column_name: Name of the event-time column.
        epoch_unit: Unit of integers since the epoch, None where they are not accepted.
    """

    column: str | Callable[[pa.RecordBatch], pa.Array]
    column_name: str
    epoch_unit: EpochUnit | None = None


def event_times_of(values: Any) -> EventTimes:
    """Microseconds of an event-time column; rows that have none, or no valid one, are marked."""
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
    """The event-time column of a column; what cannot be expressed is out of the valid range."""
    if values.type == EVENT_TIME_TYPE:
        return values
    factor, divisor = epoch_scale(values.type, assigner)
    if pa.types.is_integer(values.type):
        numbers = values.cast(pa.int64(), safe=False)  # above 2**63: negative, not valid either
    elif pa.types.is_date32(values.type):
        numbers = values.view(pa.int32()).cast(pa.int64())
    else:
        numbers = values.view(pa.int64())
    if factor > 1:
        # One absurd value must not fail its batch: what would overflow stays out of range.
        most = MAX_WATERMARK // factor
        numbers = pc.max_element_wise(numbers, pa.scalar(-most), skip_nulls=False)
        numbers = pc.min_element_wise(numbers, pa.scalar(most), skip_nulls=False)
        numbers = pc.multiply(numbers, factor)
    if divisor > 1:
        numbers = pc.divide(numbers, divisor)
    return numbers.view(EVENT_TIME_TYPE)


def epoch_scale(data_type: pa.DataType, assigner: TimestampAssigner) -> tuple[int, int]:
    """Factor and divisor that turn the integers below a type into microseconds."""
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
    """Index of the column that holds the event time.

    Raises:
        ConfigurationError: There is none of this name, or more than one.
    """
    index: int = schema.get_field_index(name)
    if index < 0:
        raise InvalidOptionError(
            f"the source has no column {name!r} (or more than one) to take the event time from",
            expected="one of " + ", ".join(schema.names),
            found=name,
            option="column",
        )
    return index


def computed(values: Any, rows: int) -> pa.Array:
    """What the function of an assigner gave, as one array.

    Raises:
        ConfigurationError: It is something else than an array of one value per row.
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
