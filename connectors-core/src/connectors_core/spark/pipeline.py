# SPDX-License-Identifier: Apache-2.0
"""The pipeline: what a user holds."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Literal, Self

from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from connectors_core.annotations import public
from connectors_core.engine.coordinator.completeness import verify_complete, verify_identified
from connectors_core.engine.coordinator.connection_checks import (
    check_connections,
    check_state_location,
)
from connectors_core.engine.coordinator.epoch_committer import CommitRetries
from connectors_core.engine.coordinator.fences import fence_decisions
from connectors_core.engine.coordinator.identity import (
    PipelineIdentity,
    QueryIdentity,
    QueryShape,
    assert_same_life,
    assert_unchanged,
    check_uid,
    first_identity,
    new_pipeline_id,
    next_generation,
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
from connectors_core.engine.coordinator.plan_log import (
    StoredPlans,
    decisions_since,
    newest_decision,
)
from connectors_core.engine.coordinator.source_coordinator import SourceSettings
from connectors_core.engine.coordinator.topologies import check_topologies
from connectors_core.engine.coordinator.writer_states import check_stateful
from connectors_core.engine.execution.reader_task import HEARTBEAT_COLUMN, ReaderTask
from connectors_core.engine.protocol import RunRecord
from connectors_core.engine.state import LEASE_EXPIRY, Lease, StateStore
from connectors_core.errors import ConfigurationError, IdentityError, UnsupportedError
from connectors_core.lookup.join import JoinType, LookupJoin
from connectors_core.options import format_duration
from connectors_core.records import RecordPolicy
from connectors_core.sink.sink import Sink
from connectors_core.source.alignment import CoordinatorStore
from connectors_core.source.evaluator import RecordEvaluator
from connectors_core.source.rate_limiter import RateLimiterStrategy
from connectors_core.source.source import AnySource, Boundedness
from connectors_core.source.split import PlanLimits
from connectors_core.source.watermarks import EVENT_TIME_DELAY, WatermarkStrategy
from connectors_core.spark.batch import (
    BatchRun,
    BatchSource,
    batch_dataframe,
    batch_sources_of,
    entries_dataframe,
    new_run_id,
    unfinished_run,
)
from connectors_core.spark.carriers import SparkLog, choose_carrier, sources_of, watermark_delays
from connectors_core.spark.checkpoint_location import CheckpointLocation
from connectors_core.spark.direct_frames import DirectFrame, EntryRows
from connectors_core.spark.failures import short_cause, translated
from connectors_core.spark.lookups import (
    IDLE_WORKERS_END_AFTER,
    Lookups,
    RegisteredLookup,
    check_stable,
    lookup_dataframe,
    lookup_stage,
    lookups_of,
    new_numbers,
)
from connectors_core.spark.ownership import OwnedReader
from connectors_core.spark.probe import probe_executors
from connectors_core.spark.progress import ProgressDisplay, ShowProgress
from connectors_core.spark.status import PipelineStatus
from connectors_core.spark.streaming_run import StreamingRun, StreamingSource
from connectors_core.spark.telemetry import Telemetry, global_instruments
from connectors_core.spark.termination import Termination
from connectors_core.spark.workers import workers_differ
from connectors_core.spark.writing_job import OutputMode, RegisteredSink, WritingJob, arrow_schema
from connectors_core.spelling import spelled_as_made
from connectors_core.table.lookup_table_source import LookupContext, LookupTableSource

_LOGGER: Final = logging.getLogger(__name__)
_POLL_SECONDS = 0.1
_DRIVEN_BY_HEARTBEAT = f"{EVENT_TIME_DELAY // timedelta(days=1)} days"


@public
class Pipeline:
    """Reads sources, writes sinks, exactly once. Driver; one per checkpoint location.

    ``from_source`` gives DataFrames, ``sink_to`` registers what is to be written, ``run`` or
    ``start`` builds one Spark query for all that hangs together.

    Args:
        spark: A classic session.
        name: The pipeline's name; stays the same for its checkpoint location.
        checkpoint_location: Where Spark keeps its checkpoint, a URL for Hadoop.
        state_location: Where plans, reports and decisions are kept, a URL for fsspec that driver
            and executors reach; default is the checkpoint location.
        storage_options: Options for the file system of ``state_location``.
        streaming: True reads bounded sources as streams too; by default a pipeline of bounded
            sources is one batch run.
        parallelism: Number of readers per source; default is Spark's default parallelism.
        trigger_interval: Least time between two micro-batches.
        commit_retries: How often commits that ask for it are tried again.
        lease_expiry: Time without a sign of life after which another driver of the pipeline counts
            as gone; so long a start waits where one ended on another machine without a release.
            Keep it well above the longest pause of a driver, and the same for all of them.
        on_changed_query: What to do when sinks or the order of sources have changed since the last
            start: "refuse", or "new-generation": go on with the positions of the sources in a new
            Spark checkpoint, for queries without Spark state.
        connection_timeout: Time that sources, sinks and tables have to get an answer of their
            systems, and the checkpoint and state locations to give one, before anything starts.
            None starts without asking, and waits for the locations as long as it takes.
        stop_on_sigterm: Stop like :meth:`stop` at SIGTERM, then end the process with status 143
            (``SystemExit`` in the main thread). Only where this is the main thread and nothing
            else handles the signal.
        progress: True shows on standard output how it gets on, "auto" on a terminal only.

    Raises:
        UnsupportedError: The session is a Spark Connect session.
    """

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        *,
        checkpoint_location: str,
        state_location: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
        streaming: bool | None = None,
        parallelism: int | None = None,
        trigger_interval: timedelta = timedelta(0),
        commit_retries: CommitRetries | None = None,
        lease_expiry: timedelta = LEASE_EXPIRY,
        on_changed_query: Literal["refuse", "new-generation"] = "refuse",
        connection_timeout: timedelta | None = timedelta(seconds=10),
        stop_on_sigterm: bool = True,
        progress: ShowProgress = False,
    ) -> None:
        if getattr(spark, "_jvm", None) is None:
            raise UnsupportedError(
                "a Pipeline needs a classic session, as SparkSession.builder.master(...) makes it",
                found=type(spark).__module__,
            )
        self._spark = spark
        self._name = name
        self._checkpoint = checkpoint_location.removeprefix("file://")
        self._root = StateStore(
            state_location or _state_location(checkpoint_location), storage_options
        )
        self._streaming = streaming
        self._parallelism = parallelism
        self._trigger_interval = trigger_interval
        self._commit_retries = commit_retries or CommitRetries()
        self._lease_expiry = lease_expiry
        self._on_changed_query = on_changed_query
        self._connection_timeout = connection_timeout
        self._identity_read = False
        self._identity: PipelineIdentity | None = None
        self._new_id = new_pipeline_id()
        self._run_id = new_run_id()
        self._unfinished_run: RunRecord | None = None
        self._streams: dict[str, StreamingSource] = {}
        self._batches: dict[str, BatchSource] = {}
        self._direct: list[DirectFrame] = []
        self._sinks: list[RegisteredSink] = []
        self._lookups: dict[str, RegisteredLookup] = {}
        self._tables: dict[str, LookupTableSource] = {}
        self._running_lookups: Lookups | None = None
        self._lease: Lease | None = None
        self._runs: list[StreamingRun] = []
        self._batch_run: BatchRun | None = None
        self._started = False
        self._error: BaseException | None = None
        self._termination = Termination(self._stop_and_wait)
        self._stop_on_sigterm = stop_on_sigterm
        self._show_progress = progress
        self._progress: ProgressDisplay | None = None
        self._telemetry = Telemetry(self.status)

    # --- building -------------------------------------------------------------------------------

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
    ) -> DataFrame:
        """A DataFrame of a source's rows.

        It is streaming when the source is unbounded or the pipeline streams, else a batch
        DataFrame. It belongs to this pipeline: a query of one's own on it fails, since one query
        reads a source.

        Args:
            source: The source.
            uid: Its name within the pipeline, for all restarts.
            watermark_strategy: Event times and watermarks; drives Spark's watermark exactly.
            parallelism: Number of readers.
            limits: Most that one micro-batch reads; default is the source's own.
            rate_limiter: Rows over time for the whole source.
            record_evaluator: Ends a split after a row it names (Flink's FLIP-208).
            record_policy: What to do with records that cannot be read.

        Raises:
            ConfigurationError: The uid is taken or not usable, or options do not fit together.
        """
        self._check_not_started("from_source")
        self._check_uid(uid)
        self._check_connections({f"source {uid!r}": source})
        settings = SourceSettings(
            uid=uid,
            source=source,
            parallelism=parallelism
            or self._parallelism
            or self._spark.sparkContext.defaultParallelism,
            strategy=watermark_strategy,
            limits=limits if limits is not None else source.default_limits(),
            rate_limiter=rate_limiter or source.rate_limiter_strategy(),
            evaluator=record_evaluator,
            policy=record_policy or RecordPolicy.fail(),
        )
        streaming = bool(self._streaming) or source.boundedness() is not Boundedness.BOUNDED
        reader = ReaderTask(
            source=source,
            uid=uid,
            store=self._root,
            schema=source.schema(),
            strategy=watermark_strategy,
            evaluator=record_evaluator,
            policy=settings.policy.for_executors(),
            attempt=_attempt_number,
        )
        if streaming:
            df = self._stream(settings, reader)
        else:
            df, self._batches[uid] = batch_dataframe(
                self._spark,
                settings,
                reader,
                self._pipeline_id(),
                self._run_id,
                self._unfinished_run,
            )
            if watermark_strategy is not None:
                df = df.drop(HEARTBEAT_COLUMN)
        self._direct.append(DirectFrame(df, uid))
        return df

    def _stream(self, settings: SourceSettings, reader: ReaderTask) -> DataFrame:
        try:
            carrier = choose_carrier(self._spark)(
                self._spark,
                pipeline_id=self._pipeline_id(),
                uid=settings.uid,
                schema=reader.output_schema(),
                read_entry=OwnedReader(reader, self._pipeline_id()),
                plans=StoredPlans(self._root, settings.uid),
                max_entries=settings.parallelism,
            )
        except PySparkException as error:  # Spark 4 opens a source in a Python process
            raise workers_differ(self._spark) or translated(
                error, f"source {settings.uid!r}"
            ) from short_cause(error)
        self._streams[settings.uid] = StreamingSource(
            settings=settings, carrier=carrier, reader=reader
        )
        df = carrier.dataframe()
        strategy = settings.strategy
        if strategy is None:
            return df
        # No filter may get below the watermark node, or it never sees a heartbeat, whose columns
        # are null. One that names the event time stays above it; one that is not deterministic
        # keeps others, such as the IS NOT NULL of a join, from being pushed through it.
        heartbeat = (
            F.col(HEARTBEAT_COLUMN)
            & (F.col(strategy.event_time_column) >= F.expr("TIMESTAMP '1900-01-01 00:00:00'"))
            & (F.spark_partition_id() >= 0)
        )
        return (
            df.withWatermark(strategy.event_time_column, _DRIVEN_BY_HEARTBEAT)
            .where(~heartbeat)
            .drop(HEARTBEAT_COLUMN)
        )

    @spelled_as_made
    def lookup_join(
        self,
        df: DataFrame,
        table: LookupTableSource,
        *,
        on: Sequence[str] | Mapping[str, str],
        how: JoinType = "left",
        columns: Sequence[str] | Mapping[str, str] | None = None,
        uid: str | None = None,
        allow_unstable: bool = False,
    ) -> DataFrame:
        """The rows of a DataFrame with columns of a table, looked up by key as they stream by.

        A row is given as often as its key has rows in the table. Null is no key. A table that is
        asked by key answers as it stands then: a row that is looked up again after a failure may
        get other values. One that is cached as a whole is read when the pipeline starts and when
        its trigger says so, and a micro-batch that runs again sees the version that it saw before.

        Args:
            df: A DataFrame built on DataFrames of this pipeline, streaming or not.
            table: The table.
            on: Columns that both have, or those of the rows and what the table calls them.
            how: "left" keeps rows without a match, "inner" does not.
            columns: Columns of the table to add, or these and what they are called in the result;
                by default all but the keys. Nothing else is fetched.
            uid: Its name within the pipeline, for all restarts; by default made of the keys.
            allow_unstable: Allow that rows are moved between tasks behind a table that is asked by
                key. Where part of a job then runs again, rows may be lost or doubled.

        Raises:
            ConfigurationError: The uid is taken, or rows and table do not fit together.
            UnsupportedError: The key is of a type that is not compared exactly.
        """
        self._check_not_started("lookup_join")
        uid = uid or "-".join(["lookup", *on])
        self._check_uid(uid)
        self._check_connections({f"lookup {uid!r}": table})
        join = LookupJoin.of(arrow_schema(df), table.schema(), on=on, how=how, columns=columns)
        context = LookupContext(keys=join.keys, schema=join.table)
        lookup = RegisteredLookup(
            uid=uid,
            join=join,
            provider=table.get_lookup_runtime_provider(context),
            allow_unstable=allow_unstable,
            numbers=new_numbers(self._spark),
        )
        stage = lookup_stage(lookup, pipeline_id=self._pipeline_id(), root=self._root)
        joined = lookup_dataframe(df, lookup, stage)
        self._lookups[uid] = lookup
        self._tables[uid] = table
        self._direct += [
            DirectFrame(joined, known.source, (*known.stages, stage))
            for known in self._direct
            if known.df is df
        ]
        return joined

    @spelled_as_made
    def sink_to(
        self,
        df: DataFrame,
        sink: Sink,
        *,
        uid: str,
        parallelism: int | None = None,
        output_mode: OutputMode = "append",
        record_policy: RecordPolicy | None = None,
    ) -> None:
        """Register what is to be written; nothing runs before ``run`` or ``start``.

        Args:
            df: A DataFrame built on DataFrames of this pipeline.
            sink: The sink.
            uid: Its name within the pipeline, for all restarts.
            parallelism: Number of writers; default is the DataFrame's partitions (cheapest). A
                `StatefulSink` needs one.
            output_mode: Spark's: "append", or "update" for sinks that take the newer row of an
                aggregate in the place of the older one. Only for a DataFrame that shares no source
                with another one. A batch run gives final rows in either.
            record_policy: What to do with rows that cannot be written.

        Raises:
            ConfigurationError: The uid is taken, or sink and rows do not fit together.
        """
        self._check_not_started("sink_to")
        self._check_uid(uid)
        check_topologies(sink, uid)
        policy = record_policy or RecordPolicy.fail()
        sink.validate(arrow_schema(df))
        registered = RegisteredSink(
            uid=uid,
            sink=sink,
            df=df,
            policy=policy,
            parallelism=parallelism,
            output_mode=output_mode,
        )
        check_stateful(sink, uid, registered.own_parallelism)
        self._sinks.append(registered)

    # --- running --------------------------------------------------------------------------------

    def run(
        self, *, available_now: bool = False, drain: bool = True, timeout: float | None = None
    ) -> bool:
        """Run to the end of the sources.

        Args:
            available_now: Read unbounded sources up to what is there at the start.
            drain: Such an end is the end of time for watermarks too: windows and joins give all
                they hold, and the pipeline is over. False keeps what they hold for the next run.
            timeout: Seconds to wait; the pipeline goes on when they are over.

        Returns:
            True at the end; False when the time was over first, or, of a batch pipeline, when it
            was stopped, or an earlier run that a crash had left unfinished was finished instead of
            a new one.

        Raises:
            ConfigurationError: A source has no end.
            ConnectorError: The pipeline failed.
            SystemExit: SIGTERM has stopped the pipeline.
        """
        streamed = {uid: stream.settings.source for uid, stream in self._streams.items()}
        check_ends(streamed, available_now=available_now)
        if self._batches and not self._streams:
            try:
                return self._run_batch()
            finally:
                for batch in self._batches.values():
                    batch.close()
                self._termination.end()
        self._start(available_now=available_now, drain=drain)
        return self.await_termination(timeout)

    def start(self) -> None:
        """Start and return; see :meth:`await_termination` and :meth:`stop`.

        Raises:
            IdentityError: The pipeline is not the one that its checkpoint location belongs to.
            LeaseError: Another driver runs it.
            ConfigurationError: It is a batch pipeline, or not complete.
        """
        if self._batches and not self._streams:
            raise ConfigurationError(
                "start() is for streaming pipelines, and all sources of this one are bounded",
                hint="use run(), or Pipeline(..., streaming=True)",
            )
        self._start(available_now=False)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the end of all queries; True when they have ended.

        Raises:
            ConnectorError: A query failed; the others are stopped.
            SystemExit: SIGTERM has stopped the pipeline.
        """
        try:
            if not self._await_all(timeout):
                return False
        except BaseException as error:
            if self._termination.asked:
                _LOGGER.warning("pipeline %r failed while it was stopped: %s", self._name, error)
            self._termination.end()
            self.stop()
            raise
        self._termination.end()
        self._release()
        return True

    def _await_all(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            ended = [run.await_termination(0) for run in self._runs]  # raises where one failed
            if all(ended):
                return True
            left = _POLL_SECONDS if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return False
            # For a moment only: while this one goes on another may fail.
            self._runs[ended.index(False)].await_termination(min(left, _POLL_SECONDS))

    def stop(self) -> None:
        """Stop after the micro-batches that run now. A later start goes on from there.

        A batch run is cancelled, from any other thread; ``run`` then returns False.
        """
        if self._batch_run is not None and self._batch_run.cancel():
            return  # the thread that runs it releases what it holds
        try:
            if self._running_lookups is not None:
                self._running_lookups.end_reloads()  # they may hold the slots that batches wait for
            for run in self._runs:
                run.stop()
            self._release()
        finally:
            self._telemetry.close()

    def _stop_and_wait(self) -> None:
        self.stop()
        if self._batch_run is not None:
            self._batch_run.ended.wait()

    def status(self) -> PipelineStatus:
        """How the pipeline stands: splits, rows, watermarks, epochs, commits. From any thread.

        Counts begin with this driver. Never waits long and never holds the pipeline up: while its
        coordinator is busy, the sources are shown as they were asked last.
        """
        runs: list[StreamingRun | BatchRun] = [*self._runs]
        if self._batch_run is not None:
            runs.append(self._batch_run)
        return PipelineStatus.of(
            self._name,
            None if self._identity is None else self._identity.pipeline_id,
            [run.status() for run in runs],
            lookups=() if self._running_lookups is None else self._running_lookups.statuses(),
            started=self._started,
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

    def _start(self, *, available_now: bool, drain: bool = True) -> None:
        self._check_complete()
        jobs = [self._writing_job(sinks) for sinks in self._components()]
        shapes = [
            QueryShape(tuple(sources_of(job.df)), tuple(sink.uid for sink in job.sinks))
            for job in jobs
        ]
        for job in jobs:
            self._check_watermarks(job)
        read = {uid for shape in shapes for uid in shape.lines}
        self._warn_of_unread(read)
        parts = self._parts(read)
        checkpoint = CheckpointLocation(self._spark, self._checkpoint)
        self._check_connections({"the checkpoint location": checkpoint, **parts})
        self._claim()
        try:
            identity = self._identify(streaming=True, shapes=shapes)
            probe_executors(self._spark, self._root)
            groups = CoordinatorStore()
            lookups = self._lookups_of(jobs, identity)
            runs = [
                StreamingRun(
                    self._spark,
                    identity=query,
                    sources=[self._streams[uid] for uid in dict.fromkeys(query.lines)],
                    job=job,
                    root=self._root,
                    checkpoint=self._checkpoint,
                    pipeline_id=identity.pipeline_id,
                    lease=self._held(),
                    trigger_interval=self._trigger_interval.total_seconds(),
                    available_now=available_now,
                    drain=drain,
                    commit_retries=self._commit_retries,
                    lookups=lookups.pinning(query.folder, job.sinks),
                    parts=tuple(parts.values()),
                    groups=groups,
                )
                for query, job in zip(identity.queries, jobs, strict=True)
            ]
            for run in runs:
                run.fence()
            lookups.start()
            self._runs = runs
            for number, run in enumerate(self._runs):
                try:
                    run.start()
                except BaseException:
                    for started in self._runs[:number]:
                        started.stop()
                    self._runs = []
                    raise
            self._handle_sigterm()
        except BaseException as error:
            self._error = self._failure(error, parts)
            self._release()
            raise self._error from self._error.__cause__

    def _run_batch(self) -> bool:
        self._check_complete()
        read: set[str] = set()
        for sink in self._sinks:
            sources = batch_sources_of(sink.df)
            check_sources(sink.uid, sources, self._batches)
            read |= sources
        self._warn_of_unread(read)
        batches = [batch for uid, batch in self._batches.items() if uid in read]
        job = self._writing_job(self._sinks)
        parts = self._parts(read)
        self._check_connections(parts)
        self._claim()
        try:
            lines = tuple(batch.settings.uid for batch in batches)
            shape = QueryShape(lines, tuple(sink.uid for sink in self._sinks))
            identity = self._identify(streaming=False, shapes=[shape])
            probe_executors(self._spark, self._root)
            folder = identity.queries[0].folder
            lookups = self._lookups_of([job], identity)
            batch_lookups = lookups.pinning(folder, job.sinks)
            verify_complete(self._root.child(folder), pipeline_id=identity.pipeline_id)
            fence_decisions(
                self._root.child(folder), self._held(), pipeline_id=identity.pipeline_id
            )
            lookups.start()
            self._batch_run = BatchRun(
                self._spark,
                run_id=self._run_id,
                sources=batches,
                job=job,
                root=self._root,
                folder=folder,
                pipeline_id=identity.pipeline_id,
                lease=self._held(),
                commit_retries=self._commit_retries,
                pinned=batch_lookups.pinned,
            )
            self._handle_sigterm()
            ran = self._batch_run.run()
            batch_lookups.pinning.purge()
            return ran
        except BaseException as error:
            self._error = self._failure(error, parts)
            raise self._error from self._error.__cause__
        finally:
            self._release()

    def _handle_sigterm(self) -> None:
        if self._stop_on_sigterm:
            self._termination.install()

    def _failure(self, error: BaseException, parts: Mapping[str, object]) -> BaseException:
        if not isinstance(error, Exception):
            return error
        return translated(error, f"the start of pipeline {self._name!r}", parts=parts.values())

    def _writing_job(self, sinks: Sequence[RegisteredSink]) -> WritingJob:
        """The job of a query; direct where no one looks at rows between a source and its sinks."""
        direct = [each for each in self._direct if all(sink.df is each.df for sink in sinks)]
        if not direct or any(sink.needs_own_job for sink in sinks):
            return WritingJob(sinks)
        (frame,) = direct
        if frame.source in self._batches:
            batch = self._batches[frame.source]
            entries, reader = entries_dataframe(self._spark, batch), batch.reader
        else:
            stream = self._streams[frame.source]
            entries, reader = stream.carrier.entries(), stream.reader
        return WritingJob(sinks, (entries, EntryRows(reader, frame.stages)))

    def _lookups_of(self, jobs: Sequence[WritingJob], identity: PipelineIdentity) -> Lookups:
        """The lookups that these jobs use."""
        used = {uid for job in jobs for sink in job.sinks for uid in lookups_of(sink.df)}
        kept = [uid for uid in sorted(used) if self._lookups[uid].is_partial]
        if kept and self._streams and self._trigger_interval > IDLE_WORKERS_END_AFTER:
            _LOGGER.warning(
                "nothing is kept of lookup %s from one micro-batch to the next: the trigger "
                "interval is %s, and Spark ends worker processes that were idle for %s",
                ", ".join(kept),
                format_duration(self._trigger_interval),
                format_duration(IDLE_WORKERS_END_AFTER),
            )
        self._running_lookups = Lookups(
            self._spark,
            self._root,
            [lookup for uid, lookup in self._lookups.items() if uid in used],
            pipeline_id=identity.pipeline_id,
            lease=self._held(),
            parallelism=self._parallelism or self._spark.sparkContext.defaultParallelism,
        )
        return self._running_lookups

    def _components(self) -> list[list[RegisteredSink]]:
        """Sinks that share a source, directly or through another sink, in order of their uids."""
        components: list[tuple[set[str], list[RegisteredSink]]] = []
        for sink in self._sinks:
            sources = set(sources_of(sink.df))
            check_sources(sink.uid, sources, self._streams)
            sinks = [sink]
            apart = []
            for known_sources, known_sinks in components:
                if known_sources & sources:
                    sources |= known_sources
                    sinks = known_sinks + sinks
                else:
                    apart.append((known_sources, known_sinks))
            components = [*apart, (sources, sinks)]
        order = {sink.uid: number for number, sink in enumerate(self._sinks)}
        return sorted(
            (sorted(sinks, key=lambda s: order[s.uid]) for _, sinks in components),
            key=lambda sinks: order[sinks[0].uid],
        )

    # --- identity -------------------------------------------------------------------------------

    def _pipeline_id(self) -> str:
        if not self._identity_read:
            check_state_location(self._root, self._connection_seconds())
            self._identity = read_identity(self._root)
            self._identity_read = True
            if self._identity is not None and not self._identity.streaming:
                self._unfinished_run = unfinished_run(self._root, self._identity)
                if self._unfinished_run is not None:
                    self._run_id = self._unfinished_run.run_id
        return self._new_id if self._identity is None else self._identity.pipeline_id

    def _identify(self, *, streaming: bool, shapes: Sequence[QueryShape]) -> PipelineIdentity:
        pipeline_id = self._pipeline_id()
        recorded = self._identity
        if recorded is None:
            verify_identified(self._root)
            identity = first_identity(pipeline_id, self._name, streaming=streaming, shapes=shapes)
        else:
            try:
                assert_unchanged(recorded, self._name, streaming=streaming, shapes=shapes)
            except IdentityError:
                kept = recorded.streaming and streaming and recorded.name == self._name
                if self._on_changed_query == "refuse" or not kept:
                    raise
                identity = self._new_generation(recorded, shapes)
            else:
                return recorded
        if streaming:
            known = recorded.queries if recorded is not None else ()
            identity = self._with_checkpoints(identity, known)
        record_identity(self._root, identity)
        self._identity = identity
        return identity

    def _with_checkpoints(
        self, identity: PipelineIdentity, known: Sequence[QueryIdentity]
    ) -> PipelineIdentity:
        """Give new queries their Spark checkpoint before they are recorded.

        So a recorded query without one is a query whose checkpoint was wiped.
        """
        queries = []
        for query in identity.queries:
            if query not in known:
                log = SparkLog(self._spark, f"{self._checkpoint}/{query.spark_folder}")
                log.write_query_id(query.spark_query_id)
                found = log.query_id() or query.spark_query_id  # a start that was cut off wrote it
                assert_same_life(
                    query,
                    found_query_id=query.spark_query_id,
                    newest_plan=-1 if query.generation == 0 else query.first,
                    logged_batch=log.last_logged_batch(),
                )
                query = dataclasses.replace(query, spark_query_id=found)
            queries.append(query)
        return dataclasses.replace(identity, queries=tuple(queries))

    def _new_generation(
        self, identity: PipelineIdentity, shapes: Sequence[QueryShape]
    ) -> PipelineIdentity:
        written = {
            query.folder: last_written_plan(
                query,
                SparkLog(self._spark, f"{self._checkpoint}/{query.spark_folder}"),
                self._root.child(query.folder),
            )
            for query in identity.queries
        }
        return next_generation(identity, shapes, written)

    def _claim(self) -> None:
        self._pipeline_id()
        self._lease = Lease.acquire(self._root, expiry=self._lease_expiry)
        self._started = True
        global_instruments().add(self._telemetry)
        self._progress = ProgressDisplay.started(self.status, self._show_progress)

    def _held(self) -> Lease:
        assert self._lease is not None
        return self._lease

    def _release(self) -> None:
        if self._running_lookups is not None:
            self._running_lookups.close()
        self._telemetry.refresh()
        self._termination.restore()
        if self._progress is not None:
            self._progress.stop()
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    # --- checks ---------------------------------------------------------------------------------

    def _check_uid(self, uid: str) -> None:
        sinks = {sink.uid for sink in self._sinks}
        taken = self._streams.keys() | self._batches.keys() | self._lookups.keys() | sinks
        check_uid(uid, taken, self._name)

    def _check_not_started(self, method: str) -> None:
        check_not_started(method, started=self._started)

    def _check_complete(self) -> None:
        self._check_not_started("run or start")
        check_has_sinks(self._name, self._sinks)
        check_stable(self._sinks, self._lookups.values())
        if self._streams and self._batches:
            raise ConfigurationError(
                "the pipeline mixes streaming and batch sources",
                expected="streaming=True, so that bounded sources are read as streams too",
                found=f"streaming {', '.join(self._streams)}; batch {', '.join(self._batches)}",
                option="streaming",
                hint="use Pipeline(..., streaming=True)",
            )
        check_policies(self._policies())

    def _parts(self, read: Collection[str]) -> dict[str, object]:
        """What reaches a system of its own, by what it is called."""
        settings = [
            *(stream.settings for stream in self._streams.values()),
            *(batch.settings for batch in self._batches.values()),
        ]
        parts: dict[str, object] = {
            f"source {each.uid!r}": each.source for each in settings if each.uid in read
        }
        parts |= {f"lookup {uid!r}": table for uid, table in self._tables.items()}
        parts |= {f"sink {sink.uid!r}": sink.sink for sink in self._sinks}
        parts |= {
            f"the sink for dead letters of {uid!r}": policy.sink
            for uid, policy in self._policies().items()
        }
        return parts

    def _check_connections(self, parts: Mapping[str, object]) -> None:
        seconds = self._connection_seconds()
        if seconds is not None:
            check_connections(parts, seconds)

    def _connection_seconds(self) -> float | None:
        timeout = self._connection_timeout
        return None if timeout is None else timeout.total_seconds()

    def _check_watermarks(self, job: WritingJob) -> None:
        driven = [
            uid for uid in sources_of(job.df) if self._streams[uid].settings.strategy is not None
        ]
        others = [delay for delay in watermark_delays(job.df) if delay != _DRIVEN_BY_HEARTBEAT]
        if driven and others:
            raise ConfigurationError(
                f"withWatermark on rows of {', '.join(sorted(set(driven)))}, whose watermark the "
                "pipeline drives: Spark has one watermark per query, and would lose rows by it",
                found=f"a watermark with a delay of {', '.join(others)}",
                hint="give every source of the query a watermark_strategy, and leave withWatermark "
                "out",
            )

    def _warn_of_unread(self, read: Collection[str]) -> None:
        warn_of_unread(self._name, self._streams.keys() | self._batches.keys(), read)

    def _policies(self) -> dict[str, RecordPolicy]:
        policies = {uid: stream.settings.policy for uid, stream in self._streams.items()}
        policies |= {uid: batch.settings.policy for uid, batch in self._batches.items()}
        return policies | {sink.uid: sink.policy for sink in self._sinks}


def last_written_plan(query: QueryIdentity, log: SparkLog, store: StateStore) -> int:
    """The plan behind which a new Spark checkpoint of a query may begin.

    Raises:
        IdentityError: The query has Spark state, or its sources are not at the same plan.
    """
    if log.has_state():
        raise IdentityError(
            f"{query.folder} has Spark state, which a new generation would lose",
            ways_out=["keep the query as it was", "start anew with another checkpoint location"],
            option="on_changed_query",
        )
    logged = log.last_logged_batch()
    decided = any(
        (decision.spark_query_id, decision.batch_id) == (query.spark_query_id, logged)
        for decision in decisions_since(store, newest_decision(store)).values()
    )
    resume = log.resume(query.lines, query.first).values()
    plans = {each.end if decided else each.start for each in resume}
    if len(plans) > 1:
        raise IdentityError(
            f"the sources of {query.folder} are not at the same plan",
            found=", ".join(map(str, sorted(plans))),
            ways_out=["start the pipeline once as it was and stop it, then change it"],
            option="on_changed_query",
        )
    return plans.pop()


def _attempt_number() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()


def _state_location(checkpoint: str) -> str:
    """The same place in fsspec's spelling."""
    for hadoop, fsspec in (("s3a://", "s3://"), ("s3n://", "s3://"), ("file://", "")):
        if checkpoint.startswith(hadoop):
            return fsspec + checkpoint.removeprefix(hadoop)
    return checkpoint.removeprefix("file:")
