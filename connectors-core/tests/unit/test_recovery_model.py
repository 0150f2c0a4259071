# SPDX-License-Identifier: Apache-2.0
"""A model of driver, readers, and crashes: no row is lost or duplicated."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
)
from toy_driver import Crash, Driver
from toy_model import DriverModel
from toy_source import (
    MONOTONOUS,
    Announcing,
    Behaviour,
    Discovering,
    OnRequest,
    Pushing,
    ToySource,
    aligned,
    fresh_store,
)

from connectors_core.engine.coordinator.plan_log import (
    complete_reports,
    newest_plan,
    plans_since_snapshot,
    read_plan,
)
from connectors_core.source import ReadLimits, SplitTraits
from connectors_core.source.watermarks import END_OF_TIME

MOST_SPLITS = 12
times = st.lists(st.integers(1, 2000), max_size=12)
parallelisms = st.integers(1, 4)
small = st.none() | st.integers(1, 6)


class RecoveryModel(DriverModel):
    """Crashes occur at any moment and change the parallelism. At the end, everything is read."""

    @initialize(
        rows=st.lists(st.lists(times, max_size=5), min_size=1, max_size=2),
        enumerators=st.lists(
            st.sampled_from([OnRequest, Discovering, Pushing, Announcing]), min_size=2, max_size=2
        ),
        ordered=st.booleans(),
        strategy=st.sampled_from([None, MONOTONOUS, aligned(20), aligned(500)]),
        limits=st.builds(ReadLimits, rows=small, bytes=small, splits=small),
        parallelism=parallelisms,
        seed=st.integers(0, 1000),
    )
    def start(self, rows, enumerators, ordered, strategy, limits, parallelism, seed):
        self.sources = []
        for number, splits in enumerate(rows):
            source = ToySource(
                {f"{number}-{at}": sorted(split) for at, split in enumerate(splits)},
                traits=SplitTraits(ordered=ordered),
                enumerator=enumerators[number],
                behaviour=Behaviour(seed=seed),
            )
            source.complete = enumerators[number] in (OnRequest, Announcing)  # the others poll
            self.sources.append(source)
        self.strategy = strategy
        self.driver = Driver(
            fresh_store(),
            {
                f"s{number}": {"source": source, "strategy": strategy, "limits": limits}
                for number, source in enumerate(self.sources)
            },
        )
        self.driver.start(parallelism)

    # --- actions at any moment -------------------------------------------------------------------

    @precondition(lambda self: any(len(s.rows) < MOST_SPLITS for s in self.sources))
    @rule(which=st.integers(0, 1), late=times)
    def a_split_appears(self, which, late):
        source = self.sources[which % len(self.sources)]
        if not source.complete:
            number = self.sources.index(source)
            source.rows[f"{number}-{len(source.rows)}"] = sorted(late)

    @rule(which=st.integers(0, 1))
    def no_more_splits_will_appear(self, which):
        self.sources[which % len(self.sources)].complete = True

    @rule(parallelism=parallelisms)
    def the_driver_crashes_between_plan_and_carrier(self, parallelism):
        self.driver.crash_at_feed = True
        self.driver.mailbox.run()
        assert all(isinstance(error, Crash) for error in self.driver.errors)
        self.driver.crash()
        self.driver.start(parallelism)

    # --- invariants at every moment --------------------------------------------------------------

    @invariant()
    def plans_are_dense_and_at_most_one_is_unconsumed(self):
        newest = newest_plan(self.driver.store)
        for number in range(self.purged_below, newest):
            plan = read_plan(self.driver.store, number)
            assert plan.number == number
            assert complete_reports(self.driver.store, plan) is not None
        names = self.driver.store.list("plans")
        assert len(names) == newest + 1 - self.purged_below

    @invariant()
    def recovery_finds_a_snapshot_not_far_back(self):
        newest = newest_plan(self.driver.store)
        if newest >= 0:
            assert 1 <= len(plans_since_snapshot(self.driver.store, newest)) <= 17

    @invariant()
    def no_more_rows_came_than_there_are(self):
        for uid, each in self.driver.settings.items():
            for split, numbers in self.driver.emitted(uid).items():
                assert len(numbers) <= len(each.source.rows[split])

    def read_to_the_end(self):
        for source in self.sources:
            source.complete = True
        self.driver.run()
        self.driver.assert_exactly_once()
        for uid in self.driver.settings:
            marks = [mark for mark in self.driver.watermarks(uid) if mark is not None]
            assert marks == sorted(marks)
            if self.strategy is not None:
                assert marks[-1] == END_OF_TIME
        # A finished query that is started again ends at once.
        plans = newest_plan(self.driver.store)
        self.driver.crash()
        self.driver.start().run()
        assert newest_plan(self.driver.store) == plans


TestRecoveryModel = RecoveryModel.TestCase
TestRecoveryModel.settings = settings(deadline=None, max_examples=60, stateful_step_count=30)
