# SPDX-License-Identifier: Apache-2.0
"""Event times and watermarks of a source's splits (Flink's ``WatermarkStrategy``).

A strategy defines the origin of event times, how far out of order rows may be, when a split is idle
(Flink's FLIP-27), and which sources advance together (Flink's FLIP-182 and FLIP-217). Internally,
every event time and watermark is a number of microseconds since the epoch, UTC.

A watermark ``w`` means that no row with an event time of ``w`` or less is expected any more. A row
is on time if its event time is greater than the watermark before it. Bounded out-of-orderness thus
returns ``highest event time - bound - 1``. Flink subtracts a millisecond, its finest unit; this
module subtracts a microsecond.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, get_args

import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.options import DURATION, Bound, Option, format_duration
from connectors_core.source.event_time import (
    END_OF_TIME,
    EVENT_TIME_DELAY,
    EVENT_TIME_TYPE,
    MAX_WATERMARK,
    MIN_EVENT_TIME,
    MIN_WATERMARK,
    EpochUnit,
    TimestampAssigner,
    computed,
    epoch_scale,
    heartbeat_event_time,
    index_of,
    micros,
    to_event_times,
)
from connectors_core.source.split_watermarks import (
    Admission,
    SplitWatermarks,
    WatermarkGenerator,
    split_watermarks,
)

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


_LIMIT: Final = f"below {format_duration(EVENT_TIME_DELAY)}"
_NOT_NEGATIVE: Final = Bound(
    f"at least 0 s and {_LIMIT}", lambda value: timedelta(0) <= value < EVENT_TIME_DELAY
)
_POSITIVE: Final = Bound(
    f"above 0 s and {_LIMIT}", lambda value: timedelta(0) < value < EVENT_TIME_DELAY
)

_MAX_OUT_OF_ORDERNESS: Final = Option(
    "max_out_of_orderness",
    DURATION,
    validator=_NOT_NEGATIVE,
    doc="How much older a row may be than the newest previous row of its split.",
)
_IDLE_TIMEOUT: Final = Option(
    "timeout",
    DURATION,
    validator=_POSITIVE,
    doc="Time without rows after which a split does not hold back the watermark.",
)
_MAX_DRIFT: Final = Option(
    "max_drift",
    DURATION,
    validator=_NOT_NEGATIVE,
    doc="How far a split may be ahead of the slowest one.",
)
_UPDATE_INTERVAL: Final = Option(
    "update_interval",
    DURATION,
    validator=_NOT_NEGATIVE,
    doc="Minimum time between two increases of the maximum.",
)


@dataclass(frozen=True)
class WatermarkAlignment:
    """Sources that advance together (Flink's FLIP-182; per split: FLIP-217).

    Attributes:
        group: Name of the group, the same for all its sources.
        max_drift: How far a split may be ahead of the slowest of the group.
        update_interval: Minimum time between two increases of the maximum.
    """

    group: str
    max_drift: timedelta
    update_interval: timedelta = timedelta(0)


@dataclass(frozen=True)
class WatermarkStrategy:
    """Assigns event times to the rows of a source, and watermarks to its splits.

    Start with one of the ``for_...`` methods and continue with the ``with_...`` methods, each of
    which returns a new strategy::

        WatermarkStrategy.for_bounded_out_of_orderness("5 s")
            .with_timestamp_assigner("time_hour")
            .with_idleness("1 min")

    These methods take a duration as a `timedelta` or as text.

    Immutable and sent to executors. A task reports its watermark once per plan, which corresponds
    to an auto-watermark interval in Flink.

    Attributes:
        out_of_orderness: Bound of the built-in generator.
        generator_factory: Creates the generator of a split, None for the built-in one.
        per_record: Whether the generator is called for every row or once per batch.
        timestamp_assigner: The origin of event times.
        idleness: Time without rows after which a split does not hold back the watermark.
        alignment: The group with which the source advances.
    """

    out_of_orderness: timedelta = timedelta(0)
    generator_factory: Callable[[], WatermarkGenerator] | None = None
    per_record: bool = True
    timestamp_assigner: TimestampAssigner | None = None
    idleness: timedelta | None = None
    alignment: WatermarkAlignment | None = None

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: timedelta | str) -> WatermarkStrategy:
        """Expect rows at most this much older than the newest previous row of their split.

        Raises:
            ConfigurationError: The duration is negative or invalid.
        """
        bound = _MAX_OUT_OF_ORDERNESS.accept(max_out_of_orderness)
        return WatermarkStrategy(out_of_orderness=bound)

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Expect event times that never fall within a split."""
        return WatermarkStrategy()

    @staticmethod
    def for_generator(
        factory: Callable[[], WatermarkGenerator], *, per_record: bool = True
    ) -> WatermarkStrategy:
        """Use a custom generator.

        Args:
            factory: Creates a generator for one split; importable or picklable, no I/O.
            per_record: Whether the generator's watermark is defined after every row. If not (Flink
                calls that periodic), it is called only after each batch, alignment holds whole
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
        """Set the origin of event times.

        The event-time column always has the type ``timestamp[us, tz=UTC]``. The origin may be a
        timestamp of any unit and zone (without a zone: UTC), a date (its midnight, UTC), or, with
        ``epoch_unit``, an integer. Fractions of a microsecond are truncated.

        Args:
            column: Name of a column, or a function of a record batch that returns one value per
                row.
            column_name: Name of the event-time column; required for a function. With it, the event
                time is appended under this name, and an existing column stays unchanged. Without
                it, the column itself becomes the event time.
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

    def with_idleness(self, timeout: timedelta | str) -> WatermarkStrategy:
        """Do not let a split that had no rows for this long hold back the watermark.

        Only the time in which the split was polled without rows counts. A split that alignment or a
        limit holds back is not idle (Flink's FLIP-182, FLIP-217). A source without splits for this
        long is idle too. An idle source does not hold back the other sources of its query: its
        watermark follows the lowest of the active sources. Its later rows below that watermark are
        late.

        Args:
            timeout: Time without rows, by the driver's clock. A restart resets it.

        Raises:
            ConfigurationError: The time is not positive or invalid.
        """
        return dataclasses.replace(self, idleness=_IDLE_TIMEOUT.accept(timeout))

    def with_watermark_alignment(
        self,
        group: str,
        max_drift: timedelta | str,
        update_interval: timedelta | str = timedelta(0),
    ) -> WatermarkStrategy:
        """Advance with all splits of all sources of a group (Flink's FLIP-182 and FLIP-217).

        A reader holds the first row that would advance its split too far, and continues when the
        slowest split has caught up. This limits skew and state; no row is lost without it.

        Args:
            group: Name of the group, the same for all its sources.
            max_drift: How far a split may be ahead of the slowest one.
            update_interval: Minimum time between two increases of the maximum. It applies
                once per plan, so less than the time between plans has no effect. By default every
                plan.

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
            max_drift=_MAX_DRIFT.accept(max_drift),
            update_interval=_UPDATE_INTERVAL.accept(update_interval),
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
            epoch_scale(schema.field(index_of(schema, assigner.column)).type, assigner)
        index = self._target(schema)
        if index is None:
            return schema.append(pa.field(assigner.column_name, EVENT_TIME_TYPE))
        return schema.set(index, schema.field(index).with_type(EVENT_TIME_TYPE))

    def assign(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with its event-time column added or cast; nothing is copied if it fits.

        Event times that do not fit end up outside the valid range; see :meth:`invalid_event_times`.

        Raises:
            ConfigurationError: See :meth:`output_schema`; or the assigner's function did not return
                one value per row.
        """
        assigner = self._assigner
        if isinstance(assigner.column, str):
            values = batch.column(index_of(batch.schema, assigner.column))
        else:
            values = computed(assigner.column(batch), batch.num_rows)
        times = to_event_times(values, assigner)
        index = self._target(batch.schema)
        if index is None:
            field = pa.field(assigner.column_name, EVENT_TIME_TYPE)
            return batch.append_column(field, times)
        field = batch.schema.field(index)
        if field.type == EVENT_TIME_TYPE:
            return batch
        return batch.set_column(index, field.with_type(EVENT_TIME_TYPE), times)

    def _target(self, schema: pa.Schema) -> int | None:
        """Return the index of the column that becomes the event time, None if one is appended."""
        assigner = self._assigner
        if assigner.column == assigner.column_name:
            return index_of(schema, assigner.column_name)
        if assigner.column_name in schema.names:
            raise InvalidOptionError(
                f"the source already has a column {assigner.column_name!r}",
                expected="a name that no other column has",
                found=assigner.column_name,
                option="column_name",
            )
        return None

    def invalid_event_times(self, batch: pa.RecordBatch) -> pa.BooleanArray | None:
        """Return which rows have an event time outside the valid range; None if no row has.

        They are bad records. A row without an event time (null) does not count.

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
        """Return the event time that caused a split's watermark; both in microseconds.

        None for a watermark of a custom generator.
        """
        if self.generator_factory is not None:
            return None
        return watermark + micros(self.out_of_orderness) + 1

    def tracker(self, state: Mapping[str, Any] | None) -> SplitWatermarks:
        """Return the watermark of one split.

        Args:
            state: The last state of the split's tracker, None for a split that was never
                read. The state of another kind of strategy is ignored.
        """
        return split_watermarks(
            self.generator_factory,
            out_of_orderness=self.out_of_orderness,
            per_record=self.per_record,
            state=state or {},
        )
