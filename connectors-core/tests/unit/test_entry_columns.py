# SPDX-License-Identifier: Apache-2.0
"""Tests that entries in columns behave like a sequence of bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.sink import EntryColumns

ENTRIES = st.lists(st.tuples(st.binary(max_size=8), st.none() | st.integers(0, 3)), max_size=12)
KINDS = st.sampled_from([pa.binary(), pa.large_binary()])


def columns_of(entries: list[tuple[bytes, int | None]], kind: pa.DataType) -> EntryColumns:
    bodies = pa.array([body for body, _ in entries], kind)
    return EntryColumns(bodies, pa.array([key for _, key in entries], pa.int64()))


@given(st.lists(ENTRIES, min_size=1, max_size=3), KINDS, st.integers(-14, 14), st.integers(-14, 14))
def test_entries_are_sliced_and_concatenated_like_a_list(
    parts: list[list[tuple[bytes, int | None]]], kind: pa.DataType, start: int, stop: int
) -> None:
    found = EntryColumns.concat([columns_of(part, kind) for part in parts])[start:stop]
    wanted = [entry for part in parts for entry in part][start:stop]
    assert list(found) == [body for body, _ in wanted]
    assert found.joined() == b"".join(found)
    assert found.sizes.tolist() == [len(body) for body, _ in wanted]
    assert found.keys is not None
    assert found.keys.to_pylist() == [key for _, key in wanted]


@given(ENTRIES, KINDS, st.data())
def test_entries_can_be_selected_by_index(
    entries: list[tuple[bytes, int | None]], kind: pa.DataType, data: st.DataObject
) -> None:
    numbers = data.draw(st.lists(st.sampled_from(range(len(entries))))) if entries else []
    found = columns_of(entries, kind).select(np.array(numbers, np.int64))
    assert list(found) == [entries[number][0] for number in numbers]
    assert found.keys is not None
    assert found.keys.to_pylist() == [entries[number][1] for number in numbers]


def test_an_entry_is_created_on_access_and_is_the_same_each_time() -> None:
    found = EntryColumns(pa.array(["one", "two", "three"]))
    assert list(found.seen()) == []
    last = found[-1]
    assert found[2] is last
    assert found[0] == b"one"
    assert list(found.seen()) == [(0, b"one"), (2, last)]
    with pytest.raises(IndexError):
        found[3]


def test_a_slice_with_a_step_is_also_a_sequence() -> None:
    assert list(EntryColumns(pa.array(["a", "b", "c"]))[::-2]) == [b"c", b"a"]


def test_null_entries_and_a_wrong_number_of_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="1 entries are null"):
        EntryColumns(pa.array(["a", None]))
    with pytest.raises(ValueError, match="2 entries have 1 keys"):
        EntryColumns(pa.array(["a", "b"]), pa.array([1]))


def test_entries_without_keys_are_concatenated_with_others() -> None:
    keyed = EntryColumns(pa.array(["b"]), pa.array([7], pa.int8()))
    found = EntryColumns.concat([EntryColumns(pa.array(["a"])), keyed])
    assert list(found) == [b"a", b"b"]
    assert found.keys == pa.array([None, 7], pa.int8())
    assert EntryColumns.concat([EntryColumns(pa.array(["a"]))] * 2).keys is None
