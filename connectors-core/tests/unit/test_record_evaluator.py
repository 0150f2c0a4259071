# SPDX-License-Identifier: Apache-2.0
"""Tests the evaluator that ends a split at a row."""

import pickle

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.errors import ConfigurationError
from connectors_core.source.evaluator import RecordEvaluator

INT64 = pa.int64()


def batch_of(values, type_=INT64):
    return pa.record_batch({"v": pa.array(values, type_)})


def is_negative(batch):
    return pc.less(batch.column("v"), 0)


@given(st.lists(st.none() | st.integers(-2, 2), max_size=20))
def test_a_split_ends_at_the_first_row_that_matches(values):
    expected = next((i for i, v in enumerate(values) if v is not None and v < 0), None)
    assert RecordEvaluator.of(is_negative).end_row(batch_of(values)) == expected


@given(st.lists(st.none() | st.integers(0, 3), max_size=20), st.none() | st.integers(0, 3))
def test_a_split_ends_at_the_first_row_with_the_value(values, value):
    expected = values.index(value) if value in values else None
    assert RecordEvaluator.column_equals("v", value).end_row(batch_of(values)) == expected


def test_text_is_compared_and_rows_of_a_slice_are_counted_from_its_start():
    batch = batch_of(["end", "a", "end"], pa.string()).slice(1)
    assert RecordEvaluator.column_equals("v", "end").end_row(batch) == 1


def test_an_empty_batch_does_not_end_a_split():
    assert RecordEvaluator.column_equals("v", 1).end_row(batch_of([])) is None


@pytest.mark.parametrize(
    "evaluator", [RecordEvaluator.of(is_negative), RecordEvaluator.column_equals("v", -1)]
)
def test_an_evaluator_can_be_pickled(evaluator):
    there = pickle.loads(pickle.dumps(evaluator))
    assert there.end_row(batch_of([3, -1])) == 1


def test_a_missing_column_is_reported_with_the_existing_columns():
    with pytest.raises(ConfigurationError, match="'end'") as caught:
        RecordEvaluator.column_equals("end", 1).end_row(batch_of([1]))
    assert "v" in caught.value.expected


def test_a_value_of_another_type_is_refused():
    with pytest.raises(ConfigurationError, match="does not fit"):
        RecordEvaluator.column_equals("v", "end").end_row(batch_of([1]))


@pytest.mark.parametrize("mask", [pa.array([True]), pa.array([1, 2])])
def test_a_result_that_is_not_a_mask_of_the_batch_is_refused(mask):
    with pytest.raises(ConfigurationError, match="mask"):
        RecordEvaluator.of(lambda batch: mask).end_row(batch_of([1, 2]))
