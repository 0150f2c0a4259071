# SPDX-License-Identifier: Apache-2.0
"""One run of a pipeline's driver in this process: its batches, their log, and their status."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from connectors_core.engine._faults import fault_point
from connectors_core.engine.coordinator.completeness import (
    verify_complete,
    verify_decided,
    verify_identified,
    verify_same_moment,
)
from connectors_core.engine.coordinator.epoch_committer import CommitRetries
from connectors_core.engine.coordinator.fences import fence_decisions, fence_plans
from connectors_core.engine.coordinator.identity import (
    PipelineIdentity,
    QueryIdentity,
    QueryShape,
    assert_unchanged,
    first_identity,
    new_pipeline_id,
    read_identity,
    record_identity,
)
from connectors_core.engine.coordinator.plan_log import given_up_splits, read_plan
from connectors_core.engine.coordinator.query_coordinator import QueryCallbacks
from connectors_core.engine.coordinator.recorded_options import recorded_options, with_options
from connectors_core.engine.coordinator.sink_settings import SinkSettings
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.execution.reader_task import ReaderTask
from connectors_core.engine.execution.writer_task import SinkTask
from connectors_core.engine.protocol import Entry, Plan, RunRecord
from connectors_core.engine.query.batch_run import (
    BatchInput,
    BatchRun,
    new_run_id,
    planned_input,
    unfinished_run,
)
from connectors_core.engine.query.status import QueryStatus, source_status
from connectors_core.engine.query.wiring import Query, wire_stream
from connectors_core.engine.recovery.locations import SparkCheckpoint
from connectors_core.engine.state import Lease, StateStore
from connectors_core.testing.local_tasks import LocalEngine

_KEEP_EPOCHS = 100
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class LocalSink(SinkSettings):
    """A sink and its source that ``LocalPipeline.sink_to`` registered.

    Attributes:
        source: The uid of the source.
        schema: The schema of the source.
    """

    source: str
    schema: pa.Schema

    @property
    def task(self) -> SinkTask:
        """Return the sink with its writer settings."""
        return SinkTask(
            uid=self.uid,
            sink=self.sink,
            schema=self.schema,
            policy=self.policy.for_executors(),
            writers=self.own_parallelism,
        )


class LocalRun:
    """One run of a driver.

    Args:
        name: The name of the pipeline.
        root: The state location.
        sources: The sources.
        sinks: The sinks.
        trigger_interval: The minimum time between two plans, in seconds.
        commit_retries: The retries of commits that request one.
        lease_expiry: The time without a heartbeat after which another driver counts as dead.
        available_now: Whether to read the data that is available at the start and then end.
        drain: Whether an end by ``available_now`` also moves the watermark to the end of time.
        failure: Converts an error and the name of the failed part to the error of the pipeline.
    """

    def __init__(
        self,
        name: str,
        root: StateStore,
        sources: Sequence[SourceSettings],
        sinks: Sequence[LocalSink],
        *,
        trigger_interval: float,
        commit_retries: CommitRetries,
        lease_expiry: timedelta,
        available_now: bool,
        drain: bool,
        failure: Callable[[BaseException, str], BaseException],
    ) -> None:
        self._failure = failure
        self._what = f"pipeline {name!r}"
        self._lease = Lease.acquire(root, expiry=lease_expiry)
        try:
            identity = _identify(root, name, sources, sinks, streaming=True)
            self.pipeline_id, query = identity.pipeline_id, identity.queries[0]
            self._store = store = root.child(query.folder)
            self._log = _BatchLog(root, query)
            self._query_id = query.spark_query_id
            verify_complete(store, pipeline_id=self.pipeline_id)
            newest = self._log.newest()
            verify_same_moment(
                store, spark_query_id=self._query_id, logged_batch=newest, logged_plan=newest
            )
            ended = self._log.next_batch() - 1
            verify_decided(
                store,
                spark_query_id=self._query_id,
                first=query.first,
                batch=ended,
                plan=ended,
                stateful=False,
            )
            fence_decisions(store, self._lease, pipeline_id=self.pipeline_id)
            fence_plans(store, self._lease, pipeline_id=self.pipeline_id)
            self._coordinator, self._epochs = wire_stream(
                _query(query.folder, root, self._lease, identity, sources, sinks, commit_retries),
                QueryCallbacks(feed=self._feed, finished=self._all_read, failed=self._failed),
                trigger_interval=trigger_interval,
                available_now=available_now,
                drain=drain,
            )
            self.ended = threading.Event()
            self.error: BaseException | None = None
            self._plans: queue.SimpleQueue[int | None] = queue.SimpleQueue()
            self._stopping = threading.Event()
            self._completed = False
            self._batch = -1
            self._given_up = given_up_splits(store)
            newest = self._coordinator.recover()
            first = self._log.next_batch()
            self._epochs.recover(_KEEP_EPOCHS, replayed=(self._query_id, first))
            for plan in range(first, newest + 1):
                self._plans.put(plan)
            self._coordinator.start()
        except BaseException:
            self._lease.release()
            raise
        self._thread = threading.Thread(target=self._batches, name=f"local-{name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current batch. Sets `ended` then."""
        self._stopping.set()
        self._epochs.committer.give_up_waiting()
        self._plans.put(None)

    def _feed(self, plan: Plan) -> None:
        self._plans.put(plan.number)

    def _all_read(self) -> None:
        self._completed = True
        self._plans.put(None)

    def _failed(self, error: BaseException) -> None:
        self.error = self.error or error
        self._plans.put(None)

    def _batches(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    number = self._plans.get(timeout=_LOOK_SECONDS)
                except queue.Empty:
                    self._lease.check()
                    self._epochs.advance()
                    continue
                if number is None:
                    if self._completed:
                        self._completed = self._epochs.drain()
                    break
                self._run_batch(number)
                self._batch = number
                self._coordinator.notify_complete(number)
        except BaseException as error:
            self.error = self.error or error
        finally:
            try:
                self._coordinator.stop()
                self._epochs.close()
            except Exception as error:
                self.error = self.error or error
            self._lease.release()
            if self.error is not None:
                self.error = self._failure(self.error, self._what)
            self.ended.set()

    def _run_batch(self, number: int) -> None:
        self._lease.check()
        self._log.begin(number)
        plan = read_plan(self._store, number).giving_up(self._given_up)
        entries = [entry for source in plan.sources.values() for entry in source.entries]
        self._epochs.run(entries, number, self._query_id, [number])
        self._lease.check()
        fault_point("before_spark_commit", batch=number)
        self._log.end(number)

    def status(self) -> QueryStatus:
        """Return the status of the run."""
        return QueryStatus.of(
            "query-0",
            ended=self.ended.is_set(),
            completed=self._completed,
            error=self.error,
            plan=self._coordinator.newest,
            epoch=self._epochs.last_decided,
            batch=self._batch,
            sources=(
                source_status(uid, source.observe())
                for uid, source in self._coordinator.sources.items()
            ),
            sinks=self._epochs.sink_statuses(),
        )


class LocalBatch:
    """One batch run of a driver.

    Args:
        name: The name of the pipeline.
        root: The state location.
        sources: The sources.
        sinks: The sinks.
        commit_retries: The retries of commits that request one.
        lease_expiry: The time without a heartbeat after which another driver counts as dead.
        failure: Converts an error and the name of the failed part to the error of the pipeline.
    """

    def __init__(
        self,
        name: str,
        root: StateStore,
        sources: Sequence[SourceSettings],
        sinks: Sequence[LocalSink],
        *,
        commit_retries: CommitRetries,
        lease_expiry: timedelta,
        failure: Callable[[BaseException, str], BaseException],
    ) -> None:
        self.error: BaseException | None = None
        self._lease = Lease.acquire(root, expiry=lease_expiry)
        self._inputs: list[BatchInput] = []
        try:
            identity = _identify(root, name, sources, sinks, streaming=False)
            self.pipeline_id, query = identity.pipeline_id, identity.queries[0]
            unfinished, run_id = unfinished_run(root, identity), new_run_id()
            for each in sources:
                planned = planned_input(each, _reader(each, root), self.pipeline_id, run_id)
                self._inputs.append(planned)
            verify_complete(root.child(query.folder), pipeline_id=self.pipeline_id)
            fence_decisions(root.child(query.folder), self._lease, pipeline_id=self.pipeline_id)
            self._run = BatchRun(
                _query(query.folder, root, self._lease, identity, sources, sinks, commit_retries),
                run_id=run_id,
                unfinished=unfinished,
                sources=self._inputs,
                rows=self._rows,
                failure=failure,
            )
        except BaseException:
            self._close()
            raise
        self.ended = self._run.ended

    def run(self) -> bool:
        """Run. See `Pipeline.run`."""
        try:
            return self._run.run()
        except BaseException as error:
            self.error = error
            raise
        finally:
            self._close()

    def stop(self) -> None:
        """Cancel the run."""
        self._run.cancel()

    def status(self) -> QueryStatus:
        """Return the status of the run."""
        return self._run.status()

    @contextmanager
    def _rows(self, former: RunRecord | None) -> Iterator[list[Entry]]:
        read = [each if former is None else each.in_run(former) for each in self._inputs]
        yield [entry for each in read for entry in each.entries]

    def _close(self) -> None:
        for each in self._inputs:
            each.close()
        self._lease.release()


class _BatchLog:
    """The log of started and finished batches, with the layout of Spark's checkpoint.

    A batch has the number of the plan that it reads.
    """

    def __init__(self, root: StateStore, query: QueryIdentity) -> None:
        self._store = root.child(query.spark_folder)
        self._log = SparkCheckpoint(root, query)
        self._sources = len(query.sources)
        self._first = query.first
        self._log.write_query_id(query.spark_query_id)

    def newest(self) -> int:
        """The newest started batch, or -1 for none."""
        return max(self._log.logged(), default=-1)

    def next_batch(self) -> int:
        """The first batch to run: a started one that did not end, or the one after the last."""
        newest = max(self.newest(), self._first)
        begun = newest in self._log.logged() and newest not in self._log.committed()
        return newest if begun else newest + 1

    def begin(self, batch: int) -> None:
        """Log what a batch reads."""
        lines = ["v1", "{}", *[str(batch)] * self._sources]
        self._store.create(f"offsets/{batch}", "\n".join(lines).encode())

    def end(self, batch: int) -> None:
        """Log that a batch is written and committed."""
        self._store.create(f"commits/{batch}", b"v1\n{}")


def _query(
    folder: str,
    root: StateStore,
    lease: Lease,
    identity: PipelineIdentity,
    sources: Sequence[SourceSettings],
    sinks: Sequence[LocalSink],
    commit_retries: CommitRetries,
) -> Query[Sequence[Entry]]:
    return Query(
        folder=folder,
        sources=sources,
        sinks=sinks,
        tasks=[each.task for each in sinks],
        engine=LocalEngine(
            {each.uid: _reader(each, root) for each in sources},
            {each.uid: each.source for each in sinks},
        ),
        root=root,
        pipeline_id=identity.pipeline_id,
        lease=lease,
        commit_retries=commit_retries,
    )


def _reader(settings: SourceSettings, root: StateStore) -> ReaderTask:
    return ReaderTask(
        source=settings.source,
        uid=settings.uid,
        store=root,
        schema=settings.source.schema(),
        strategy=settings.strategy,
        evaluator=settings.evaluator,
        policy=settings.policy.for_executors(),
        first_fetch_seconds=settings.first_fetch_timeout.total_seconds(),
    )


def _identify(
    root: StateStore,
    name: str,
    sources: Sequence[SourceSettings],
    sinks: Sequence[LocalSink],
    *,
    streaming: bool,
) -> PipelineIdentity:
    shape = QueryShape(tuple(each.uid for each in sources), tuple(each.uid for each in sinks))
    recorded = read_identity(root)
    if recorded is None:
        verify_identified(root)
        identity = first_identity(new_pipeline_id(), name, streaming=streaming, shapes=[shape])
    else:
        assert_unchanged(recorded, name, streaming=streaming, shapes=[shape])
        identity = recorded
    options = recorded_options(sources if streaming else (), [each.task for each in sinks])
    identity = with_options(identity, options, root)
    if identity != recorded:
        record_identity(root, identity)
    return identity
