# SPDX-License-Identifier: Apache-2.0
"""A sink that prints rows (Flink's `PrintSink`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa

from connectors_core.schema import ROW_KIND_COLUMN, RowKind
from connectors_core.schema.python_values import python_values
from connectors_core.sink.sink import Sink, SinkWriter, WriterInitContext

__all__ = ["PrintSink"]


class PrintSink(Sink):
    """Prints each row in a line, such as `late:1> +I[3, AA, null]`. At least once.

    A line begins with the identifier, if there is one, and the number of the writer. Then it shows
    the kind of change and the values. The lines appear in the log of the executor.

    Args:
        identifier: Begins each line.
        standard_error: Whether the rows go to standard error instead of standard output.
    """

    def __init__(self, identifier: str = "", *, standard_error: bool = False) -> None:
        self._identifier = identifier
        self._standard_error = standard_error

    def create_writer(self, context: WriterInitContext) -> SinkWriter:
        """Create a writer for the process of the task."""
        prefix = ":".join(filter(None, (self._identifier, str(context.subtask_id))))
        return _PrintingWriter(f"{prefix}> ", standard_error=self._standard_error)


class _PrintingWriter(SinkWriter):
    def __init__(self, prefix: str, *, standard_error: bool) -> None:
        self._prefix = prefix
        # Looked up here, because a program can replace the streams.
        self._stream = sys.stderr if standard_error else sys.stdout

    def write(self, batch: pa.RecordBatch) -> None:
        self._stream.write("".join(f"{self._prefix}{line}\n" for line in _lines(batch)))

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        pass


def _lines(batch: pa.RecordBatch) -> Iterator[str]:
    if ROW_KIND_COLUMN in batch.schema.names:
        kinds = batch.column(ROW_KIND_COLUMN).to_pylist()
        batch = batch.drop_columns([ROW_KIND_COLUMN])
    else:
        kinds = [RowKind.INSERT.value] * batch.num_rows
    columns = [python_values(column) for column in batch.columns]
    for kind, *row in zip(kinds, *columns, strict=True):
        yield f"{kind}[{', '.join(map(_shown, row))}]"


def _shown(value: object) -> str:
    return "null" if value is None else str(value)
