# SPDX-License-Identifier: Apache-2.0
"""Tests that nested columns are cast field by field, with nulls wherever Spark allows them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings

from connectors_core.engine.execution.writer_task import conform
from connectors_core.schema.nested_columns import (
    cast_column,
    map_entries,
    nullable_column,
    nullable_type,
)
from connectors_core.testing.nested_columns import nested_array, nested_batches

REQUIRED = pa.struct([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())])


@settings(max_examples=150)
@given(nested_batches())
def test_removing_and_restoring_nullability_does_not_change_a_nested_column(
    batch: pa.RecordBatch,
) -> None:
    for field, whole in zip(batch.schema, batch.columns, strict=True):
        for column in (whole, whole[1:], whole[:-1]):
            nullable = nullable_column(column)
            nullable.validate(full=True)
            assert nullable.type == nullable_type(field.type)
            assert nullable.to_pylist() == column.to_pylist()
            again = cast_column(nullable, field)
            again.validate(full=True)
            assert again.type == field.type
            assert again.to_pylist() == column.to_pylist()


@settings(max_examples=50)
@given(nested_batches())
def test_a_batch_with_other_schema_metadata_conforms(batch: pa.RecordBatch) -> None:
    schema = pa.schema(
        [field.with_type(nullable_type(field.type)) for field in batch.schema], {"of": "spark"}
    )
    labelled = pa.RecordBatch.from_arrays(
        [nullable_column(column) for column in batch.columns], schema=schema
    )
    conforming = conform(labelled, batch.schema)
    assert conforming.schema.equals(batch.schema)
    assert conforming.to_pylist() == batch.to_pylist()


@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        (REQUIRED, {"a": None}, "c.a"),
        (pa.list_(REQUIRED), [None, {"a": 1}, {"b": "x"}], r"c\[\].a"),
        (pa.list_(pa.field("element", pa.int64(), nullable=False)), [1, None], r"c\[\]"),
        (pa.map_(pa.string(), REQUIRED), [("k", {"a": None})], "c.value.a"),
        (pa.struct([pa.field("s", REQUIRED, nullable=False)]), {"s": None}, "c.s"),
    ],
)
def test_a_null_in_a_required_field_is_named_by_its_path(kind, value, path):
    column = pa.array([value, None], nullable_type(kind))
    with pytest.raises(pa.ArrowInvalid, match=f"^column {path} is null but not nullable$"):
        cast_column(column, pa.field("c", kind))


def test_fields_are_found_by_name_and_missing_ones_are_null():
    column = pa.array([{"b": "x", "a": 1}, None], pa.struct([("b", pa.string()), ("a", pa.int8())]))
    wanted = pa.struct([pa.field("a", pa.int64(), nullable=False), pa.field("c", pa.date32())])
    assert cast_column(column, pa.field("s", wanted)).to_pylist() == [{"a": 1, "c": None}, None]
    lacking = pa.struct([pa.field("c", pa.date32(), nullable=False)])
    with pytest.raises(pa.ArrowInvalid, match=r"column s.c is null"):
        cast_column(column, pa.field("s", lacking))


@pytest.mark.parametrize("kind", [pa.list_view(pa.int32()), pa.list_(pa.int32(), 2)])
def test_lists_of_every_layout_become_lists(kind):
    column = pa.array([[1, 2], None, [3, 4]], kind)[1:]
    cast = cast_column(column, pa.field("c", pa.list_(pa.int64())))
    assert cast.to_pylist() == [None, [3, 4]]
    assert nullable_column(column).to_pylist() == [None, [3, 4]]


def test_map_entries_respect_the_slice():
    kind = pa.map_(pa.string(), REQUIRED)
    maps = nested_array([[("a", None)], None, [("b", {"a": 1, "b": None})]], kind)
    assert map_entries(maps[1:]).to_pylist() == [
        None,
        [{"key": "b", "value": {"a": 1, "b": None}}],
    ]


def test_values_under_a_null_are_not_cast():
    hidden = pa.StructArray.from_arrays(
        [pa.array(["no number", "1"])], names=["a"], mask=pa.array([True, False])
    )
    cast = cast_column(hidden, pa.field("s", pa.struct([("a", pa.int64())])))
    assert cast.to_pylist() == [None, {"a": 1}]
