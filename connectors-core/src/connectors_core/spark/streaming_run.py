# SPDX-License-Identifier: Apache-2.0
"""One streaming query of a pipeline: coordinator, carriers, and an epoch per micro-batch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from connectors_core.engine._faults import fault_point
from connectors_core.engine.coordinator.completeness import (
    verify_complete,
    verify_decided,
    verify_same_moment,
)
from connectors_core.engine.coordinator.epoch_committer import CommitRetries
from connectors_core.engine.coordinator.fences import fence_decisions, fence_plans
from connectors_core.engine.coordinator.identity import QueryIdentity, assert_same_life
from connectors_core.engine.coordinator.plan_log import newest_number, purge, read_plan
from connectors_core.engine.coordinator.query_coordinator import QueryCallbacks
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.execution.reader_task import ReaderTask
from connectors_core.engine.protocol import PLANS_FOLDER, Plan, encode_entry
from connectors_core.engine.query.status import QueryStatus
from connectors_core.engine.query.wiring import Query, wire_stream
from connectors_core.engine.state import Lease, StateStore
from connectors_core.errors import ConnectorError, RetryableError
from connectors_core.source.alignment import CoordinatorStore
from connectors_core.spark.carriers import Carrier, SparkLog
from connectors_core.spark.failures import spark_log_taken, translated
from connectors_core.spark.lookups import BatchLookups
from connectors_core.spark.ownership import OwnedReader, pipeline_query
from connectors_core.spark.streaming_status import StreamingStatus
from connectors_core.spark.unshared_exchanges import unshared_exchanges
from connectors_core.spark.watermark_use import only_windows_compare
from connectors_core.spark.writing_job import SparkEngine, WritingJob

PURGE_EVERY_BATCHES = 20
_LOGGER: Final = logging.getLogger(__name__)
_POLL_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class StreamingSource:
    """A source of a streaming query with its carrier and reader."""

    settings: SourceSettings
    carrier: Carrier
    reader: ReaderTask
    pipeline_id: str

    def narrowed(self, reader: ReaderTask) -> DataFrame:
        """Return a DataFrame of the columns of another reader; see `PushableSource`."""
        read = OwnedReader(reader, self.pipeline_id)
        return self.carrier.read_by(read, reader.output_schema())


class StreamingRun:
    """Runs one streaming query from its start to its end. Driver.

    Args:
        spark: The session.
        identity: The query as recorded.
        sources: Its sources.
        job: The job that writes its rows.
        root: The state location of the pipeline.
        checkpoint: The checkpoint location of the pipeline.
        pipeline_id: The pipeline.
        lease: The lease of this driver.
        trigger_interval: Minimum time between two plans, in seconds.
        available_now: Read the data that is available at the start, then end.
        drain: Whether an end by ``available_now`` also moves the watermark to the end of time.
        commit_retries: Retries of commits that request one.
        lookups: Pins the table versions of batches.
        parts: The sources, sinks, and tables of the pipeline.
        groups: Alignment groups, shared by all queries of the pipeline.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        identity: QueryIdentity,
        sources: Sequence[StreamingSource],
        job: WritingJob,
        root: StateStore,
        checkpoint: str,
        pipeline_id: str,
        lease: Lease,
        trigger_interval: float,
        available_now: bool,
        drain: bool,
        commit_retries: CommitRetries,
        lookups: BatchLookups,
        parts: Sequence[object],
        groups: CoordinatorStore | None = None,
    ) -> None:
        self.identity = identity
        self._lookups = lookups
        self._parts = parts
        self.job = job
        self._pipeline_id = pipeline_id
        self._spark = spark
        self._lease = lease
        self._store = root.child(identity.folder)
        self._checkpoint = f"{checkpoint.rstrip('/')}/{identity.spark_folder}"
        self._log = SparkLog(spark, self._checkpoint)
        self._carriers = {source.settings.uid: source.carrier for source in sources}
        self._trigger_interval = trigger_interval
        self._ends_itself = available_now and identity.reads_spark_stream
        self._keep_batches = int(
            cast(str, spark.conf.get("spark.sql.streaming.minBatchesToRetain", "100"))
        )
        readers = {source.settings.uid: source.reader for source in sources}
        self._engine = SparkEngine(spark, job, {**readers, **job.readers}, root, lease)
        self.coordinator, self.epochs = wire_stream(
            Query(
                folder=identity.folder,
                sources=[source.settings for source in sources],
                sinks=job.sinks,
                tasks=job.tasks(),
                engine=self._engine,
                root=root,
                pipeline_id=pipeline_id,
                lease=lease,
                commit_retries=commit_retries,
            ),
            QueryCallbacks(
                feed=self._feed, finished=self._all_read, failed=self._coordinator_failed
            ),
            trigger_interval=trigger_interval,
            available_now=available_now,
            drain=drain,
            only_windows=only_windows_compare(job.df),
            groups=groups,
            stateful=self._must_decide,
            keeps_state=self._log.has_state,
        )
        self._query: StreamingQuery | None = None
        self._finished = threading.Event()
        self._stop_requested = threading.Event()
        self._batch_runs = threading.Lock()
        self._no_more_batches = False
        self._written: _WrittenBatch | None = None
        self._acknowledging = threading.Lock()
        self._gave_up = self._canceled = False
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._monitor: threading.Thread | None = None
        self._last_batch = -1
        self._fed = -1
        self._completed = False
        self._status = StreamingStatus(
            identity.folder,
            coordinator=self.coordinator,
            epochs=self.epochs,
            spark_progress=self.spark_progress,
        )

    # --- lifecycle ----------------------------------------------------------------------------

    def fence(self) -> None:
        """Fence off former drivers before the start; see ``engine.coordinator.fences``.

        Raises:
            IdentityError: Checkpoint and state do not belong together.
            StateCorruptedError: A required document is missing.
            LeaseError: A later driver has taken over.
        """
        verify_complete(self._store, pipeline_id=self._pipeline_id)
        logged = self._log.last_logged_batch()
        assert_same_life(
            self.identity,
            found_query_id=self._log.query_id(),
            newest_plan=newest_number(self._store, PLANS_FOLDER),
            logged_batch=logged,
        )
        resume = self._log.resume(self.identity.sources, self.identity.first)
        verify_same_moment(
            self._store,
            spark_query_id=self.identity.spark_query_id,
            logged_batch=logged,
            logged_plan=max((each.end for each in resume.values()), default=self.identity.first),
        )
        verify_decided(
            self._store,
            spark_query_id=self.identity.spark_query_id,
            first=self.identity.first,
            batch=self._log.last_committed_batch(),
            plan=max((each.start for each in resume.values()), default=self.identity.first),
            stateful=self._log.has_state(),
            spark_streams=self.identity.reads_spark_stream,
        )
        fence_decisions(self._store, self._lease, pipeline_id=self._pipeline_id)
        fence_plans(self._store, self._lease, pipeline_id=self._pipeline_id)

    def start(self) -> None:
        """Read the logs, recover the epochs, restore the carriers, and start the query.

        Call it after :meth:`fence`.

        Raises:
            StateCorruptedError: A required document is missing.
        """
        logged = self._log.last_logged_batch()
        replayed = logged >= 0 and not self._log.is_committed(logged)
        self.epochs.recover(
            self._keep_batches,
            replayed=(self.identity.spark_query_id, logged) if replayed else None,
        )
        resume = self._log.resume(self.identity.sources, self.identity.first)
        # A fence after the last plan goes to Spark with the next plan. Alone, it would be a
        # micro-batch.
        self._fed = max([self.coordinator.recover(), *(each.end for each in resume.values())])
        for uid, carrier in self._carriers.items():
            carrier.restore(resume[uid], min(self._fed, self.coordinator.newest))
        writer = (
            self.job.df.writeStream.foreachBatch(self._run_batch)
            .option("checkpointLocation", self._checkpoint)
            .outputMode(self.job.output_mode)
        )
        if self._ends_itself:
            writer = writer.trigger(availableNow=True)
        elif self.identity.reads_spark_stream:
            writer = writer.trigger(
                processingTime=f"{round(self._trigger_interval * 1000)} milliseconds"
            )
        with pipeline_query(self._spark, self._pipeline_id), unshared_exchanges(self._spark):
            self._query = writer.start()
        self.coordinator.start()
        self._monitor = threading.Thread(
            target=self._watch, name=f"monitor-{self.identity.folder}", daemon=True
        )
        self._monitor.start()

    def request_stop(self) -> None:
        """Begin no further micro-batch. The current one no longer waits for commit retries.

        The next start commits what remains uncommitted.
        """
        self._stop_requested.set()
        self.epochs.committer.give_up_waiting()

    def stop(self, timeout: float | None = None) -> None:
        """Stop after the current micro-batch, or cancel it after the timeout.

        Args:
            timeout: Seconds to wait for the micro-batch; None for no limit.
        """
        self.request_stop()
        if not self._ended.wait(timeout):
            _LOGGER.warning(
                "query %s does not end its micro-batch in time: it is canceled, and the next start "
                "runs it again",
                self.identity.folder,
            )
            self._canceled = True
            self._engine.cancel()
            self._ended.wait()

    def abandon(self) -> None:
        """Release its resources after a failed start of the pipeline; stop it if it was started."""
        if self._monitor is not None:
            self.stop()
        else:
            self._close(*(() if self._query is None else (self._query.stop,)))

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the end; return whether the query has ended.

        Raises:
            ConnectorError: The query failed.
        """
        if not self._ended.wait(timeout):
            return False
        if self._error is not None:
            raise self._error
        return True

    @property
    def active(self) -> bool:
        """Whether the query is running."""
        return not self._ended.is_set()

    @property
    def error(self) -> BaseException | None:
        """The error of the query, if it failed."""
        return self._error

    def spark_progress(self) -> Mapping[str, Any] | None:
        """Return Spark's own last progress."""
        if self._query is None:
            return None
        progress: Any = self._query.lastProgress
        return cast("Mapping[str, Any] | None", progress)

    def status(self) -> QueryStatus:
        """Return the status of the query, quickly and without blocking it. From any thread."""
        return self._status.now(
            ended=self._ended.is_set(),
            started=self._monitor is not None,
            completed=self._completed,
            error=self._error,
            batch=self._last_batch,
        )

    # --- callbacks ----------------------------------------------------------------------------

    def _feed(self, plan: Plan) -> None:
        for uid, carrier in self._carriers.items():
            for fence in range(self._fed + 1, plan.number):
                carrier.feed(fence, [])
            carrier.feed(plan.number, [encode_entry(e) for e in plan.sources[uid].entries])
        self._fed = plan.number

    def _all_read(self) -> None:
        if not self.identity.reads_spark_stream:
            self._finished.set()

    def _must_decide(self) -> bool:
        return self.identity.reads_spark_stream or self._log.has_state()

    def _coordinator_failed(self, error: BaseException) -> None:
        self._fail(error)
        self._stop_requested.set()

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error

    def _run_batch(self, batch: DataFrame, batch_id: int) -> None:
        with self._batch_runs:
            if self._no_more_batches:
                raise _StoppingError(batch_id)
            self._run_epoch(batch, batch_id)

    def _run_epoch(self, batch: DataFrame, batch_id: int) -> None:
        try:
            self._lease.check()
            self._acknowledge(committed=True)  # Spark has committed the last one
            plans = sorted({plan for own in self._plans_of(batch_id).values() for plan in own})
            pinned = self._lookups.pinned(self._batch_name(batch_id))
            with pinned, self.job.offered(batch) as rows:
                self.epochs.run(rows, batch_id, self.identity.spark_query_id, plans)
            self._lease.check()  # Spark writes its own logs next
            self._last_batch = batch_id
            if plans:
                self._written = _WrittenBatch(batch_id, max(plans))
            if batch_id % PURGE_EVERY_BATCHES == PURGE_EVERY_BATCHES - 1:
                self._purge(batch_id)
        except BaseException as error:
            if self._canceled:
                self._gave_up = True
                _LOGGER.debug("canceled micro-batch %d failed", batch_id, exc_info=error)
                # Spark searches a long text with an expression that overflows its stack.
                raise _StoppingError(batch_id) from None
            if self._stop_requested.is_set() and isinstance(error, RetryableError):
                self._gave_up = True
            else:
                self._fail(error)
            raise
        fault_point("before_spark_commit", batch=batch_id)

    def _acknowledge(self, *, committed: bool = False) -> None:
        """Notify the coordinator of the last written micro-batch once Spark has committed it."""
        with self._acknowledging:
            written = self._written
            if written is None or not (committed or self._log.is_committed(written.batch)):
                return
            if not self._lease.held:
                return  # the later driver acknowledges the micro-batch
            self._written = None
            self.coordinator.notify_complete(written.plan)

    def _batch_name(self, batch_id: int) -> str:
        return f"{self.identity.generation:04d}-{batch_id:010d}"

    def _plans_of(self, batch_id: int) -> dict[str, range]:
        return self._log.plans_of(batch_id, self.identity.sources, self.identity.first)

    def _purge(self, batch_id: int) -> None:
        """Remove documents that neither a restart nor Spark can need any more."""
        # Spark has removed the offsets of older micro-batches, and to read a micro-batch, Spark
        # needs the previous one.
        oldest_batch = batch_id - self._keep_batches + 2
        if oldest_batch <= 2:
            return
        self._lookups.pinning.purge(before=self._batch_name(oldest_batch))
        plan = min((own.start for own in self._plans_of(oldest_batch).values()), default=0)
        while plan > 0 and not read_plan(self._store, plan).holds_snapshot:
            plan -= 1
        purge(
            self._store,
            plans_below=plan,
            epochs_below=self.epochs.oldest_needed(self._keep_batches),
        )

    # --- the monitor ----------------------------------------------------------------------------

    def _watch(self) -> None:
        query = self._query
        assert query is not None
        try:
            while not self._stop_requested.is_set():
                if query.awaitTermination(cast(int, _POLL_SECONDS)):
                    self._completed = self._ends_itself and self._drained()
                    break
                if self._finished.is_set():
                    query.processAllAvailable()
                    self._completed = self._drained()
                    break
                self._acknowledge()
                try:
                    self._lease.check()  # without micro-batches, this is the only check
                    self.epochs.advance()
                except Exception as error:
                    self._fail(error)
                    break
            # Stopping a query kills the job of its micro-batch. Wait for the current one and
            # prevent the next one. At the next start, Spark repeats a micro-batch that did not end.
            with self._batch_runs:
                self._no_more_batches = True
            query.stop()
            self._acknowledge()
        except Exception as error:  # a failed query raises its error here
            if not self._gave_up:
                self._fail(error)
        finally:
            self._close()
            if self._error is not None:
                self._error = self._failure(self._error)
            self._ended.set()

    def _close(self, *first: Callable[[], None]) -> None:
        """Release all resources, even if one fails."""
        for close in (
            *first,
            self.coordinator.stop,
            self.epochs.close,
            self._engine.close,
            *(carrier.stop for carrier in self._carriers.values()),
        ):
            try:
                close()
            except Exception as error:
                self._fail(error)

    def _drained(self) -> bool:
        """Commit everything that is held; return whether nothing prevented it."""
        try:
            return self.epochs.drain()
        except Exception as error:
            self._fail(error)
            return False

    def _failure(self, cause: BaseException) -> ConnectorError:
        lines, sinks = dict.fromkeys(self.identity.sources), self.identity.sinks
        what = f"{self.identity.folder} ({', '.join(lines)} -> {', '.join(sinks)})"
        return spark_log_taken(cause, what, self._lease) or translated(
            cause,
            what,
            hint="fix the cause and restart: the pipeline resumes where it stopped",
            parts=self._parts,
            location=self._checkpoint,
        )


@dataclass(frozen=True)
class _WrittenBatch:
    """A finished micro-batch and its newest plan."""

    batch: int
    plan: int


class _StoppingError(Exception):
    """Ends a micro-batch that Spark starts while its query is being stopped."""
