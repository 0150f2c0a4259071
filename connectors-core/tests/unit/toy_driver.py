# SPDX-License-Identifier: Apache-2.0
"""A driver and its readers without Spark and without threads, for tests of the coordinator."""

from __future__ import annotations

from other_driver import HeldBy
from toy_source import ToySource, fresh_store, reader_task, rows_of

from connectors_core.engine.coordinator.plan_log import (
    complete_reports,
    newest_plan,
    purge,
    read_plan,
)
from connectors_core.engine.coordinator.query_coordinator import QueryCallbacks, QueryCoordinator
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.execution.reader_task import read_entry
from connectors_core.source import SplitTraits
from connectors_core.testing.manual_mailbox import ManualClock, ManualMailbox

LIVE = SplitTraits(end=False)


class Crash(Exception):
    """The driver dies."""


class Driver:
    """Starts coordinators on one store, reads their plans, and records every row, plan by plan."""

    def __init__(self, store, sources, *, available_now=False, trigger_interval=0.0, groups=None):
        self.root = store
        self.store = store.child("q")
        self.sources = sources  # uid -> keyword arguments of SourceSettings
        self.options = {
            "available_now": available_now,
            "trigger_interval": trigger_interval,
            "groups": groups,
        }
        self.clock = ManualClock()
        self.rows = {}  # (plan, uid, subtask) -> rows
        self.plans = {}
        self.lives = 0
        self.coordinator = None

    def start(self, parallelism=2):
        self.lives += 1
        self.fed, self.errors, self.finished = [], [], 0
        self.crash_at_feed = False
        self.settings = {
            uid: SourceSettings(**({"uid": uid, "parallelism": parallelism} | fields))
            for uid, fields in self.sources.items()
        }
        self.tasks = {
            uid: reader_task(
                each.source,
                self.root,
                uid=uid,
                strategy=each.strategy,
                evaluator=each.evaluator,
                policy=each.policy,
            )
            for uid, each in self.settings.items()
        }
        self.coordinator = QueryCoordinator(
            list(self.settings.values()),
            store=self.store,
            pipeline_id="p",
            query="q",
            lease=HeldBy(self.lives),
            callbacks=QueryCallbacks(
                feed=self._feed, finished=self._finished, failed=self.errors.append
            ),
            mailbox=lambda name, on_error: ManualMailbox(name, on_error, self.clock),
            clock=self.clock,
            **self.options,
        )
        self.mailbox = self.coordinator._mailbox
        newest = self.coordinator.recover()
        if newest >= 0:  # the carriers receive the plan again
            self.plans[newest] = read_plan(self.store, newest)
        self.coordinator.start()
        return self

    def _feed(self, plan):
        if self.crash_at_feed:
            raise Crash
        assert plan.number == newest_plan(self.store)
        before = self.plans.get(plan.number - 1)
        if before is not None:
            assert complete_reports(self.store, before) is not None
        self.fed.append(plan)
        self.plans[plan.number] = plan

    def _finished(self):
        self.finished += 1

    # --- readers ----------------------------------------------------------------------------------

    @property
    def newest(self):
        return self.plans[max(self.plans)] if self.plans else None

    @property
    def outstanding(self):
        """Return the newest plan while it has entries without a report."""
        plan = self.newest
        if plan is None or complete_reports(self.store, plan) is not None:
            return None
        return plan

    def entries(self, plan):
        return [entry for source in plan.sources.values() for entry in source.entries]

    def read(self, entry):
        rows = rows_of(read_entry(self.tasks[entry.source], entry))
        key = entry.plan, entry.source, entry.subtask
        assert sorted(self.rows.setdefault(key, rows)) == sorted(rows)
        return rows

    def consume(self, plan):
        """Run the micro-batch of a plan, as Spark does."""
        rows = [row for entry in self.entries(plan) for row in self.read(entry)]
        self.coordinator.reports_durable(plan.number)
        return rows

    # --- life -------------------------------------------------------------------------------------

    def step(self):
        """Run the next step, and return False if there is none."""
        self.mailbox.run()
        self.mailbox.run_calls()
        if self.errors:
            raise self.errors[0]
        self._assert_queues()
        if self.finished:
            return False
        plan = self.newest
        if plan is not None and self.coordinator._outstanding is not None:
            self.consume(plan)
            return True
        return self.mailbox.to_next_timer()

    def _assert_queues(self):
        for source in self.coordinator.sources.values():
            ledger = source._ledger
            for reader in range(source.settings.parallelism):
                own = [each for each in ledger.splits.values() if each.subtask == reader]
                assert [*ledger.of_reader(reader)] == own

    def run(self, steps=2000):
        """Run to the end."""
        for _ in range(steps):
            if not self.step():
                break
        else:
            raise AssertionError("no end")
        assert self.finished == 1, "stuck"
        return self

    def run_steps(self, steps):
        for _ in range(steps):
            self.step()
        return self

    def run_until(self, condition, steps=500):
        for _ in range(steps):
            if condition():
                return self
            assert self.step(), "stuck"
        raise AssertionError("never")

    def crash(self):
        """Drop the driver and its memory."""
        self.mailbox.close()
        self.coordinator = None

    def purge(self):
        """Purge all plans below the newest snapshot from which every replay can start."""
        number = max(self.plans, default=-1)
        while number > 0 and any(
            source.snapshot is None for source in read_plan(self.store, number).sources.values()
        ):
            number -= 1
        purge(self.store, plans_below=number, epochs_below=0)
        return number

    # --- output ----------------------------------------------------------------------------------

    def emitted(self, uid):
        """Return row numbers by split, in the order of the plans."""
        found = {}
        for plan, source, _ in sorted(self.rows):
            if source == uid:
                for split, n in self.rows[plan, source, _]:
                    found.setdefault(split, []).append(n)
        return found

    def assert_exactly_once(self):
        for uid, settings in self.settings.items():
            wanted = {s: list(range(len(t))) for s, t in settings.source.rows.items() if t}
            assert self.emitted(uid) == wanted

    def watermarks(self, uid):
        return [plan.sources[uid].watermark for _, plan in sorted(self.plans.items())]


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
