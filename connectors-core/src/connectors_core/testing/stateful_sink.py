# SPDX-License-Identifier: Apache-2.0
"""An exactly-once sink whose writers number their rows, for tests of states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from connectors_core.serialization import JsonDataclassSerializer, VersionedSerializer
from connectors_core.sink import (
    StatefulSink,
    StatefulSinkWriter,
    WriterInitContext,
)
from connectors_core.testing.directory_sink import DirectorySink, DirectoryWriter

_CHAIN, _NUMBER = "_chain", "_number"


@dataclass(frozen=True)
class Chain:
    """Rows that were numbered consecutively.

    Attributes:
        name: The name of the chain, unique for each writer that started without state.
        next_number: The number of the next row.
    """

    name: str
    next_number: int


class NumberingDirectorySink(DirectorySink, StatefulSink[Chain]):
    """A `DirectorySink` that adds a chain and a number to each row, which continue in later epochs.

    Its files therefore show whether a state was lost, used twice, or visible without a decision.

    Args:
        path: A local folder.
        writers: The number of writers.
    """

    def __init__(self, path: str | Path, writers: int = 2) -> None:
        super().__init__(path)
        self.writers = writers

    def create_writer(self, context: WriterInitContext) -> NumberingWriter:
        """Create a writer that starts a chain."""
        name = f"{context.checkpoint_id}-{context.attempt_name}"
        return NumberingWriter(self.path, context, [Chain(name, 0)])

    def restore_writer(
        self, context: WriterInitContext, states: Sequence[Chain]
    ) -> NumberingWriter:
        """Create a writer that continues its first chain and keeps the others."""
        return NumberingWriter(self.path, context, states)

    def writer_state_serializer(self) -> VersionedSerializer[Chain]:
        """JSON."""
        return JsonDataclassSerializer(Chain)

    def writer_parallelism(self) -> int:
        """Return the configured number of writers."""
        return self.writers

    def assert_numbered(self, states: Sequence[Chain], rows: int) -> None:
        """Check that all rows have a number, and that the states match these numbers.

        Args:
            states: The states of all writers.
            rows: The number of written rows.

        Raises:
            AssertionError: A chain has a gap, a duplicate, or an end that differs from its state.
        """
        found: dict[str, list[int]] = {chain.name: [] for chain in states}
        assert len(found) == len(states), "two writers share a chain"
        written = self.read()
        if written.num_rows:
            chains, numbers = written[_CHAIN].to_pylist(), written[_NUMBER].to_pylist()
            for name, number in zip(chains, numbers, strict=True):
                found.setdefault(name, []).append(number)
        ends = {chain.name: chain.next_number for chain in states}
        for name, numbers in found.items():
            assert name in ends, f"the chain {name} is lost"
            assert sorted(numbers) == list(range(ends[name])), (
                f"chain {name} should end at {ends[name]}, but has the numbers {sorted(numbers)}"
            )
        assert sum(ends.values()) == rows, f"{sum(ends.values())} of {rows} rows are numbered"


class NumberingWriter(DirectoryWriter, StatefulSinkWriter[Chain]):
    """Writes one Arrow file with numbered rows.

    Args:
        path: The folder of the sink.
        context: The context of the attempt.
        chains: The chains, of which the writer continues the first one.
    """

    def __init__(self, path: Path, context: WriterInitContext, chains: Sequence[Chain]) -> None:
        schema = context.schema.append(pa.field(_CHAIN, pa.string()))
        schema = schema.append(pa.field(_NUMBER, pa.int64()))
        super().__init__(path, replace(context, schema=schema))
        self.chain, *self.others = chains

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        first = self.chain.next_number
        end = first + batch.num_rows
        numbers = pa.array(range(first, end), pa.int64())
        names = pa.array([self.chain.name] * batch.num_rows, pa.string())
        super().write(batch.append_column(_CHAIN, names).append_column(_NUMBER, numbers))
        self.chain = replace(self.chain, next_number=end)

    def snapshot_state(self, checkpoint_id: int) -> Sequence[Chain]:
        """Return the writer's chains."""
        return [self.chain, *self.others]
