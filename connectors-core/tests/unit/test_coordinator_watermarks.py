# SPDX-License-Identifier: Apache-2.0
"""Tests the watermarks of a query's coordinator: alignment, idleness, and late rows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from toy_driver import LIVE, Driver, driver_of, source_of
from toy_source import (
    MONOTONOUS,
    Announcing,
    Behaviour,
    Discovering,
    OnRequest,
    Pushing,
    ToySource,
    ToySplit,
    aligned,
    fresh_store,
)

from connectors_core.source import (
    ReadLimits,
    SplitTraits,
)
from connectors_core.source.alignment import CoordinatorStore
from connectors_core.source.watermarks import END_OF_TIME, MAX_WATERMARK, WatermarkGenerator


def assigned_splits(driver, uid):
    return [each for plan in driver.plans.values() for each in plan.sources[uid].assigned]


def assert_no_row_is_late(driver, uid="s"):
    """Check that no row of a plan is at or below the watermark announced by the previous plan."""
    source = driver.settings[uid].source
    announced = None
    for number, plan in sorted(driver.plans.items()):
        if announced is not None:
            for (p, u, _), rows in driver.rows.items():
                if (p, u) == (number, uid):
                    for split, n in rows:
                        assert source.rows[split][n] > announced, (number, split, n, announced)
        announced = plan.sources[uid].watermark


files = st.lists(
    st.lists(st.integers(1, 10_000), min_size=1, max_size=6).map(sorted), min_size=1, max_size=8
)


class InAnyOrder(OnRequest):
    """Ignores event time. It assigns splits in discovery order and reports the pending ones."""

    def known(self):
        return [i for i in self.source.rows if i not in self.assigned]

    def unassigned_splits(self):
        return [self.source.split(i) for i in self.known()] + self.returned


@example(
    files=[[1, 2, 2], [1, 2, 2], [1]],
    parallelism=1,
    limits=ReadLimits(rows=1, splits=1),
    strategy=MONOTONOUS,
    enumerator=OnRequest,
)
@given(
    files=files,
    parallelism=st.integers(1, 3),
    limits=st.builds(
        ReadLimits, rows=st.none() | st.integers(1, 4), splits=st.none() | st.integers(1, 3)
    ),
    strategy=st.sampled_from([MONOTONOUS, aligned(50), aligned(3000)]),
    enumerator=st.sampled_from([OnRequest, InAnyOrder, Announcing]),
)
@settings(deadline=None)
def test_the_watermark_never_passes_a_row_that_is_still_to_come(
    files, parallelism, limits, strategy, enumerator
):
    source = ToySource({f"f{i}": rows for i, rows in enumerate(files)}, enumerator=enumerator)
    driver = driver_of(source, strategy=strategy, limits=limits).start(parallelism).run()
    driver.assert_exactly_once()
    assert_no_row_is_late(driver)


@given(
    left=files,
    right=files,
    drift=st.integers(0, 500),
    lag=st.integers(0, 100),
    parallelism=st.integers(1, 3),
    rows=st.none() | st.integers(1, 5),
    enumerators=st.tuples(*[st.sampled_from([OnRequest, InAnyOrder, Pushing, Announcing])] * 2),
)
@settings(deadline=None)
def test_two_aligned_sources_with_any_gaps_never_deadlock_and_never_exceed_the_drift(
    left, right, drift, lag, parallelism, rows, enumerators
):
    strategy = aligned(drift, lag=lag)
    sources = {
        uid: {
            "source": ToySource(
                {f"{uid}{i}": times for i, times in enumerate(each)}, enumerator=enumerator
            ),
            "strategy": strategy,
            "limits": ReadLimits(rows=rows),
        }
        for uid, each, enumerator in (("a", left, enumerators[0]), ("b", right, enumerators[1]))
    }
    driver = Driver(fresh_store(), sources).start(parallelism).run()
    driver.assert_exactly_once()
    assert_no_row_is_late(driver, "a")
    assert_no_row_is_late(driver, "b")
    for plan in driver.plans.values():
        for entry in driver.entries(plan):
            if entry.max_watermark in (None, MAX_WATERMARK):
                continue
            source = driver.settings[entry.source].source
            for split, n in driver.rows[entry.plan, entry.source, entry.subtask]:
                assert source.rows[split][n] - lag - 1 <= entry.max_watermark


@pytest.mark.parametrize("enumerator", [OnRequest, Announcing])
def test_a_source_held_by_alignment_gets_no_splits_that_it_cannot_read(enumerator):
    far = source_of(*[3] * 40, first=1_000_000, enumerator=enumerator)
    near = source_of(200, first=10)
    driver = Driver(
        fresh_store(),
        {
            "far": {"source": far, "strategy": aligned(5)},
            "near": {"source": near, "strategy": aligned(5), "limits": ReadLimits(rows=3)},
        },
    ).start(1)
    driver.run_until(lambda: len(driver.plans) == 30)
    assert len({a.split.split_id for a in assigned_splits(driver, "far")}) <= 2
    driver.run()
    driver.assert_exactly_once()


def test_every_plan_of_aligned_sources_reaches_as_far_as_the_last_reports_allow():
    drift = 35
    days = {f"s{day:02}": list(range(10 * day, 10 * day + 10)) for day in range(1, 41)}
    sources = {uid: {"source": ToySource(days), "strategy": aligned(drift)} for uid in "ab"}
    driver = Driver(fresh_store(), sources).start(1).run()
    driver.assert_exactly_once()
    assert len(driver.plans) <= 400 / drift + 2


class WithoutBounds(ToySource):
    """Its splits have no known bounds before they are read."""

    def split(self, split_id):
        return ToySplit(split_id)


class WithBoundsFarBelow(ToySource):
    """The known lower bounds of its splits are far below their rows."""

    def split(self, split_id):
        return ToySplit(split_id, lower=1)


def split_per_plan(driver, plans, *, times, restart=False):
    """Add a split while each plan is read, in addition to the initial splits."""
    source = driver.settings["s"].source
    appeared = {}
    for number in range(plans):
        while len(driver.plans) <= number:
            driver.mailbox.run()
            assert len(driver.plans) > number or driver.mailbox.to_next_timer(), "stuck"
        source.rows[f"later{number:03}"] = times(number)
        appeared[f"later{number:03}"] = number
        if restart:
            driver.crash()
            driver.start(1)
            driver.mailbox.run()
        if isinstance(source.last_enumerator, Announcing):
            source.last_enumerator.look()  # at once, and not only when readers request splits
        driver.consume(driver.newest)
    driver.run_until(lambda: len(driver.plans) > plans)
    return appeared


@pytest.mark.parametrize("source_class", [WithoutBounds, WithBoundsFarBelow])
@pytest.mark.parametrize(
    ("enumerator", "strategy", "limits"),
    [
        (OnRequest, MONOTONOUS, ReadLimits()),
        (OnRequest, aligned(1000), ReadLimits()),
        (InAnyOrder, MONOTONOUS, ReadLimits(splits=1)),  # so some splits are always pending
        (InAnyOrder, aligned(1000), ReadLimits()),
        (Announcing, MONOTONOUS, ReadLimits(splits=1)),
        (Announcing, aligned(1000), ReadLimits()),
    ],
)
def test_an_endless_supply_of_new_splits_does_not_hold_back_the_watermark_forever(
    source_class, enumerator, strategy, limits
):
    source = source_class(
        {f"first{n}": [100 * n + 1, 100 * n + 99] for n in range(3)},
        bounded=False,
        enumerator=enumerator,
    )
    driver = driver_of(source, strategy=strategy, limits=limits).start(1)
    split_per_plan(driver, 20, times=lambda n: [100 * n + 301, 100 * n + 399])
    marks = driver.watermarks("s")
    assert marks[20] > marks[12] > marks[8] > 0
    assert_no_row_is_late(driver)


growing = st.lists(
    st.tuples(st.lists(st.integers(1, 500), min_size=1, max_size=4).map(sorted), st.booleans()),
    min_size=1,
    max_size=8,
)


@given(
    first=growing,
    later=growing,
    limits=st.builds(
        ReadLimits, rows=st.none() | st.integers(1, 4), splits=st.none() | st.integers(1, 2)
    ),
    enumerator=st.sampled_from([OnRequest, InAnyOrder, Announcing]),
)
@settings(deadline=None, max_examples=25)
def test_a_row_is_late_only_if_later_rows_were_read_before_its_split_was_discovered(
    first, later, limits, enumerator
):
    bounds = {}

    class SomeBounds(ToySource):
        def split(self, split_id):
            return super().split(split_id) if bounds[split_id] else ToySplit(split_id)

    for n, (_, known) in enumerate(first):
        bounds[f"first{n}"] = known
    for n, (_, known) in enumerate(later):
        bounds[f"later{n:03}"] = known

    def run(restart):
        rows = {f"first{n}": times for n, (times, _) in enumerate(first)}
        source = SomeBounds(
            rows, bounded=False, enumerator=enumerator, behaviour=Behaviour(block=1)
        )
        driver = driver_of(source, strategy=MONOTONOUS, limits=limits).start(1)
        appeared = split_per_plan(driver, len(later), times=lambda n: later[n][0], restart=restart)
        source.complete = True
        driver.run()
        driver.assert_exactly_once()
        return driver, source, appeared

    driver, source, appeared = run(restart=False)
    found = dict(appeared)
    if enumerator is OnRequest:  # it reports a split only when it assigns it
        for (number, *_), rows in sorted(driver.rows.items(), reverse=True):
            found |= {split: number for split, _ in rows}
    reached = announced = 0
    read_before = {}
    for number, plan in sorted(driver.plans.items()):
        read_before[number] = reached
        rows = [row for key, rows in driver.rows.items() if key[0] == number for row in rows]
        for split, n in rows:
            time = source.rows[split][n]
            reached = max(reached, time)
            if time <= announced:
                assert split in appeared, "a split of the first discovery is late"
                plan_then = found[split]
                by_bounds_of_others = driver.watermarks("s")[plan_then] or 0
                reached_then = max(read_before[plan_then] - 1, by_bounds_of_others)
                assert time <= reached_then, (split, time)
        announced = plan.sources["s"].watermark or 0
    if enumerator is not InAnyOrder:  # after a restore, it also reports newer splits
        assert run(restart=True)[0].watermarks("s") == driver.watermarks("s")


def test_queries_of_a_pipeline_share_alignment_groups_and_leave_them_when_they_stop():
    groups = CoordinatorStore()
    store = fresh_store()
    slow = driver_of(
        source_of(5, bounded=False, enumerator=Discovering),
        store=store.child("slow"),
        groups=groups,
        strategy=aligned(10),
    )
    fast = driver_of(
        source_of(200, first=1000),
        store=store.child("fast"),
        groups=groups,
        strategy=aligned(10),
    )
    slow.sources = {"slow": slow.sources.pop("s")}
    fast.start()
    slow.start()
    fast.run_steps(20)
    assert fast.emitted("s") == {}  # the slow source has not started
    slow.run_until(lambda: len(slow.emitted("slow").get("s00", [])) == 5)
    fast.run_steps(20)
    slow.coordinator.stop()
    fast.run()
    fast.assert_exactly_once()


class Periodic(WatermarkGenerator):
    highest = None

    def on_batch(self, event_times):
        self.highest = max(int(event_times.max()), self.highest or 0)

    def current(self):
        return self.highest

    def state(self):
        return {"highest": self.highest}

    def restore(self, state):
        self.highest = state.get("highest")


def test_reads_whose_end_depends_on_batch_boundaries_are_claimed():
    source = source_of(5, traits=SplitTraits(ordered=True))

    def claims(**fields):
        driver = driver_of(source, **fields).start(1)
        driver.mailbox.run()
        (entry,) = driver.entries(driver.newest)
        return entry.claim

    periodic = aligned(5).for_generator(Periodic, per_record=False)
    periodic = periodic.with_timestamp_assigner("t", epoch_unit="us")
    assert not claims()
    assert not claims(limits=ReadLimits(rows=3))
    assert claims(limits=ReadLimits(seconds=3.0))
    assert not claims(strategy=aligned(5))
    assert not claims(strategy=periodic)
    assert claims(strategy=periodic.with_watermark_alignment("g", timedelta(0)))
    source.traits = SplitTraits()
    assert not claims()
    assert claims(limits=ReadLimits(rows=3))
    source.traits = LIVE
    assert claims()


def test_a_split_is_idle_only_for_the_time_in_which_it_was_polled():
    strategy = MONOTONOUS.with_idleness(timedelta(seconds=5))
    source = source_of(
        1000,
        1000,
        traits=SplitTraits(end=False, ordered=True),
        bounded=False,
        behaviour=Behaviour(visible={"s00": 0, "s01": 0}),
    )
    driver = driver_of(source, strategy=strategy, limits=ReadLimits(splits=1)).start(1)
    coordinator = driver.coordinator.sources["s"]

    def idle():
        return [split.idle for split in coordinator.observe().splits]

    began = driver.clock()
    driver.run_until(lambda: driver.clock() - began >= 5.0)
    assert idle() == [False, False]  # each was polled at most half of the time


def beside(other, *, idleness=5.0, **quiet):
    """Create a source of growing splits next to another one, each with a watermark."""
    strategy = MONOTONOUS.with_idleness(timedelta(seconds=idleness))
    busy = source_of(500, traits=LIVE, bounded=False, behaviour=Behaviour(visible={"s00": 10}))
    driver = Driver(
        fresh_store(),
        {
            "busy": {"source": busy, "strategy": MONOTONOUS},
            "other": {"source": other, "strategy": strategy} | quiet,
        },
    ).start(1)
    return driver, busy


def grow(driver, source, rows):
    visible = source.behaviour.visible
    visible["s00"] += rows
    wanted = visible["s00"]
    driver.run_until(lambda: len(driver.emitted("busy").get("s00", [])) == wanted)
    driver.run_until(lambda: driver.watermarks("busy")[-1] == wanted + 8)


@pytest.mark.parametrize(
    ("had_a_split", "enumerator"), [(False, Discovering), (True, Discovering), (False, OnRequest)]
)
def test_a_source_without_splits_holds_back_no_other_source_once_it_is_idle(
    had_a_split, enumerator
):
    other = ToySource({"a": [3, 4, 5]} if had_a_split else {}, bounded=False, enumerator=enumerator)
    driver, busy = beside(other)
    began = driver.clock()
    driver.run_until(lambda: driver.watermarks("busy")[-1:] == [18])
    driver.run_until(lambda: driver.watermarks("other")[-1] == (4 if had_a_split else None))
    driver.run_until(lambda: driver.watermarks("other")[-1] == 18)
    assert driver.clock() - began >= 5
    grow(driver, busy, 20)
    assert driver.watermarks("other")[-1] == driver.watermarks("busy")[-1] == 38
    other.rows["b"] = [50, 60]  # now it counts again
    driver.run_until(lambda: "b" in driver.emitted("other"))
    grow(driver, busy, 100)
    assert driver.watermarks("busy")[-1] == 138
    assert driver.watermarks("other")[-1] == 59


def test_a_source_whose_splits_are_all_idle_holds_back_no_other_source():
    behaviour = Behaviour(visible={"s00": 1, "s01": 2})
    other = source_of(500, 500, first=1, traits=LIVE, bounded=False, behaviour=behaviour)
    driver, busy = beside(other)
    driver.run_until(lambda: driver.watermarks("other")[-1:] == [18])
    driver.crash()
    driver.start(1)
    driver.mailbox.run()
    grow(driver, busy, 10)
    assert driver.watermarks("other")[-1] == 18  # idle by the driver's clock, as in Flink
    driver.run_until(lambda: driver.watermarks("other")[-1] == 28)
    behaviour.visible["s01"] = 5  # late rows after idleness: no step back
    driver.run_until(lambda: len(driver.emitted("other")["s01"]) == 5)
    driver.run_until(lambda: driver.watermarks("busy")[-1] == 28)
    assert driver.watermarks("other")[-1] == 28


def test_if_all_sources_are_idle_the_highest_watermark_counts():
    other = source_of(500, first=100, traits=LIVE, bounded=False)
    other.behaviour.visible["s00"] = 3
    driver, _ = beside(other)
    driver.crash()
    driver.sources["busy"]["strategy"] = driver.sources["other"]["strategy"]
    driver.start(1)
    driver.run_until(lambda: driver.watermarks("busy")[-1:] == [101])
    assert driver.watermarks("other")[-1] == 101


def test_a_source_is_not_idle_before_its_first_discovery():
    class Slow(Discovering):
        """Its first discovery takes longer than the test."""

        def start(self):
            self.context.call_async(
                lambda: ([], False), self.discovered, initial_delay=timedelta(hours=1)
            )

    other = ToySource({}, bounded=False, enumerator=Slow)
    driver, busy = beside(other)
    driver.run_until(lambda: driver.clock() > 1060)
    grow(driver, busy, 20)
    assert set(driver.watermarks("other")) == {None}


def test_a_finished_source_does_not_advance_an_idle_one():
    ended = source_of(5)
    strategy = MONOTONOUS.with_idleness(timedelta(seconds=1))
    quiet = ToySource({}, bounded=False, enumerator=Discovering)
    driver = Driver(
        fresh_store(),
        {
            "ended": {"source": ended, "strategy": MONOTONOUS},
            "quiet": {"source": quiet, "strategy": strategy},
        },
    ).start(1)
    driver.run_until(lambda: driver.watermarks("ended")[-1:] == [END_OF_TIME])
    over = driver.clock() + 5
    driver.run_until(lambda: driver.clock() > over)
    assert driver.watermarks("quiet")[-1] is None
    quiet.rows["a"] = [1_000]
    driver.run_until(lambda: driver.watermarks("quiet")[-1] == 999)
