# SPDX-License-Identifier: Apache-2.0
"""Tests the partial cache: limits, expiry, missing keys, and evictions."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors_core.errors import ConfigurationError
from connectors_core.lookup import DefaultLookupCache
from connectors_core.metrics import LookupMetric, MetricGroup

SCHEMA = pa.schema([("key", pa.int64()), ("value", pa.string())])


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def keys_of(*keys):
    return pa.record_batch([pa.array(keys, pa.int64())], names=["key"])


def rows_of(**values):
    rows = [(int(key[1:]), value) for key, own in values.items() for value in own]
    return pa.Table.from_pylist(
        [{"key": key, "value": value} for key, value in rows], schema=SCHEMA
    )


def known(cache, *keys):
    """Return the cached rows by key, or None for an unknown key."""
    present, rows = cache.get_if_present(keys_of(*keys))
    found = [] if rows is None else rows.to_pylist()
    return [
        [row["value"] for row in found if row["key"] == key] if is_known else None
        for key, is_known in zip(keys, present.to_pylist(), strict=True)
    ]


def test_rows_are_returned_by_key():
    cache = DefaultLookupCache()
    cache.put(keys_of(1, 2, 3), rows_of(k3=["c"], k1=["a", "A"]))
    assert known(cache, 3, 9, 1, 2) == [["c"], None, ["a", "A"], []]
    assert cache.size() == 3


def test_a_missing_key_is_cached_only_on_request():
    cache = DefaultLookupCache(cache_missing_keys=False)
    cache.put(keys_of(1, 2), rows_of(k1=["a"]))
    assert known(cache, 1, 2) == [["a"], None]


def test_a_key_that_becomes_missing_is_removed():
    cache = DefaultLookupCache(cache_missing_keys=False)
    cache.put(keys_of(1), rows_of(k1=["a"]))
    cache.put(keys_of(1), rows_of())
    assert known(cache, 1) == [None]


def test_the_least_recently_used_keys_are_evicted_first():
    cache = DefaultLookupCache(max_rows=3)
    cache.put(keys_of(1, 2, 3), rows_of(k1=["a"], k2=["b"]))
    assert known(cache, 1) == [["a"]]
    cache.put(keys_of(4), rows_of(k4=["d"]))
    assert known(cache, 1, 2, 3, 4) == [["a"], None, [], ["d"]]


def test_a_key_with_more_rows_than_the_limit_is_not_cached():
    cache = DefaultLookupCache(max_rows=2)
    cache.put(keys_of(1), rows_of(k1=["a"]))
    cache.put(keys_of(1), rows_of(k1=["a", "b", "c"]))
    assert known(cache, 1) == [None]


def test_a_key_expires_after_its_write_however_often_it_is_read():
    clock = Clock()
    cache = DefaultLookupCache(expire_after_write=timedelta(seconds=10), clock=clock)
    cache.put(keys_of(1), rows_of(k1=["a"]))
    clock.now = 9.9
    assert known(cache, 1) == [["a"]]
    clock.now = 10.0
    assert known(cache, 1) == [None]
    assert cache.size() == 0


def test_a_key_expires_when_it_has_not_been_read_for_the_interval():
    clock = Clock()
    cache = DefaultLookupCache(expire_after_access=timedelta(seconds=10), clock=clock)
    cache.put(keys_of(1, 2), rows_of(k1=["a"], k2=["b"]))
    clock.now = 9.0
    assert known(cache, 1) == [["a"]]
    clock.now = 18.0
    assert known(cache, 1, 2) == [["a"], None]
    clock.now = 28.0
    assert known(cache, 1) == [None]


def test_reading_does_not_extend_the_expiry_after_write():
    clock = Clock()
    cache = DefaultLookupCache(
        expire_after_write=timedelta(seconds=15),
        expire_after_access=timedelta(seconds=10),
        clock=clock,
    )
    cache.put(keys_of(1), rows_of(k1=["a"]))
    clock.now = 8.0
    assert known(cache, 1) == [["a"]]
    clock.now = 15.0
    assert known(cache, 1) == [None]


def test_keys_can_be_invalidated():
    cache = DefaultLookupCache()
    cache.put(keys_of(1, 2), rows_of(k1=["a"], k2=["b"]))
    cache.invalidate(keys_of(1, 9))
    assert known(cache, 1, 2) == [None, ["b"]]
    cache.close()
    assert cache.size() == 0


def test_a_pickled_cache_arrives_empty_with_its_limits():
    cache = DefaultLookupCache(max_rows=2, expire_after_write=timedelta(seconds=1))
    cache.put(keys_of(1), rows_of(k1=["a"]))
    arrived = pickle.loads(pickle.dumps(cache))
    assert arrived.size() == 0
    assert (arrived.max_rows, arrived.expire_after_write) == (2, timedelta(seconds=1))


def test_composite_keys_are_supported():
    cache = DefaultLookupCache()
    keys = pa.record_batch([pa.array([1, 1]), pa.array(["a", "b"])], names=["x", "y"])
    cache.put(keys, pa.table({"x": [1], "y": ["b"], "value": [7]}))
    present, rows = cache.get_if_present(keys)
    assert present.to_pylist() == [True, True]
    assert rows.to_pylist() == [{"x": 1, "y": "b", "value": 7}]


def test_evicted_rows_free_their_memory():
    metrics = MetricGroup()
    cache = DefaultLookupCache(max_rows=1_000)
    cache.open(metrics)
    for first in range(0, 100_000, 500):
        keys = keys_of(*range(first, first + 500))
        cache.put(keys, pa.table([keys.column(0), pa.array(["x" * 100] * 500)], schema=SCHEMA))
        assert metrics.gauges[LookupMetric.NUM_CACHED_BYTES] < 3 * 1_100 * 120
    assert metrics.gauges[LookupMetric.NUM_CACHED_RECORD] == 1_000
    assert known(cache, 99_000, 99_999, 98_999) == [["x" * 100], ["x" * 100], None]


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.dictionaries(st.integers(0, 40), st.integers(0, 3))),
            st.tuples(st.just("get"), st.lists(st.integers(0, 40), unique=True, max_size=10)),
            st.tuples(st.just("wait"), st.integers(1, 6)),
        ),
        max_size=40,
    )
)
def test_the_cache_returns_only_the_most_recently_written_rows(monkeypatch_spare, steps):
    clock = Clock()
    cache = DefaultLookupCache(max_rows=30, expire_after_write=timedelta(seconds=10), clock=clock)
    put, number = {}, 0
    for step, value in steps:
        if step == "wait":
            clock.now += value
        elif step == "put":
            rows = {key: [f"{number}-{n}" for n in range(count)] for key, count in value.items()}
            number += 1
            cache.put(keys_of(*rows), rows_of(**{f"k{key}": own for key, own in rows.items()}))
            put |= {key: (clock.now, own) for key, own in rows.items()}
        else:
            for key, found in zip(value, known(cache, *value), strict=True):
                if found is not None:
                    at, own = put[key]
                    assert found == own
                    assert clock.now < at + 10


@pytest.fixture(scope="module")
def monkeypatch_spare():
    """Make the cache compact its rows at every write."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("connectors_core.lookup.cache._LEAST_SPARE_ROWS", 1)
        yield


@pytest.mark.parametrize(
    ("option", "value"),
    [("max_rows", 0), ("expire_after_write", timedelta(0)), ("expire_after_access", -timedelta(1))],
)
def test_limits_must_be_positive(option, value):
    with pytest.raises(ConfigurationError) as refused:
        DefaultLookupCache(**{option: value})
    assert refused.value.keyword == option
