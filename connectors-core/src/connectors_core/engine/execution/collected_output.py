# SPDX-License-Identifier: Apache-2.0
"""Collects what a reader emits. Executor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from connectors_core.source.reader import SourceOutput

RowsOrCount: TypeAlias = "pa.RecordBatch | int"
"""Rows, or the number of rows that the source left out because of a condition."""


class CollectedOutput:
    """Collects the batches of a poll."""

    def __init__(self) -> None:
        self._collected: list[tuple[str, RowsOrCount]] = []
        self._outputs: dict[str, SourceOutput] = {}

    def create_output_for_split(self, split_id: str) -> SourceOutput:
        """See `ReaderOutput`."""
        output = self._outputs.get(split_id)
        if output is None:
            output = self._outputs[split_id] = _SplitOutput(split_id, self._collected)
        return output

    def take(self) -> list[tuple[str, RowsOrCount]]:
        """Return what was emitted since the last call, in order, with the IDs of the splits."""
        collected, self._collected[:] = list(self._collected), []
        return collected


@dataclass(frozen=True)
class _SplitOutput:
    split_id: str
    collected: list[tuple[str, RowsOrCount]]

    def collect(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self.collected.append((self.split_id, batch))

    def pass_over(self, rows: int) -> None:
        if rows:
            self.collected.append((self.split_id, rows))
