# SPDX-License-Identifier: Apache-2.0
"""Runs the queries of a pipeline from their start to their end. Driver."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from connectors_core.engine.coordinator.completeness import verify_complete
from connectors_core.engine.coordinator.epoch_committer import CommitRetries
from connectors_core.engine.coordinator.fences import fence_decisions
from connectors_core.engine.coordinator.identity import PipelineIdentity, QueryShape, uids_of
from connectors_core.engine.coordinator.registrations import Registrations
from connectors_core.engine.query.batch_run import BatchRun
from connectors_core.engine.query.status import PipelineState, PipelineStatus
from connectors_core.engine.query.wiring import Query
from connectors_core.engine.state import Lease, StateStore
from connectors_core.lineage import JobStatus, JobStatusChangedListener, RuntimeExecutionMode
from connectors_core.options import format_duration
from connectors_core.source.alignment import CoordinatorStore
from connectors_core.spark.batch import batch_run
from connectors_core.spark.carriers import streams_of
from connectors_core.spark.checkpoint_location import CheckpointLocation
from connectors_core.spark.failures import translated
from connectors_core.spark.frames import PipelineFrames
from connectors_core.spark.heartbeats import check_watermarks
from connectors_core.spark.lineage import JobEvents
from connectors_core.spark.lookups import IDLE_WORKERS_END_AFTER, Lookups
from connectors_core.spark.nondeterminism import warn_of_other_rows
from connectors_core.spark.probe import probe_executors
from connectors_core.spark.progress import ProgressDisplay, ShowProgress
from connectors_core.spark.recorded_identity import RecordedIdentity
from connectors_core.spark.streaming_run import StreamingRun
from connectors_core.spark.telemetry import Telemetry, global_instruments
from connectors_core.spark.termination import Termination
from connectors_core.spark.writing_job import SparkEngine, WritingJob

_LOGGER: Final = logging.getLogger(__name__)
_POLL_SECONDS = 0.1
STOP_SECONDS: Final = 300.0
"""Seconds to wait for the micro-batches of a pipeline that is stopped."""


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """The settings of a run.

    Attributes:
        checkpoint: Its checkpoint location.
        parallelism: Number of tasks that load a table; None for Spark's default parallelism.
        trigger_interval: Minimum time between two micro-batches.
        commit_retries: Number and backoff of commit retries.
        lease_expiry: Time without a heartbeat after which another driver counts as dead.
        stop_on_sigterm: Whether SIGTERM stops it.
        progress: Whether it shows its progress.
        resume_batch_runs: Whether a later driver can resume a batch run.
    """

    checkpoint: str
    parallelism: int | None
    trigger_interval: timedelta
    commit_retries: CommitRetries
    lease_expiry: timedelta
    stop_on_sigterm: bool
    progress: ShowProgress
    resume_batch_runs: bool = False


@dataclass(eq=False, repr=False)
class PipelineRun:
    """Starts, monitors, and stops the queries of one pipeline, under its lease. Driver.

    Attributes:
        streams: Its streaming queries.
        batch: Its batch run.

    Args:
        spark: The session.
        name: Name of the pipeline.
        root: The state location of the pipeline.
        registered: The parts of the pipeline.
        frames: Its DataFrames.
        identity: Its identity.
        settings: The settings of the run.
        listeners: Receive the events of the run.
    """

    spark: SparkSession
    name: str
    _: KW_ONLY
    root: StateStore
    registered: Registrations
    frames: PipelineFrames
    identity: RecordedIdentity
    settings: RunSettings
    listeners: Sequence[JobStatusChangedListener] = ()

    def __post_init__(self) -> None:
        self.streams: list[StreamingRun] = []
        self.batch: BatchRun[DataFrame] | None = None
        self._lookups: Lookups | None = None
        self._lease: Lease | None = None
        self._error: BaseException | None = None
        self._termination = Termination(self._stop_and_wait)
        self._telemetry = Telemetry(self.status)
        self._events = JobEvents(self.name, self.listeners, self.status)
        self._progress: ProgressDisplay | None = None

    # --- streams --------------------------------------------------------------------------------

    def start(self, *, available_now: bool, drain: bool) -> None:
        """Start the streaming queries.

        Args:
            available_now: Read the data that is available at the start, then end.
            drain: Whether that end also moves the watermarks to the end of time.

        Raises:
            ConnectorError: The pipeline cannot be started.
        """
        self.frames.check_complete()
        jobs = [self.frames.writing_job(sinks) for sinks in self.frames.queries()]
        shapes = [
            QueryShape(tuple(streams_of(job.df)), tuple(sink.uid for sink in job.sinks))
            for job in jobs
        ]
        for job in jobs:
            check_watermarks(job.df, self.registered.sources)
            warn_of_other_rows(job)
        read = {uid for shape in shapes for uid in uids_of(shape.sources)}
        self.registered.warn_of_unread(read)
        parts = self.registered.parts(read)
        checkpoint = CheckpointLocation(self.spark, self.settings.checkpoint)
        self.registered.check_connections({"the checkpoint location": checkpoint, **parts})
        self._claim(RuntimeExecutionMode.STREAMING)
        try:
            tasks = [task for job in jobs for task in job.tasks()]
            identity = self.identity.identify(streaming=True, shapes=shapes, sinks=tasks)
            probe_executors(self.spark, self.root)
            lookups = self._lookups_of(jobs, identity)
            runs = self._streaming_runs(
                identity,
                jobs,
                lookups,
                parts=tuple(parts.values()),
                available_now=available_now,
                drain=drain,
            )
            with ExitStack() as failing:
                for run in runs:
                    failing.callback(run.abandon)
                for run in runs:
                    run.fence()
                lookups.start()
                self.streams = runs
                for run in runs:
                    run.start()
                self._events.running()
                self._handle_sigterm()
                failing.pop_all()
        except BaseException as error:
            self.streams = []
            self._error = self._failure(error, parts)
            self.release()
            self._events.ended(JobStatus.FAILED, self._error)
            self._events.close()
            raise self._error from self._error.__cause__

    def _streaming_runs(
        self,
        identity: PipelineIdentity,
        jobs: Sequence[WritingJob],
        lookups: Lookups,
        *,
        parts: Sequence[object],
        available_now: bool,
        drain: bool,
    ) -> list[StreamingRun]:
        groups = CoordinatorStore()
        return [
            StreamingRun(
                self.spark,
                identity=query,
                sources=[self.frames.streams[uid] for uid in query.uids],
                job=job,
                root=self.root,
                checkpoint=self.settings.checkpoint,
                pipeline_id=identity.pipeline_id,
                lease=self._held(),
                trigger_interval=self.settings.trigger_interval.total_seconds(),
                available_now=available_now,
                drain=drain,
                commit_retries=self.settings.commit_retries,
                lookups=lookups.pinning(query.folder, job.sinks),
                parts=parts,
                groups=groups,
            )
            for query, job in zip(identity.queries, jobs, strict=True)
        ]

    def await_termination(self, timeout: float | None) -> bool:
        """Wait for the end of all queries; return whether they have ended.

        Raises:
            ConnectorError: A query failed; the others are stopped.
            SystemExit: SIGTERM has stopped the pipeline.
        """
        try:
            if not self._await_all(timeout):
                return False
        except BaseException as error:
            if self._termination.asked:
                _LOGGER.warning("pipeline %r failed while it was stopped: %s", self.name, error)
            self._events.ended(JobStatus.FAILED, error)
            self._termination.end()
            self.stop()
            raise
        self._report_end_of_streams()
        self._termination.end()
        self.release()
        self._events.close()
        return True

    def _report_end_of_streams(self) -> None:
        error = next((run.error for run in self.streams if run.error is not None), None)
        stopped = any(run.status().state is PipelineState.STOPPED for run in self.streams)
        if error is not None:
            self._events.ended(JobStatus.FAILED, error)
        else:
            self._events.ended(JobStatus.CANCELED if stopped else JobStatus.FINISHED)

    def _await_all(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            ended = [run.await_termination(0) for run in self.streams]  # raises if one failed
            if all(ended):
                return True
            left = _POLL_SECONDS if deadline is None else deadline - time.monotonic()
            if left <= 0:
                return False
            # Wait only briefly: another query may fail while this one runs.
            self.streams[ended.index(False)].await_termination(min(left, _POLL_SECONDS))

    # --- the batch run --------------------------------------------------------------------------

    def run_batch(self) -> bool:
        """Run all sources once.

        Returns:
            False if the run was stopped, or if it finished an earlier run instead.

        Raises:
            ConnectorError: The run failed.
            SystemExit: SIGTERM has stopped the pipeline.
        """
        try:
            return self._run_batch()
        finally:
            for batch in self.frames.batches.values():
                batch.close()
            self._termination.end()

    def _run_batch(self) -> bool:
        self.frames.check_complete()
        read = self.frames.batches_read()
        self.registered.warn_of_unread(read.keys())
        job = self.frames.writing_job(self.frames.sinks)
        warn_of_other_rows(job)
        parts = self.registered.parts(read.keys())
        self.registered.check_connections(parts)
        self._claim(RuntimeExecutionMode.BATCH)
        try:
            shapes = [self.frames.batch_shape()]
            identity = self.identity.identify(streaming=False, shapes=shapes, sinks=job.tasks())
            probe_executors(self.spark, self.root)
            folder = identity.queries[0].folder
            lookups = self._lookups_of([job], identity)
            batch_lookups = lookups.pinning(folder, job.sinks)
            store = self.root.child(folder)
            verify_complete(store, pipeline_id=identity.pipeline_id)
            fence_decisions(store, self._held(), pipeline_id=identity.pipeline_id)
            lookups.start()
            sources = list(read.values())
            readers = {source.settings.uid: source.reader for source in sources} | job.readers
            engine = SparkEngine(self.spark, job, readers, self.root, self._held())
            query = Query(
                folder=folder,
                sources=[source.settings for source in sources],
                sinks=job.sinks,
                tasks=job.tasks(),
                engine=engine,
                root=self.root,
                pipeline_id=identity.pipeline_id,
                lease=self._held(),
                commit_retries=self.settings.commit_retries,
            )
            self.batch = batch_run(
                engine,
                query,
                run_id=self.identity.run_id,
                unfinished=self.identity.unfinished_run,
                sources=sources,
                rows_of=self.frames.rows_of,
                pinned=batch_lookups.pinned,
                resumable=self.settings.resume_batch_runs,
            )
            self._events.running()
            self._handle_sigterm()
            ran = self.batch.run()
            batch_lookups.pinning.purge()
        except BaseException as error:
            self._error = self._failure(error, parts)
            self.release()
            self._events.ended(JobStatus.FAILED, self._error)
            self._events.close()
            raise self._error from self._error.__cause__
        self.release()
        canceled = self.batch.status().state is PipelineState.STOPPED
        self._events.ended(JobStatus.CANCELED if canceled else JobStatus.FINISHED)
        self._events.close()
        return ran

    # --- the end --------------------------------------------------------------------------------

    def stop(self, timeout: float | None = STOP_SECONDS) -> None:
        """Stop after the current micro-batches, or cancel the batch run.

        Args:
            timeout: Seconds after which micro-batches are canceled; None for no limit.
        """
        if self.batch is not None and self.batch.cancel():
            return  # the thread of the run releases its resources
        try:
            if self._lookups is not None:
                self._lookups.end_reloads()  # they may occupy the slots that batches need
            end = None if timeout is None else time.monotonic() + timeout
            for run in self.streams:
                run.request_stop()
            for run in self.streams:
                run.stop(None if end is None else max(0.0, end - time.monotonic()))
            self.release()
        finally:
            if self.streams:
                self._report_end_of_streams()
            self._telemetry.close()
            self._events.close()

    def _stop_and_wait(self) -> None:
        self.stop()
        if self.batch is not None:
            self.batch.ended.wait()

    def release(self) -> None:
        """Release the resources of a running pipeline, the lease last."""
        if self._lookups is not None:
            self._lookups.close()
        self._telemetry.refresh()
        self._termination.restore()
        if self._progress is not None:
            self._progress.stop()
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def status(self) -> PipelineStatus:
        """Return the status of the pipeline. From any thread."""
        runs: list[StreamingRun | BatchRun[DataFrame]] = [*self.streams]
        if self.batch is not None:
            runs.append(self.batch)
        identity = self.identity.known
        return PipelineStatus.of(
            self.name,
            None if identity is None else identity.pipeline_id,
            [run.status() for run in runs],
            lookups=() if self._lookups is None else self._lookups.statuses(),
            started=self.registered.started,
            error=self._error,
        )

    # --- shared by streams and batch runs -------------------------------------------------------

    def _claim(self, mode: RuntimeExecutionMode) -> None:
        _ = self.identity.pipeline_id  # checks the state location, which the lease needs
        self._lease = Lease.acquire(self.root, expiry=self.settings.lease_expiry)
        self.registered.started = True
        self._events.created(mode, self.frames.lineage)
        global_instruments().add(self._telemetry)
        self._progress = ProgressDisplay.started(self.status, self.settings.progress)

    def _held(self) -> Lease:
        assert self._lease is not None
        return self._lease

    def _handle_sigterm(self) -> None:
        if self.settings.stop_on_sigterm:
            self._termination.install()

    def _failure(self, error: BaseException, parts: Mapping[str, object]) -> BaseException:
        if not isinstance(error, Exception):
            return error
        return translated(
            error,
            f"the start of pipeline {self.name!r}",
            parts=parts.values(),
            location=str(self.root),
        )

    def _lookups_of(self, jobs: Sequence[WritingJob], identity: PipelineIdentity) -> Lookups:
        """Return the lookups that these jobs use."""
        used = self.frames.lookups_used(jobs)
        kept = sorted(lookup.uid for lookup in used if lookup.is_partial)
        interval = self.settings.trigger_interval
        if kept and self.frames.streams and interval > IDLE_WORKERS_END_AFTER:
            _LOGGER.warning(
                "the cache of lookup %s does not survive between micro-batches: the trigger "
                "interval is %s, and Spark ends worker processes that are idle for %s",
                ", ".join(kept),
                format_duration(interval),
                format_duration(IDLE_WORKERS_END_AFTER),
            )
        self._lookups = Lookups(
            self.spark,
            self.root,
            used,
            pipeline_id=identity.pipeline_id,
            lease=self._held(),
            parallelism=self.settings.parallelism or self.spark.sparkContext.defaultParallelism,
        )
        return self._lookups
