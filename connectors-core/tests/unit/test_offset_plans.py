# SPDX-License-Identifier: Apache-2.0
"""Tests plans that hold the whole state of a source, as Spark's offset log stores them."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager

import pytest
from toy_log import LogEnumerator, LogSource
from toy_source import Discovering, Ping, ToySource, fresh_store, reader_task, rows_of

from connectors_core.engine.coordinator.offset_plans import (
    OffsetPlanner,
    check_stops,
    decode_plan,
    encode_plan,
)
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.execution.reader_task import read_whole
from connectors_core.errors import (
    FatalError,
    InvalidOptionError,
    RetryableError,
    UnsupportedError,
)
from connectors_core.source import (
    InputStatus,
    NumberSequenceSource,
    RateLimiterStrategy,
    ReadLimits,
    SplitTraits,
    SupportsForetoldEvents,
)


@contextmanager
def planner_of(source, *, parallelism=2, limits=None, available_now=True):
    settings = SourceSettings(
        uid="s", source=source, parallelism=parallelism, limits=limits or ReadLimits()
    )
    planner = OffsetPlanner(settings, pipeline_id="p", available_now=available_now)
    try:
        yield planner
    finally:
        planner.close()


def stored(plan):
    """Return the plan as it comes back from Spark's offset log."""
    return decode_plan(json.loads(json.dumps(encode_plan(plan))))


class Log(LogSource, SupportsForetoldEvents):
    """A log whose readers send no events."""

    def events_after(self, splits):
        return []


def splits_of(plan):
    return [split.split_id for entry in plan.entries for split in entry.splits]


def rows_in(source, plan):
    task = reader_task(source, fresh_store())
    return [row for entry in plan.entries for row in rows_of(read_whole(task, entry))]


def rows_of_source(source):
    return Counter((split, n) for split, rows in source.rows.items() for n in range(len(rows)))


def read_to_the_end(source, *, restarts=False, **fields):
    """Read until nothing is left; with restarts, a new planner creates every plan."""
    plan, read, plans = None, Counter(), []
    while True:
        with planner_of(source, **fields) as planner:
            while (following := planner.plan_after(plan)) is not None:
                plan = stored(following)
                plans.append(plan)
                read.update(rows_in(source, plan))
                if restarts:
                    break
            else:
                return read, plans


@pytest.mark.parametrize("restarts", [False, True])
def test_all_rows_of_splits_that_end_are_read_once(restarts):
    source = ToySource({f"f{i}": list(range(5)) for i in range(9)})
    limits = ReadLimits(splits=2)
    read, plans = read_to_the_end(source, restarts=restarts, limits=limits)
    assert read == rows_of_source(source)
    assert [plan.number for plan in plans] == list(range(len(plans)))
    assert max(len(splits_of(plan)) for plan in plans) == 2


@pytest.mark.parametrize("restarts", [False, True])
def test_all_rows_of_a_log_are_read_once_within_the_limit_of_rows(restarts):
    source = Log({"p0": list(range(25)), "p1": list(range(7)), "p2": []})
    limits = ReadLimits(rows=10)
    read, plans = read_to_the_end(source, restarts=restarts, limits=limits)
    assert read == rows_of_source(source)
    assert max(len(rows_in(source, plan)) for plan in plans) == 10


def test_the_limit_of_bytes_counts_the_weights_of_whole_splits():
    source = NumberSequenceSource(1, 100, split_rows=10)
    with planner_of(source, limits=ReadLimits(bytes=15)) as planner:
        plan = planner.plan_after(None)
    assert len(splits_of(plan)) == 2


def test_a_limit_of_rows_is_refused_if_the_splits_have_no_planned_stops():
    with (
        planner_of(ToySource({"f": [1]}), limits=ReadLimits(rows=1)) as planner,
        pytest.raises(InvalidOptionError, match="cannot limit the rows") as refusal,
    ):
        planner.plan_after(None)
    assert refusal.value.option == "limits.rows"


def test_a_limit_of_bytes_is_refused_if_the_splits_have_planned_stops():
    with (
        planner_of(Log({"p": [1]}), limits=ReadLimits(bytes=1)) as planner,
        pytest.raises(InvalidOptionError, match="cannot limit the bytes"),
    ):
        planner.plan_after(None)


def test_rows_that_arrive_after_the_start_with_available_now_are_not_planned():
    source = Log({"p": list(range(4))})
    available = rows_of_source(source)
    with planner_of(source, limits=ReadLimits(rows=2)) as planner:
        first = planner.plan_after(None)
        source.rows["p"].extend(range(3))
        second = planner.plan_after(first)
        assert planner.plan_after(second) is None
    read = Counter(row for plan in (first, second) for row in rows_in(source, plan))
    assert read == available


