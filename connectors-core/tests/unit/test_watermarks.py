# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors_core.errors import ConfigurationError
from connectors_core.source.watermarks import (
    END_OF_TIME,
    EVENT_TIME_DELAY,
    EVENT_TIME_TYPE,
    MAX_WATERMARK,
    MIN_EVENT_TIME,
    MIN_WATERMARK,
    Admission,
    WatermarkGenerator,
    WatermarkStrategy,
    heartbeat_event_time,
)

SECOND = 1_000_000


class EveryThird(WatermarkGenerator):
    """Advances at every third row to 5 below the maximum, so it depends on more than one row."""

    def __init__(self):
        self.rows, self.highest, self.mark = 0, 0, None

    def on_batch(self, event_times):
        for event_time in event_times.tolist():
            self.rows += 1
            self.highest = max(self.highest, event_time)
            if self.rows % 3 == 0:
                self.mark = self.highest - 5

    def current(self):
        return self.mark

    def state(self):
        return {"rows": self.rows, "highest": self.highest, "mark": self.mark}

    def restore(self, state):
        self.rows, self.highest, self.mark = state["rows"], state["highest"], state["mark"]


class Fixed(WatermarkGenerator):
    def __init__(self):
        self.seen = None

    def on_batch(self, event_times):
        assert len(event_times)
        self.seen = np.int64(event_times[-1])

    def current(self):
        return self.seen

    def state(self):
        return {}

    def restore(self, state):
        assert state == {}


def bounded(micros):
    return WatermarkStrategy.for_bounded_out_of_orderness(timedelta(microseconds=micros))


def column(times):
    return pa.array(times, pa.int64()).view(EVENT_TIME_TYPE)


small_times = st.lists(st.none() | st.integers(1, 60), max_size=40)
wide_times = st.lists(
    st.none() | st.integers(-10, 10) | st.integers(MIN_EVENT_TIME, END_OF_TIME + 10), max_size=30
)
any_times = small_times | wide_times
strategies = st.builds(bounded, st.integers(0, 20)) | st.just(
    WatermarkStrategy.for_generator(EveryThird)
)
cuts = st.lists(st.integers(0, 40), max_size=6)


def split_at(rows, positions):
    edges = [0, *sorted(min(p, len(rows)) for p in positions), len(rows)]
    return [rows[a:b] for a, b in pairwise(edges)]


def naive_cut(strategy, before, times, maximum):
    """Find the cut row by row, as defined."""
    tracker = strategy.tracker(before)
    for row, event_time in enumerate(times):
        tracker.advance(column([event_time]))
        timed = event_time is not None and MIN_EVENT_TIME <= event_time < END_OF_TIME
        if timed and tracker.watermark is not None and tracker.watermark > maximum:
            return Admission(row, tracker.watermark)
    return Admission(len(times), None)


# --- the watermark of a split --------------------------------------------------------------------


@given(strategies, any_times, any_times, st.integers(-10, 70) | st.integers(0, END_OF_TIME))
def test_the_cut_is_exact_to_the_row(strategy, earlier, times, maximum):
    tracker = strategy.tracker(None)
    tracker.advance(column(earlier))
    state = json.loads(json.dumps(tracker.state()))
    admission = tracker.admit(column(times), maximum)
    assert admission == naive_cut(strategy, state, times, maximum)
    assert tracker.state() == state  # admit changes no state
    if admission.head is not None:
        assert admission.head > maximum
        # With the head as the maximum, the row passes. Alignment relies on this.
        assert tracker.admit(column(times), admission.head).rows > admission.rows
    if tracker.watermark is None or tracker.watermark <= maximum:
        tracker.advance(column(times[: admission.rows]))
        assert tracker.watermark is None or tracker.watermark <= maximum


@given(strategies, any_times, cuts)
def test_watermarks_depend_neither_on_batches_nor_on_restarts(strategy, times, positions):
    whole = strategy.tracker(None)
    whole.advance(column(times))
    pieces = strategy.tracker(None)
    highest = None
    for batch in split_at(times, positions):
        pieces.advance(column(batch))
        assert highest is None or pieces.watermark >= highest
        highest = pieces.watermark
        pieces = strategy.tracker(json.loads(json.dumps(pieces.state())))
        assert pieces.watermark == highest
    assert pieces.watermark == whole.watermark
    assert pieces.state() == whole.state()


@given(strategies, any_times, cuts, st.integers(-10, 70))
def test_the_cut_does_not_depend_on_batches(strategy, times, positions, maximum):
    expected = strategy.tracker(None).admit(column(times), maximum)
    tracker = strategy.tracker(None)
    rows = 0
    for batch in split_at(times, positions):
        admission = tracker.admit(column(batch), maximum)
        tracker.advance(column(batch[: admission.rows]))
        rows += admission.rows
        if admission.head is not None:
            assert admission.head == expected.head
            break
    assert rows == expected.rows


