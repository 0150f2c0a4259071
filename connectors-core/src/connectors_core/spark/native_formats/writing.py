# SPDX-License-Identifier: Apache-2.0
"""Writes to a sink through Spark's Python Data Source API, in batch and streaming."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (  # type: ignore[import-not-found, unused-ignore]
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from connectors_core.engine.coordinator.sink_without_pipeline import SinkWithoutPipeline
from connectors_core.engine.execution.writer_task import (
    WRITER_MESSAGES,
    SinkTask,
    WriterMessage,
    WriteTask,
    write_task,
)
from connectors_core.errors import UnsupportedError
from connectors_core.spark.native_formats.reading import NO_STATE
from connectors_core.spark.warm_workers import keep_warm

_QUERY_PROPERTY = "sql.streaming.queryId"
_BATCH_PROPERTY = "streaming.sql.batchId"


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc, unused-ignore]
    """The message of one writer.

    Attributes:
        pipeline_id: The pipeline that it wrote for.
        payload: Its encoded message.
    """

    pipeline_id: str
    payload: bytes


def refuse_overwriting(name: str) -> None:
    """Refuse to replace rows that a sink wrote earlier.

    Raises:
        UnsupportedError: Always.
    """
    raise UnsupportedError(
        f"{name} only appends rows",
        expected="the mode append",
        found="the mode overwrite, or the output mode complete",
        hint="remove the old rows in the target, and write with the mode append",
    )


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc, unused-ignore]
    """Writes one DataFrame as one epoch of its own pipeline."""

    def __init__(self, sink: SinkWithoutPipeline, schema: pa.Schema) -> None:
        self._sink = sink
        self._schema = schema
        self._pipeline_id = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Run the writer of one task. Executor."""
        return _write(self._sink, self._schema, self._pipeline_id, 0, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the messages of all writers."""
        self._sink.commit(self._pipeline_id, 0, _decoded(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the staged output of a failed write."""
        self._sink.roll_back(self._pipeline_id, 0)


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc, unused-ignore]
    """Writes each micro-batch of a query as an epoch."""

    def __init__(self, sink: SinkWithoutPipeline, schema: pa.Schema) -> None:
        self._sink = sink
        self._schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Run the writer of one task. Executor."""
        context: Any = TaskContext.get()
        query, batch = (context.getLocalProperty(p) for p in (_QUERY_PROPERTY, _BATCH_PROPERTY))
        return _write(self._sink, self._schema, query, int(batch), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit the messages of all writers."""
        if any(messages):
            self._sink.commit(_pipeline_id(messages), batchId, _decoded(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove the staged output of a failed write."""
        if any(messages):
            self._sink.roll_back(_pipeline_id(messages), batchId)


def _write(
    sink: SinkWithoutPipeline,
    schema: pa.Schema,
    pipeline_id: str,
    epoch: int,
    batches: Iterator[pa.RecordBatch],
) -> Written:
    keep_warm()
    context: Any = TaskContext.get()
    task = WriteTask(
        pipeline_id=pipeline_id,
        epoch=epoch,
        store=NO_STATE,
        sinks=(SinkTask(uid=sink.uid, sink=sink.sink, schema=schema),),
    )
    [message] = write_task(task, context.partitionId(), context.attemptNumber(), batches)
    return Written(pipeline_id, message.column(0)[0].as_py())


def _decoded(messages: Sequence[WriterCommitMessage | None]) -> list[WriterMessage]:
    return [WRITER_MESSAGES.decode(each.payload) for each in messages if isinstance(each, Written)]


def _pipeline_id(messages: Sequence[WriterCommitMessage | None]) -> str:
    return next(each.pipeline_id for each in messages if isinstance(each, Written))
