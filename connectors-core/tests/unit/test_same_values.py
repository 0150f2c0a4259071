# SPDX-License-Identifier: Apache-2.0
"""Tests how the suites compare the values that arrive with those that were written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from connectors_core.testing.data import assert_same_values


def rows(kind: pa.DataType) -> pa.Table:
    return pa.table({"id": [0], "value": pa.array([[{"x": [1]}]], kind)})


def test_lists_have_any_name_for_their_values():
    arrows = pa.list_(pa.struct([("x", pa.list_(pa.int64()))]))
    inner = pa.list_(pa.field("element", pa.int64()))
    sparks = pa.list_(pa.field("element", pa.struct([("x", inner)])))
    assert_same_values(rows(arrows), rows(sparks))


def test_lists_of_other_values_differ():
    narrow, wide = (pa.list_(pa.struct([("x", pa.list_(x))])) for x in (pa.int32(), pa.int64()))
    with pytest.raises(AssertionError, match="the type is"):
        assert_same_values(rows(narrow), rows(wide))
