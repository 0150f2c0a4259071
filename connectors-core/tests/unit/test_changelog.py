# SPDX-License-Identifier: Apache-2.0
"""Tests the column of row kinds."""

from __future__ import annotations

import pyarrow as pa
import pytest

from connectors_core.sink import is_deletion, is_unknown_row_kind, is_update_before

KINDS = ["+I", "-U", "+U", "-D", "+D", None]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_each_row_kind_has_exactly_one_meaning(kind: pa.DataType) -> None:
    kinds = pa.array(KINDS, kind)
    assert is_update_before(kinds).to_pylist() == [False, True, False, False, False, False]
    assert is_deletion(kinds).to_pylist() == [False, False, False, True, False, False]
    assert is_unknown_row_kind(kinds).to_pylist() == [False, False, False, False, True, True]
