# SPDX-License-Identifier: Apache-2.0
"""Tests the index of a table that is cached as a whole: which rows it finds for any keys."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.lookup.hash_index import HashIndex, _hashes_of

TEXTS = st.one_of(
    st.text(max_size=40), st.text("ab", max_size=300), st.sampled_from(["", "a" * 256])
)
KEYS = {
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.binary(): st.binary(max_size=30),
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.date32(): st.dates(),
    pa.timestamp("us", tz="UTC"): st.datetimes(timezones=st.just(datetime.UTC)),
    pa.decimal128(9, 2): st.decimals(-1000, 1000, places=2),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
}


@given(st.data())
@pytest.mark.parametrize("kind", KEYS, ids=str)
def test_the_rows_of_every_key_are_found(tmp_path_factory, kind, data):
    values = data.draw(st.lists(KEYS[kind], max_size=30))
    asked = data.draw(st.lists(st.sampled_from(values) if values else KEYS[kind], max_size=10))
    asked += data.draw(st.lists(KEYS[kind], max_size=3))
    folder = tmp_path_factory.mktemp("index")
    table = pa.table({"key": pa.array(values, kind), "row": range(len(values))})
    cut = len(values) // 2
    HashIndex.write(pa.concat_tables([table.slice(0, cut), table.slice(cut)]), ["key"], folder)
    keys = pa.record_batch({"key": pa.array(asked, kind)})
    found = HashIndex.open(folder, ["key"]).find(keys)
    stored = pa.array(values, kind).to_pylist()
    expected = [
        at for key in keys.column(0).to_pylist() for at, value in enumerate(stored) if value == key
    ]
    assert found["row"].to_pylist() == expected


def test_hashes_are_the_same_for_slices_and_wider_types():
    texts = pa.array(["left out", "", "a", "é" * 9, "a" * 300, "12345678", "123456789"])
    hashes = _hashes_of([texts.slice(1)])
    assert (hashes == _hashes_of([texts.cast(pa.large_string())])[1:]).all()
    assert (hashes == _hashes_of([pa.chunked_array([texts.slice(1, 2), texts.slice(3)])])).all()
    assert len({*hashes.tolist()}) == len(texts) - 1


def test_hashes_of_similar_texts_and_numbers_differ_in_all_bits():
    for column in (pa.array([f"N{at:07}" for at in range(20_000)]), pa.array(range(20_000))):
        hashes = _hashes_of([column])
        assert len(np.unique(hashes)) == 20_000
        assert len(np.unique(hashes >> np.uint64(52))) > 4_000
        assert len(np.unique(hashes & np.uint64(4_095))) > 4_000