@given(strategies, any_times)
def test_the_extreme_maxima_admit_everything_or_the_minimum(strategy, times):
    tracker = strategy.tracker(None)
    batch = column(times)
    everything = Admission(len(times), None)
    assert tracker.admit(batch, None) == tracker.admit(batch, MAX_WATERMARK) == everything
    lowest = tracker.admit(batch, MIN_WATERMARK)
    assert lowest == naive_cut(strategy, None, times, MIN_WATERMARK)


def test_a_split_too_far_ahead_emits_only_rows_without_event_time():
    tracker = bounded(2).tracker({"max_event_time": 100})
    assert tracker.admit(column([None, 50, 200]), 60) == Admission(1, 97)
    assert tracker.admit(column([None, 200]), 60) == Admission(1, 197)
    assert tracker.admit(column([None, 0, END_OF_TIME]), 60) == Admission(3, None)


@given(st.integers(0, 5 * SECOND), st.lists(st.integers(MIN_EVENT_TIME, 10 * SECOND), min_size=1))
def test_a_row_that_is_on_time_is_not_late_for_spark(bound, times):
    tracker = bounded(bound).tracker(None)
    spark = 0
    for event_time in times:
        late = tracker.watermark is not None and event_time <= tracker.watermark
        assert late or event_time > spark
        tracker.advance(column([event_time]))
        # As in Spark: the event time in whole milliseconds, minus the delay, never decreasing.
        for heartbeat in (heartbeat_event_time(tracker.watermark), tracker.watermark + END_OF_TIME):
            spark_millis = heartbeat // 1_000 - END_OF_TIME // 1_000
            assert spark_millis * 1_000 <= max(tracker.watermark, 0)
        spark = max(spark, spark_millis * 1_000)


@given(st.integers(0, 50), st.lists(st.integers(1, 500), min_size=1))
def test_whole_milliseconds_produce_the_watermark_of_flink(bound, millis):
    tracker = bounded(bound * 1_000).tracker(None)
    tracker.advance(column([m * 1_000 for m in millis]))
    assert heartbeat_event_time(tracker.watermark) - END_OF_TIME == (
        (max(millis) - bound - 1) * 1_000
    )


def test_numpy_arrays_slices_and_chunks_are_accepted():
    for values in (
        np.array([3, 9, 4]),
        column([8, 3, None, 9, 4]).slice(1),
        pa.chunked_array([column([3]), column([9, 4])]),
    ):
        tracker = bounded(0).tracker(None)
        tracker.advance(values)
        assert tracker.watermark == 8
    tracker.advance(pa.chunked_array([], EVENT_TIME_TYPE))
    assert tracker.watermark == 8


def test_a_periodic_generator_admits_only_whole_batches():
    strategy = WatermarkStrategy.for_generator(EveryThird, per_record=False)
    tracker = strategy.tracker(None)
    batch = column([None, 1, 2, 30, 4])
    assert tracker.admit(batch, 24) == Admission(1, 25)
    assert tracker.admit(batch, 25) == Admission(5, None)
    tracker.advance(batch)
    assert tracker.watermark == 25


def test_a_generator_that_goes_back_does_not_lower_the_watermark():
    tracker = WatermarkStrategy.for_generator(Fixed).tracker(None)
    tracker.advance(column([9, None]))
    tracker.advance(column([None]))
    tracker.advance(column([3]))
    assert tracker.watermark == 9
    assert json.loads(json.dumps(tracker.state())) == {"watermark": 9, "generator": {}}


def test_the_state_of_another_kind_of_strategy_is_ignored():
    tracker = bounded(0).tracker({"watermark": 4, "generator": {}})
    assert tracker.watermark is None
    generated = WatermarkStrategy.for_generator(EveryThird).tracker({"max_event_time": 3})
    assert generated.watermark is None


# --- event times ---------------------------------------------------------------------------------

