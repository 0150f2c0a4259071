# SPDX-License-Identifier: Apache-2.0
"""Batch mode: the same readers, writers, and committers, with one epoch per run. Driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.execution.reader_task import ReaderTask
from connectors_core.engine.protocol import RunRecord, encode_entry
from connectors_core.engine.query.batch_run import SPARK, BatchInput, BatchRun, planned_input
from connectors_core.engine.query.wiring import Query
from connectors_core.source import SupportsStatisticReport
from connectors_core.spark.carriers import ENTRIES, ReadEntry, hand_on, spark_schema
from connectors_core.spark.carriers.base import ALIAS_PREFIX, source_below, spark_files_of
from connectors_core.spark.failures import translated
from connectors_core.spark.held_retries import hold_retry
from connectors_core.spark.internals.partitions import broadcast_threshold, with_fixed_partitions
from connectors_core.spark.internals.plans import analyzed_plan
from connectors_core.spark.writing_job import SparkEngine


@dataclass(frozen=True, kw_only=True)
class BatchSource(BatchInput):
    """A source of a batch run on Spark.

    Attributes:
        spark: The session.
        size: The size of its rows in bytes, or None if it is unknown.
    """

    spark: SparkSession
    size: int | None = None

    def dataframe(self) -> DataFrame:
        """Return the rows of the source."""
        return self.narrowed(self.reader).alias(ALIAS_PREFIX + self.settings.uid)

    def narrowed(self, reader: ReaderTask) -> DataFrame:
        """Return a DataFrame of the columns of another reader; see `PushableSource`."""
        # Spark takes the size of the numbers for that of the rows. Without a plan, they have none.
        numbers = self._numbers()
        if self.size is None or self.size > broadcast_threshold(self.spark):
            numbers, _ = with_fixed_partitions(numbers)
        return self._entries_read(numbers, _HeldReader(reader), reader.output_schema())

    def entries_dataframe(self) -> DataFrame:
        """Return a DataFrame of the entries themselves, one partition each."""
        return self._entries_read(self._numbers(), hand_on, ENTRIES)

    def _numbers(self) -> DataFrame:
        return self.spark.range(0, self.tasks, 1, self.tasks)

    def _entries_read(self, numbers: DataFrame, read: ReadEntry, schema: pa.Schema) -> DataFrame:
        entries = [encode_entry(entry) for entry in self.entries]
        job = _EntryJob(tuple(tuple(entries[n :: self.tasks]) for n in range(self.tasks)), read)
        return numbers.mapInArrow(job, spark_schema(schema))


def batch_source(
    spark: SparkSession,
    settings: SourceSettings,
    reader: ReaderTask,
    pipeline_id: str,
    run_id: str,
    resumed: RunRecord | None,
) -> BatchSource:
    """Plan the splits of a source; see `planned_input`."""
    planned = planned_input(settings, reader, pipeline_id, run_id, resumed)
    return BatchSource(spark=spark, size=_size_of(planned), **vars(planned))


def _size_of(planned: BatchInput) -> int | None:
    source = planned.settings.source
    if not isinstance(source, SupportsStatisticReport):
        return None
    assert planned.enumeration is not None
    return source.report_size(planned.enumeration.source_splits)


def batch_sources_of(df: DataFrame, *, subqueries: bool = True) -> set[str]:
    """Return the uids of the sources of a batch DataFrame.

    Args:
        df: The DataFrame.
        subqueries: Whether sources count that only subqueries of its expressions read.
    """
    found = set()
    nodes = [analyzed_plan(df)]
    while nodes:
        node = nodes.pop()
        uid = source_below(node)
        if uid is not None:
            found.add(uid)
        nodes += node.children
        if subqueries:
            nodes += node.subqueries
    return found


@dataclass(frozen=True)
class _HeldReader:
    """Reads entries; a retry waits first."""

    reader: ReaderTask

    def __call__(self, entry: str) -> Iterator[pa.RecordBatch]:
        hold_retry(self.reader.store)
        return self.reader(entry)


@dataclass(frozen=True)
class _EntryJob:
    """Reads the entries of the task whose number is in the input row."""

    entries: tuple[tuple[str, ...], ...]
    read: ReadEntry

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for entry in self.entries[task]:
                    yield from self.read(entry)


def batch_run(
    engine: SparkEngine,
    query: Query[DataFrame],
    *,
    run_id: str,
    unfinished: RunRecord | None,
    sources: Sequence[BatchSource],
    rows_of: Callable[[RunRecord], DataFrame],
    pinned: Callable[[str], AbstractContextManager[None]],
    resumable: bool,
) -> BatchRun[DataFrame]:
    """Return a batch run on Spark.

    Args:
        engine: Runs its job.
        query: Its query.
        run_id: The run.
        unfinished: The decided run of an earlier driver that did not end.
        sources: The sources that it reads.
        rows_of: Returns the rows of an earlier run.
        pinned: Takes the id of a run and returns a context that pins its versions of lookup tables.
        resumable: Whether a later driver can resume it.
    """
    job = engine.job

    @contextmanager
    def rows(former: RunRecord | None) -> Iterator[DataFrame]:
        of_run = run_id if former is None else former.run_id
        df = job.df if former is None else rows_of(former)
        with pinned(of_run), job.offered(df) as offered:
            yield offered

    def failure(cause: Exception, what: str) -> BaseException:
        hint = "fix the cause and run again: the next run completes everything that this run "
        return translated(cause, what, hint=f"{hint}committed", location=str(query.root))

    by_spark = any(sink.spark_inputs for sink in job.sinks)
    return BatchRun(
        query,
        run_id=run_id,
        unfinished=unfinished,
        sources=sources,
        rows=rows,
        failure=failure,
        engine_inputs={SPARK: spark_files_of(s.df for s in job.sinks)} if by_spark else {},
        cancel_tasks=engine.cancel,
        close=engine.close,
        resumable=resumable,
    )
