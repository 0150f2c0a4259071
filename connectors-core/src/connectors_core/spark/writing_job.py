# SPDX-License-Identifier: Apache-2.0
"""Combines the DataFrames of the sinks into one writing job per epoch."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa
from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType

from connectors_core.engine.coordinator.sink_settings import SinkSettings
from connectors_core.engine.execution.commit_task import (
    COMMIT_MESSAGES,
    CommitMessage,
    CommitTask,
    commit_task,
)
from connectors_core.engine.execution.compactor_task import (
    COMPACT_MESSAGES,
    CompactMessage,
    CompactTask,
    compact_task,
)
from connectors_core.engine.execution.reader_task import ReaderTask
from connectors_core.engine.execution.writer_task import (
    BRANCH_COLUMN,
    WRITER_MESSAGES,
    Leases,
    SinkTask,
    WriterMessage,
    WriteTask,
    branch_column,
    write_task,
)
from connectors_core.engine.protocol import Entry, encode_entry
from connectors_core.engine.state import Lease, StateStore
from connectors_core.errors import ConfigurationError
from connectors_core.schema.ddl import quoted
from connectors_core.sink.abilities import SupportsRewriting
from connectors_core.sink.topology import SupportsPreWriteTopology
from connectors_core.spark.arrow_stages import map_in_arrow
from connectors_core.spark.batch_functions import BatchFunctionSink
from connectors_core.spark.held_retries import hold_retry
from connectors_core.spark.internals.arrow_types import arrow_schema
from connectors_core.spark.internals.partitions import with_fixed_partitions
from connectors_core.spark.ownership import local_property
from connectors_core.spark.task_failures import TaskFailures
from connectors_core.spark.warm_workers import keep_warm

_MESSAGES: Final = StructType([StructField("payload", BinaryType())])  # Spark would parse text
_DESCRIPTION: Final = "spark.job.description"

OutputMode = Literal["append", "update"]
"""Append emits a row of a windowed aggregate once, when its window ends. Update emits it after
every micro-batch that changes it.
"""


Rows = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Produces the rows of a batch of entries; runs in the task that writes them."""


@dataclass(frozen=True, kw_only=True)
class RegisteredSink(SinkSettings):
    """A sink and its DataFrame that ``Pipeline.sink_to`` registered."""

    df: DataFrame
    output_mode: OutputMode = "append"

    @property
    def function(self) -> BatchFunctionSink | None:
        """The sink, if its commit calls a function with the rows."""
        return self.sink if isinstance(self.sink, BatchFunctionSink) else None

    @property
    def needs_own_job(self) -> bool:
        """Whether its rows are redistributed before the write."""
        return isinstance(self.sink, SupportsPreWriteTopology) or self.own_parallelism is not None


