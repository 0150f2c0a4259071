# SPDX-License-Identifier: Apache-2.0
"""The pipeline, the main class for users."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self, get_args

from pyspark.sql import DataFrame, SparkSession

from connectors_core.engine.coordinator import durations
from connectors_core.engine.coordinator.epoch_committer import CommitRetries
from connectors_core.engine.coordinator.pipeline_checks import (
    check_choice,
    check_parallelism,
    check_type,
)
from connectors_core.engine.coordinator.registrations import Registrations
from connectors_core.engine.coordinator.source_settings import FIRST_FETCH_TIMEOUT, SourceSettings
from connectors_core.engine.query.status import PipelineStatus
from connectors_core.engine.state import LEASE_EXPIRY, StateStore
from connectors_core.errors import ConfigurationError, UnsupportedError
from connectors_core.lineage import JobStatusChangedListener
from connectors_core.lookup.join import JoinType
from connectors_core.lookup.lookup_table_source import LookupTableSource
from connectors_core.lookup.vector_search import VectorSearchTableSource
from connectors_core.options.keywords import suggesting_keywords
from connectors_core.options.spelling import spelled_as_made
from connectors_core.records import RecordPolicy
from connectors_core.sink.sink import Sink
from connectors_core.source.evaluator import RecordEvaluator
from connectors_core.source.rate_limiter import RateLimiterStrategy
from connectors_core.source.source import AnySource, BatchTasks
from connectors_core.source.split import ReadLimits
from connectors_core.source.watermarks import WatermarkStrategy
from connectors_core.spark.batch_functions import BatchFunctionSink
from connectors_core.spark.frames import PipelineFrames
from connectors_core.spark.internals.sessions import is_classic
from connectors_core.spark.pipeline_run import STOP_SECONDS, PipelineRun, RunSettings
from connectors_core.spark.progress import ShowProgress
from connectors_core.spark.recorded_identity import OnChangedQuery, RecordedIdentity
from connectors_core.spark.state_locations import fsspec_url
from connectors_core.spark.writing_job import OutputMode, RegisteredSink

_EXAMPLE_OF_LISTENER: Final = "OpenLineageListener.to_file('lineage.json')"


class Pipeline:
    """Reads from sources and writes to sinks exactly once. Driver; one per checkpoint location.

    ``from_source`` returns DataFrames, and ``sink_to`` registers the output. ``run`` or ``start``
    builds one Spark query for all connected sources and sinks.

    A duration is a `timedelta`, or a text such as "10 s" or "5 min".

    Args:
        spark: A classic session.
        name: The pipeline's name; stays the same for its checkpoint location.
        checkpoint_location: The location of Spark's checkpoint, a path or a URL for Hadoop.
        state_location: The location of plans, reports, and decisions, a URL for fsspec that the
            driver and executors share. The default is the checkpoint location.
        storage_options: Options for the file system of ``state_location``.
        streaming: True reads bounded sources as streams too. By default, a pipeline of bounded
            sources is one batch run.
        parallelism: Number of readers per source. The default is Spark's default parallelism.
        batch_tasks: Limits of the number of tasks per source in a batch run.
        trigger_interval: Minimum time between two micro-batches.
        commit_retries: Number and backoff of retries of commits that request one.
        lease_expiry: Time without a heartbeat after which another driver of the pipeline counts as
            dead. A start waits this long if a driver on another machine did not release its lease.
            Set it well above the longest pause of a driver, and to the same value for all drivers.
        on_changed_query: The reaction to changed sinks or a changed order of sources since the last
            start. "refuse" raises an error. "new-generation" keeps the positions of the sources and
            starts a new Spark checkpoint, for queries without Spark state.
        connection_timeout: Time in which the systems of sources, sinks, and tables and the
            checkpoint and state locations must respond before the start. None skips the check of
            the systems, and waits for the locations without a limit.
        stop_on_sigterm: Stop on SIGTERM as :meth:`stop` does, then end the process with status 143
            (``SystemExit``). Only in the main thread, and if nothing else handles the signal.
        resume_batch_runs: Whether the next run resumes an interrupted batch run, and so does not
            read its finished splits again. Their rows are in the state location until it ends.
            A streaming pipeline always resumes.
        progress: True shows the progress on standard output, "auto" only on a terminal or in a
            notebook.
        listeners: Receive the lineage and the state of each run, such as an
            :class:`~connectors_core.lineage.OpenLineageListener`.

    Raises:
        UnsupportedError: The session is a Spark Connect session.
        InvalidOptionError: A duration, a number, or a choice is invalid.
    """

    @suggesting_keywords
    def __init__(
        self,
        spark: SparkSession,
        name: str,
        *,
        checkpoint_location: str | os.PathLike[str],
        state_location: str | os.PathLike[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        streaming: bool | None = None,
        parallelism: int | None = None,
        batch_tasks: BatchTasks | None = None,
        trigger_interval: timedelta | str = timedelta(0),
        commit_retries: CommitRetries | None = None,
        lease_expiry: timedelta | str = LEASE_EXPIRY,
        on_changed_query: OnChangedQuery = "refuse",
        connection_timeout: timedelta | str | None = timedelta(seconds=10),
        stop_on_sigterm: bool = True,
        resume_batch_runs: bool = False,
        progress: ShowProgress = False,
        listeners: Sequence[JobStatusChangedListener] = (),
    ) -> None:
        check_parallelism(parallelism)
        check_choice("on_changed_query", on_changed_query, get_args(OnChangedQuery))
        check_choice("progress", progress, (False, True, "auto"))
        for each in listeners:
            check_type("listeners", each, JobStatusChangedListener, example=_EXAMPLE_OF_LISTENER)
        if not is_classic(spark):
            raise UnsupportedError(
                "a Pipeline needs a classic session",
                found=type(spark).__module__,
                hint="create the session with SparkSession.builder.master(...), or use formats, "
                "such as spark.read.format('connector_kafka')",
            )
        location = os.fspath(checkpoint_location)
        checkpoint = location.removeprefix("file://")
        root = StateStore(os.fspath(state_location or fsspec_url(location)), storage_options)
        self._spark = spark
        self._parallelism = parallelism
        self._batch_tasks = batch_tasks
        self._registered = Registrations(name, connection_timeout=connection_timeout)
        self._identity = RecordedIdentity(
            spark,
            name,
            root=root,
            checkpoint=checkpoint,
            registered=self._registered,
            on_changed_query=on_changed_query,
            resumes=resume_batch_runs,
        )
        self._frames = PipelineFrames(
            spark,
            root=root,
            registered=self._registered,
            identity=self._identity,
            streaming=bool(streaming),
            resumable=resume_batch_runs,
        )
        self._run = PipelineRun(
            spark,
            name,
            root=root,
            registered=self._registered,
            frames=self._frames,
            identity=self._identity,
            settings=RunSettings(
                checkpoint=checkpoint,
                parallelism=parallelism,
                trigger_interval=durations.TRIGGER_INTERVAL.accept(trigger_interval),
                commit_retries=commit_retries or CommitRetries(),
                lease_expiry=durations.LEASE_EXPIRY.accept(lease_expiry),
                stop_on_sigterm=stop_on_sigterm,
                progress=progress,
                resume_batch_runs=resume_batch_runs,
            ),
            listeners=tuple(listeners),
        )

    # --- building -------------------------------------------------------------------------------

    @suggesting_keywords
    @spelled_as_made
    def from_source(
        self,
        source: AnySource,
        *,
        uid: str,
        watermark_strategy: WatermarkStrategy | None = None,
        parallelism: int | None = None,
        limits: ReadLimits | None = None,
        rate_limiter: RateLimiterStrategy | None = None,
        record_evaluator: RecordEvaluator | None = None,
        record_policy: RecordPolicy | None = None,
        batch_tasks: BatchTasks | None = None,
        first_fetch_timeout: timedelta | str = FIRST_FETCH_TIMEOUT,
    ) -> DataFrame:
        """Return a DataFrame of a source's rows.

        The DataFrame is streaming if the source is unbounded or the pipeline streams, otherwise it
        is a batch DataFrame. A query of your own may read a batch DataFrame, as often as you like:
        each read returns all rows of the bounded source. A streaming one belongs to this pipeline,
        because only one query may read a stream; see :meth:`for_each_batch` for writers of Spark.

        Args:
            source: The source.
            uid: Its name within the pipeline, stable across restarts.
            watermark_strategy: Assigns event times and watermarks, and drives Spark's watermark
                exactly.
            parallelism: Number of readers.
            limits: Maximum that one micro-batch reads. The default is the source's own.
            rate_limiter: Limits the rows per second of the whole source.
            record_evaluator: Ends a split after a given row (Flink's FLIP-208).
            record_policy: Handles records that cannot be read.
            batch_tasks: Limits of the number of tasks of a batch run.
            first_fetch_timeout: Time in which a plan waits for first responses of endless splits.

        Raises:
            ConfigurationError: The uid is invalid or already used, an argument has another type, or
                options are incompatible.
        """
        self._registered.check_open("from_source", uid)
        if parallelism is None:
            parallelism = self._parallelism or self._spark.sparkContext.defaultParallelism
        settings = SourceSettings.of(
            source,
            uid=uid,
            parallelism=parallelism,
            watermark_strategy=watermark_strategy,
            limits=limits,
            rate_limiter=rate_limiter,
            record_evaluator=record_evaluator,
            record_policy=record_policy,
            first_fetch_timeout=first_fetch_timeout,
            batch_tasks=batch_tasks or self._batch_tasks,
        )
        self._registered.check_connections({f"source {uid!r}": source})
        return self._frames.from_source(settings)

    @suggesting_keywords
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
        """Add columns of a table to the rows of a DataFrame, looked up by key.

        The result has one row for each match in the table. A null key never matches. A lookup by
        key returns the table's current values, so a row that is looked up again after a failure may
        get other values. A fully cached table is loaded when the pipeline starts and when its
        trigger fires. A micro-batch that runs again uses the same version of it.

        Args:
            df: A DataFrame built on DataFrames of this pipeline, streaming or not.
            table: The table.
            on: Columns that both have, or a mapping from the rows' columns to the table's.
            how: "left" keeps rows without a match, "inner" does not.
            columns: Columns of the table to add, or a mapping from these to their names in the
                result; by default all but the keys. Only these are fetched.
            uid: Its name within the pipeline, stable across restarts; by default built from the
                keys.
            allow_unstable: Allow operators that move rows between tasks after a lookup by key. If
                part of a job then runs again, rows may be lost or duplicated.

        Raises:
            ConfigurationError: The uid is already used, the table has another type, or rows and
                table are incompatible.
            UnsupportedError: The type of the key cannot be compared exactly.
        """
        uid = uid or "-".join(["lookup", *on])
        self._registered.check_table("lookup_join", table, LookupTableSource, uid)
        self._registered.check_connections({f"lookup {uid!r}": table})
        return self._frames.lookup_join(
            df, table, uid=uid, on=on, how=how, columns=columns, allow_unstable=allow_unstable
        )

    @suggesting_keywords
    @spelled_as_made
    def vector_search(
        self,
        df: DataFrame,
        table: VectorSearchTableSource,
        *,
        vector_column: str,
        search_column: str | None = None,
        top_k: int,
        how: JoinType = "left",
        columns: Sequence[str] | Mapping[str, str] | None = None,
        score: str = "score",
        uid: str | None = None,
        allow_unstable: bool = False,
    ) -> DataFrame:
        """Add the most similar rows of a table to the rows of a DataFrame (Flink's FLIP-540).

        A null vector finds nothing. The table is read as in a lookup by key, see `lookup_join`.

        Args:
            df: A DataFrame built on DataFrames of this pipeline, streaming or not.
            table: The table.
            vector_column: The column of the rows with vectors: arrays of floats or doubles.
            search_column: The column of the table to compare; by default that of the same name.
            top_k: The maximum number of rows of the table for each vector.
            how: "left" keeps rows for which the table finds nothing, "inner" does not.
            columns: Columns of the table to add, or a mapping from these to their names in the
                result; by default all but the searched one. Only these are fetched.
            score: Name of the added column with the score of the table, a double.
            uid: Its name within the pipeline; by default built from the vector column.
            allow_unstable: Allow operators that move rows after the search.

        Raises:
            ConfigurationError: The uid is already used, or rows and table are incompatible.
        """
        uid = uid or f"vector-search-{vector_column}"
        self._registered.check_table("vector_search", table, VectorSearchTableSource, uid)
        self._registered.check_connections({f"lookup {uid!r}": table})
        return self._frames.vector_search(
            df,
            table,
            uid=uid,
            vector_column=vector_column,
            search_column=search_column,
            top_k=top_k,
            how=how,
            columns=columns,
            score=score,
            allow_unstable=allow_unstable,
        )

    @suggesting_keywords
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
        """Register an output; nothing runs before ``run`` or ``start``.

        Args:
            df: The rows: any DataFrame of the session, with or without sources of this pipeline.
                If Spark reads an input itself, such as a table or its own Kafka source, the input
                must return the same rows when Spark reads it again after a failure. Fewer or more
                rows are an error.
            sink: The sink.
            uid: Its name within the pipeline, stable across restarts.
            parallelism: Number of writers. The default is the DataFrame's number of partitions,
                which is cheapest. A `StatefulSink` requires a number.
            output_mode: Spark's output mode: "append", or "update" for sinks that replace an older
                row of an aggregate with a newer one. "update" requires a DataFrame that shares no
                source with another. A batch run writes final rows in both modes.
            record_policy: Handles rows that cannot be written.

        Raises:
            ConfigurationError: The uid is already used, an argument has another type, or sink and
                rows are incompatible.
        """
        check_choice("output_mode", output_mode, get_args(OutputMode))
        self._registered.check_sink(sink, uid, record_policy)
        self._frames.sink_to(
            RegisteredSink(
                uid=uid,
                sink=sink,
                df=df,
                policy=record_policy or RecordPolicy.fail(),
                parallelism=parallelism,
                output_mode=output_mode,
            )
        )

    @suggesting_keywords
    def for_each_batch(
        self, df: DataFrame, function: Callable[[DataFrame, int], None], *, uid: str
    ) -> None:
        """Register a function that writes the rows of every epoch, such as with ``df.write``.

        The pipeline calls the function on the driver, once for each epoch with rows and in order,
        after it has decided on the epoch. If the driver ends before the call has returned, the next
        start calls the function again with the same rows and the same number. The output is exact
        if the function skips a number that its target has already stored with the rows: Delta's
        ``txnVersion``, or a table of epochs in the same transaction. Numbers grow, but not by one.

        Spark keeps the rows of the epoch, on disk if necessary, until the function has returned.

        Args:
            df: The rows, as in :meth:`sink_to`.
            function: Receives the rows of an epoch and its number. Its queries run in the session
                of the DataFrame, ``rows.sparkSession``.
            uid: Its name within the pipeline, stable across restarts.

        Raises:
            ConfigurationError: The uid is already used, or the function cannot be called.
        """
        self._registered.check_open("for_each_batch", uid)
        self._frames.sink_to(RegisteredSink(uid=uid, sink=BatchFunctionSink(function), df=df))

    # --- running --------------------------------------------------------------------------------

    @suggesting_keywords
    def run(
        self, *, available_now: bool = False, drain: bool = True, timeout: float | None = None
    ) -> bool:
        """Run to the end of the sources.

        Args:
            available_now: Read from unbounded sources only the data that is available at the start.
            drain: Whether that end also moves the watermarks to the end of time. Windows and joins
                then emit all their rows, and the pipeline cannot continue. False keeps their rows
                for the next run.
            timeout: Seconds to wait for streams. The pipeline keeps running after the timeout.

        Returns:
            True at the end of the sources, False after the timeout. A batch pipeline returns False
            if it was stopped, or if it only finished an earlier run with the same input.

        Raises:
            ConfigurationError: A source has no end.
            ConnectorError: The pipeline failed.
            SystemExit: SIGTERM has stopped the pipeline.
        """
        if self._frames.is_batch:
            return self._run.run_batch()
        self._registered.check_ends(available_now=available_now)
        self._frames.check_ends(available_now=available_now)
        self._run.start(available_now=available_now, drain=drain)
        return self.await_termination(timeout)

    def start(self) -> None:
        """Start and return; see :meth:`await_termination` and :meth:`stop`.

        Raises:
            IdentityError: The checkpoint location belongs to another pipeline.
            LeaseError: Another driver runs the pipeline.
            ConfigurationError: It is a batch pipeline, or it is incomplete.
        """
        if self._frames.is_batch:
            raise ConfigurationError(
                "start() requires a streaming pipeline, but all inputs are bounded",
                hint="use run(), or Pipeline(..., streaming=True)",
            )
        self._run.start(available_now=False, drain=True)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the end of all queries; return whether they have ended.

        Raises:
            ConnectorError: A query failed; the others are stopped.
            SystemExit: SIGTERM has stopped the pipeline.
        """
        return self._run.await_termination(timeout)

    def stop(self, timeout: float | None = STOP_SECONDS) -> None:
        """Stop after the current micro-batches, or cancel a batch run: `run` returns False.

        Args:
            timeout: Seconds after which micro-batches are canceled; None for no limit.
        """
        self._run.stop(timeout)

    def explain(self) -> str:
        """Return which columns, conditions, limits, and tasks each source gets in its query.

        A source reads only what the query needs; ``spark.connectors.pushdown=false`` turns it off.

        Example:
            ::

                query of late
                  source flights
                    columns: carrier, dep_delay
                    the source reads: carrier, dep_delay
                    condition: dep_delay > 60 (the source skips rows)
                  tasks of flights: 2 for 12 splits

        Raises:
            ConfigurationError: A sink writes rows of another pipeline's source.
        """
        return self._frames.explain()

    def status(self) -> PipelineStatus:
        """Return the status: splits, rows, watermarks, epochs, and commits. From any thread.

        Counts start with this driver. The call never blocks the pipeline.
        """
        return self._run.status()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
