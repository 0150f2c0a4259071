# SPDX-License-Identifier: Apache-2.0
"""A pipeline in the current process without Spark, for connector tests in milliseconds.

The coordinator, plans, reports, readers, writers, decisions, and commits are the real ones. The
module imitates Spark: it logs started and finished batches, runs tasks with several attempts, and
pickles objects for tasks with cloudpickle.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Literal, Never, Self

from connectors_core.engine._faults import FaultInjected
from connectors_core.engine.coordinator import durations
from connectors_core.engine.coordinator.epoch_committer import CommitRetries
from connectors_core.engine.coordinator.registrations import Registrations
from connectors_core.engine.coordinator.source_settings import FIRST_FETCH_TIMEOUT, SourceSettings
from connectors_core.engine.query.status import PipelineStatus
from connectors_core.engine.state import LEASE_EXPIRY, StateStore
from connectors_core.errors import ConfigurationError, RetryableError, UnsupportedError
from connectors_core.lineage import JobStatusChangedListener
from connectors_core.lookup.lookup_table_source import LookupTableSource
from connectors_core.lookup.vector_search import VectorSearchTableSource
from connectors_core.options.keywords import suggesting_keywords
from connectors_core.options.spelling import spelled_as_made
from connectors_core.records import RecordPolicy
from connectors_core.sink import Sink
from connectors_core.sink.topology import SupportsPreWriteTopology
from connectors_core.source import (
    RateLimiterStrategy,
    ReadLimits,
    RecordEvaluator,
    WatermarkStrategy,
)
from connectors_core.source.source import AnySource, BatchTasks
from connectors_core.testing.local_run import LocalBatch, LocalRun, LocalSink

_NEEDS_SPARK: Final = "a Pipeline on a Spark session"
_HINT_ON_SPARK: Final = "run it on Spark: `on_spark = True` in a suite"


@dataclass(frozen=True)
class LocalRows:
    """The rows of a source, as an argument of :meth:`LocalPipeline.sink_to`."""

    uid: str


class LocalPipeline:
    """Reads sources and writes their unchanged rows to sinks. It has the methods of `Pipeline`.

    All sinks belong to one query. Bounded sources are read as streams, as with ``Pipeline(...,
    streaming=True)``, or in a batch run. Other arguments of `Pipeline` raise an
    `UnsupportedError`. Errors of a test (``FaultAction.RAISE``, an `AssertionError`) are raised
    unchanged. All other failures are a `ConnectorError`.

    Args:
        name: The pipeline's name, which stays the same for its checkpoint location.
        checkpoint_location: A local folder, or any fsspec URL.
        state_location: None, or the checkpoint location.
        storage_options: Options for the file system of the checkpoint location.
        streaming: False for a batch run.
        parallelism: The number of readers per source.
        trigger_interval: The minimum time between two plans.
        commit_retries: The number and backoff of commit retries.
        lease_expiry: The time without a heartbeat after which another driver counts as dead.
        on_changed_query: Only "refuse".
        connection_timeout: As in `Pipeline`. By default, the pipeline does not check connections,
            so that a test can start during an outage.
        stop_on_sigterm: Only False.
        batch_tasks: Only None.
        resume_batch_runs: Only False.
        progress: Only False.
        listeners: Only (), because lineage is read off Spark's plans.

    Raises:
        UnsupportedError: An argument has a value that needs Spark.
        InvalidOptionError: A duration is invalid.
    """

    @suggesting_keywords
    def __init__(
        self,
        name: str,
        *,
        checkpoint_location: str | os.PathLike[str],
        state_location: str | os.PathLike[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        streaming: bool | None = None,
        parallelism: int = 2,
        batch_tasks: BatchTasks | None = None,
        trigger_interval: timedelta | str = timedelta(0),
        commit_retries: CommitRetries | None = None,
        lease_expiry: timedelta | str = LEASE_EXPIRY,
        on_changed_query: Literal["refuse", "new-generation"] = "refuse",
        connection_timeout: timedelta | str | None = None,
        stop_on_sigterm: bool = False,
        resume_batch_runs: bool = False,
        progress: bool | Literal["auto"] = False,
        listeners: Sequence[JobStatusChangedListener] = (),
    ) -> None:
        location = os.fspath(checkpoint_location)
        _refuse_others(
            "state_location", state_location and os.fspath(state_location), None, location
        )
        _refuse_others("on_changed_query", on_changed_query, "refuse")
        _refuse_others("stop_on_sigterm", stop_on_sigterm, False)
        _refuse_others("batch_tasks", batch_tasks, None)
        _refuse_others("resume_batch_runs", resume_batch_runs, False)
        _refuse_others("progress", progress, False)
        _refuse_others("listeners", tuple(listeners), ())
        self._name = name
        self._lease_expiry = durations.LEASE_EXPIRY.accept(lease_expiry)
        self._root = StateStore(location, storage_options)
        self._streaming = streaming is not False
        self._parallelism = parallelism
        interval = durations.TRIGGER_INTERVAL.accept(trigger_interval)
        self._trigger_interval = interval.total_seconds()
        self._commit_retries = commit_retries or CommitRetries()
        self._registered = Registrations(name, connection_timeout=connection_timeout)
        self._rows: list[LocalRows] = []
        self._sinks: list[LocalSink] = []
        self._run: LocalRun | LocalBatch | None = None
        self._error: BaseException | None = None

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
    ) -> LocalRows:
        """Return the rows of a source; see `Pipeline.from_source`."""
        _refuse_others("batch_tasks", batch_tasks, None)
        self._registered.check_open("from_source", uid)
        settings = SourceSettings.of(
            source,
            uid=uid,
            parallelism=self._parallelism if parallelism is None else parallelism,
            watermark_strategy=watermark_strategy,
            limits=limits,
            rate_limiter=rate_limiter,
            record_evaluator=record_evaluator,
            record_policy=record_policy,
            first_fetch_timeout=first_fetch_timeout,
        )
        self._registered.check_connections({f"source {uid!r}": source})
        self._registered.sources[uid] = settings
        self._rows.append(rows := LocalRows(uid))
        return rows

    def lookup_join(self, rows: LocalRows, table: LookupTableSource, **_options: Any) -> Never:
        """Reject a lookup join, which needs a DataFrame.

        Raises:
            UnsupportedError: Always.
        """
        raise _needs_dataframe(rows, table)

    def vector_search(
        self, rows: LocalRows, table: VectorSearchTableSource, **_options: Any
    ) -> Never:
        """Reject a vector search, which needs a DataFrame.

        Raises:
            UnsupportedError: Always.
        """
        raise _needs_dataframe(rows, table)

    @suggesting_keywords
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
        """Add a sink for the rows of a source. See `Pipeline.sink_to`.

        Raises:
            ConfigurationError: The rows belong to another pipeline, or do not fit the sink.
            UnsupportedError: The sink has a pre-write topology, which needs a DataFrame, or the
                mode is for aggregates.
        """
        self._registered.check_sink(sink, uid, record_policy)
        _refuse_others("output_mode", output_mode, "append")
        if isinstance(sink, SupportsPreWriteTopology):
            raise UnsupportedError(
                f"sink {uid!r} has a pre-write topology, a step over a DataFrame, and this "
                "pipeline runs without Spark",
                expected=_NEEDS_SPARK,
                found=type(sink).__name__,
                hint=_HINT_ON_SPARK,
            )
        if not any(each is rows for each in self._rows):
            raise ConfigurationError(
                f"sink {uid!r} writes rows of another pipeline",
                hint="pass rows that from_source or lookup_join of this pipeline returned",
            )
        settings = self._registered.sources[rows.uid]
        schema = settings.source.schema()
        if settings.strategy is not None:
            schema = settings.strategy.output_schema(schema)
        sink.validate(schema)
        local = LocalSink(
            uid=uid,
            sink=sink,
            policy=record_policy or RecordPolicy.fail(),
            parallelism=parallelism,
            source=rows.uid,
            schema=schema,
        )
        self._registered.add_sink(local)
        self._sinks.append(local)

    @suggesting_keywords
    def run(
        self, *, available_now: bool = False, drain: bool = True, timeout: float | None = None
    ) -> bool:
        """Run to the end of the sources. See `Pipeline.run`."""
        self._registered.check_ends(available_now=available_now and self._streaming)
        if not self._streaming:
            return self._batch_run().run()
        self._start(available_now=available_now, drain=drain)
        return self.await_termination(timeout)

    def start(self) -> None:
        """Start and return immediately."""
        _refuse_others("streaming", self._streaming, True)
        self._start(available_now=False, drain=True)

    def _start(self, *, available_now: bool, drain: bool) -> None:
        with self._starting() as read:
            self._run = LocalRun(
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

    def _batch_run(self) -> LocalBatch:
        with self._starting() as read:
            self._run = batch = LocalBatch(
                self._name,
                self._root,
                read,
                self._sinks,
                commit_retries=self._commit_retries,
                lease_expiry=self._lease_expiry,
                failure=self._failure,
            )
        return batch

    @contextlib.contextmanager
    def _starting(self) -> Iterator[list[SourceSettings]]:
        """Check the pipeline, and convert errors of the start. Yields the sources to read."""
        registered, read = self._registered, self._read()
        registered.check_complete()
        registered.check_policies()
        registered.warn_of_unread([each.uid for each in read])
        try:
            registered.check_state_location(self._root)
            registered.check_connections(self._parts())
            yield read
        except BaseException as error:
            self._error = self._failure(error, f"the start of pipeline {self._name!r}")
            raise self._error from self._error.__cause__
        registered.started = True

    def _failure(self, error: BaseException, what: str) -> BaseException:
        """Convert an error as a pipeline on Spark does. Errors of a test stay unchanged."""
        if isinstance(error, FaultInjected | AssertionError) or not isinstance(error, Exception):
            return error
        from connectors_core.spark.failures import translated  # imports pyspark

        return translated(
            error,
            what,
            hint="fix the cause and restart: the pipeline resumes where it stopped",
            parts=self._parts().values(),
            location=str(self._root),
        )

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the end, and return whether the pipeline has ended.

        Raises:
            ConnectorError: The pipeline failed.
        """
        if self._run is None:
            return False
        if not self._run.ended.wait(timeout):
            return False
        if self._run.error is not None:
            raise self._run.error
        return True

    def _read(self) -> list[SourceSettings]:
        """Return the sources whose rows a sink takes."""
        taken = {each.source for each in self._sinks}
        return [each for uid, each in self._registered.sources.items() if uid in taken]

    def _parts(self) -> dict[str, object]:
        return self._registered.parts([each.uid for each in self._read()])

    def stop(self, timeout: float | None = 300.0) -> None:
        """Stop after the current batch.

        Args:
            timeout: Seconds to wait for the batch; None for no limit.

        Raises:
            RetryableError: The batch does not end in time. A thread cannot be canceled.
        """
        if self._run is None:
            return
        self._run.stop()
        if not self._run.ended.wait(timeout):
            raise RetryableError(
                "the batch of the local pipeline does not end",
                expected=f"its end within {timeout} seconds",
                hint="find the reader or writer that waits or reads without an end",
            )

    def status(self) -> PipelineStatus:
        """Return the status. See `Pipeline.status`."""
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
    """Reject the value of an argument that only a pipeline on Spark supports.

    Raises:
        UnsupportedError: This pipeline does not support the value.
    """
    if value not in offered:
        raise UnsupportedError(
            f"a pipeline without Spark does not support {option}={value!r}",
            expected=f"{' or '.join(map(repr, offered))}, or {_NEEDS_SPARK}",
            option=option,
            hint=_HINT_ON_SPARK,
        )


def _needs_dataframe(
    rows: LocalRows, table: LookupTableSource | VectorSearchTableSource
) -> UnsupportedError:
    return UnsupportedError(
        f"the rows of {rows.uid!r} cannot be joined with a table without Spark",
        expected=_NEEDS_SPARK,
        found=type(table).__name__,
        hint=_HINT_ON_SPARK,
    )