class WritingJob:
    """Combines the rows of all sinks in one DataFrame, and writes its epochs.

    Sinks on one DataFrame share its rows. Different DataFrames become a tagged union: a branch
    number and one struct column per branch.

    Args:
        sinks: The sinks of one query, in order.
        entries: For sinks that share one DataFrame: a DataFrame of entries to read instead, and the
            function that produces the rows of its batches.
    """

    def __init__(
        self, sinks: Sequence[RegisteredSink], entries: tuple[DataFrame, Rows] | None = None
    ) -> None:
        self.sinks = tuple(sinks)
        self._rows: Rows | None = None
        self._branches: list[DataFrame] = []
        self._branch_of: dict[str, int] = {}
        for sink in sinks:
            known = [i for i, df in enumerate(self._branches) if df is sink.df]
            if not known:
                known = [len(self._branches)]
                self._branches.append(sink.df)
            self._branch_of[sink.uid] = known[0]
        if entries is None:
            self.df = self._fused()
        else:
            self.df, self._rows = entries
        self.readers: dict[str, ReaderTask] = {}
        self.output_mode = self._output_mode()
        self._own_jobs = {sink.uid: sink for sink in sinks if sink.needs_own_job}
        self._rewritable = any(isinstance(sink.sink, SupportsRewriting) for sink in sinks)

    def read_less(self, df: DataFrame, readers: Mapping[str, ReaderTask]) -> None:
        """Read the same rows in another way.

        Args:
            df: The same rows of the sinks.
            readers: The readers of the sources that it reads differently.
        """
        self.df = df
        self.readers.update(readers)

    @property
    def is_union(self) -> bool:
        """Whether Spark reads sources once per branch."""
        return len(self._branches) > 1

    def _output_mode(self) -> OutputMode:
        modes = {sink.output_mode for sink in self.sinks}
        if self.is_union and "update" in modes:
            raise ConfigurationError(
                "output mode update needs a separate query",
                found=f"one query for the sinks {', '.join(sink.uid for sink in self.sinks)}, "
                "whose DataFrames share a source",
                option="output_mode",
                hint="write the same DataFrame to all of them, or put the others into a "
                "separate pipeline",
            )
        if len(modes) > 1:
            raise ConfigurationError(
                "sinks on one DataFrame must have the same output mode",
                found=", ".join(f"{sink.uid}: {sink.output_mode}" for sink in self.sinks),
                option="output_mode",
            )
        return modes.pop()

    def _fused(self) -> DataFrame:
        if not self.is_union:
            return self._branches[0]
        fused: DataFrame | None = None
        for index, df in enumerate(self._branches):
            columns = [F.lit(index).alias(BRANCH_COLUMN)]
            for other, other_df in enumerate(self._branches):
                column = (
                    F.struct(*[F.col(quoted(name)) for name in df.columns])
                    if other == index
                    else F.lit(None).cast(_all_nullable(other_df.schema))
                )
                columns.append(column.alias(branch_column(other)))
            tagged = df.select(*columns)
            fused = tagged if fused is None else fused.unionByName(tagged)
        assert fused is not None
        return fused

    def tasks(self) -> tuple[SinkTask, ...]:
        """Return the sinks with their writer settings."""
        return tuple(
            SinkTask(
                uid=sink.uid,
                sink=sink.sink,
                schema=arrow_schema(sink.df.schema),
                branch=self._branch_of[sink.uid] if self.is_union else None,
                policy=sink.policy.for_executors(),
                writers=sink.own_parallelism,
            )
            for sink in self.sinks
        )

    def run(
        self, batch: DataFrame, task: WriteTask, leases: Leases, *, root: StateStore
    ) -> list[WriterMessage]:
        """Write the rows of an epoch; return the messages from ``collect``.

        Sinks share one job. Only a sink whose rows are redistributed first needs its own job, over
        persisted rows, so that Spark reads the sources once.

        Args:
            batch: The rows of the epoch.
            task: The epoch and its sinks.
            leases: Leases for the sinks that use them.
            root: The state location of the pipeline.
        """
        shared = tuple(sink for sink in task.sinks if sink.uid not in self._own_jobs)
        jobs = len(task.sinks) - len(shared) + bool(shared)
        if leases or self._rewritable:
            batch, _ = with_fixed_partitions(batch)
        with _persisted(batch, needed=jobs > 1) as batch:
            messages: list[WriterMessage] = []
            if shared:
                messages += self._collect(
                    batch, dataclasses.replace(task, sinks=shared), leases, root
                )
            for sink in task.sinks:
                if sink.uid in self._own_jobs:
                    rows = self._rearranged(batch, self._own_jobs[sink.uid])
                    alone = dataclasses.replace(sink, branch=None)
                    messages += self._collect(
                        rows, dataclasses.replace(task, sinks=(alone,)), leases, root
                    )
            return messages

    @contextmanager
    def offered(self, batch: DataFrame) -> Iterator[DataFrame]:
        """Offer the rows of an epoch to functions meanwhile, persisted so that Spark reads once.

        Args:
            batch: The rows of the epoch.

        Yields:
            The rows to write.
        """
        functions = {sink.uid: sink.function for sink in self.sinks if sink.function is not None}
        if not functions:
            yield batch
            return
        batch, _ = with_fixed_partitions(batch)
        with _persisted(batch) as batch:
            try:
                for uid, function in functions.items():
                    function.rows = self._branch(batch, uid)
                yield batch
            finally:
                for function in functions.values():
                    function.rows = None

    def drain(self, batch: DataFrame) -> dict[str, int]:
        """Run the rows of an epoch and discard them.

        Returns:
            The number of rows of each sink with inputs of Spark.
        """
        counted = [sink for sink in self.sinks if sink.spark_inputs]
        if not counted:
            batch.write.format("noop").mode("overwrite").save()
            return {}
        rearranged = [s for s in counted if isinstance(s.sink, SupportsPreWriteTopology)]
        with _persisted(batch, needed=bool(rearranged)) as batch:
            branches = self._counts(batch)
            counts = {sink.uid: branches.get(self._branch_of[sink.uid], 0) for sink in counted}
            return counts | {s.uid: self._rearranged(batch, s).count() for s in rearranged}

    def _counts(self, batch: DataFrame) -> dict[int, int]:
        """Count the rows of each branch in one job."""
        if not self.is_union:
            return {0: batch.count()}
        rows = batch.groupBy(BRANCH_COLUMN).count().collect()
        return {row[0]: row[1] for row in rows}

    def _rearranged(self, batch: DataFrame, sink: RegisteredSink) -> DataFrame:
        rows = self._branch(batch, sink.uid)
        if isinstance(sink.sink, SupportsPreWriteTopology):
            rows = sink.sink.add_pre_write_topology(rows)
        if sink.own_parallelism is not None:
            keys = [F.col(quoted(name)) for name in sink.sink.writer_keys()]
            rows = rows.repartition(sink.own_parallelism, *keys)
        return rows

    def _branch(self, batch: DataFrame, uid: str) -> DataFrame:
        """Return the rows of one sink."""
        if not self.is_union:
            return batch
        branch = self._branch_of[uid]
        return batch.where(F.col(BRANCH_COLUMN) == branch).select(f"{branch_column(branch)}.*")

    def _collect(
        self, df: DataFrame, task: WriteTask, leases: Leases, root: StateStore
    ) -> list[WriterMessage]:
        if any(sink.uid in leases for sink in task.sinks):
            df, writers = with_fixed_partitions(df)
            task = task.with_leases(leases, writers)
        rows = map_in_arrow(df, _Writers(task, self._rows, root), _MESSAGES).collect()
        return [WRITER_MESSAGES.decode(bytes(row.payload)) for row in rows]