MOMENT = datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
MICROS = (MOMENT - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def assigned(values, **options):
    batch = pa.record_batch({"a": pa.nulls(len(values), pa.int32()), "ts": values})
    strategy = bounded(0).with_timestamp_assigner("ts", **options)
    result = strategy.assign(batch)
    assert result.schema == strategy.output_schema(batch.schema)
    assert result.schema.field(strategy.event_time_column).type == EVENT_TIME_TYPE
    return result.column(strategy.event_time_column).view(pa.int64()).to_pylist()


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        (pa.array([MICROS, None], EVENT_TIME_TYPE), {}, MICROS),
        (pa.array([MICROS, None], pa.timestamp("us", "Asia/Tokyo")), {}, MICROS),
        (pa.array([MICROS, None], pa.timestamp("us")), {}, MICROS),
        (pa.array([MICROS * 1000 + 999, None], pa.timestamp("ns", "UTC")), {}, MICROS),
        (pa.array([MICROS // 1000, None], pa.timestamp("ms")), {}, MICROS // 1000 * 1000),
        (pa.array([MICROS // SECOND, None], pa.timestamp("s")), {}, MICROS // SECOND * SECOND),
        (pa.array([date(1970, 1, 3), None], pa.date32()), {}, 2 * 86400 * SECOND),
        (pa.array([date(1970, 1, 3), None], pa.date64()), {}, 2 * 86400 * SECOND),
        (pa.array([MICROS // 1000, None]), {"epoch_unit": "ms"}, MICROS // 1000 * 1000),
        (pa.array([7, None], pa.int32()), {"epoch_unit": "s"}, 7 * SECOND),
        (pa.array([MICROS, None], pa.uint64()), {"epoch_unit": "us"}, MICROS),
        (pa.array([MICROS * 1000, None]), {"epoch_unit": "ns"}, MICROS),
        (pa.array([5_000, None]), {"epoch_unit": "ms", "column_name": "event_time"}, 5 * SECOND),
    ],
)
def test_every_kind_of_time_becomes_microseconds_in_utc(values, options, expected):
    assert assigned(values, **options) == [expected, None]
    padded = pa.concat_arrays([values, values])
    assert assigned(padded.slice(1, 2), **options) == [None, expected]


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (pa.array([2**62, -(2**62), 1], pa.timestamp("s")), {}),
        (pa.array([2**63 - 1, -(2**63), 1], pa.timestamp("ms")), {}),
        (pa.array([2**31 - 1, -(2**31), 1], pa.int32()).view(pa.date32()), {}),
        (pa.array([2**64 - 1, 2**63, 1], pa.uint64()), {"epoch_unit": "us"}),
        (pa.array([2**63 - 1, -1, 1]), {"epoch_unit": "s"}),
    ],
)
def test_an_impossible_time_is_a_bad_record_and_not_an_error(values, options):
    strategy = bounded(0).with_timestamp_assigner("ts", **options)
    batch = strategy.assign(pa.record_batch({"ts": values}))
    assert strategy.invalid_event_times(batch).to_pylist() == [True, True, False]


def test_the_valid_range_of_event_times_is_exact():
    strategy = bounded(0).with_timestamp_assigner("ts")
    edges = [0, MIN_EVENT_TIME, None, END_OF_TIME - 1, END_OF_TIME, -1]
    invalid = strategy.invalid_event_times(pa.record_batch({"ts": column(edges)}))
    assert invalid.to_pylist() == [True, False, False, False, True, True]
    for fine in ([], [None], [MIN_EVENT_TIME, None, END_OF_TIME - 1]):
        assert strategy.invalid_event_times(pa.record_batch({"ts": column(fine)})) is None
    end = datetime(1970, 1, 1, tzinfo=UTC) + EVENT_TIME_DELAY
    assert (end.year, end.month, end.day) == (2069, 12, 7)
    assert timedelta(microseconds=END_OF_TIME) == EVENT_TIME_DELAY


@settings(max_examples=50)
@given(wide_times)
def test_event_times_outside_the_range_are_invalid(times):
    strategy = bounded(0).with_timestamp_assigner("ts")
    invalid = strategy.invalid_event_times(pa.record_batch({"ts": column(times)}))
    expected = [t is not None and not MIN_EVENT_TIME <= t < END_OF_TIME for t in times]
    assert (invalid.to_pylist() if invalid is not None else [False] * len(times)) == expected


def test_the_column_is_replaced_in_place_and_keeps_its_metadata():
    schema = pa.schema(
        [
            pa.field("ts", pa.timestamp("ms"), nullable=False, metadata={"doc": "when"}),
            pa.field("v", pa.int32()),
        ],
        metadata={"origin": "x"},
    )
    strategy = bounded(0).with_timestamp_assigner("ts")
    result = strategy.output_schema(schema)
    assert result.names == ["ts", "v"]
    assert not result.field("ts").nullable
    assert result.field("ts").metadata == {b"doc": b"when"}
    assert result.metadata == {b"origin": b"x"}
    batch = pa.record_batch([pa.array([1], pa.timestamp("ms")), pa.array([2], pa.int32())], schema)
    assert strategy.assign(batch).schema.equals(result, check_metadata=True)


def test_a_column_of_the_right_type_is_not_copied():
    strategy = bounded(0).with_timestamp_assigner("ts")
    batch = pa.record_batch({"ts": column([1, 2])})
    assert strategy.assign(batch) is batch


def test_a_computed_event_time_is_appended():
    strategy = bounded(0).with_timestamp_assigner(
        lambda batch: pc.add(batch["a"], 1), column_name="event_time", epoch_unit="s"
    )
    batch = pa.record_batch({"a": [1, None]})
    schema = strategy.output_schema(batch.schema)
    assert schema.names == ["a", "event_time"]
    result = strategy.assign(batch)
    assert result.schema == schema
    assert result["event_time"].view(pa.int64()).to_pylist() == [2 * SECOND, None]
    chunked = bounded(0).with_timestamp_assigner(
        lambda batch: pa.chunked_array([[2], [3]]), column_name="event_time", epoch_unit="s"
    )
    assert chunked.assign(batch)["event_time"].null_count == 0


# --- misuse --------------------------------------------------------------------------------------

TS = pa.schema([("ts", pa.timestamp("us")), ("n", pa.int64()), ("s", pa.string())])
S = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("misuse", "option"),
    [
        (lambda: WatermarkStrategy.for_bounded_out_of_orderness(-S), "max_out_of_orderness"),
        (lambda: WatermarkStrategy.for_bounded_out_of_orderness(5), "max_out_of_orderness"),
        (
            lambda: WatermarkStrategy.for_bounded_out_of_orderness(EVENT_TIME_DELAY),
            "max_out_of_orderness",
        ),
        (lambda: WatermarkStrategy.for_generator(EveryThird()), "factory"),
        (lambda: bounded(0).with_timestamp_assigner(5), "column"),
        (lambda: bounded(0).with_timestamp_assigner(""), "column"),
        (lambda: bounded(0).with_timestamp_assigner(len), "column_name"),
        (lambda: bounded(0).with_timestamp_assigner("n", epoch_unit="m"), "epoch_unit"),
        (lambda: bounded(0).with_idleness(timedelta(0)), "timeout"),
        (lambda: bounded(0).with_idleness(60), "timeout"),
        (lambda: bounded(0).with_watermark_alignment("", S), "group"),
        (lambda: bounded(0).with_watermark_alignment("g", -S), "max_drift"),
        (lambda: bounded(0).with_watermark_alignment("g", S, -S), "update_interval"),
        (lambda: bounded(0).event_time_column, "with_timestamp_assigner"),
        (lambda: bounded(0).output_schema(TS), "with_timestamp_assigner"),
        (lambda: bounded(0).with_timestamp_assigner("x").output_schema(TS), "column"),
        (lambda: bounded(0).with_timestamp_assigner("s").output_schema(TS), "column"),
        (lambda: bounded(0).with_timestamp_assigner("n").output_schema(TS), "epoch_unit"),
        (
            lambda: bounded(0).with_timestamp_assigner("ts", epoch_unit="ms").output_schema(TS),
            "epoch_unit",
        ),
        (
            lambda: bounded(0).with_timestamp_assigner("ts", column_name="n").output_schema(TS),
            "column_name",
        ),
        (
            lambda: (
                bounded(0)
                .with_timestamp_assigner(lambda batch: [1], column_name="t")
                .assign(pa.record_batch({"a": [1]}))
            ),
            "column",
        ),
        (
            lambda: (
                bounded(0)
                .with_timestamp_assigner(lambda batch: pa.array([], "int64"), column_name="t")
                .assign(pa.record_batch({"a": [1]}))
            ),
            "column",
        ),
    ],
)
def test_misuse_is_reported_with_the_option(misuse, option):
    with pytest.raises(ConfigurationError) as caught:
        misuse()
    assert caught.value.option == option


@pytest.mark.parametrize(("column", "is_nested"), [("s.at", True), ("x.at", False)])
def test_an_error_says_how_to_use_a_nested_event_time(column, is_nested):
    with pytest.raises(ConfigurationError, match="has no column") as caught:
        bounded(0).with_timestamp_assigner(column).output_schema(TS)
    assert ("nested field" in str(caught.value.hint)) == is_nested


def test_a_strategy_compares_by_value_and_can_be_pickled():
    strategy = (
        WatermarkStrategy.for_generator(EveryThird)
        .with_timestamp_assigner("n", column_name="event_time", epoch_unit="ms")
        .with_idleness(S)
        .with_watermark_alignment("g", 10 * S, update_interval=S)
    )
    assert pickle.loads(pickle.dumps(strategy)) == strategy
    assert strategy.event_time_column == "event_time"
    assert strategy.idleness == S
    assert (strategy.alignment.group, strategy.alignment.max_drift) == ("g", 10 * S)
    assert strategy.with_idleness(2 * S).idleness == 2 * S
    assert strategy.idleness == S
    assert WatermarkStrategy.for_monotonous_timestamps() == bounded(0)
