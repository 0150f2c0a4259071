# SPDX-License-Identifier: Apache-2.0
"""Tests joining of small batches."""

from __future__ import annotations

import itertools

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.engine.execution.joined_batches import joined

SCHEMA = pa.schema([("value", pa.int64())])


def batch(first: int, rows: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(first, first + rows), pa.int64())], schema=SCHEMA)


@given(st.lists(st.integers(0, 3000) | st.sampled_from([0, 1, 8191, 8192, 20_000]), max_size=30))
def test_joined_batches_have_the_same_rows_in_the_same_order(sizes: list[int]) -> None:
    batches = [batch(sum(sizes[:at]), rows) for at, rows in enumerate(sizes)]
    found = list(joined(batches))
    rows = pa.Table.from_batches(found, SCHEMA)
    assert rows.equals(pa.Table.from_batches(batches, SCHEMA))
    assert all(0 < each.num_rows <= max(8192, *sizes) for each in found)
    assert all(one.num_rows + other.num_rows > 8192 for one, other in itertools.pairwise(found))


def test_a_large_batch_is_not_copied() -> None:
    large = batch(0, 10_000)
    (found,) = joined([large])
    assert found is large
