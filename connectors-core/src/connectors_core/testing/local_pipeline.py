# SPDX-License-Identifier: Apache-2.0
"""A pipeline in this very process, without Spark: for tests of connectors in milliseconds.

Coordinator, plans, reports, readers, writers, decisions and commits are the real ones. What Spark
does is done here in its way: a log of the batches it began and one of those it ended, tasks of
their own with several attempts, and objects that reach a task by cloudpickle only.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Literal, Never, Self, TypeVar

import pyarrow as pa

from connectors_core.engine._faults import FaultInjected, fault_point
from connectors_core.engine.coordinator.completeness import (
    verify_complete,
    verify_decided,
    verify_identified,
    verify_same_moment,
)
from connectors_core.engine.coordinator.connection_checks import (
    check_connections,
    check_state_location,
)
from connectors_core.engine.coordinator.dead_letters import DeadLetters
from connectors_core.engine.coordinator.epoch_committer import CommitRetries, EpochCommitter
from connectors_core.engine.coordinator.fences import fence_decisions, fence_plans
from connectors_core.engine.coordinator.identity import (
    PipelineIdentity,
    QueryIdentity,
    QueryShape,
    assert_unchanged,
    check_uid,
    first_identity,
    new_pipeline_id,
    read_identity,
    record_identity,
)
from connectors_core.engine.coordinator.pipeline_checks import (
    check_ends,
    check_has_sinks,
    check_not_started,
    check_policies,
    check_sources,
    warn_of_unread,
)
from connectors_core.engine.coordinator.plan_log import read_plan
from connectors_core.engine.coordinator.query_coordinator import QueryCallbacks, QueryCoordinator
from connectors_core.engine.coordinator.source_coordinator import SourceSettings
from connectors_core.engine.coordinator.topologies import check_topologies
from connectors_core.engine.coordinator.writer_states import check_stateful
from connectors_core.engine.execution.attempts import fails_again
from connectors_core.engine.execution.reader_task import ReaderTask, read_entry, without_heartbeat
from connectors_core.engine.execution.writer_task import (
    Leases,
    SinkTask,
    WriterMessage,
    WriteTask,
    decode_message,
    write_task,
)
from connectors_core.engine.protocol import Entry, Plan
from connectors_core.engine.recovery.locations import SparkCheckpoint
from connectors_core.engine.state import LEASE_EXPIRY, Lease, StateStore
from connectors_core.errors import UnsupportedError
from connectors_core.records import RecordPolicy
from connectors_core.sink import Sink
from connectors_core.sink.topology import SupportsPreWriteTopology
from connectors_core.source import (
    PlanLimits,
    RateLimiterStrategy,
    RecordEvaluator,
    WatermarkStrategy,
)
from connectors_core.source.source import AnySource
from connectors_core.spark.epochs import EpochProgress, EpochRunner
from connectors_core.spark.status import PipelineStatus, QueryStatus, source_status
from connectors_core.spelling import spelled_as_made
from connectors_core.table.lookup_table_source import LookupTableSource

ATTEMPTS = 4
_KEEP_EPOCHS = 100
_POLL_SECONDS = 0.02
_LOOK_SECONDS = 0.1
_NEEDS_SPARK: Final = "a Pipeline on a Spark session"
_HINT_ON_SPARK: Final = "run it on Spark: `on_spark = True` in a suite"
_T = TypeVar("_T")


@dataclass(frozen=True)
class LocalRows:
    """The rows of a source: what :meth:`LocalPipeline.sink_to` takes."""

    uid: str


@dataclass(frozen=True, kw_only=True)
class _Registered:
    source: str
    task: SinkTask


class LocalPipeline:
    """Reads sources and writes their rows, as they are, to sinks. The calls are `Pipeline`'s.

    All sinks are one query. Bounded sources are read as streams, as by
    ``Pipeline(..., streaming=True)``: there are no batch runs. What else a `Pipeline` takes, and
    this one cannot do, raises an `UnsupportedError`. What a test raises (``FaultAction.RAISE``,
    an `AssertionError`) comes back as it is; all else that fails is a `ConnectorError`.

    Args:
        name: The pipeline's name; stays the same for its checkpoint location.
        checkpoint_location: A local folder, or any fsspec URL.
        state_location: None, or the checkpoint location.
        storage_options: Options for the file system of the checkpoint location.
        streaming: None or True.
        parallelism: Number of readers per source.
        trigger_interval: Least time between two plans.
        commit_retries: How often commits that ask for it are tried again.
        lease_expiry: Time without a sign of life after which another driver counts as gone.
        on_changed_query: Only "refuse".
        connection_timeout: As that of a `Pipeline`; by default nothing is asked, so that a test can
            start in an outage.
        stop_on_sigterm: Only False.
        progress: Only False.

    Raises:
        UnsupportedError: An argument has a value that needs Spark.
    """

    def __init__(
        self,
        name: str,
        *,
        checkpoint_location: str,
        state_location: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        streaming: bool | None = None,
        parallelism: int = 2,
        trigger_interval: timedelta = timedelta(0),
        commit_retries: CommitRetries | None = None,
        lease_expiry: timedelta = LEASE_EXPIRY,
        on_changed_query: Literal["refuse", "new-generation"] = "refuse",
        connection_timeout: timedelta | None = None,
        stop_on_sigterm: bool = False,
        progress: bool | Literal["auto"] = False,
    ) -> None:
        _refuse_others("state_location", state_location, None, checkpoint_location)
        _refuse_others("streaming", streaming, None, True)
        _refuse_others("on_changed_query", on_changed_query, "refuse")
        _refuse_others("stop_on_sigterm", stop_on_sigterm, False)
        _refuse_others("progress", progress, False)
        self._name = name
        self._lease_expiry = lease_expiry
        self._root = StateStore(checkpoint_location, storage_options)
        self._parallelism = parallelism
        self._trigger_interval = trigger_interval.total_seconds()
        self._commit_retries = commit_retries or CommitRetries()
        self._connection_timeout = connection_timeout
        self._sources: dict[str, SourceSettings] = {}
        self._rows: list[LocalRows] = []
        self._sinks: list[_Registered] = []
        self._run: _Run | None = None
        self._error: BaseException | None = None

    @spelled_as_made
    def from_source(
        self,
        source: AnySource,
        *,
        uid: str,
        watermark_strategy: WatermarkStrategy | None = None,
        parallelism: int | None = None,
        limits: PlanLimits | None = None,
        rate_limiter: RateLimiterStrategy | None = None,
        record_evaluator: RecordEvaluator | None = None,
        record_policy: RecordPolicy | None = None,
    ) -> LocalRows:
        """The rows of a source; see `Pipeline.from_source`."""
        self._check_not_started("from_source")
        self._check_uid(uid)
        self._sources[uid] = SourceSettings(
            uid=uid,
            source=source,
            parallelism=parallelism or self._parallelism,
            strategy=watermark_strategy,
            limits=limits if limits is not None else source.default_limits(),
            rate_limiter=rate_limiter or source.rate_limiter_strategy(),
            evaluator=record_evaluator,
            policy=record_policy or RecordPolicy.fail(),
        )
        self._rows.append(rows := LocalRows(uid))
        return rows

    def lookup_join(self, rows: LocalRows, table: LookupTableSource, **_options: Any) -> Never:
        """Refused: a join is a step over a DataFrame.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(
            f"the rows of {rows.uid!r} cannot be joined with a table without Spark",
            expected=_NEEDS_SPARK,
            found=type(table).__name__,
            hint=_HINT_ON_SPARK,
        )

    @spelled_as_made
    def sink_to(
        self,
        rows: LocalRows,
        sink: Sink,
        *,
        uid: str,
        parallelism: int | None = None,
        output_mode: Literal["append", "update"] = "append",
        record_policy: RecordPolicy | None = None,
    ) -> None:
        """Register where the rows of a source are written; see `Pipeline.sink_to`.

        Raises:
            ConfigurationError: The rows are those of another pipeline, or do not fit the sink.
            UnsupportedError: The sink has a pre-write topology, which is a step over a DataFrame,
                or the mode is that of an aggregate.
        """
        self._check_not_started("sink_to")
        self._check_uid(uid)
        _refuse_others("output_mode", output_mode, "append")
        check_topologies(sink, uid)
        if isinstance(sink, SupportsPreWriteTopology):
            raise UnsupportedError(
                f"sink {uid!r} has a pre-write topology, a step over a DataFrame, and this "
                "pipeline runs without Spark",
                expected=_NEEDS_SPARK,
                found=type(sink).__name__,
                hint=_HINT_ON_SPARK,
            )
        own = [each.uid for each in self._rows if each is rows]
        check_sources(uid, own, self._sources.keys())
        settings = self._sources[rows.uid]
        schema = settings.source.schema()
        if settings.strategy is not None:
            schema = settings.strategy.output_schema(schema)
        sink.validate(schema)
        policy = record_policy or RecordPolicy.fail()
        writers = parallelism if parallelism is not None else sink.writer_parallelism()
        check_stateful(sink, uid, writers)
        task = SinkTask(uid=uid, sink=sink, schema=schema, policy=policy, writers=writers)
        self._sinks.append(_Registered(source=rows.uid, task=task))

    def _check_uid(self, uid: str) -> None:
        taken = self._sources.keys() | {each.task.uid for each in self._sinks}
        check_uid(uid, taken, self._name)

    def _check_not_started(self, method: str) -> None:
        check_not_started(method, started=self._run is not None)

    def run(
        self, *, available_now: bool = False, drain: bool = True, timeout: float | None = None
    ) -> bool:
        """Run to the end of the sources; see `Pipeline.run`."""
        streamed = {uid: each.source for uid, each in self._sources.items()}
        check_ends(streamed, available_now=available_now)
        self._start(available_now=available_now, drain=drain)
        return self.await_termination(timeout)

    def start(self) -> None:
        """Start and return."""
        self._start(available_now=False, drain=True)

    def _start(self, *, available_now: bool, drain: bool) -> None:
        self._check_not_started("run or start")
        check_has_sinks(self._name, self._sinks)
        check_policies(self._policies())
        read = self._read()
        warn_of_unread(self._name, self._sources, [each.uid for each in read])
        try:
            self._check_connections()
            self._run = _Run(
                self._name,
                self._root,
                read,
                self._sinks,
                trigger_interval=self._trigger_interval,
                commit_retries=self._commit_retries,
                lease_expiry=self._lease_expiry,
                available_now=available_now,
                drain=drain,
                failure=self._failure,
            )
        except BaseException as error:
            self._error = self._failure(error, f"the start of pipeline {self._name!r}")
            raise self._error from self._error.__cause__

    def _check_connections(self) -> None:
        timeout = self._connection_timeout
        seconds = None if timeout is None else timeout.total_seconds()
        check_state_location(self._root, seconds)
        if seconds is not None:
            check_connections(self._parts(), seconds)

    def _failure(self, error: BaseException, what: str) -> BaseException:
        """What a pipeline on Spark raises: an error of the tree. What a test raises stays."""
        if isinstance(error, FaultInjected | AssertionError) or not isinstance(error, Exception):
            return error
        from connectors_core.spark.failures import translated  # it imports pyspark

        return translated(
            error,
            what,
            hint="correct what the cause names and start again: the pipeline goes on where it "
            "stopped",
            parts=self._parts().values(),
        )

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the end; True when it has ended.

        Raises:
            ConnectorError: It failed.
        """
        if self._run is None:
            return False
        if not self._run.ended.wait(timeout):
            return False
        if self._run.error is not None:
            raise self._run.error
        return True

    def _read(self) -> list[SourceSettings]:
        """The sources whose rows a sink takes."""
        taken = {each.source for each in self._sinks}
        return [each for uid, each in self._sources.items() if uid in taken]

    def _policies(self) -> dict[str, RecordPolicy]:
        policies = {uid: each.policy for uid, each in self._sources.items()}
        return policies | {each.task.uid: each.task.policy for each in self._sinks}

    def _parts(self) -> dict[str, object]:
        """What reaches a system of its own, by what it is called."""
        parts: dict[str, object] = {f"source {each.uid!r}": each.source for each in self._read()}
        parts |= {f"sink {each.task.uid!r}": each.task.sink for each in self._sinks}
        return parts | {
            f"the sink for dead letters of {uid!r}": policy.sink
            for uid, policy in self._policies().items()
        }

    def stop(self) -> None:
        """Stop after the batch that runs now."""
        if self._run is not None:
            self._run.stop()

    def status(self) -> PipelineStatus:
        """How it stands; see `Pipeline.status`."""
        run = self._run
        return PipelineStatus.of(
            self._name,
            None if run is None else run.pipeline_id,
            [] if run is None else [run.status()],
            started=run is not None,
            error=self._error,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def _refuse_others(option: str, value: object, *offered: object) -> None:
    """Refuse a value of an argument that only a pipeline on Spark offers.

    Raises:
        UnsupportedError: It is none of those that this one offers.
    """
    if value not in offered:
        raise UnsupportedError(
            f"a pipeline without Spark does not offer {option}={value!r}",
            expected=f"{' or '.join(map(repr, offered))}, or {_NEEDS_SPARK}",
            option=option,
            hint=_HINT_ON_SPARK,
        )


class _Run:
    """One life of a driver."""

    def __init__(
        self,
        name: str,
        root: StateStore,
        sources: Sequence[SourceSettings],
        sinks: Sequence[_Registered],
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
            identity = _identify(root, name, sources, sinks)
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
            readers = {each.uid: _reader(each, root) for each in sources}
            policies = {each.uid: each.policy for each in sources}
            policies |= {each.task.uid: each.task.policy for each in sinks}
            dead_letters = DeadLetters(policies, store=store, pipeline_id=self.pipeline_id)
            progress = EpochProgress()
            self._committer = EpochCommitter(
                {each.task.uid: each.task.sink for each in sinks} | dead_letters.sinks,
                store=store,
                pipeline_id=self.pipeline_id,
                lease=self._lease,
                retries=commit_retries,
                trigger_interval=trigger_interval,
                progress=progress.committed,
            )
            self._coordinator = QueryCoordinator(
                sources,
                store=store,
                pipeline_id=self.pipeline_id,
                query="query-0",
                incarnation=self._lease.incarnation,
                callbacks=QueryCallbacks(
                    feed=self._feed,
                    finished=self._all_read,
                    failed=self._failed,
                    decided=lambda: self._epochs.last_decided,
                ),
                trigger_interval=trigger_interval,
                available_now=available_now,
                drain=drain,
            )
            self._engine = _Engine(readers, sinks)
            self._epochs = EpochRunner(
                self._engine,
                sinks=[_for_executors(each.task) for each in sinks],
                committer=self._committer,
                store=store,
                pipeline_id=self.pipeline_id,
                lease=self._lease,
                dead_letters=dead_letters,
                reported=self._coordinator.reports_durable,
                progress=progress,
            )
            self.ended = threading.Event()
            self.error: BaseException | None = None
            self._plans: queue.SimpleQueue[int | None] = queue.SimpleQueue()
            self._stopping = threading.Event()
            self._completed = False
            self._batch = -1
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
        """Let the batch that runs end, then end."""
        self._stopping.set()
        self._committer.give_up_waiting()
        self._plans.put(None)
        self._thread.join()

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
                    continue
                if number is None:
                    break
                self._run_batch(number)
                self._batch = number
                self._coordinator.notify_complete(number)
        except BaseException as error:
            self.error = self.error or error
        finally:
            try:
                self._coordinator.stop()
                self._committer.close()
            except Exception as error:
                self.error = self.error or error
            self._lease.release()
            if self.error is not None:
                self.error = self._failure(self.error, self._what)
            self.ended.set()

    def _run_batch(self, number: int) -> None:
        self._lease.check()
        self._log.begin(number)
        plan = read_plan(self._store, number)
        entries = [entry for source in plan.sources.values() for entry in source.entries]
        self._epochs.run(entries, number, self._query_id, [number])
        self._lease.check()
        fault_point("before_spark_commit", batch=number)
        self._log.end(number)

    def status(self) -> QueryStatus:
        """How the run stands."""
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


class _BatchLog:
    """Which batches were begun and ended, in the layout of Spark's checkpoint.

    A batch has the number of the plan that it reads.
    """

    def __init__(self, root: StateStore, query: QueryIdentity) -> None:
        self._store = root.child(query.spark_folder)
        self._log = SparkCheckpoint(root, query)
        self._sources = len(query.lines)
        self._first = query.first
        self._log.write_query_id(query.spark_query_id)

    def newest(self) -> int:
        """The newest batch that was begun, -1 for none."""
        return max(self._log.logged(), default=-1)

    def next_batch(self) -> int:
        """The batch to run first: one that was begun and not ended, or the one after the last."""
        newest = max(self.newest(), self._first)
        begun = newest in self._log.logged() and newest not in self._log.committed()
        return newest if begun else newest + 1

    def begin(self, batch: int) -> None:
        """Fix what a batch reads."""
        lines = ["v1", "{}", *[str(batch)] * self._sources]
        self._store.create(f"offsets/{batch}", "\n".join(lines).encode())

    def end(self, batch: int) -> None:
        """A batch is written and committed."""
        self._store.create(f"commits/{batch}", b"v1\n{}")


class _Engine:
    """Runs a batch, a list of entries: a task for each, at most one for each reader at a time."""

    def __init__(self, readers: Mapping[str, ReaderTask], sinks: Sequence[_Registered]) -> None:
        self._readers = readers
        self._source_of = {each.task.uid: each.source for each in sinks}

    def write(self, batch: Sequence[Entry], task: WriteTask, leases: Leases) -> list[WriterMessage]:
        """Read every entry and write its rows; sinks with a number of writers have tasks for it."""
        shared = replace(task, sinks=tuple(sink for sink in task.sinks if sink.writers is None))
        shared = shared.with_leases(leases, len(batch))
        own = [sink for sink in task.sinks if sink.writers is not None]
        with_own = {self._source_of[sink.uid] for sink in own}
        kept: dict[int, list[pa.RecordBatch]] = {}

        def run(subtask: int, attempt: int) -> list[WriterMessage]:
            entry = batch[subtask]
            sinks = (s for s in shared.sinks if self._source_of[s.uid] == entry.source)
            mine = replace(shared, sinks=tuple(sinks))
            reader, mine = _travelled((self._readers[entry.source], mine))
            wanted = entry.source in with_own or mine.written_by(subtask)
            rows = without_heartbeat(read_entry(reader, entry, attempt) if wanted else ())
            if entry.source in with_own:
                kept[subtask] = list(rows)
                return _written(mine, subtask, attempt, kept[subtask]) if mine.sinks else []
            return _written(mine, subtask, attempt, rows)

        messages = _in_tasks(run, len(batch))
        for sink in own:
            rows = [
                each
                for subtask in sorted(kept)
                if batch[subtask].source == self._source_of[sink.uid]
                for each in kept[subtask]
            ]
            messages += _write_own(replace(task, sinks=(sink,)), leases, rows)
        return [message for of_task in messages for message in of_task]

    def drain(self, batch: Sequence[Entry]) -> None:
        """A batch that was written before: there is nothing to do."""

    def read(self, entries: Sequence[Entry]) -> None:
        """Read entries for their reports."""

        def run(subtask: int, attempt: int) -> None:
            entry = entries[subtask]
            for _ in read_entry(_travelled(self._readers[entry.source]), entry, attempt):
                pass

        _in_tasks(run, len(entries))


def _written(
    task: WriteTask, subtask: int, attempt: int, rows: Iterable[pa.RecordBatch]
) -> list[WriterMessage]:
    return [
        decode_message(payload)
        for messages in write_task(task, subtask, attempt, rows)
        for payload in messages.column(0).to_pylist()
    ]


def _write_own(
    task: WriteTask, leases: Leases, rows: Sequence[pa.RecordBatch]
) -> list[list[WriterMessage]]:
    """Write rows with as many writers as the one sink of a task has; each gets some batches."""
    writers = task.sinks[0].writers
    assert writers is not None
    task = task.with_leases(leases, writers)

    def run(subtask: int, attempt: int) -> list[WriterMessage]:
        return _written(_travelled(task), subtask, attempt, rows[subtask::writers])

    return _in_tasks(run, writers)


def _in_tasks(run: Any, count: int) -> list[Any]:
    """Run tasks side by side, each again until it succeeds or its attempts are used up."""

    def attempts(subtask: int) -> Any:
        for attempt in range(ATTEMPTS - 1):
            try:
                return run(subtask, attempt)
            except Exception as error:  # as the pipeline on Spark does
                if fails_again(error):
                    raise
        return run(subtask, ATTEMPTS - 1)

    with ThreadPoolExecutor(max(1, count), thread_name_prefix="task") as pool:
        return list(pool.map(attempts, range(count)))


def _travelled(value: _T) -> _T:
    """The value as a task gets it."""
    from pyspark import cloudpickle

    pickling: Any = cloudpickle
    copy: _T = pickling.loads(pickling.dumps(value))
    return copy


def _for_executors(task: SinkTask) -> SinkTask:
    return replace(task, policy=task.policy.for_executors())


def _reader(settings: SourceSettings, root: StateStore) -> ReaderTask:
    return ReaderTask(
        source=settings.source,
        uid=settings.uid,
        store=root,
        schema=settings.source.schema(),
        strategy=settings.strategy,
        evaluator=settings.evaluator,
        policy=settings.policy.for_executors(),
    )


def _identify(
    root: StateStore,
    name: str,
    sources: Sequence[SourceSettings],
    sinks: Sequence[_Registered],
) -> PipelineIdentity:
    shape = QueryShape(tuple(each.uid for each in sources), tuple(each.task.uid for each in sinks))
    recorded = read_identity(root)
    if recorded is not None:
        assert_unchanged(recorded, name, streaming=True, shapes=[shape])
        return recorded
    verify_identified(root)
    identity = first_identity(new_pipeline_id(), name, streaming=True, shapes=[shape])
    record_identity(root, identity)
    return identity