@dataclass(frozen=True)
class _Writers:
    """Runs :func:`write_task` in a Spark task."""

    task: WriteTask
    rows: Rows | None
    root: StateStore

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keep_warm()
        hold_retry(self.root)
        context = TaskContext.get()
        assert context is not None
        subtask = context.partitionId()
        if self.rows is not None and self.task.written_by(subtask):
            batches = self.rows(batches)  # otherwise no writer uses them
        yield from write_task(self.task, subtask, context.attemptNumber(), batches)


@dataclass(eq=False, repr=False)
class SparkEngine:
    """Runs the epochs of a query in Spark jobs.

    Args:
        spark: The session.
        job: Writes the rows of a batch.
        readers: The reader tasks by source.
        root: The state location of the pipeline.
        lease: The lease of this driver.
    """

    spark: SparkSession
    job: WritingJob
    readers: Mapping[str, ReaderTask]
    root: StateStore
    lease: Lease

    def __post_init__(self) -> None:
        self._failures = TaskFailures(self.spark, self.root, self.lease)
        self._compaction_tag = f"connectors-compaction-{secrets.token_hex(8)}"

    def cancel(self) -> None:
        """Cancel the current job and prevent further jobs. From any thread."""
        self._failures.cancel()

    def close(self) -> None:
        """Stop monitoring failed tasks."""
        self._failures.close()

    def write(self, batch: DataFrame, task: WriteTask, leases: Leases) -> list[WriterMessage]:
        """Write the rows of an epoch."""
        with self._failures.watched():
            return self.job.run(batch, task, leases, root=self.root)

    def drain(self, batch: DataFrame) -> dict[str, int]:
        """Run a batch for Spark's state operators; otherwise Spark 4 refuses the next batch."""
        with self._failures.watched():
            return self.job.drain(batch)

    def read(self, entries: Sequence[Entry]) -> None:
        """Read entries to create their reports."""
        job = _ReportJob(
            {uid: self.readers[uid] for uid in {entry.source for entry in entries}},
            tuple((entry.source, encode_entry(entry)) for entry in entries),
        )
        count = len(entries)
        with self._failures.watched():
            self.spark.range(0, count, 1, count).mapInArrow(job, "rows bigint").collect()

    def compact(self, task: CompactTask) -> list[CompactMessage]:
        """Run compaction requests in a job of this thread, which belongs to the compactions."""
        context = self.spark.sparkContext
        context.setJobDescription(f"merging the output of sink {task.uid}")
        context.addJobTag(self._compaction_tag)
        numbers = self.spark.range(0, len(task.requests), 1, task.tasks)
        rows = numbers.mapInArrow(_Compactors(task), _MESSAGES).collect()
        return [COMPACT_MESSAGES.decode(bytes(row.payload)) for row in rows]

    def commit(self, task: CommitTask) -> list[CommitMessage]:
        """Commit requests in the tasks of a job."""
        count = task.number_of_tasks(self.spark.sparkContext.defaultParallelism)
        numbers = self.spark.range(0, count, 1, count)
        job = _Committers(task, count, self.root)
        what = f"committing the output of sink {task.context.sink_uid}"
        with self._failures.watched(), local_property(self.spark, _DESCRIPTION, what):
            rows = numbers.mapInArrow(job, _MESSAGES).collect()
        return [COMMIT_MESSAGES.decode(bytes(row.payload)) for row in rows]

    def cancel_compactions(self) -> None:
        """Cancel the jobs of compactions."""
        self.spark.sparkContext.cancelJobsWithTag(self._compaction_tag)


