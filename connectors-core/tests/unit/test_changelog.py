# SPDX-License-Identifier: Apache-2.0
"""Tests the column of row kinds."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.sink import is_deletion, is_replaced, is_unknown_row_kind, is_update_before

KINDS = ["+I", "-U", "+U", "-D", "+D", None]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_each_row_kind_has_exactly_one_meaning(kind: pa.DataType) -> None:
    kinds = pa.array(KINDS, kind)
    assert is_update_before(kinds).to_pylist() == [False, True, False, False, False, False]
    assert is_deletion(kinds).to_pylist() == [False, True, False, True, False, False]
    assert is_unknown_row_kind(kinds).to_pylist() == [False, False, False, False, True, True]


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(["a", "b", None])), max_size=9))
def test_a_previous_version_is_replaced_only_by_the_next_row_with_its_key(rows) -> None:
    kinds = pa.array([kind for kind, _ in rows], pa.string())
    keys = pa.array([key for _, key in rows], pa.string())
    assert is_replaced(kinds, keys).to_pylist() == [
        rows[at : at + 2] == [("-U", key), ("+U", key)] and key is not None
        for at, (_, key) in enumerate(rows)
    ]


KEYS = st.tuples(*[st.sampled_from(["a", "b", None])] * 2)


@given(st.lists(st.tuples(st.sampled_from(["-U", "+U"]), KEYS), max_size=9))
def test_a_key_of_several_columns_is_compared_as_a_whole(rows) -> None:
    kinds = pa.array([kind for kind, _ in rows], pa.string())
    keys = pa.RecordBatch.from_pylist(
        [{"x": x, "y": y} for _, (x, y) in rows],
        pa.schema([("x", pa.string()), ("y", pa.string())]),
    )
    nested = pa.StructArray.from_arrays([keys.to_struct_array()], ["key"])
    expected = [
        rows[at : at + 2] == [("-U", key), ("+U", key)] and None not in key
        for at, (_, key) in enumerate(rows)
    ]
    assert is_replaced(kinds, keys).to_pylist() == expected
    assert is_replaced(kinds, nested).to_pylist() == expected


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 3)), max_size=12),
    st.integers(0, 3),
)
def test_deletions_and_new_rows_by_key_rebuild_a_filtered_table(changes, least) -> None:
    """A condition on a value may drop one of the two rows of an update."""
    table: dict[str, int] = {}
    log = []
    for key, value in changes:
        before = table.pop(key, None)
        if value is not None:
            table[key] = value
            log += (
                [("+I", key, value)]
                if before is None
                else [("-U", key, before), ("+U", key, value)]
            )
        elif before is not None:
            log.append(("-D", key, before))
    log = [row for row in log if row[2] >= least]
    kinds, keys = (pa.array([row[at] for row in log], pa.string()) for at in (0, 1))
    replaced, deleted = is_replaced(kinds, keys).to_pylist(), is_deletion(kinds).to_pylist()
    rebuilt: dict[str, int] = {}
    for (_, key, value), left_out, gone in zip(log, replaced, deleted, strict=True):
        if left_out:
            continue
        if gone:
            del rebuilt[key]
        else:
            rebuilt[key] = value
    assert rebuilt == {key: value for key, value in table.items() if value >= least}
