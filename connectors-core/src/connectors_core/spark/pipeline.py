# SPDX-License-Identifier: Apache-2.0
"""The pipeline: what a user holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal, Self

from pyspark.sql import DataFrame, SparkSession

from connectors_core.engine.coordinator.epoch_committer import CommitRetries
from connectors_core.engine.coordinator.registrations import Registrations
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.query.status import PipelineStatus
from connectors_core.engine.state import LEASE_EXPIRY, StateStore
from connectors_core.errors import ConfigurationError, UnsupportedError
from connectors_core.lookup.join import JoinType
from connectors_core.records import RecordPolicy
from connectors_core.sink.sink import Sink
from connectors_core.source.evaluator import RecordEvaluator
from connectors_core.source.rate_limiter import RateLimiterStrategy
from connectors_core.source.source import AnySource
from connectors_core.source.split import ReadLimits
from connectors_core.source.watermarks import WatermarkStrategy
from connectors_core.spark.frames import PipelineFrames
from connectors_core.spark.internals.sessions import is_classic
from connectors_core.spark.pipeline_run import PipelineRun, RunSettings
from connectors_core.spark.progress import ShowProgress
from connectors_core.spark.recorded_identity import RecordedIdentity
from connectors_core.spark.writing_job import OutputMode, RegisteredSink
from connectors_core.spelling import spelled_as_made
from connectors_core.table.lookup_table_source import LookupTableSource


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
        if not is_classic(spark):
            raise UnsupportedError(
                "a Pipeline needs a classic session, as SparkSession.builder.master(...) makes it",
                found=type(spark).__module__,
            )
        checkpoint = checkpoint_location.removeprefix("file://")
        root = StateStore(state_location or _state_location(checkpoint_location), storage_options)
        self._spark = spark
        self._parallelism = parallelism
        self._registered = Registrations(name, connection_timeout=connection_timeout)
        self._identity = RecordedIdentity(
            spark,
            name,
            root=root,
            checkpoint=checkpoint,
            registered=self._registered,
            on_changed_query=on_changed_query,
        )
        self._frames = PipelineFrames(
            spark,
            root=root,
            registered=self._registered,
            identity=self._identity,
            streaming=bool(streaming),
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
                trigger_interval=trigger_interval,
                commit_retries=commit_retries or CommitRetries(),
                lease_expiry=lease_expiry,
                stop_on_sigterm=stop_on_sigterm,
                progress=progress,
            ),
        )

    # --- building -------------------------------------------------------------------------------

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
        self._registered.check_open("from_source", uid)
        self._registered.check_connections({f"source {uid!r}": source})
        settings = SourceSettings.of(
            source,
            uid=uid,
            parallelism=parallelism
            or self._parallelism
            or self._spark.sparkContext.defaultParallelism,
            watermark_strategy=watermark_strategy,
            limits=limits,
            rate_limiter=rate_limiter,
            record_evaluator=record_evaluator,
            record_policy=record_policy,
        )
        return self._frames.from_source(settings)

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
        uid = uid or "-".join(["lookup", *on])
        self._registered.check_open("lookup_join", uid)
        self._registered.check_connections({f"lookup {uid!r}": table})
        return self._frames.lookup_join(
            df, table, uid=uid, on=on, how=how, columns=columns, allow_unstable=allow_unstable
        )

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
        self._registered.check_open("sink_to", uid)
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
        if self._is_batch:
            return self._run.run_batch()
        self._registered.check_ends(available_now=available_now)
        self._run.start(available_now=available_now, drain=drain)
        return self.await_termination(timeout)

    def start(self) -> None:
        """Start and return; see :meth:`await_termination` and :meth:`stop`.

        Raises:
            IdentityError: The pipeline is not the one that its checkpoint location belongs to.
            LeaseError: Another driver runs it.
            ConfigurationError: It is a batch pipeline, or not complete.
        """
        if self._is_batch:
            raise ConfigurationError(
                "start() is for streaming pipelines, and all sources of this one are bounded",
                hint="use run(), or Pipeline(..., streaming=True)",
            )
        self._run.start(available_now=False, drain=True)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the end of all queries; True when they have ended.

        Raises:
            ConnectorError: A query failed; the others are stopped.
            SystemExit: SIGTERM has stopped the pipeline.
        """
        return self._run.await_termination(timeout)

    def stop(self) -> None:
        """Stop after the micro-batches that run now. A later start goes on from there.

        A batch run is cancelled, from any other thread; ``run`` then returns False.
        """
        self._run.stop()

    def status(self) -> PipelineStatus:
        """How the pipeline stands: splits, rows, watermarks, epochs, commits. From any thread.

        Counts begin with this driver. Never waits long and never holds the pipeline up: while its
        coordinator is busy, the sources are shown as they were asked last.
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

    @property
    def _is_batch(self) -> bool:
        return bool(self._frames.batches) and not self._frames.streams


def _state_location(checkpoint: str) -> str:
    """The same place in fsspec's spelling."""
    for hadoop, fsspec in (("s3a://", "s3://"), ("s3n://", "s3://"), ("file://", "")):
        if checkpoint.startswith(hadoop):
            return fsspec + checkpoint.removeprefix(hadoop)
    return checkpoint.removeprefix("file:")
