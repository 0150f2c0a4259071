# SPDX-License-Identifier: Apache-2.0
"""Tests the offsets that conditions leave, and that a reader without counts reads only these."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector_kafka import KafkaSource
from connector_kafka.client.fetcher import Fetched, PartitionRange
from connector_kafka.client.metadata import TopicPartition
from connector_kafka.source import reader as reader_module
from connector_kafka.source.bounds import Bounds, bounds_of
from connector_kafka.source.reader import KafkaSplitReader
from connector_kafka.source.split import KafkaPartitionSplit
from connectors_core.errors import ConfigurationError
from connectors_core.source import And, Comparison, IsIn, Not, Or, Predicate, SplitsAddition

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OFFSETS = st.integers(0, 9)
MOMENTS = st.integers(0, 9).map(lambda at: EPOCH + timedelta(microseconds=700 * at))
LEAVES: st.SearchStrategy[Predicate] = st.one_of(
    st.builds(
        Comparison,
        st.just(("o",)),
        st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
        OFFSETS,
    ),
    st.builds(
        Comparison,
        st.just(("at",)),
        st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
        MOMENTS,
    ),
    st.builds(IsIn, st.just(("o",)), st.lists(OFFSETS, min_size=1, max_size=3).map(tuple)),
    st.builds(IsIn, st.just(("at",)), st.lists(MOMENTS, min_size=1, max_size=3).map(tuple)),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda each: And(tuple(each))),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: Or(tuple(each))),
        inner.map(Not),
    ),
    max_leaves=5,
)


def bounds(*conditions: Predicate) -> Bounds:
    return bounds_of(conditions, offset="o", timestamp="at")


@given(conditions=st.lists(CONDITIONS, max_size=3), moments=st.lists(MOMENTS, max_size=10))
def test_no_record_outside_of_the_bounds_satisfies_the_conditions(
    conditions: list[Predicate], moments: list[datetime]
) -> None:
    kinds = pa.schema([("o", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    rows = pa.RecordBatch.from_pydict({"o": range(len(moments)), "at": moments}, schema=kinds)
    for each in conditions:
        rows = rows.filter(each.mask(rows))
    found = bounds(*conditions)
    for row in rows.to_pylist():
        assert found.first is None or row["o"] >= found.first
        assert found.last is None or row["o"] <= found.last
        milliseconds = (row["at"] - EPOCH) // timedelta(milliseconds=1)
        assert found.since is None or milliseconds >= found.since


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Comparison(("o",), ">", 5), Bounds(first=6)),
        (And((Comparison(("o",), ">=", 5), Comparison(("o",), "<", 9))), Bounds(first=5, last=8)),
        (Or((Comparison(("o",), "=", 3), IsIn(("o",), (7, 5)))), Bounds(first=3, last=7)),
        (Or((Comparison(("o",), "=", 3), Comparison(("p",), "=", 1))), Bounds()),
        (Comparison(("at",), ">=", EPOCH + timedelta(seconds=2)), Bounds(since=2000)),
        (Comparison(("at",), "<", EPOCH + timedelta(seconds=2)), Bounds()),
        (Comparison(("at",), ">=", EPOCH - timedelta(seconds=2)), Bounds()),
    ],
)
def test_conditions_on_offsets_and_timestamps_have_bounds(
    condition: Predicate, expected: Bounds
) -> None:
    assert bounds(condition) == expected


class _Fetcher:
    """Records the ranges, and finishes all of them."""

    def __init__(self, offsets: dict[int, int] | Exception) -> None:
        self.offsets = offsets
        self.ranges: list[PartitionRange] = []

    def add(self, ranges: Any) -> None:
        self.ranges += ranges

    def offsets_at(self, partitions: Any, milliseconds: int) -> dict[TopicPartition, int]:
        if isinstance(self.offsets, Exception):
            raise self.offsets
        return {
            TopicPartition("t", partition): offset for partition, offset in self.offsets.items()
        }

    def poll(self) -> Any:
        for each in self.ranges:
            assert each.stop is not None
            yield Fetched(key=each.key, records=None, next_offset=each.stop, finished=True)


def ranges_with(
    found: Bounds,
    monkeypatch: pytest.MonkeyPatch,
    offsets: dict[int, int] | Exception,
    **fields: Any,
) -> list[tuple[int, int | None, int]]:
    """Return the fetched range of each split, and the offset at which it finishes."""
    fetcher = _Fetcher(offsets)
    monkeypatch.setattr(reader_module, "open_fetcher", lambda *_: fetcher)
    reader = KafkaSplitReader(None, None, None, found)  # type: ignore[arg-type]
    given = {"offset": 10, "stop": 20, **fields}
    splits = [
        KafkaPartitionSplit(split_id=f"t-{number}", topic="t", partition=number, **given)
        for number in (0, 1)
    ]
    reader.handle_splits_changes(SplitsAddition(splits))
    ends = {}
    for _ in splits:
        for key, fetched in reader.fetch().records:
            ends[key] = fetched.next_offset
    return [(each.start, each.stop, ends[each.key]) for each in fetcher.ranges]


@pytest.mark.parametrize(
    ("found", "fetched"),
    [
        (Bounds(), (10, 20)),
        (Bounds(first=5), (10, 20)),
        (Bounds(first=15), (15, 20)),
        (Bounds(first=25), (19, 20)),  # the last offset shows that the range still exists
        (Bounds(last=12), (10, 13)),
        (Bounds(first=15, last=16), (15, 17)),
        (Bounds(last=3), (10, 10)),
    ],
)
def test_a_reader_fetches_only_offsets_within_the_bounds_and_finishes_at_the_planned_end(
    found: Bounds, fetched: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ranges_with(found, monkeypatch, {}) == [(*fetched, 20)] * 2


def test_a_reader_seeks_to_the_first_timestamp(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ranges_with(Bounds(since=5), monkeypatch, {0: 14})
    assert found == [(14, 20, 20), (19, 20, 20)]  # partition 1 has no later record


def test_a_reader_without_timestamps_of_the_broker_fetches_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = ConfigurationError("the message format is too old")
    assert ranges_with(Bounds(since=5), monkeypatch, error) == [(10, 20, 20)] * 2


def test_a_split_that_a_later_run_resumes_is_fetched_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert ranges_with(Bounds(first=15), monkeypatch, {}, pauses=True) == [(10, 20, 20)] * 2


def test_a_source_seeks_only_without_counts_and_without_tolerated_losses() -> None:
    condition = Comparison(("offset",), ">=", 8)

    def pushed(*conditions: Predicate, **options: Any) -> KafkaSource:
        source = KafkaSource("broker:9092", topics=["t"], **options)
        return source.apply_filters(conditions)[0]

    assert pushed(condition)._bounds == Bounds()
    seeking = pushed(condition).without_counts()
    assert seeking is not None
    assert seeking._bounds == Bounds(first=8)
    assert pushed(Comparison(("partition",), "=", 1)).without_counts() is None
    assert pushed(condition, on_data_loss="earliest").without_counts() is None
