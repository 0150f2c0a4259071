# SPDX-License-Identifier: Apache-2.0
"""Ends a split based on a row of its data (Flink's FLIP-208), on columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.errors import ConfigurationError


class RecordEvaluator(ABC):
    """Finds the last row of a split, for streams that contain their own end marker.

    The counterpart of Flink's ``RecordEvaluator.isEndOfStream``, for a whole batch. It depends only
    on the rows, so that a replay ends at the same row. Sent to executors: must be picklable.
    """

    @abstractmethod
    def end_row(self, batch: pa.RecordBatch) -> int | None:
        """Return the index of the last row, which is still emitted; None if there is none."""

    @staticmethod
    def of(mask: Callable[[pa.RecordBatch], pa.Array]) -> RecordEvaluator:
        """End with the first row for which ``mask`` is true.

        Args:
            mask: Returns one boolean for each row of a batch; null counts as false. Use a
                function of a module, so that it can be pickled everywhere.
        """
        return _MaskEvaluator(mask)

    @staticmethod
    def column_equals(column: str, value: object) -> RecordEvaluator:
        """End with the first row whose ``column`` has this value; None stands for null."""
        return _MaskEvaluator(_ColumnEquals(column, value))


@dataclass(frozen=True)
class _MaskEvaluator(RecordEvaluator):
    mask: Callable[[pa.RecordBatch], pa.Array]

    def end_row(self, batch: pa.RecordBatch) -> int | None:
        mask = self.mask(batch)
        if not pa.types.is_boolean(mask.type) or len(mask) != batch.num_rows:
            raise ConfigurationError(
                "the function of a record evaluator did not return a mask",
                expected=f"{batch.num_rows} booleans, one for each row",
                found=f"{len(mask)} values of type {mask.type}",
            )
        row = pc.index(mask, pa.scalar(True)).as_py()
        return None if row < 0 else int(row)


@dataclass(frozen=True)
class _ColumnEquals:
    column: str
    value: object

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        if self.column not in batch.schema.names:
            raise ConfigurationError(
                f"the record evaluator uses the column {self.column!r}, which does not exist",
                expected=f"one of {', '.join(batch.schema.names)}",
                found=self.column,
            )
        values = batch.column(self.column)
        if self.value is None:
            return pc.is_null(values)
        try:
            value = pa.scalar(self.value, type=values.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise ConfigurationError(
                f"the value of the record evaluator does not fit the column {self.column!r}",
                expected=f"a value of type {values.type}",
                found=self.value,
            ) from error
        return pc.equal(values, value)
