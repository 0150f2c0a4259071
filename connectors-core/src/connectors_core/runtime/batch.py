# SPDX-License-Identifier: Apache-2.0
"""Batch mode: the same readers, writers and committers, one epoch per run. Driver."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from connectors_core.coordinator.committing import CommitRetries, EpochCommitter
from connectors_core.coordinator.dead_letters import DeadLetters
from connectors_core.coordinator.enumeration import batch_entries, enumerate_splits
from connectors_core.coordinator.source_coordinator import SourceSettings
from connectors_core.execution.reading import ReaderTask, read_entry
from connectors_core.protocol import Entry, decode_entry, encode_entry
from connectors_core.runtime.carriers import spark_schema
from connectors_core.runtime.epochs import EpochRunner
from connectors_core.runtime.writing import WritingJob
from connectors_core.state import Lease, StateStore


@dataclass(frozen=True, kw_only=True)
class BatchSource:
    """A source of a batch run with its entries."""

    settings: SourceSettings
    reader: ReaderTask
    entries: tuple[Entry, ...]


def new_run_id() -> str:
    """An id for a run."""
    return uuid.uuid4().hex


def batch_dataframe(
    spark: SparkSession, settings: SourceSettings, reader: ReaderTask, pipeline_id: str, run_id: str
) -> tuple[DataFrame, BatchSource]:
    """Run the enumerator to its end and make a DataFrame that reads its splits."""
    splits = enumerate_splits(settings)
    entries = batch_entries(settings, splits, pipeline_id=pipeline_id, run_id=run_id)
    job = _EntryJob(reader, tuple(encode_entry(entry) for entry in entries))
    df = spark.range(0, len(entries), 1, len(entries)).mapInArrow(
        job, spark_schema(reader.output_schema())
    )
    return df, BatchSource(settings=settings, reader=reader, entries=tuple(entries))


@dataclass(frozen=True)
class _EntryJob:
    """Reads the entry that the row number of the input names."""

    reader: ReaderTask
    entries: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        attempt = context.attemptNumber() if context is not None else 0
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from read_entry(self.reader, decode_entry(self.entries[index]), attempt)


class BatchRun:
    """One run of a batch pipeline.

    A run that a crash left unfinished is finished by the next call when it was decided, and rolled
    back and run again when it was not.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        run_id: str,
        sources: Sequence[BatchSource],
        job: WritingJob,
        root: StateStore,
        folder: str,
        pipeline_id: str,
        lease: Lease,
        commit_retries: CommitRetries,
    ) -> None:
        self.run_id = run_id
        self.job = job
        self._sources = sources
        self._root = root
        self._run_folder = f"runs/{run_id}"
        store = root.child(folder)
        policies = {source.settings.uid: source.settings.policy for source in sources}
        policies |= {sink.uid: sink.policy for sink in job.sinks}
        dead_letters = DeadLetters(policies, store=store, pipeline_id=pipeline_id)
        self.committer = EpochCommitter(
            {sink.uid: sink.sink for sink in job.sinks} | dead_letters.sinks,
            store=store,
            pipeline_id=pipeline_id,
            retries=commit_retries,
        )
        self.epochs = EpochRunner(
            spark,
            job=job,
            committer=self.committer,
            store=store,
            pipeline_id=pipeline_id,
            incarnation=lease.incarnation,
            readers={source.settings.uid: source.reader for source in sources},
            dead_letters=dead_letters,
            reported=lambda _plan: None,
        )

    def run(self) -> bool:
        """Run; False when an earlier run was finished instead."""
        try:
            finished = self.epochs.recover(keep_epochs=1)
            if finished:
                return False
            self.epochs.run_batch(
                self.job.df,
                self.run_id,
                reports=self._root.child(self._run_folder),
                entries=[entry for source in self._sources for entry in source.entries],
            )
            self._root.delete_tree(self._run_folder)
            return True
        finally:
            self.committer.close()

    def rows_read(self) -> Mapping[str, int]:
        """Nothing is known of single splits after a batch run."""
        return {}
