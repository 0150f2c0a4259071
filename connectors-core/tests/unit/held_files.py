# SPDX-License-Identifier: Apache-2.0
"""Pipelines of one sink that holds files over epochs, for a compaction or a topology."""

from __future__ import annotations

import contextlib
from datetime import timedelta

from two_sinks import SECONDS

from connectors_core.engine.coordinator.epoch_committer import CommitRetries
from connectors_core.engine.coordinator.held_sets import HeldSets
from connectors_core.engine.coordinator.plan_log import decisions_since
from connectors_core.engine.protocol import DecidedCommittable, Versioned
from connectors_core.engine.state import StateStore
from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.faults import Fault, FaultAction, FaultInjected, injected
from connectors_core.testing.local_pipeline import LocalPipeline
from connectors_core.testing.pace import Deadline

ROWS = 120
RETRIES = CommitRetries(attempts=2, initial_seconds=0.0, max_seconds=0.0)


def held_counts(monkeypatch):
    """Return a list to which each decision appends the number of committables held after it."""
    counts = []
    decided = HeldSets.decided

    def counting(self, decision):
        decided(self, decision)
        counts.append(len(self["out"]))

    monkeypatch.setattr(HeldSets, "decided", counting)
    return counts


class Setup:
    """A pipeline of numbers into one sink, 10 rows per epoch. A sink may hold files over epochs."""

    def __init__(self, root, sink_class):
        self.sink_class = sink_class
        self.root = root
        self.store = StateStore(str(root / "state")).child("query-0")

    def sink(self, **settings):
        return self.sink_class(self.root / "out", **settings)

    def pipeline(self, sink, *, source=None, **settings):
        pipeline = LocalPipeline(
            "p",
            checkpoint_location=str(self.root / "state"),
            parallelism=2,
            commit_retries=RETRIES,
            **settings,
        )
        source = source or NumberSequenceSource(0, ROWS - 1, split_rows=30, batch_rows=5)
        rows = pipeline.from_source(source, uid="numbers", limits=ReadLimits(rows=10))
        pipeline.sink_to(rows, sink, uid="out")
        return pipeline

    def run(self, sink, *faults):
        with injected(*faults), self.pipeline(sink) as pipeline:
            assert pipeline.run(timeout=SECONDS)
        return pipeline.status().queries[0].sinks[0]

    def run_until_it_works(self, sink, *faults):
        for _ in range(10):
            with contextlib.suppress(FaultInjected):
                return self.run(sink, *faults)
        raise AssertionError("it never works")

    def values(self):
        rows = DirectorySink(self.root / "out").read()
        return sorted(rows["value"].to_pylist()) if rows.num_columns else []

    def files(self):
        return sorted(path.name for path in (self.root / "out").glob("*.arrow"))

    def staged(self):
        return DirectorySink(self.root / "out").staged()

    def decisions(self):
        return list(decisions_since(self.store, 0).values())

    def assert_complete(self):
        assert self.values() == list(range(ROWS))
        assert self.staged() == []
        assert self.decisions()[-1].holds_since is None

    def crash_at(self, point, nth):
        fault = Fault(point, action=FaultAction.RAISE, once=self.root / "failed", nth=nth)
        self.run_until_it_works(self.sink(), fault)
        assert fault.fired
        self.assert_complete()

    def commit_while_idle(self, sink):
        with self.pipeline(sink, trigger_interval=timedelta(hours=1)) as pipeline:
            pipeline.start()
            deadline = Deadline(SECONDS)
            while len(self.values()) < 10:
                assert not deadline.passed
                assert not pipeline.await_termination(0.02)
        return [each.between for each in self.decisions()]


def a_file(number):
    return DecidedCommittable(
        subtask=0, committable=Versioned(version=1, data=b'{"name":"%d","staged":"s"}' % number)
    )
