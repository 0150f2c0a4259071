# SPDX-License-Identifier: Apache-2.0
"""A sink without output (Flink's `DiscardingSink`)."""

from __future__ import annotations

import pyarrow as pa

from connectors_core.sink.sink import Sink, SinkWriter, WriterInitContext

__all__ = ["DiscardingSink"]


class DiscardingSink(Sink):
    """Discards all rows, for measurements and trials. The status still counts them."""

    def create_writer(self, context: WriterInitContext) -> SinkWriter:
        """Return a writer that does nothing."""
        return _DiscardingWriter()


class _DiscardingWriter(SinkWriter):
    def write(self, batch: pa.RecordBatch) -> None:
        pass

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass
