# SPDX-License-Identifier: Apache-2.0
"""Tests unbounded splits with planned stops: every row once, idleness, and commits."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from toy_driver import Driver
from toy_log import LogEnumerator, LogSource, LogSplit
from toy_model import DriverModel
from toy_source import (
    MONOTONOUS,
    Behaviour,
    OnRequest,
    ToySource,
    aligned,
    entry_of,
    fresh_store,
    planned,
    read,
    reader_task,
    report_of,
)

from connectors_core.engine.coordinator.enumeration import batch_entries, enumerate_splits
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.protocol import GIVEN_UP_FOLDER, given_up_path
from connectors_core.engine.state import encode_document
from connectors_core.errors import FatalError
from connectors_core.source import PlannedRead, RateLimiterStrategy, ReadLimits, RecordEvaluator
from connectors_core.source.watermarks import END_OF_TIME
from connectors_core.testing.enumeration import all_splits


def log_of(*sizes, first=10, **fields):
    rows = {f"p{i}": list(range(first, first + size)) for i, size in enumerate(sizes)}
    return LogSource(rows, **fields)


def driver_of(source, *, available_now=False, **fields):
    return Driver(fresh_store(), {"s": {"source": source} | fields}, available_now=available_now)


def rows_read(driver):
    return {split: len(numbers) for split, numbers in driver.emitted("s").items()}


def all_read(driver):
    source = driver.settings["s"].source
    return lambda: rows_read(driver) == {s: len(rows) for s, rows in source.rows.items() if rows}


def planned_splits(driver):
    return [
        split.split_id
        for plan in driver.plans.values()
        for entry in driver.entries(plan)
        for split in entry.splits
    ]


def test_existing_rows_are_read_without_a_claim_and_then_nothing_is_planned():
    source = log_of(7, 0, 12)
    driver = driver_of(source).start()
    driver.run_until(all_read(driver))
    driver.run_steps(20)
    driver.assert_exactly_once()
    assert [driver.plans[0], *driver.plans.values()] == [driver.newest] * 2
    assert not any(entry.claim for entry in driver.entries(driver.newest))
    assert sorted(planned_splits(driver)) == ["p0", "p2"]


def test_new_rows_are_planned_as_soon_as_they_are_discovered():
    source = log_of(3)
    driver = driver_of(source).start()
    driver.run_until(all_read(driver))
    driver.run_steps(3)
    source.rows["p0"] += [20, 21]
    appeared = driver.clock()
    driver.run_until(lambda: rows_read(driver) == {"p0": 5})
    assert driver.clock() - appeared <= 0.1  # the discovery interval
    driver.assert_exactly_once()


def test_the_enumerator_spreads_a_limit_of_rows_and_of_splits():
    driver = driver_of(log_of(9, 9, 9), limits=ReadLimits(rows=4)).start(2)
    driver.run_until(all_read(driver))
    driver.assert_exactly_once()
    per_plan = {}
    for (plan, _, _), rows in driver.rows.items():
        per_plan[plan] = per_plan.get(plan, 0) + len(rows)
    assert set(per_plan.values()) == {4, 3}
    entries = [entry for plan in driver.plans.values() for entry in driver.entries(plan)]
    assert not any(entry.claim or entry.limits.rows is not None for entry in entries)
    driver = driver_of(log_of(3, 3, 3), limits=ReadLimits(splits=1)).start(2)
    driver.run_until(all_read(driver))
    assert len(driver.plans) == 3


def test_partitions_under_a_limit_take_turns():
    source = log_of(100, 100, 100)
    driver = driver_of(source, limits=ReadLimits(rows=5)).start(1)
    driver.run_until(lambda: len(driver.plans) == 10)
    assert max(rows_read(driver).values()) - min(rows_read(driver).values()) <= 5


def test_a_partition_that_was_given_up_is_not_read_again_and_holds_back_no_other():
    source = log_of(4, 4)
    driver = driver_of(source).start()
    driver.run_until(all_read(driver))
    mark = {"source": "s", "split": "p1"}
    driver.store.create(given_up_path("s", "p1"), encode_document(GIVEN_UP_FOLDER, mark))
    for rows in source.rows.values():
        rows += [30, 31, 32]
    for _ in range(2):
        driver.start()
        driver.run_until(lambda: rows_read(driver)["p0"] == 7)
        driver.run_steps(20)
    assert rows_read(driver) == {"p0": 7, "p1": 4}


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_rate_limit_holds_back_plans(parallelism):
    rate = RateLimiterStrategy.per_second(10.0)
    driver = driver_of(log_of(20, 20), rate_limiter=rate).start(parallelism)
    began = driver.clock()
    driver.run_until(all_read(driver))
    assert driver.clock() - began >= 2.9
    driver.assert_exactly_once()


def test_a_read_that_a_byte_limit_cuts_gets_a_new_stop():
    source = log_of(30, 30)
    driver = driver_of(source, limits=ReadLimits(bytes=100)).start(1)
    driver.run_until(all_read(driver))
    driver.assert_exactly_once()
    assert len(driver.plans) > 2
    assert all(entry.claim for plan in driver.plans.values() for entry in driver.entries(plan))


def test_a_stop_within_emitted_rows_keeps_the_remaining_rows_to_skip():
    source = log_of(9)
    split = planned(LogSplit("p0", position=2, stop=5), skip=4)
    task, entry = reader_task(source, fresh_store()), entry_of([split])
    assert read(task, entry) == []
    (report,) = report_of(task, entry).splits
    assert (report.finished, report.skip, report.rows) == (True, 1, 0)


def test_rows_of_a_split_that_the_enumerator_resets_are_not_skipped():
    class MadeAnew(LogEnumerator):
        def plan_reads(self, splits, limits):
            ends = {split_id: len(rows) for split_id, rows in self.source.rows.items()}
            now = [
                replace(each, position=0) if each.position > ends[each.split_id] else each
                for each in splits
            ]
            return super().plan_reads(now, limits)

    rows = {"p0": list(range(10, 30)), "p1": [10]}
    source = LogSource(rows, enumerator=MadeAnew, behaviour=Behaviour(block=4))
    driver = driver_of(source, strategy=aligned(5)).start(1)
    driver.run_until(lambda: rows_read(driver) == {"p0": 6, "p1": 1})  # in the middle of a batch
    source.rows |= {"p0": [50, 51, 52], "p1": [10, 100]}
    driver.run_until(lambda: rows_read(driver)["p0"] == 9)
    assert driver.emitted("s")["p0"] == [*range(6), *range(3)]


def test_an_available_now_run_ends_at_the_existing_rows_and_finishes_empty_partitions_too():
    source = log_of(5, 0)
    driver = driver_of(source, available_now=True, strategy=MONOTONOUS).start()
    source.rows["p0"] += [90]
    driver.run_until(lambda: driver.fed)
    source.rows["p0"] += [91]
    source.rows["later"] = [1]
    driver.run()
    assert driver.emitted("s") == {"p0": list(range(6))}
    assert driver.watermarks("s")[-1] == END_OF_TIME


def test_an_available_now_run_resumes_where_an_endless_run_stopped():
    source = log_of(5, 5)
    driver = driver_of(source, limits=ReadLimits(rows=3)).start(3)
    driver.run_until(lambda: len(driver.fed) == 2)
    driver.crash()
    driver.options["available_now"] = True
    driver.start(2).run()
    driver.assert_exactly_once()


def test_a_bounded_log_is_read_to_its_end_in_streaming_and_in_batch():
    source = log_of(8, 0, 5, bounded=True)
    driver = driver_of(source, limits=ReadLimits(rows=3)).start(2).run()
    driver.assert_exactly_once()
    splits = enumerate_splits(SourceSettings(uid="s", source=source, parallelism=2))
    entries = batch_entries(driver.settings["s"], splits, pipeline_id="p", run_id="r")
    serializer = source.split_serializer()
    found = [
        serializer.deserialize(each.state.version, each.state.data)
        for entry in entries
        for each in entry.splits
    ]
    assert sorted(split.stop for split in found) == [0, 5, 8]


def test_the_evaluator_permanently_ends_only_the_matching_partition():
    class Ends(RecordEvaluator):
        def is_end_of_stream(self, row):
            raise NotImplementedError

        def end_row(self, batch):
            for row, (split, n) in enumerate(
                zip(batch["split"].to_pylist(), batch["n"].to_pylist(), strict=True)
            ):
                if (split, n) == ("p0", 4):
                    return row
            return None

    source = log_of(9, 9)
    driver = driver_of(source, evaluator=Ends(), limits=ReadLimits(rows=6)).start(1)
    driver.run_until(lambda: rows_read(driver) == {"p0": 5, "p1": 9})
    driver.coordinator.notify_complete(driver.newest.number)
    driver.run_steps(10)
    assert rows_read(driver) == {"p0": 5, "p1": 9}
    ((_, positions),) = source.last_enumerator.committed
    assert positions["p1"] == 9
    assert positions["p0"] <= 5


def test_the_status_counts_only_permanently_finished_splits_as_finished():
    driver = driver_of(log_of(9), limits=ReadLimits(rows=3)).start(1)
    driver.run_until(all_read(driver))
    driver.mailbox.run()
    seen = driver.coordinator.sources["s"].observe()
    assert seen.splits_finished == 0
    assert [split.rows for split in seen.splits] == [9]
    driver.crash()
    driver.options["available_now"] = True
    driver.start(1).run()
    assert driver.coordinator.sources["s"].observe().splits_finished == 1


# --- watermarks -----------------------------------------------------------------------------------


def test_an_empty_partition_becomes_idle_without_a_plan_and_counts_again_once_it_has_rows():
    source = log_of(5, 0)
    strategy = MONOTONOUS.with_idleness(timedelta(seconds=5))
    driver = driver_of(source, strategy=strategy).start(1)
    driver.run_until(lambda: rows_read(driver) == {"p0": 5})
    began = driver.clock()
    driver.run_until(lambda: driver.watermarks("s")[-1] is not None)
    assert driver.clock() - began >= 4.9
    assert driver.watermarks("s")[-1] == 13
    assert planned_splits(driver) == ["p0"]
    source.rows["p1"] += [20]
    source.rows["p0"] += [30]
    plans = len(driver.plans)
    driver.run_until(lambda: len(driver.plans) == plans + 1)
    assert driver.watermarks("s")[-1] == 13  # the known pending row is not passed
    driver.run_until(lambda: driver.watermarks("s")[-1] == 19)
    driver.assert_exactly_once()


def test_a_partition_that_a_rate_limit_holds_is_not_idle():
    rate = RateLimiterStrategy.per_second(0.1)
    strategy = MONOTONOUS.with_idleness(timedelta(seconds=5))
    driver = driver_of(log_of(3, 3), strategy=strategy, rate_limiter=rate).start(1)
    coordinator = None
    began = driver.clock()
    while driver.clock() - began < 25:
        driver.step()
        coordinator = driver.coordinator.sources["s"]
        idle = [split.idle for split in coordinator.observe().splits]
        assert not any(idle)


# --- obligations of an enumerator ----------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        lambda split: {"other": PlannedRead(split=split, then=None)},
        lambda split: {split.split_id: PlannedRead(split=LogSplit("other"), then=None)},
        lambda split: {split.split_id: PlannedRead(split=split, then=LogSplit("other"))},
    ],
)
def test_a_planned_read_of_an_unknown_split_is_refused(wrong):
    class Confused(LogEnumerator):
        def plan_reads(self, splits, limits):
            return wrong(splits[0]) if splits else {}

    driver = driver_of(log_of(3, enumerator=Confused)).start(1)
    driver.mailbox.run()
    driver.mailbox.run_calls()
    (error,) = driver.errors
    assert isinstance(error, FatalError)
    assert "Confused" in str(error)


def test_an_enumerator_may_temporarily_plan_no_stops():
    class Wrapper(LogEnumerator):
        plans_stops = False

        def plan_reads(self, splits, limits):
            raise AssertionError("asked")

    source = log_of(8, 5, bounded=True, enumerator=Wrapper)
    driver_of(source, limits=ReadLimits(rows=3)).start(2).run().assert_exactly_once()


def test_the_suites_read_live_splits_to_their_planned_stops():
    stops = {split.split_id: split.stop for split in all_splits(log_of(4, 2))}
    assert stops == {"p0": 4, "p1": 2}
    bounded = all_splits(log_of(4, bounded=True))
    assert [(split.position, split.stop, split.last) for split in bounded] == [(0, 4, 4)]


# --- committed positions --------------------------------------------------------------------------


def test_positions_are_reported_only_after_their_plan_is_committed_and_only_once():
    source = log_of(6, 2)
    driver = driver_of(source, limits=ReadLimits(rows=4)).start(1)
    driver.run_until(lambda: len(driver.fed) == 2)
    enumerator = source.last_enumerator
    assert enumerator.committed == []
    driver.coordinator.notify_complete(0)
    driver.run_until(all_read(driver))
    driver.mailbox.run()
    assert enumerator.committed == [(0, {"p0": 4})]
    driver.coordinator.notify_complete(1)
    driver.mailbox.run()
    assert enumerator.committed[1:] == [(1, {"p0": 6, "p1": 2})]
    driver.coordinator.notify_complete(1)
    driver.mailbox.run()
    assert len(enumerator.committed) == 2
    assert enumerator.log[-1] == ("complete", 1)


def test_reported_positions_of_finished_splits_are_their_stops():
    source = log_of(6, 0)
    driver = driver_of(source, available_now=True).start(1).run()
    driver.coordinator.notify_complete(0)
    driver.mailbox.run()
    assert source.last_enumerator.committed == [(0, {"p0": 6, "p1": 0})]


def test_positions_are_reported_after_a_restart_too():
    source = log_of(6)
    driver = driver_of(source, limits=ReadLimits(rows=4)).start(1)
    driver.run_until(lambda: len(driver.fed) == 2)
    driver.crash()
    driver.start(1)
    driver.mailbox.run()
    driver.coordinator.notify_complete(0)
    driver.mailbox.run()
    assert source.last_enumerator.committed == [(0, {"p0": 4})]


# --- random histories ----------------------------------------------------------------------------

steps = st.lists(st.integers(0, 300), max_size=9)
small = st.none() | st.integers(1, 6)


class LogModel(DriverModel):
    """Partitions grow, and the driver crashes and restarts with any parallelism until the end."""

    @initialize(
        sizes=st.lists(st.integers(0, 15), max_size=4),
        strategy=st.sampled_from([None, MONOTONOUS, aligned(20), aligned(500, lag=30)]),
        limits=st.builds(ReadLimits, rows=small, bytes=small, splits=small),
        other=steps,
        seed=st.integers(0, 1000),
    )
    def start(self, sizes, strategy, limits, other, seed):
        self.source = log_of(*sizes, behaviour=Behaviour(seed=seed))
        fields = {"strategy": strategy}
        self.driver = Driver(
            fresh_store(),
            {
                "s": {"source": self.source, "limits": limits} | fields,
                "other": {
                    "source": ToySource(
                        {"o": sorted(10 + step for step in other)}, enumerator=OnRequest
                    )
                }
                | fields,
            },
        )
        self.limits = limits
        self.committed = {}
        self.driver.start(2)

    @rule(which=st.integers(0, 5), late=steps)
    def rows_appear(self, which, late):
        rows = self.source.rows.setdefault(f"p{which}", [])
        for step in late:
            rows.append((rows[-1] if rows else 10) + step)

    @invariant()
    def no_position_is_told_that_was_not_reached(self):
        for plan, positions in self.enumerators_told():
            for split, position in positions.items():
                read = sum(
                    1
                    for (number, uid, _), rows in self.driver.rows.items()
                    for row in rows
                    if number <= plan and uid == "s" and row[0] == split
                )
                assert position <= read

    def enumerators_told(self):
        enumerator = self.source.last_enumerator
        return [] if enumerator is None else enumerator.committed

    def read_to_the_end(self):
        self.driver.crash()
        self.driver.options["available_now"] = True
        self.driver.start().run()
        self.driver.assert_exactly_once()
        plans = {}
        for (plan, uid, _), rows in self.driver.rows.items():
            if uid == "s":
                plans[plan] = plans.get(plan, 0) + len(rows)
        if self.limits.rows is not None:
            assert max(plans.values(), default=0) <= self.limits.rows
        entries = [e for plan in self.driver.plans.values() for e in self.driver.entries(plan)]
        if self.limits.bytes is None:
            assert not any(entry.claim for entry in entries)


TestLogModel = LogModel.TestCase
TestLogModel.settings = settings(deadline=None, max_examples=40, stateful_step_count=30)
