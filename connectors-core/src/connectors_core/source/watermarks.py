# SPDX-License-Identifier: Apache-2.0
"""Event times and watermarks of a source's splits (Flink's ``WatermarkStrategy``).

A strategy says where the event time of a row comes from, how far out of order rows may be, when a
split counts as idle (Flink's FLIP-27) and which sources advance together (Flink's FLIP-182 and
FLIP-217). Inside, every event time and watermark is a number of microseconds since the epoch, UTC.

A watermark ``w`` says: no row with an event time of ``w`` or less is expected any more. A row is
on time when its event time is greater than the watermark before it. Bounded out-of-orderness thus
gives ``highest event time - bound - 1``; where Flink takes off a millisecond, the finest step it
has, this takes off a microsecond.

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

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.annotations import public
from connectors_core.errors import ConfigurationError, InvalidOptionError

__all__ = [
    "END_OF_TIME",
    "EVENT_TIME_DELAY",
    "EVENT_TIME_TYPE",
    "MAX_WATERMARK",
    "MIN_EVENT_TIME",
    "MIN_WATERMARK",
    "Admission",
    "SplitWatermarks",
    "TimestampAssigner",
    "WatermarkAlignment",
    "WatermarkGenerator",
    "WatermarkStrategy",
    "heartbeat_event_time",
    "micros",
]

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
_NONE: Final = MIN_WATERMARK

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


@public
class WatermarkGenerator(ABC):
    """Turns the event times of one split into its watermark (Flink's ``WatermarkGenerator``).

    The result must follow from the rows and their order alone: not from the clock, and, unless the
    generator is periodic, not from how the rows are cut into batches. Executor only.
    """

    @abstractmethod
    def on_batch(self, event_times: EventTimes) -> None:
        """Take the event times of rows that were emitted, in order; rows without one are left out.

        Args:
            event_times: Microseconds since the epoch, UTC. Not to be changed.
        """

    @abstractmethod
    def current(self) -> int | None:
        """Return the watermark after the rows so far, None where there is none yet.

        It must not fall. No row is expected with this event time or an earlier one.
        """

    @abstractmethod
    def state(self) -> Mapping[str, Any]:
        """Return what :meth:`restore` needs: small, plain JSON values. It travels in reports."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; called on a new generator."""


@public
@dataclass(frozen=True)
class Admission:
    """How much of a batch may be emitted.

    Attributes:
        rows: Number of leading rows.
        head: The watermark that the first held row would bring its split to, None where no row is
            held. Always above the maximum that held it.
    """

    rows: int
    head: int | None


@public
class SplitWatermarks(ABC):
    """The watermark of one split; its state travels from report to plan. Executor only.

    Event times are handed over as the event-time column of a batch from
    :meth:`WatermarkStrategy.assign` (or as its microseconds). Rows without an event time, or with
    one outside the valid range, do not move the watermark and are never the ones that are held.
    """

    @property
    @abstractmethod
    def watermark(self) -> int | None:
        """The watermark after the rows so far, None where there is none yet."""

    @abstractmethod
    def admit(self, batch_times: Any, max_watermark: int | None) -> Admission:
        """Say how many leading rows may be emitted; changes nothing.

        The cut is at the first row after which the watermark would exceed the maximum. A split
        whose watermark is beyond it already (a slower split came to the group) emits nothing, as
        in Flink.

        Args:
            batch_times: Event times of the rows that come next.
            max_watermark: Maximum of the watermark. None and :data:`MAX_WATERMARK` are no limit;
                :data:`MIN_WATERMARK` holds every row that has an event time.
        """

    @abstractmethod
    def advance(self, batch_times: Any) -> None:
        """Take in the event times of rows that were emitted."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return plain JSON for :meth:`WatermarkStrategy.tracker`."""


@public
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


@public
@dataclass(frozen=True)
class WatermarkAlignment:
    """Sources that advance together (Flink's FLIP-182; per split: FLIP-217).

    Attributes:
        group: Name of the group, the same for all its sources.
        max_drift: How far a split may be ahead of the slowest of the group.
        update_interval: Least time between two steps of the maximum upwards.
    """

    group: str
    max_drift: timedelta
    update_interval: timedelta = timedelta(0)


@public
@dataclass(frozen=True)
class WatermarkStrategy:
    """How rows of a source get event times, and its splits watermarks.

    Begin with one of the ``for_...`` methods, go on with the ``with_...`` methods, each of which
    returns a new strategy::

        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(seconds=5))
            .with_timestamp_assigner("time_hour")
            .with_idleness(timedelta(minutes=1))

    Immutable and shipped to executors. A watermark leaves a task with its report, once per plan,
    which is what an auto-watermark interval is in Flink.

    Attributes:
        out_of_orderness: Bound of the built-in generator.
        generator_factory: Makes the generator of a split, None for the built-in one.
        per_record: Whether the generator is asked for every row or once per batch.
        timestamp_assigner: Where event times come from.
        idleness: Time without rows after which a split does not hold back the watermark.
        alignment: The group that the source advances with.
    """

    out_of_orderness: timedelta = timedelta(0)
    generator_factory: Callable[[], WatermarkGenerator] | None = None
    per_record: bool = True
    timestamp_assigner: TimestampAssigner | None = None
    idleness: timedelta | None = None
    alignment: WatermarkAlignment | None = None

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: timedelta) -> WatermarkStrategy:
        """Rows are at most this much older than the newest row before them in their split."""
        bound = _duration(max_out_of_orderness, "max_out_of_orderness")
        return WatermarkStrategy(out_of_orderness=bound)

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Event times never fall within a split."""
        return WatermarkStrategy()

    @staticmethod
    def for_generator(
        factory: Callable[[], WatermarkGenerator], *, per_record: bool = True
    ) -> WatermarkStrategy:
        """A generator of one's own.

        Args:
            factory: Makes a generator for one split; importable or picklable, no I/O.
            per_record: Whether the generator's watermark is defined after every row. If not (Flink
                calls that periodic) it is asked after each batch only, alignment holds whole
                batches, and the watermark may depend on how the reader cuts them.

        Raises:
            ConfigurationError: The factory cannot be called.
        """
        if not callable(factory):
            raise InvalidOptionError(
                "the factory of a watermark generator cannot be called",
                expected="a class or function without arguments that returns a WatermarkGenerator",
                found=factory,
                option="factory",
            )
        return WatermarkStrategy(generator_factory=factory, per_record=per_record)

    def with_timestamp_assigner(
        self,
        column: str | Callable[[pa.RecordBatch], pa.Array],
        *,
        column_name: str | None = None,
        epoch_unit: EpochUnit | None = None,
    ) -> WatermarkStrategy:
        """Say where the event time of a row comes from.

        The event-time column is always delivered as ``timestamp[us, tz=UTC]``. Accepted are
        timestamps of any unit and zone (without a zone: UTC), dates (their midnight, UTC) and,
        where ``epoch_unit`` is given, integers. What is finer than a microsecond is cut off.

        Args:
            column: Name of a column, or a function of a record batch that gives an array of as
                many values.
            column_name: Name of the event-time column. A function needs one. With the name of a
                column, the event time is appended under this name and the column stays as it is;
                without, the column itself becomes the event time.
            epoch_unit: Unit of integers since the epoch: ``s``, ``ms``, ``us`` or ``ns``.

        Raises:
            ConfigurationError: An argument is missing or wrong.
        """
        if not (isinstance(column, str) and column) and not callable(column):
            raise InvalidOptionError(
                "the timestamp assigner is neither a column nor a function",
                expected="the name of a column or a function of a record batch",
                found=column,
                option="column",
            )
        if epoch_unit is not None and epoch_unit not in get_args(EpochUnit):
            raise InvalidOptionError(
                f"{epoch_unit!r} is not a unit of event times",
                expected="one of " + ", ".join(get_args(EpochUnit)),
                found=epoch_unit,
                option="epoch_unit",
            )
        name = column_name or (column if isinstance(column, str) else None)
        if name is None:
            raise InvalidOptionError(
                "a computed event time has no name",
                expected="the name of the column to append",
                option="column_name",
                hint='call with_timestamp_assigner(function, column_name="event_time")',
            )
        assigner = TimestampAssigner(column, name, epoch_unit)
        return dataclasses.replace(self, timestamp_assigner=assigner)

    def with_idleness(self, timeout: timedelta) -> WatermarkStrategy:
        """Let a split that had no rows for this long not hold back the watermark.

        Only time in which the split was asked and had nothing counts; a split that is held by
        alignment or a limit is not idle (Flink's FLIP-182, FLIP-217). A source that has no split
        for this long is idle too.

        Where the whole source is idle it does not hold back the other sources of its query: its
        watermark goes along with the lowest of those that are not idle and have not ended. Rows
        that it gives below that later are late.

        Args:
            timeout: Time without rows, by the clock of the driver; a restart begins it again.

        Raises:
            ConfigurationError: The time is not positive.
        """
        return dataclasses.replace(self, idleness=_duration(timeout, "timeout", positive=True))

    def with_watermark_alignment(
        self, group: str, max_drift: timedelta, update_interval: timedelta = timedelta(0)
    ) -> WatermarkStrategy:
        """Advance with all splits of all sources of a group (Flink's FLIP-182 and FLIP-217).

        A reader holds the first row that would bring its split too far ahead, and goes on when
        the slowest split has caught up. That bounds skew and state; no row is lost without it.

        Args:
            group: Name of the group, the same for all its sources.
            max_drift: How far a split may be ahead of the slowest one.
            update_interval: Least time between two steps of the maximum upwards; it acts once per
                plan, so less than the time between plans has no effect. By default every plan.

        Raises:
            ConfigurationError: An argument is wrong.
        """
        if not isinstance(group, str) or not group:
            raise InvalidOptionError(
                "an alignment group needs a name",
                expected="a non-empty text",
                found=group,
                option="group",
            )
        alignment = WatermarkAlignment(
            group=group,
            max_drift=_duration(max_drift, "max_drift"),
            update_interval=_duration(update_interval, "update_interval"),
        )
        return dataclasses.replace(self, alignment=alignment)

    @property
    def event_time_column(self) -> str:
        """Name of the event-time column.

        Raises:
            ConfigurationError: The strategy has no timestamp assigner.
        """
        return self._assigner.column_name

    @property
    def _assigner(self) -> TimestampAssigner:
        if self.timestamp_assigner is None:
            raise ConfigurationError(
                "the watermark strategy does not define the event-time column",
                option="with_timestamp_assigner",
                hint='add .with_timestamp_assigner("<column>") to the watermark strategy',
            )
        return self.timestamp_assigner

    def output_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of :meth:`assign` for batches of ``schema``.

        Raises:
            ConfigurationError: The schema has no such column, one of the wrong type, or has the
                name that the event time would get.
        """
        assigner = self._assigner
        if isinstance(assigner.column, str):
            _epoch_scale(schema.field(_index(schema, assigner.column)).type, assigner)
        index = self._target(schema)
        if index is None:
            return schema.append(pa.field(assigner.column_name, EVENT_TIME_TYPE))
        return schema.set(index, schema.field(index).with_type(EVENT_TIME_TYPE))

    def assign(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with its event-time column added or cast; nothing is copied if it fits.

        Event times that cannot be expressed come out as outside the valid range; see
        :meth:`invalid_event_times`.

        Raises:
            ConfigurationError: See :meth:`output_schema`; or the function of the assigner gave
                something else than an array of one value per row.
        """
        assigner = self._assigner
        if isinstance(assigner.column, str):
            values = batch.column(_index(batch.schema, assigner.column))
        else:
            values = _computed(assigner.column(batch), batch.num_rows)
        times = _to_event_times(values, assigner)
        index = self._target(batch.schema)
        if index is None:
            field = pa.field(assigner.column_name, EVENT_TIME_TYPE)
            return batch.append_column(field, times)
        field = batch.schema.field(index)
        if field.type == EVENT_TIME_TYPE:
            return batch
        return batch.set_column(index, field.with_type(EVENT_TIME_TYPE), times)

    def _target(self, schema: pa.Schema) -> int | None:
        """Index of the column that becomes the event time, None where one is appended."""
        assigner = self._assigner
        if assigner.column == assigner.column_name:
            return _index(schema, assigner.column_name)
        if assigner.column_name in schema.names:
            raise InvalidOptionError(
                f"the source already has a column {assigner.column_name!r}",
                expected="a name for the event time that no column has",
                found=assigner.column_name,
                option="column_name",
            )
        return None

    def invalid_event_times(self, batch: pa.RecordBatch) -> pa.BooleanArray | None:
        """Say which rows have an event time outside the valid range; None where none has.

        They are bad records. A row without an event time (null) is not.

        Args:
            batch: A batch from :meth:`assign`.
        """
        times = batch.column(self.event_time_column).view(pa.int64())
        bounds = pc.min_max(times)
        lowest, highest = bounds["min"].as_py(), bounds["max"].as_py()
        if lowest is None or (lowest >= MIN_EVENT_TIME and highest < END_OF_TIME):
            return None
        outside = pc.or_(pc.less(times, MIN_EVENT_TIME), pc.greater_equal(times, END_OF_TIME))
        return outside.fill_null(False)

    def max_event_time(self, watermark: int) -> int | None:
        """The event time that brought a split to this watermark; both in microseconds.

        None where a generator of the user's own made it.
        """
        if self.generator_factory is not None:
            return None
        return watermark + micros(self.out_of_orderness) + 1

    def tracker(self, state: Mapping[str, Any] | None) -> SplitWatermarks:
        """Return the watermark of one split.

        Args:
            state: What the split's tracker gave last, None for a split that was never read. What
                another kind of strategy left is passed over.
        """
        state = state or {}
        if self.generator_factory is None:
            return _BoundedOutOfOrderness(self.out_of_orderness, state)
        return _Generated(self.generator_factory, self.per_record, state)


class _BoundedOutOfOrderness(SplitWatermarks):
    def __init__(self, bound: timedelta, state: Mapping[str, Any]) -> None:
        self._lag = micros(bound) + 1
        self._highest: int | None = state.get("max_event_time")

    @property
    def watermark(self) -> int | None:
        return None if self._highest is None else self._highest - self._lag

    def admit(self, batch_times: Any, max_watermark: int | None) -> Admission:
        times = _event_times(batch_times)
        if max_watermark is None:
            return Admission(len(times), None)
        highest = _NONE if self._highest is None else self._highest
        limit = min(max_watermark + self._lag, MAX_WATERMARK)
        row = _first(times != _NONE if highest > limit else times > limit)
        if row is None:
            return Admission(len(times), None)
        return Admission(row, max(highest, int(times[row])) - self._lag)

    def advance(self, batch_times: Any) -> None:
        times = _event_times(batch_times)
        highest = int(times.max(initial=_NONE))
        if highest != _NONE:
            self._highest = highest if self._highest is None else max(self._highest, highest)

    def state(self) -> dict[str, Any]:
        return {} if self._highest is None else {"max_event_time": self._highest}


class _Generated(SplitWatermarks):
    def __init__(
        self,
        factory: Callable[[], WatermarkGenerator],
        per_record: bool,
        state: Mapping[str, Any],
    ) -> None:
        self._factory = factory
        self._per_record = per_record
        self._generator = factory()
        if "generator" in state:
            self._generator.restore(state["generator"])
        self._watermark: int | None = state.get("watermark")

    @property
    def watermark(self) -> int | None:
        return self._watermark

    def admit(self, batch_times: Any, max_watermark: int | None) -> Admission:
        times = _event_times(batch_times)
        rows = np.flatnonzero(times != _NONE)
        if max_watermark is None or len(rows) == 0:
            return Admission(len(times), None)
        values = times[rows]
        head = self._watermark_after(values)
        if head is None or head <= max_watermark:
            return Admission(len(times), None)
        if not self._per_record:
            return Admission(int(rows[0]), head)
        # Watermarks do not fall, so the first row that brings one too high is found by halving.
        passes, held = 0, len(values)
        while held - passes > 1:
            middle = (passes + held) // 2
            after = self._watermark_after(values[:middle])
            if after is not None and after > max_watermark:
                held, head = middle, after
            else:
                passes = middle
        return Admission(int(rows[held - 1]), head)

    def _watermark_after(self, values: EventTimes) -> int | None:
        generator = self._factory()
        generator.restore(self._generator.state())
        generator.on_batch(values)
        return _later(self._watermark, generator.current())

    def advance(self, batch_times: Any) -> None:
        times = _event_times(batch_times)
        values = times[times != _NONE]
        if len(values):
            self._generator.on_batch(values)
            self._watermark = _later(self._watermark, self._generator.current())

    def state(self) -> dict[str, Any]:
        return {"watermark": self._watermark, "generator": dict(self._generator.state())}


def _later(left: int | None, right: int | None) -> int | None:
    if right is None:
        return left
    return int(right) if left is None else max(left, int(right))


def _first(mask: npt.NDArray[np.bool_]) -> int | None:
    row = int(mask.argmax()) if len(mask) else 0
    return row if row < len(mask) and mask[row] else None


def _event_times(values: Any) -> EventTimes:
    """Microseconds of an event-time column; rows that have none, or no valid one, are marked."""
    if not isinstance(values, np.ndarray):
        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], "int64")
        values = values.view(pa.int64())
        if values.null_count:
            values = values.fill_null(_NONE)
        values = values.to_numpy(zero_copy_only=False)
    times: EventTimes = values.astype(np.int64, copy=False)
    valid = (times >= MIN_EVENT_TIME) & (times < END_OF_TIME)
    return times if valid.all() else np.where(valid, times, _NONE)


def _to_event_times(values: pa.Array, assigner: TimestampAssigner) -> pa.Array:
    if values.type == EVENT_TIME_TYPE:
        return values
    factor, divisor = _epoch_scale(values.type, assigner)
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


def _epoch_scale(data_type: pa.DataType, assigner: TimestampAssigner) -> tuple[int, int]:
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


def _index(schema: pa.Schema, name: str) -> int:
    index: int = schema.get_field_index(name)
    if index < 0:
        raise InvalidOptionError(
            f"the source has no column {name!r} (or more than one) to take the event time from",
            expected="one of " + ", ".join(schema.names),
            found=name,
            option="column",
        )
    return index


def _computed(values: Any, rows: int) -> pa.Array:
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


def _duration(value: timedelta, option: str, *, positive: bool = False) -> timedelta:
    lowest = timedelta(microseconds=1) if positive else timedelta(0)
    if not isinstance(value, timedelta) or not lowest <= value < EVENT_TIME_DELAY:
        raise InvalidOptionError(
            f"{option} is not a valid duration",
            expected=f"a timedelta, {'more than' if positive else 'not less than'} 0 and below "
            f"{EVENT_TIME_DELAY.days} days",
            found=value,
            option=option,
        )
    return value
