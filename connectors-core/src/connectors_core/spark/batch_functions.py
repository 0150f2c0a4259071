# SPDX-License-Identifier: Apache-2.0
"""Calls a function of the user with the rows of each epoch, as a commit of the epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from connectors_core.errors import CommitError, ConnectorError, InvalidOptionError
from connectors_core.lineage import LineageDataset, LineageVertexProvider
from connectors_core.serialization import JsonDataclassSerializer, VersionedSerializer
from connectors_core.sink import (
    CommitRequest,
    Committer,
    CommitterInitContext,
    CommittingSinkWriter,
    SupportsRewriting,
    TwoPhaseCommittingSink,
    WriterInitContext,
)
from connectors_core.spark.failures import short_cause, telling_line

__all__ = ["BatchFunctionSink"]


@dataclass(frozen=True)
class _Call:
    """A call of the function that is due for the rows of one task."""

    epoch: int


class BatchFunctionSink(TwoPhaseCommittingSink[_Call], SupportsRewriting, LineageVertexProvider):
    """A sink whose commit calls a function with the rows of the epoch.

    The writers drop the rows; the decision pins their number, as for every sink. The call needs the
    rows themselves: without them, as at a start, the committables are lost, and the replay of the
    micro-batch calls the function.

    Attributes:
        function: Receives the rows of an epoch and its number. Driver.
        rows: The rows of the current epoch; None outside of a micro-batch.

    Args:
        function: See the attribute.

    Raises:
        InvalidOptionError: The function cannot be called.
    """

    def __init__(self, function: Callable[[DataFrame, int], None]) -> None:
        if not callable(function):
            raise InvalidOptionError(
                "the function cannot be called",
                expected="a function of a DataFrame and a number",
                found=type(function).__name__,
                option="function",
            )
        self.function = function
        self.rows: DataFrame | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchFunctionSink, (_not_on_an_executor,)  # it needs neither function nor rows

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """Those of the function, if it is a `LineageVertexProvider`."""
        function: object = self.function
        return function.lineage_datasets() if isinstance(function, LineageVertexProvider) else ()

    def create_writer(self, context: WriterInitContext) -> CommittingSinkWriter[_Call]:
        """Create a writer that drops the rows."""
        return _DroppingWriter(context.checkpoint_id)

    def create_committer(self, context: CommitterInitContext) -> Committer[_Call]:
        """Create the committer that calls the function."""
        return _Caller(self, context.sink_uid)

    def committable_serializer(self) -> VersionedSerializer[_Call]:
        """JSON."""
        return JsonDataclassSerializer(_Call)


def _not_on_an_executor(_rows: DataFrame, _epoch: int) -> None:
    raise AssertionError("the function runs on the driver")


class _DroppingWriter(CommittingSinkWriter[_Call]):
    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def write(self, batch: pa.RecordBatch) -> None:
        pass

    def flush(self) -> None:
        pass

    def prepare_commit(self) -> Sequence[_Call]:
        return [_Call(self._epoch)]

    def close(self) -> None:
        pass


class _Caller(Committer[_Call]):
    def __init__(self, sink: BatchFunctionSink, uid: str) -> None:
        self._sink = sink
        self._uid = uid

    def commit(self, requests: Sequence[CommitRequest[_Call]]) -> None:
        rows = self._sink.rows
        if rows is None:
            for request in requests:
                request.signal_lost()
            return
        epoch = requests[0].committable.epoch
        try:
            self._sink.function(rows, epoch)
        except ConnectorError:
            raise
        except Exception as error:
            raise CommitError(
                f"the function of {self._uid!r} failed with the rows of epoch {epoch}",
                found=telling_line(error),
                hint="fix the function and restart: the pipeline calls it again with the same rows "
                "and the same epoch",
            ) from short_cause(error)