def test_rows_that_arrive_later_are_planned_from_the_stored_position():
    source = Log({"p": list(range(4))})
    with planner_of(source) as planner:
        first = stored(planner.plan_after(None))
    source = Log({"p": list(range(7))})
    with planner_of(source) as planner:
        assert planner.plan_after(first) is None  # the frozen end was the end of the log
    source.rows["q"] = list(range(3))
    with planner_of(source) as planner:
        assert splits_of(planner.plan_after(first)) == ["q"]


def test_available_now_is_refused_if_the_end_of_a_run_needs_events_of_readers():
    with (
        planner_of(LogSource({"p": [1]})) as planner,
        pytest.raises(UnsupportedError, match="trigger availableNow"),
    ):
        planner.plan_after(None)


def test_foretold_events_reach_the_enumerator_now_and_after_a_restart():
    class Pinging(Log):
        def events_after(self, splits):
            return [Ping(split.stop) for split in splits]

    class Hearing(LogEnumerator):
        def handle_source_event(self, subtask_id, event):
            self.log.append(event)

    source = Pinging({"p": list(range(3))}, enumerator=Hearing)
    with planner_of(source) as planner:
        plan = planner.plan_after(None)
        planner.plan_after(plan)
        assert Ping(3) in source.last_enumerator.log
    with planner_of(source) as planner:
        planner.plan_after(stored(plan))
        assert Ping(3) in source.last_enumerator.log


def test_without_available_now_an_empty_source_is_answered_at_once():
    source = ToySource({}, bounded=False, enumerator=Discovering)
    with planner_of(source, available_now=False) as planner:
        assert planner.plan_after(None) is None


def test_a_plan_that_is_read_again_has_the_same_rows():
    source = Log({"p": list(range(9))})
    with planner_of(source, limits=ReadLimits(rows=4)) as planner:
        plan = planner.plan_after(None)
    first = rows_in(source, plan)
    source.rows["p"].extend(range(9))
    assert rows_in(source, stored(plan)) == first


def test_the_enumerator_hears_of_committed_plans_and_positions():
    source = Log({"p": list(range(3))})
    with planner_of(source, available_now=True) as planner:
        plan = planner.plan_after(None)
        planner.plan_after(plan)
        planner.committed(plan.number)
        assert ("complete", 0) in source.last_enumerator.log
        assert source.last_enumerator.committed == [(0, {"p": 3})]
    assert source.last_enumerator.log[-1] == "closed"


def test_the_error_of_an_enumerator_reaches_the_caller():
    class Failing(Discovering):
        def start(self):
            raise InvalidOptionError("no such topic")

    source = ToySource({}, enumerator=Failing)
    with planner_of(source) as planner, pytest.raises(InvalidOptionError, match="no such topic"):
        planner.plan_after(None)


def test_the_error_of_a_plan_reaches_its_caller_before_the_thread_has_ended(monkeypatch):
    monkeypatch.setattr(OffsetPlanner, "_failed", lambda *_: None)  # it comes later
    source = ToySource({"a": [1]})
    source.create_enumerator = lambda _context: 1 / 0
    with planner_of(source) as planner, pytest.raises(ZeroDivisionError):
        planner.plan_after(None)


def test_a_closed_planner_raises_an_error():
    with planner_of(ToySource({"a": [1]})) as planner:
        planner.plan_after(None)
    for call in (lambda: planner.plan_after(None), lambda: planner.committed(0)):
        with pytest.raises(RetryableError, match="has stopped"):
            call()


@pytest.mark.parametrize(
    "source",
    [
        ToySource({}, traits=SplitTraits(end=False)),
        ToySource({}, traits=SplitTraits(replayable=False)),
    ],
)
def test_a_source_whose_plans_do_not_determine_the_rows_is_refused(source):
    with pytest.raises(UnsupportedError, match="without a pipeline") as refusal:
        check_stops(SourceSettings(uid="s", source=source, parallelism=1))
    assert "Pipeline.from_source" in refusal.value.hint


def test_a_source_with_a_rate_is_refused():
    limiter = RateLimiterStrategy.per_second(10)
    settings = SourceSettings(uid="s", source=ToySource({}), parallelism=1, rate_limiter=limiter)
    with pytest.raises(UnsupportedError, match="cannot limit its rate"):
        check_stops(settings)


def test_unfinished_splits_are_counted():
    source = ToySource({f"f{i}": [0] for i in range(4)})
    with planner_of(source, parallelism=4, limits=ReadLimits(splits=3)) as planner:
        assert planner.unfinished_splits() == 0
        plan = planner.plan_after(None)
        assert planner.unfinished_splits() == 4
        planner.plan_after(plan)
        assert planner.unfinished_splits() == 1


def test_a_reader_that_stops_before_the_end_of_a_split_is_an_error():
    class Short(ToySource):
        def create_reader(self, context):
            reader = super().create_reader(context)
            reader.poll_next = lambda output: InputStatus.END_OF_INPUT
            return reader

    source = Short({"f": [1, 2]})
    with planner_of(source) as planner:
        plan = planner.plan_after(None)
    with pytest.raises(FatalError, match="before the end of its splits"):
        rows_in(source, plan)
