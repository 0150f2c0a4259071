# SPDX-License-Identifier: Apache-2.0
"""Runs the rows of an epoch in threads of this process, instead of Spark tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
import pyarrow as pa

from connectors_core.engine.execution.attempts import fails_again
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
from connectors_core.engine.execution.reader_task import ReaderTask, read_entry, without_heartbeat
from connectors_core.engine.execution.task_messages import TaskMessages
from connectors_core.engine.execution.writer_task import (
    WRITER_MESSAGES,
    Leases,
    WriterMessage,
    WriteTask,
    write_task,
)
from connectors_core.engine.protocol import Entry

ATTEMPTS = 4
_COMMIT_TASKS = 2
_T = TypeVar("_T")


class LocalEngine:
    """Runs a batch as a list of entries: one task for each entry, and one at a time per reader.

    Args:
        readers: The reader tasks by source.
        source_of: The source whose rows each sink takes.
    """

    def __init__(self, readers: Mapping[str, ReaderTask], source_of: Mapping[str, str]) -> None:
        self._readers = readers
        self._source_of = source_of

    def write(self, batch: Sequence[Entry], task: WriteTask, leases: Leases) -> list[WriterMessage]:
        """Read every entry and write its rows.

        Sinks with a number of writers have separate tasks.
        """
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

    def drain(self, batch: Sequence[Entry]) -> dict[str, int]:
        """Do nothing for a batch that was already written."""
        return {}

    def read(self, entries: Sequence[Entry]) -> None:
        """Read entries only for their reports."""

        def run(subtask: int, attempt: int) -> None:
            entry = entries[subtask]
            for _ in read_entry(_travelled(self._readers[entry.source]), entry, attempt):
                pass

        _in_tasks(run, len(entries))

    def compact(self, task: CompactTask) -> list[CompactMessage]:
        """Run compaction requests."""

        def run(number: int, attempt: int) -> CompactMessage:
            own = _travelled(task)
            message = compact_task(own, own.requests[number], attempt)
            (returned,) = _returned(COMPACT_MESSAGES, COMPACT_MESSAGES.encode(message))
            return returned

        return _in_tasks(run, len(task.requests), threads=task.tasks)

    def commit(self, task: CommitTask) -> list[CommitMessage]:
        """Commit requests in threads."""
        count = task.number_of_tasks(_COMMIT_TASKS)

        def run(number: int, _attempt: int) -> CommitMessage:
            message = commit_task(_travelled(task), number, count)
            (returned,) = _returned(COMMIT_MESSAGES, COMMIT_MESSAGES.encode(message))
            return returned

        return _in_tasks(run, count)

    def cancel_compactions(self) -> None:
        """Do nothing: a request ends by itself."""


def _written(
    task: WriteTask, subtask: int, attempt: int, rows: Iterable[pa.RecordBatch]
) -> list[WriterMessage]:
    return [
        message
        for messages in write_task(task, subtask, attempt, rows)
        for message in _returned(WRITER_MESSAGES, messages)
    ]


def _write_own(
    task: WriteTask, leases: Leases, rows: Sequence[pa.RecordBatch]
) -> list[list[WriterMessage]]:
    """Write rows with all writers of a task's single sink."""
    sink, writers = task.sinks[0].sink, task.sinks[0].writers
    assert writers is not None
    task = task.with_leases(leases, writers)
    parts = _parts(rows, writers, sink.writer_keys())

    def run(subtask: int, attempt: int) -> list[WriterMessage]:
        return _written(_travelled(task), subtask, attempt, parts[subtask])

    return _in_tasks(run, writers)


def _parts(
    rows: Sequence[pa.RecordBatch], writers: int, keys: Sequence[str]
) -> list[Sequence[pa.RecordBatch]]:
    """Return the rows of each writer: some of the batches, or the rows of some keys."""
    if not keys:
        return [rows[writer::writers] for writer in range(writers)]
    parts: list[list[pa.RecordBatch]] = [[] for _ in range(writers)]
    for batch in rows:
        values = map(repr, batch.select(keys).to_pylist())
        chosen = np.array([crc32(value.encode()) % writers for value in values])
        for writer in np.unique(chosen):
            parts[writer].append(batch.filter(pa.array(chosen == writer)))
    return [*parts]


def _in_tasks(run: Any, count: int, *, threads: int | None = None) -> list[Any]:
    """Run tasks concurrently. Each is retried until it succeeds or has no attempts left."""

    def attempts(subtask: int) -> Any:
        for attempt in range(ATTEMPTS - 1):
            try:
                return run(subtask, attempt)
            except Exception as error:  # as the pipeline on Spark does
                if fails_again(error):
                    raise
        return run(subtask, ATTEMPTS - 1)

    with ThreadPoolExecutor(threads or max(1, count), thread_name_prefix="task") as pool:
        return list(pool.map(attempts, range(count)))


def _returned(kind: TaskMessages[_T], rows: pa.RecordBatch) -> list[_T]:
    """Return messages as the driver receives them."""
    return [kind.decode(payload) for payload in rows.column(0).to_pylist()]


def _travelled(value: _T) -> _T:
    """Return the value as a task receives it."""
    from pyspark import cloudpickle

    pickling: Any = cloudpickle
    copy: _T = pickling.loads(pickling.dumps(value))
    return copy
