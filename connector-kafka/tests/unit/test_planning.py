# SPDX-License-Identifier: Apache-2.0
"""Tests that plans read every record once, within limits, and with fair shares."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from connector_kafka import KafkaPartitionSplit
from connector_kafka.client.metadata import TopicPartition
from connector_kafka.source.plans import plan, shares
from connector_kafka.source.split import input_version_of
from connectors_core.source import ReadLimits


def split(partition: int, offset: int, last_stop: int | None = None) -> KafkaPartitionSplit:
    return KafkaPartitionSplit(
        split_id=f"t-{partition}",
        topic="t",
        partition=partition,
        offset=offset,
        last_stop=last_stop,
    )


def end(partition: int, offset: int) -> dict[TopicPartition, int]:
    return {TopicPartition("t", partition): offset}


@given(st.lists(st.integers(0, 10**12), max_size=20), st.none() | st.integers(0, 10**12))
def test_shares_add_up_to_the_limit_and_none_exceeds_the_available_rows(available, limit):
    parts = shares(available, limit)
    assert all(0 <= part <= each for part, each in zip(parts, available, strict=True))
    assert sum(parts) == min(sum(available), sum(available) if limit is None else limit)


def test_the_first_partition_gets_a_row_even_if_the_others_are_much_larger():
    assert shares([1, 10**9, 10**9], 10)[0] == 1


def test_a_partition_with_an_unknown_end_is_not_planned():
    assert plan([split(0, 5)], {}, ReadLimits()) == {}


def test_a_partition_without_records_is_idle():
    (read,) = plan([split(0, 5)], end(0, 5), ReadLimits()).values()
    assert read.empty
    assert read.then == split(0, 5)


def test_a_position_has_the_epoch_of_the_leader_that_returned_the_end():
    epochs = {TopicPartition("t", 0): 3}
    (read,) = plan([split(0, 5)], end(0, 9), ReadLimits(), epochs=epochs).values()
    assert read.then == replace(split(0, 9), leader_epoch=3)
    assert read.split.resumed_later(9).leader_epoch == 3
    assert read.split.resumed_later(7).leader_epoch == -1


def test_the_version_of_an_input_depends_on_its_records_only():
    whole = replace(split(0, 3), stop=9, topic_id="x", stop_epoch=1)
    parts = [replace(whole, offset=5, stop_epoch=2), replace(whole, stop=5, split_id="t-0@3-5")]
    empty = replace(whole, partition=1, offset=9)
    version = input_version_of([("", whole)])
    assert version == input_version_of([("", each) for each in (*parts, empty)])
    others = [
        input_version_of([(cluster, replace(whole, **changed))])
        for cluster, changed in [
            ("east", {}),
            ("", {"offset": 4}),
            ("", {"stop": 10}),
            ("", {"partition": 1}),
            ("", {"topic_id": "y"}),
        ]
    ]
    assert len({version, *others}) == 6
    assert input_version_of([("", replace(whole, topic_id=""))]) is None


def test_a_partition_at_its_last_stop_is_finished():
    (read,) = plan([split(0, 5, last_stop=5)], end(0, 9), ReadLimits()).values()
    assert read.empty
    assert read.then is None


def test_lost_rows_are_subtracted_from_the_rows_to_skip():
    before = split(0, 100)
    assert replace(before, offset=120).still_to_skip(30, before) == 30
    assert replace(before, offset=120, lost=20).still_to_skip(30, before) == 10
    assert replace(before, offset=140, lost=40).still_to_skip(30, before) == 0


def test_a_truncated_or_recreated_log_has_no_rows_to_skip():
    before = split(0, 100)
    assert replace(before, offset=90, cuts=1).still_to_skip(30, before) == 0
    assert replace(before, offset=200, topic_id="another").still_to_skip(30, before) == 0


def test_splits_above_the_limit_of_splits_are_not_planned():
    ends = {**end(0, 9), **end(1, 9), **end(2, 0)}
    reads = plan([split(2, 0), split(0, 0), split(1, 0)], ends, ReadLimits(splits=1))
    assert set(reads) == {"t-2", "t-0"}  # an idle split does not count toward the limit


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=5),
    st.integers(1, 30),
)
def test_successive_plans_read_every_offset_once(partitions, rows):
    ends = {
        key: stop for n, (_, stop) in enumerate(partitions) for key, stop in end(n, stop).items()
    }
    splits = [split(n, start, max(start, stop)) for n, (start, stop) in enumerate(partitions)]
    for each in splits:
        ends[each.topic_partition] = max(ends[each.topic_partition], each.offset)
    found: dict[str, list[int]] = {each.split_id: [] for each in splits}
    live = {each.split_id: each for each in splits}
    for _ in range(1000):
        if not live:
            break
        reads = plan(list(live.values()), ends, ReadLimits(rows=rows))
        read_now = 0
        for split_id, read in reads.items():
            if not read.empty:
                assert read.split.stop is not None
                offsets = list(range(read.split.offset, read.split.stop))
                found[split_id] += offsets
                read_now += len(offsets)
            if read.then is None:
                del live[split_id]
            else:
                live[split_id] = replace(read.then)
        assert read_now <= rows
    assert found == {
        each.split_id: list(range(each.offset, each.last_stop or 0)) for each in splits
    }
