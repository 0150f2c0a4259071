# SPDX-License-Identifier: Apache-2.0
"""A source of generated rows (Flink's FLIP-238)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa

from connectors_core.errors import ConfigurationError
from connectors_core.options import Option
from connectors_core.schema import SCHEMA, SchemaLike
from connectors_core.source.rate_limiter import RateLimiterStrategy
from connectors_core.source.sequence import (
    DEFAULT_BATCH_ROWS,
    DEFAULT_SPLIT_ROWS,
    NumberRangeSource,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SCHEMA: Final = Option("schema", SCHEMA, doc="Schema of the rows.")


class DataGeneratorSource(NumberRangeSource):
    """Rows that a function generates from their numbers 0, 1, 2 ... (Flink's FLIP-238).

    Exactly-once, because each row can be generated again from its number. Without ``count``, the
    source is unbounded: it has an endless sequence of splits, which are ranges of numbers.

    Args:
        generator: Generates the rows of these numbers (``pa.Int64Array`` without nulls) in the
            types of ``schema``, one for each, in order. A row must depend only on its number. Runs
            in Spark tasks, so it must be picklable.
        count: Total number of rows; None for no end.
        schema: Schema of the rows: Arrow's, a `StructType` of pyspark, or DDL such as
            `id BIGINT, name STRING`.
        rate_limiter: Limit over all readers; by default none.
        lower_bound: Returns the lowest event time of the rows from a number on. Without it, an
            unread split holds back the watermark.
        split_rows: Rows in a split, which is the unit of assignment to a reader.
        batch_rows: Maximum rows in a batch.

    Raises:
        ConfigurationError: A number is out of range.
    """

    def __init__(
        self,
        generator: Callable[[pa.Int64Array], pa.RecordBatch],
        count: int | None,
        schema: SchemaLike,
        rate_limiter: RateLimiterStrategy | None = None,
        *,
        lower_bound: Callable[[int], datetime] | None = None,
        split_rows: int = DEFAULT_SPLIT_ROWS,
        batch_rows: int = DEFAULT_BATCH_ROWS,
    ) -> None:
        if count is not None and count < 0:
            raise ConfigurationError(
                "the count of a data generator is out of range",
                expected="0 or more rows, or None for no end",
                found=count,
            )
        end = None if count is None else count - 1
        super().__init__(0, end, split_rows=split_rows, batch_rows=batch_rows)
        self._generator = generator
        self._schema = _SCHEMA.parse(schema)
        self._lower_bound = lower_bound
        self._rate_limiter = rate_limiter or RateLimiterStrategy.none()

    def schema(self) -> pa.Schema:
        """Return the given schema."""
        return self._schema

    def rate_limiter_strategy(self) -> RateLimiterStrategy:
        """Return the given rate limit over all readers."""
        return self._rate_limiter

    def event_time_lower_bound(self, number: int) -> int | None:
        """Return the result of the given function."""
        if self._lower_bound is None:
            return None
        return (self._lower_bound(number) - _EPOCH) // timedelta(microseconds=1)

    def make_batch(self, numbers: pa.Array) -> pa.RecordBatch:
        """Return the generator's rows."""
        return self._generator(numbers)
