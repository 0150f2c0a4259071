# SPDX-License-Identifier: Apache-2.0
"""The tools of one sink case."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from connectors_core.engine.coordinator.held_sets import HeldSets
from connectors_core.engine.coordinator.plan_log import decisions_since, newest_decision
from connectors_core.engine.protocol import DecidedCommittable, SinkDecision
from connectors_core.engine.query.status import PipelineState
from connectors_core.engine.recovery import backup
from connectors_core.engine.recovery.locations import Locations
from connectors_core.engine.state import StateStore
from connectors_core.errors import CommitError, ConfigurationError, ConnectorError
from connectors_core.sink import Sink, SupportsCompaction
from connectors_core.source import DataGeneratorSource, ReadLimits
from connectors_core.source.source import AnySource
from connectors_core.testing.context import ROWS, SinkExternalContext
from connectors_core.testing.data import (
    assert_at_least,
    assert_exactly,
    make_rows,
)
from connectors_core.testing.driver import DriverJob
from connectors_core.testing.environment import TestEnvironment
from connectors_core.testing.faults import (
    Fault,
    FaultAction,
    FaultPoint,
    injected,
)
from connectors_core.testing.topologies import Topology, Watch
from connectors_core.testing.trial import (
    Trial,
)

# Micro-batches are the main cost of a case on Spark, so cases use few of them where possible.
TOTAL: Final = 120
PLANS: Final = 4
MANY_PLANS: Final = 10
FURTHER: Final = pa.field("extra", pa.string())


class SinkTrial(Trial):
    """A case in progress: its external system, its pipelines, and the written rows."""

    def __init__(
        self,
        environment: TestEnvironment,
        new_context: Callable[[str], SinkExternalContext],
        root: Path,
        seed: int,
        exactly_once: bool,
    ) -> None:
        super().__init__(environment, root, seed)
        self.new_context = new_context
        self.context = new_context("external")
        self._exactly_once = exactly_once
        self._outages = itertools.count()

    def expected(self) -> list[pa.Table]:
        """Return all rows that a pipeline writes."""
        return [make_rows(0, 0, TOTAL, self._seed)]

    def pipeline(self, **settings: Any) -> Any:
        """Return a pipeline of known rows into the sink.

        Each pipeline resumes after the previous one.
        """
        return self.job(**settings).build(self.environment)

    def write_all(self, **settings: Any) -> None:
        """Run a pipeline to its end."""
        with self.pipeline(**settings) as pipeline:
            self.run_to_end(pipeline)

    def write_some(self, **settings: Any) -> None:
        """Run a pipeline for at least two epochs, and stop it."""
        with self.pipeline(plans=MANY_PLANS, **settings) as pipeline:
            pipeline.start()
            self._wait_for_two_epochs(pipeline)

    def restart_with(self, name: str, point: FaultPoint) -> None:
        """Fail at a point, and restart with a sink with another option.

        The restart must write all rows, or be refused with a hint. Then the original sink must be
        able to continue.
        """
        context = self.new_context(f"changed-{name}-{point}")
        job = self.job(plans=MANY_PLANS, sink=context.create_sink())
        job = dataclasses.replace(job, location=str(self.root / f"at-{name}-{point}"))
        failed = self.root / f"failed-{name}-{point}"
        fault = Fault(point, action=FaultAction.RAISE, nth=2, once=failed)
        with injected(fault), job.build(self.environment) as pipeline:
            self.run_to_failure(pipeline)
        assert fault.fired
        changed = dataclasses.replace(job, sinks={"out": context.changed_sinks()[name]})
        if refusals := self._refused(changed):
            assert refusals[0].hint, f"the refusal names no remedy: {refusals[0]}"
            self._refused(job)
        self.assert_complete(context)

    def _refused(self, job: DriverJob) -> list[ConnectorError]:
        """Run a pipeline to its end; return its refusal, if it is refused."""
        try:
            with job.build(self.environment) as pipeline:
                self.run_to_end(pipeline)
        except (ConfigurationError, CommitError) as refusal:
            return [refusal]
        return []

    def _wait_for_two_epochs(self, pipeline: Any) -> None:
        self.wait(lambda: (pipeline.status().queries[0].epoch or 0) >= 1, "two epochs", pipeline)

    def restored_backup(self, job: DriverJob) -> DriverJob:
        """Back up the state of a pipeline, and return the pipeline with a restored copy of it."""
        copied, location = str(self.root / "backup"), str(self.root / "restored")
        state, restored = StateStore(job.location), StateStore(location)
        locations = Locations(state, state)
        with backup.held(locations) as stopped:
            plan = backup.plan_backup(locations, running=not stopped)
            backup.back_up(locations, plan, copied, {})
        backup.restore(copied, {}, Locations(restored, restored))
        return dataclasses.replace(job, location=location)

    def lose_an_epoch(self) -> None:
        """Run a pipeline until it fails, and lose its decided, uncommitted data."""
        fault = Fault(
            FaultPoint.AFTER_DECISION, action=FaultAction.RAISE, nth=2, once=self.root / "failed"
        )
        with injected(fault), self.pipeline() as pipeline:
            self.run_to_failure(pipeline)
        assert fault.fired
        self.context.lose(self.decided(epoch=1))

    def write_through(self, outage: AbstractContextManager[threading.Event]) -> Exception | None:
        """Run a pipeline through an outage that starts after some rows and before others.

        Returns:
            The error of the pipeline, or None if it ended normally.
        """
        number = next(self._outages)
        begun = self.root / f"outage-{number}"
        held = Fault(
            FaultPoint.READER_FETCHED,
            action=FaultAction.HANG,
            where={"subtask": 0},
            once=self.root / f"held-{number}",
            until=begun,
        )
        with injected(held), self.pipeline() as pipeline, contextlib.ExitStack() as ends:
            ends.callback(begun.touch)
            pipeline.start()

            def has_rows() -> bool:
                (query,) = pipeline.status().queries
                return held.fired or query.state is not PipelineState.RUNNING

            self.wait(has_rows, "rows", pipeline)
            ends.enter_context(outage)
            begun.touch()
            return self.go_through(pipeline, None)

    def job(
        self,
        *,
        parallelism: int = 2,
        plans: int = PLANS,
        sink: Sink | None = None,
        other: Sink | None = None,
        nulls: bool = False,
        further_column: bool = False,
        writers: int | None = None,
    ) -> DriverJob:
        """Return the same pipeline for a separate process."""
        source = DataGeneratorSource(
            functools.partial(_generate, self._seed, nulls, further_column),
            TOTAL,
            ROWS.append(FURTHER) if further_column else ROWS,
            split_rows=TOTAL // 8,
            batch_rows=7,
        )
        sinks: dict[str, Sink] = {"out": sink or self.context.create_sink()}
        if other is not None:
            sinks["other"] = other
        return dataclasses.replace(self._job(source, sinks, parallelism, plans), writers=writers)

    def job_of(self, rows: pa.Table) -> DriverJob:
        """Return a pipeline of these rows into the sink."""
        source = DataGeneratorSource(
            functools.partial(_take, rows), rows.num_rows, rows.schema, batch_rows=2
        )
        sink = self.context.create_typed_sink(rows.schema)
        return self._job(source, {"out": sink}, parallelism=1, plans=1)

    def _job(
        self, source: AnySource, sinks: Mapping[str, Sink], parallelism: int, plans: int
    ) -> DriverJob:
        return DriverJob(
            location=str(self.location),
            source=source,
            sinks=sinks,
            settings={"limits": ReadLimits(rows=TOTAL // plans)},
            parallelism=parallelism,
            spark=self.environment.session,
        )

    def watch(self, topology: Topology, *, fails_before: bool | None = None) -> Watch:
        """Watch the topologies of sinks, in a case of one topology.

        Args:
            topology: The topology of the case, which does not apply to a sink without it.
            fails_before: Whether the driver fails before or after the topology, or None for no
                failure.
        """
        if not topology.is_of(self.context.create_sink()):
            pytest.skip(f"the sink has no {topology} topology")
        return Watch(
            look=lambda: self.context.read_back().num_rows,
            fails_at=None if fails_before is None else topology,
            before=bool(fails_before),
            marker=self.root / "failed",
        )

    def require_compaction(self) -> None:
        """Skip the case if the sink merges nothing."""
        sink = self.context.create_sink()
        if not isinstance(sink, SupportsCompaction) or sink.create_compaction() is None:
            pytest.skip("the sink does not compact")

    def merged(self) -> int:
        """Return the highest number of committables that a decision asks to merge into one."""
        requests = [
            members
            for decision in decisions_since(self._store, 0).values()
            for members in decision.sinks["out"].requests
        ]
        return max(map(len, requests), default=0)

    def written_epochs(self) -> list[int]:
        """Return the decided epochs, without those that only commit what was held."""
        sinks = {epoch: self._sink_decision(epoch) for epoch in self.epochs()}
        return [epoch for epoch, each in sinks.items() if each.held or not each.compacted]

    def rows_decided(self, epoch: int) -> int | None:
        """Return the number of rows decided up to an epoch, without those held for a later one.

        It is None if a pre-commit topology created what is held, whose rows are then unknown.
        """
        decisions = [d for d in decisions_since(self._store, 0).values() if d.epoch <= epoch]
        held = HeldSets()
        for decision in decisions:
            held.decided(decision)
        waiting = sum(each.rows for _, each in held["out"])
        if not waiting and not held["out"].is_empty:
            return None
        return sum(decision.sinks["out"].rows for decision in decisions) - waiting

    def assert_post_committed(self) -> None:
        """Check that the post-commit topology has processed all decided committables."""
        committed = [each for epoch in self.epochs() for each in self.decided(epoch)]
        self.context.assert_post_committed(committed)

    def decided(self, epoch: int) -> list[Any]:
        """Return the decided committables of an epoch."""
        return self._read(self._sink_decision(epoch).committables)

    def written(self, epoch: int) -> list[Any]:
        """Return the committables of the rows of an epoch, committed or held."""
        decided = self._sink_decision(epoch)
        return self._read(decided.held or decided.committables)

    def _sink_decision(self, epoch: int) -> SinkDecision:
        return decisions_since(self._store, epoch)[epoch].sinks["out"]

    def _read(self, decided: Iterable[DecidedCommittable]) -> list[Any]:
        sink: Any = self.context.create_sink()
        serializer = sink.committable_serializer()
        stored = [each.committable for each in decided]
        return [serializer.deserialize(each.version, each.data) for each in stored]

    def assert_states(self) -> None:
        """Check that the decided states match writers that received each row once."""
        sink: Any = self.context.create_sink()
        newest = newest_decision(self._store)
        decided = self._sink_decision(newest)
        stored = [each for own in decided.writer_states for each in own]
        serializer = sink.writer_state_serializer()
        states = [serializer.deserialize(each.version, each.data) for each in stored]
        self.context.assert_states(states, TOTAL)

    def assert_complete(self, context: SinkExternalContext | None = None) -> None:
        """Check that all rows are visible, once if guaranteed, and that no staged data is left."""
        context = context or self.context
        self.assert_rows(context)
        left = list(context.leftovers())
        assert not left, f"staged data remains: {', '.join(left[:5])}"

    def assert_rows(self, context: SinkExternalContext | None = None) -> None:
        """Check that all rows are visible, once if guaranteed."""
        context = context or self.context
        found = context.read_back()
        if self._exactly_once:
            assert_exactly(found, self.expected())
        else:
            assert_at_least(found, self.expected())


def _generate(seed: int, nulls: bool, further_column: bool, indices: pa.Array) -> pa.RecordBatch:
    """Return rows by number, every other one without text, or all with an additional column."""
    numbers = indices.to_pylist()
    rows = pa.concat_tables([make_rows(0, number, 1, seed) for number in numbers])
    if nulls:
        texts = [
            t if n % 2 else None for n, t in zip(numbers, rows["text"].to_pylist(), strict=True)
        ]
        rows = rows.set_column(3, ROWS.field("text"), pa.array(texts, pa.string()))
    if further_column:
        rows = rows.append_column(FURTHER, rows["text"])
    return _only_batch(rows)


def _take(rows: pa.Table, indices: pa.Array) -> pa.RecordBatch:
    return _only_batch(rows.take(indices))


def _only_batch(rows: pa.Table) -> pa.RecordBatch:
    (batch,) = rows.combine_chunks().to_batches()
    return batch
