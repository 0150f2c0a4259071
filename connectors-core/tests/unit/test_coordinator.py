# SPDX-License-Identifier: Apache-2.0
"""Tests a query's coordinator with readers in the test: plans, limits, events, and ends."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_driver import LIVE, Driver, driver_of, source_of
from toy_source import (
    MONOTONOUS,
    Announcing,
    Behaviour,
    Discovering,
    OnRequest,
    Ping,
    Pushing,
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
from connectors_core.source.rate_limiter import RateLimiter
from connectors_core.source.watermarks import END_OF_TIME

EVERY_ENUMERATOR = pytest.mark.parametrize(
    "enumerator", [OnRequest, Discovering, Pushing, Announcing]
)


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


def test_plans_are_read_back_unchanged():
    driver = driver_of(source_of(9), limits=ReadLimits(rows=2), strategy=MONOTONOUS).start()
    driver.run()
    for number, plan in driver.plans.items():
        assert read_plan(driver.store, number) == plan
        assert complete_reports(driver.store, plan) is not None


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


class Asking(Pushing):
    """Requests a snapshot when it has discovered a certain split."""

    def discovered(self, result, error):
        if "later" in result[0] and "later" not in self.found:
            self.context.request_snapshot()
        super().discovered(result, error)


def plans_with_snapshot(driver):
    return [
        number
        for number, plan in sorted(driver.plans.items())
        if any(source.snapshot is not None for source in plan.sources.values())
    ]


def test_the_first_discovery_of_a_slow_source_is_stored_although_another_source_was_planned():
    """Else a restart would discover the first splits again, and could fix another end."""
    quick, slow = source_of(*[3] * 9), source_of(*[3] * 9, enumerator=Pushing)
    driver = Driver(
        fresh_store(),
        {
            "quick": {"source": quick, "limits": ReadLimits(rows=3, splits=1)},
            "slow": {"source": slow, "limits": ReadLimits(rows=3, splits=1)},
        },
    ).start(1)
    driver.mailbox.run()
    discovery = [driver.mailbox.calls.popleft() for _ in range(len(driver.mailbox.calls))]
    driver.consume(driver.newest)
    driver.mailbox.run()
    assert [plan.sources["slow"].assigned for plan in driver.plans.values()] == [()] * 2
    driver.mailbox.calls.extend(discovery)
    driver.run_until(lambda: driver.newest.sources["slow"].assigned)
    assert plans_with_snapshot(driver) == [0, driver.newest.number]


def test_an_enumerator_can_request_a_snapshot():
    source = source_of(3, enumerator=Asking, bounded=False)
    driver = driver_of(source).start()
    driver.run_until(lambda: len(driver.emitted("s")) == 1)
    source.rows["later"] = [1, 2, 3]
    driver.run_until(lambda: "later" in driver.emitted("s"))
    with_later = [
        plan.number
        for plan in driver.plans.values()
        if any(each.split.split_id == "later" for each in plan.sources["s"].assigned)
    ]
    assert plans_with_snapshot(driver) == [0, *with_later]


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


def test_another_run_of_a_drained_source_says_why_it_reads_nothing(caplog):
    source = source_of(5, bounded=False, enumerator=Freezing)
    driver = driver_of(source, available_now=True, strategy=MONOTONOUS).start().run()
    assert "drained" not in caplog.text
    source.rows["later"] = [1]
    driver.crash()
    driver.start().run()
    assert "later" not in driver.emitted("s")
    assert "source 's' reads no further data: an earlier run drained it" in caplog.text


def test_available_now_needs_an_enumerator_that_can_freeze():
    driver = driver_of(source_of(5, bounded=False), available_now=True).start()
    driver.mailbox.run()
    assert isinstance(driver.errors[0], UnsupportedError)
