# SPDX-License-Identifier: Apache-2.0
"""The carrier for classic sessions without a usable Python Data Source API.

The JVM's `MemoryStream` takes one row per entry. Each plan is one `addData`, so the offset of the
stream is the plan number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from connectors_core.errors import StateCorruptedError
from connectors_core.spark.carriers.base import Carrier
from connectors_core.spark.internals.memory_stream import EntryStream, verify_contract

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from connectors_core.spark.carriers.base import ReadEntry


class MemoryCarrier(Carrier):
    """A `MemoryStream` of entries that a Python stage reads."""

    def _open(self, max_entries: int) -> None:
        verify_contract(self._spark)
        self._stream = EntryStream(self._spark, max_entries)

    def _read(self, row_type: StructType, read_entry: ReadEntry, name: str) -> DataFrame:
        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for entry in batch.column(0).to_pylist():
                    yield from read_entry(entry)

        return self._stream.dataframe().mapInArrow(cast(Any, read), row_type)

    def _open_entries(self) -> DataFrame:
        return self._stream.dataframe()

    def _prime(self, start: int, newest: int) -> None:
        plans = [list(self._plans.entries(plan)) for plan in range(start + 1, newest + 1)]
        self._stream.reset(start)
        for plan, entries in enumerate(plans, start + 1):
            self.feed(plan, entries)
        found = self._stream.fed()
        if found != (start, newest):
            self._stream.seal()
            raise StateCorruptedError(
                f"the plans of source {self.uid!r} could not be passed to Spark again",
                expected=f"plans {start + 1} to {newest}",
                found=f"plans {found[0] + 1} to {found[1]}",
                hint="this is a bug in the library: report it",
            )

    def feed(self, plan: int, entries: Sequence[str]) -> None:
        """Add a plan to the stream."""
        expected = self._stream.newest() + 1
        if plan != expected:
            raise StateCorruptedError(
                f"the plans of source {self.uid!r} were passed to Spark out of order",
                expected=f"plan {expected}",
                found=f"plan {plan}",
                hint="this is a bug in the library: report it",
            )
        self._stream.add(entries)

    def stop(self) -> None:
        """Drop the plans; a start without `restore` then fails."""
        self._stream.seal()