@dataclass(frozen=True)
class _ReportJob:
    """Reads the entries whose numbers are in the input rows, only to create their reports."""

    readers: Mapping[str, ReaderTask]
    entries: tuple[tuple[str, str], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in batches:
            for index in batch.column(0).to_pylist():
                source, entry = self.entries[index]
                hold_retry(self.readers[source].store)
                rows += sum(read.num_rows for read in self.readers[source](entry))
        yield pa.RecordBatch.from_arrays([pa.array([rows], pa.int64())], names=["rows"])


@dataclass(frozen=True)
class _Compactors:
    """Runs the requests whose numbers are in the input rows."""

    task: CompactTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            for number in batch.column(0).to_pylist():
                message = compact_task(
                    self.task, self.task.requests[number], context.attemptNumber()
                )
                yield COMPACT_MESSAGES.encode(message)


@dataclass(frozen=True)
class _Committers:
    """Commits the shares whose numbers are in the input rows."""

    task: CommitTask
    number_of_tasks: int
    root: StateStore

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        hold_retry(self.root)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                message = commit_task(self.task, number, self.number_of_tasks)
                yield COMMIT_MESSAGES.encode(message)


@contextmanager
def _persisted(batch: DataFrame, *, needed: bool = True) -> Iterator[DataFrame]:
    """Keep the rows meanwhile for several jobs, unless a caller keeps them already."""
    if not needed or batch.is_cached:
        yield batch
        return
    batch = batch.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield batch
    finally:
        batch.unpersist()


def _all_nullable(schema: StructType) -> StructType:
    return StructType([StructField(field.name, field.dataType, True) for field in schema.fields])
