# SPDX-License-Identifier: Apache-2.0
"""Tests a query's coordinator with readers in the test: plans, limits, events, and ends."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from toy_driver import Driver
from toy_source import (
    MONOTONOUS,
    Announcing,
    Behaviour,
    Discovering,
    OnRequest,
    Ping,
    Pushing,
    ToySource,
    ToySplit,
    aligned,
    fresh_store,
)

from connectors_core.engine.coordinator import query_coordinator
from connectors_core.engine.coordinator.plan_log import complete_reports, purge, read_plan
from connectors_core.engine.protocol import PLANS, plan_path, report_path
from connectors_core.errors import (
    ConfigurationError,
    LeaseError,
    StateCorruptedError,
    UnsupportedError,
)
from connectors_core.source import (
    RateLimiterStrategy,
    ReadLimits,
    SplitTraits,
    SupportsAvailableNow,
)
from connectors_core.source.alignment import CoordinatorStore
from connectors_core.source.rate_limiter import RateLimiter
from connectors_core.source.watermarks import END_OF_TIME, MAX_WATERMARK, WatermarkGenerator

LIVE = SplitTraits(end=False)
EVERY_ENUMERATOR = pytest.mark.parametrize(
    "enumerator", [OnRequest, Discovering, Pushing, Announcing]
)


def source_of(*sizes, first=10, **fields):
    rows = {f"s{i:02}": list(range(first, first + size)) for i, size in enumerate(sizes)}
    return ToySource(rows, **fields)


def driver_of(source, *, store=None, **fields):
    options = {
        key: fields.pop(key)
        for key in ("available_now", "trigger_interval", "groups")
        if key in fields
    }
    return Driver(store or fresh_store(), {"s": {"source": source} | fields}, **options)


def assigned_splits(driver, uid):
    return [each for plan in driver.plans.values() for each in plan.sources[uid].assigned]


def rows_per_plan(driver):
    totals = {}
    for (plan, _, _), rows in driver.rows.items():
        totals[plan] = totals.get(plan, 0) + len(rows)
    return [totals.get(plan, 0) for plan in sorted(driver.plans)]


# --- a whole source ------------------------------------------------------------------------------


@EVERY_ENUMERATOR
@pytest.mark.parametrize("strategy", [None, MONOTONOUS, aligned(5)])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_bounded_source_is_read_once_and_then_the_query_ends(enumerator, strategy, parallelism):
    driver = driver_of(source_of(7, 0, 12, 1, 30, enumerator=enumerator), strategy=strategy).start(
        parallelism
    )
    driver.run()
    driver.assert_exactly_once()
    if strategy is not None:
        assert driver.watermarks("s")[-1] == END_OF_TIME
        assert driver.newest.last


def test_an_empty_source_ends():
    driver = driver_of(source_of(), strategy=MONOTONOUS).start().run()
    assert driver.rows == {(0, "s", 0): []}
    assert driver.newest.last
    driver = driver_of(source_of()).start().run()
    assert driver.plans == {}


@EVERY_ENUMERATOR
def test_a_restart_near_the_end_still_ends(enumerator):
    source = source_of(6, 6, enumerator=enumerator)
    driver = driver_of(source, strategy=MONOTONOUS, limits=ReadLimits(rows=2)).start()
    driver.run_until(lambda: driver.newest and len(driver.newest.sources["s"].no_more_splits) == 2)
    driver.crash()
    driver.start().run()
    driver.assert_exactly_once()


def test_no_plan_is_made_while_a_report_is_missing():
    driver = driver_of(source_of(9, 9, 9, 9), limits=ReadLimits(rows=4)).start(2)
    driver.mailbox.run()
    first, *others = driver.entries(driver.newest)
    driver.read(first)
    driver.mailbox.to_next_timer()
    assert len(driver.fed) == 1
    for entry in others:
        driver.read(entry)
    driver.coordinator.reports_durable(0)
    driver.coordinator.reports_durable(0)  # Spark runs a batch again
    driver.mailbox.run()
    assert [plan.number for plan in driver.fed] == [0, 1]


def test_reports_that_arrive_before_a_restored_coordinator_starts_are_counted():
    driver = driver_of(source_of(9), limits=ReadLimits(rows=4)).start()
    driver.mailbox.run()
    driver.crash()
    driver.start()
    for entry in driver.entries(driver.newest):
        driver.read(entry)
    driver.mailbox.actions.appendleft(lambda: driver.coordinator._apply(0))
    driver.run()
    driver.assert_exactly_once()


def test_plans_respect_the_trigger_interval():
    driver = driver_of(source_of(6), limits=ReadLimits(rows=2), trigger_interval=10.0).start()
    times = []
    while driver.step():
        if len(driver.fed) > len(times):
            times.append(driver.clock())
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == [10.0, 10.0]


def test_a_live_source_without_rows_is_polled_at_intervals_and_not_in_a_loop():
    source = source_of(50, traits=LIVE, bounded=False, behaviour=Behaviour(visible={"s00": 0}))
    driver = driver_of(source).start()
    before = driver.clock()
    driver.run_steps(40)
    plans = len(driver.fed)
    assert plans > 5
    assert driver.clock() - before >= (plans - 2) * query_coordinator.IDLE_SECONDS
    source.behaviour.visible["s00"] = 50
    driver.run_until(lambda: len(driver.emitted("s").get("s00", [])) == 50)


def test_an_enumerator_that_assigns_nothing_new_is_not_asked_in_a_loop():
    class Stubborn(OnRequest):
        asked = 0

        def handle_split_request(self, subtask_id):
            self.asked += 1
            for split_id in self.source.rows:  # already assigned
                self.context.assign_split(self.source.split(split_id), 0)
            self.context.set_reader_limit(0, ReadLimits(rows=3))

    source = source_of(10, enumerator=Stubborn)
    driver = driver_of(source).start()
    driver.mailbox.run()
    assert source.last_enumerator.asked < 20
    driver.run_until(lambda: len(driver.emitted("s").get("s00", [])) == 10)


# --- limits ---------------------------------------------------------------------------------------


@given(
    limits=st.builds(
        ReadLimits,
        rows=st.none() | st.integers(1, 5),
        bytes=st.none() | st.integers(1, 200),
        splits=st.none() | st.integers(1, 3),
    ),
    parallelism=st.integers(1, 5),
    enumerator=st.sampled_from([OnRequest, Pushing]),
    live=st.booleans(),
)
@settings(deadline=None)
def test_a_limit_below_the_number_of_readers_starves_no_reader(
    limits, parallelism, enumerator, live
):
    source = source_of(
        *[5] * 6, enumerator=enumerator, traits=SplitTraits(end=not live), bounded=not live
    )
    driver = driver_of(source, limits=limits).start(parallelism)
    driver.run_until(lambda: sum(map(len, driver.emitted("s").values())) == 30)
    driver.assert_exactly_once()
    if limits.rows is not None:
        assert max(rows_per_plan(driver)) <= limits.rows
    if limits.splits is not None:
        for plan in driver.plans.values():
            assert sum(len(e.splits) for e in driver.entries(plan)) <= limits.splits


def test_live_splits_under_a_limit_take_turns():
    source = source_of(100, 100, 100, traits=SplitTraits(end=False, ordered=True), bounded=False)
    driver = driver_of(source, limits=ReadLimits(rows=5)).start(1)
    driver.run_until(lambda: len(driver.plans) == 9)
    sizes = [len(numbers) for numbers in driver.emitted("s").values()]
    assert len(sizes) == 3
    assert max(sizes) - min(sizes) <= 5


def test_the_enumerator_can_limit_a_single_reader():
    class Throttling(Pushing):
        def start(self):
            super().start()
            self.context.set_reader_limit(1, ReadLimits(rows=2))

        def handle_source_event(self, subtask_id, event):
            self.context.set_reader_limit(1, None)

    source = source_of(10, 10, enumerator=Throttling)
    driver = driver_of(source).start(2)
    driver.run_until(lambda: len(driver.plans) == 3)
    by_reader = {}
    for (plan, _, subtask), rows in driver.rows.items():
        by_reader.setdefault(subtask, {})[plan] = len(rows)
    assert max(by_reader[1].values()) == 2
    assert max(by_reader[0].values()) == 10


def test_a_reader_with_a_limit_of_zero_takes_no_share_from_the_others():
    class Pausing(Pushing):
        def start(self):
            super().start()
            self.context.set_reader_limit(0, ReadLimits(rows=0))

    source = source_of(10, 10, 10, enumerator=Pausing)
    driver = driver_of(source, limits=ReadLimits(rows=1)).start(3)
    driver.run_until(lambda: sum(rows_per_plan(driver)) == 20)
    entries = [entry for plan in driver.plans.values() for entry in driver.entries(plan)]
    assert {entry.subtask for entry in entries if entry.splits} == {1, 2}


def test_a_reader_that_does_not_exist_is_refused():
    class Wrong(OnRequest):
        def handle_split_request(self, subtask_id):
            self.context.assign_split(ToySplit("s00"), 7)

    driver = driver_of(source_of(1, enumerator=Wrong)).start(2)
    driver.mailbox.run()
    (error,) = driver.errors
    assert isinstance(error, ConfigurationError)
    assert "no reader 7" in str(error)


def test_a_rate_limit_spreads_rows_over_time_and_a_restart_owes_nothing():
    source = source_of(60)
    driver = driver_of(source, rate_limiter=RateLimiterStrategy.per_second(10.0)).start(2)
    began = driver.clock()
    driver.run_until(lambda: sum(rows_per_plan(driver)) >= 40)
    assert driver.clock() - began >= 2.9
    driver.crash()
    driver.start(2)
    again = driver.clock()
    read = sum(rows_per_plan(driver))
    driver.run()
    # A full burst is read at once, and the rest at the rate. The restart owes no earlier rows.
    assert driver.clock() - again <= (60 - read) / 10 + 0.2
    driver.assert_exactly_once()


def test_a_rate_limiter_in_debt_reads_nothing_until_it_is_paid():
    class Debt(RateLimiter):
        def __init__(self):
            self.tokens = [5, -3, -1, 5]

        def permits(self, now):
            return self.tokens.pop(0) if len(self.tokens) > 1 else self.tokens[0]

    class Owing(RateLimiterStrategy):
        def create(self):
            return Debt()

    driver = driver_of(source_of(10), rate_limiter=Owing()).start(1).run()
    assert [rows for rows in rows_per_plan(driver) if rows] == [5, 5]
    driver.assert_exactly_once()


# --- events and notifications of the enumerator --------------------------------------------------


def test_events_travel_to_readers_with_the_plan_and_back_with_the_report():
    class Talking(OnRequest):
        def start(self):
            self.context.send_event_to_source_reader(1, Ping(1))

        def handle_source_event(self, subtask_id, event):
            super().handle_source_event(subtask_id, event)
            if event.number < 300:
                self.context.send_event_to_source_reader(0, Ping(event.number))

    source = source_of(4, enumerator=Talking)
    driver = driver_of(source).start(2).run()
    enumerator = source.last_enumerator
    events = [each for each in enumerator.log if each[0] == "event"]
    assert events == [("event", 1, Ping(101)), ("event", 0, Ping(201)), ("event", 0, Ping(301))]
    assert [each for each in source.behaviour.log if isinstance(each, Ping)] == [
        Ping(1),
        Ping(101),
        Ping(201),
    ]
    driver.assert_exactly_once()


def test_an_event_that_the_source_does_not_declare_is_refused_on_the_driver():
    class Talking(OnRequest):
        def start(self):
            self.context.send_event_to_source_reader(0, Ping(1))

    source = source_of(1, enumerator=Talking)
    source.event_types = ()
    driver = driver_of(source).start()
    driver.mailbox.run()
    assert "Ping" in str(driver.errors[0])


def test_an_enumerator_is_notified_of_its_readers_and_of_completed_plans():
    source = source_of(1)
    driver = driver_of(source).start(3)
    driver.mailbox.run()
    driver.coordinator.notify_complete(0)
    driver.mailbox.run()
    driver.coordinator.stop()
    assert source.last_enumerator.log == [
        ("reader", 0),
        ("reader", 1),
        ("reader", 2),
        ("complete", 0),
        "closed",
    ]


def test_an_enumerator_is_notified_of_the_last_plan_before_it_is_closed():
    source = source_of(1)
    driver = driver_of(source).start(1).run()
    driver.coordinator.notify_complete(0)
    driver.coordinator.stop()
    assert source.last_enumerator.log == [("reader", 0), ("complete", 0), "closed"]


def test_a_discovery_error_fails_the_coordinator_with_its_cause():
    class Broken(Discovering):
        def start(self):
            self.context.call_async(self.look, self.discovered)

        def look(self):
            raise OSError("no such bucket")

    driver = driver_of(source_of(1, enumerator=Broken)).start()
    driver.mailbox.run()
    driver.mailbox.run_calls()
    (error,) = driver.errors
    assert isinstance(error, OSError)
    assert "no such bucket" in str(error)
    driver.coordinator.stop()


def test_an_enumerator_that_fails_to_close_does_not_keep_others_open():
    class Sticky(OnRequest):
        def close(self):
            raise OSError("sticky")

    first, second = source_of(1, enumerator=Sticky), source_of(1)
    driver = Driver(fresh_store(), {"a": {"source": first}, "b": {"source": second}}).start()
    driver.mailbox.run()
    with pytest.raises(OSError, match="sticky"):
        driver.coordinator.stop()
    assert "closed" in second.last_enumerator.log


def test_periodic_discovery_finds_later_splits():
    source = source_of(3, enumerator=Discovering, bounded=False)
    driver = driver_of(source).start()
    driver.run_until(lambda: len(driver.emitted("s")) == 1)
    source.rows["later"] = [1, 2, 3]
    driver.run_until(lambda: "later" in driver.emitted("s"))
    source.complete = True
    driver.run()
    driver.assert_exactly_once()


# --- restarts -------------------------------------------------------------------------------------


def test_with_fewer_readers_unstarted_splits_are_returned_and_started_ones_move():
    source = source_of(6, 6, 6, 6, enumerator=Pushing)
    driver = driver_of(source, limits=ReadLimits(rows=4, splits=2)).start(4)
    driver.run_until(lambda: len(driver.fed) == 2)
    begun = set(driver.emitted("s"))
    driver.consume(driver.newest)
    driver.mailbox.run()
    driver.crash()
    driver.start(1)
    driver.mailbox.run()
    returned = [i for each in source.last_enumerator.log if each[0] == "back" for i in each[2]]
    assert not begun & set(returned)
    driver.run()
    driver.assert_exactly_once()


def test_a_split_assigned_after_the_last_snapshot_is_not_read_twice_with_fewer_readers():
    class OneByOne(OnRequest):
        def handle_split_request(self, subtask_id):
            if len(self.assigned) < 2 or (subtask_id > 0 and "go" in self.source.behaviour.log):
                super().handle_split_request(subtask_id)

    source = source_of(*[4] * 8, enumerator=OneByOne)
    driver = driver_of(source, limits=ReadLimits(rows=2)).start(4)
    driver.run_until(lambda: len(driver.fed) == 2)
    source.behaviour.log.append("go")
    driver.consume(driver.newest)
    driver.mailbox.run()
    plan = driver.newest.sources["s"]
    planned = {split.split_id for entry in plan.entries for split in entry.splits}
    assert plan.snapshot is None
    assert {each.split.split_id for each in plan.assigned} - planned
    OneByOne.handle_split_request = OnRequest.handle_split_request
    driver.crash()
    driver.sources["s"]["limits"] = ReadLimits(splits=1)  # finished before it is discovered again
    driver.start(1).run()
    driver.assert_exactly_once()


def test_the_deltas_of_all_sources_together_decide_when_a_snapshot_is_written():
    big = source_of(*[3] * 300)
    small = source_of(*[1] * 40)
    driver = Driver(
        fresh_store(),
        {
            "big": {"source": big, "limits": ReadLimits(rows=3)},
            "small": {"source": small, "limits": ReadLimits(rows=1, splits=1)},
        },
    ).start(1)
    driver.run_until(lambda: len(driver.plans) >= 33)
    with_snapshot = [
        number
        for number, plan in sorted(driver.plans.items())
        if plan.sources["big"].snapshot is not None
    ]
    assert with_snapshot[:3] == [0, 17, 34][: len(with_snapshot)]


def test_a_missing_report_of_an_older_plan_is_refused():
    driver = driver_of(source_of(9), limits=ReadLimits(rows=2)).start()
    driver.run_until(lambda: len(driver.fed) == 3)
    driver.crash()
    driver.store.delete(report_path(1, "s", 0))
    driver.start()
    driver.mailbox.run()
    assert isinstance(driver.errors[0], StateCorruptedError)


def test_a_report_that_disappears_is_refused():
    driver = driver_of(source_of(9), limits=ReadLimits(rows=2)).start()
    driver.mailbox.run()
    driver.coordinator.reports_durable(0)
    driver.mailbox.run()
    assert "vanished" in str(driver.errors[0])


def test_a_missing_snapshot_is_refused():
    driver = driver_of(source_of(9), limits=ReadLimits(rows=2)).start()
    driver.run_until(lambda: len(driver.fed) == 3)
    driver.crash()
    driver.store.delete(plan_path(0))
    driver.start()
    driver.mailbox.run()
    assert isinstance(driver.errors[0], StateCorruptedError)


def test_a_plan_of_another_driver_ends_this_one():
    driver = driver_of(source_of(9), limits=ReadLimits(rows=2)).start()
    driver.run_until(lambda: len(driver.fed) == 1)
    other = Driver(driver.root, driver.sources)
    other.plans, other.lives = dict(driver.plans), 5
    driver.consume(driver.newest)
    other.start()
    other.mailbox.run()
    driver.mailbox.run()
    (error,) = driver.errors
    assert isinstance(error, LeaseError)
    assert error.holder == {"incarnation": 6}


def test_a_plan_found_by_a_repeated_create_request_belongs_to_this_driver(monkeypatch):
    create = type(PLANS).create

    def created_but_the_answer_was_lost(self, store, path, document):
        create(self, store, path, document)
        return create(self, store, path, document)

    monkeypatch.setattr(type(PLANS), "create", created_but_the_answer_was_lost)
    driver = driver_of(source_of(3)).start()
    driver.mailbox.run()
    assert driver.errors == []
    assert len(driver.fed) == 1


def test_purging_keeps_the_files_that_recovery_needs_and_removes_old_reports_too():
    source = source_of(80)
    driver = driver_of(source, limits=ReadLimits(rows=2)).start()
    driver.run_until(lambda: len(driver.fed) == 25)
    kept = driver.purge()
    assert kept > 0
    assert driver.store.list("plans")[0] == f"{kept:010d}.json"
    folders = {name.split("/")[0] for name in driver.store.list("reports", recursive=True)}
    assert min(folders) == f"{kept:010d}"
    driver.crash()
    driver.start().run()
    driver.assert_exactly_once()


def test_purging_removes_done_marks_and_decisions_below_the_epoch():
    store = fresh_store().child("q")
    for epoch in range(4):
        store.create(f"decisions/{epoch:010d}.json", b"")
        store.create(f"done/{epoch:010d}/sink", b"")
    purge(store, plans_below=0, epochs_below=3)
    assert store.list(recursive=True) == ["decisions/0000000003.json", "done/0000000003/sink"]


# --- available now --------------------------------------------------------------------------------


class Freezing(Discovering, SupportsAvailableNow):
    def freeze_end(self):
        self.found = list(self.source.rows)
        self.complete = True

    def discovered(self, result, error):
        pass


def test_available_now_reads_the_existing_rows_and_ends():
    source = source_of(5, 5, bounded=False, enumerator=Freezing)
    driver = driver_of(source, available_now=True, strategy=MONOTONOUS).start()
    driver.run_until(lambda: driver.fed)
    source.rows["later"] = [1]
    driver.run()
    assert "later" not in driver.emitted("s")
    assert driver.watermarks("s")[-1] == END_OF_TIME


def test_a_drained_source_is_refused_before_the_start():
    source = source_of(5, bounded=False, enumerator=Freezing)
    driver = driver_of(source, available_now=True, strategy=MONOTONOUS).start().run()
    driver.crash()
    driver.options["available_now"] = False
    with pytest.raises(ConfigurationError, match="'s' was drained"):
        driver.start()


def test_available_now_needs_an_enumerator_that_can_freeze():
    driver = driver_of(source_of(5, bounded=False), available_now=True).start()
    driver.mailbox.run()
    assert isinstance(driver.errors[0], UnsupportedError)


# --- watermarks and alignment ---------------------------------------------------------------------


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


def test_plans_are_read_back_unchanged():
    driver = driver_of(source_of(9), limits=ReadLimits(rows=2), strategy=MONOTONOUS).start()
    driver.run()
    for number, plan in driver.plans.items():
        assert read_plan(driver.store, number) == plan
        assert complete_reports(driver.store, plan) is not None
