# SPDX-License-Identifier: Apache-2.0
"""Tests where reading of removed topics ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from connector_kafka import KafkaPartitionSplit
from connector_kafka.client.metadata import TopicPartition
from connector_kafka.errors import KafkaFatalError, KafkaRetryableError
from connector_kafka.source.plans import plan
from connector_kafka.source.removals import RemovedTopics
from connectors_core.metrics import MetricGroup
from connectors_core.source import ReadLimits

OLD, NEW = TopicPartition("old", 0), TopicPartition("new", 0)


@dataclass
class Log:
    """A cluster with one end for all partitions, whose answers a test delivers."""

    end: int = 10
    error: Exception | None = None
    asked: list[Callable[[], None]] = field(default_factory=list)
    metric_group: MetricGroup = field(default_factory=MetricGroup)

    def offsets(self, partitions: Iterable[TopicPartition], at: int) -> dict[TopicPartition, int]:
        if self.error is not None:
            raise self.error
        return dict.fromkeys(partitions, self.end)

    def call_async(self, call: Callable[[], Any], handler: Callable[[Any, Any], None]) -> None:
        try:
            found, error = call(), None
        except Exception as raised:
            found, error = None, raised
        self.asked.append(lambda: handler(found, error))

    def answer(self) -> None:
        self.asked.pop(0)()


def removed(log: Log, *topics: str, drains: bool = True) -> RemovedTopics:
    given: Any = log
    made = RemovedTopics(given, given, drains)
    made.subscribe(topics)
    return made


def test_a_source_of_all_topics_removes_none() -> None:
    log: Any = Log()
    made = RemovedTopics(log, log)
    made.ask_for_ends([OLD])
    assert not made.contains(OLD)
    assert not log.asked


def test_the_end_is_asked_once_and_after_the_removal() -> None:
    log = Log()
    made = removed(log, "new")
    made.ask_for_ends([OLD, NEW])
    made.ask_for_ends([OLD, NEW])
    assert made.end_of(OLD) is None
    assert log.metric_group.gauges == {"drainingPartitions": 1}
    log.answer()
    made.ask_for_ends([OLD, NEW])
    assert (made.end_of(OLD), made.end_of(NEW), log.asked) == (10, None, [])
    assert made.limited({OLD: 15, NEW: 15}) == {OLD: 10, NEW: 15}
    made.ask_for_ends([NEW])
    assert log.metric_group.gauges == {"drainingPartitions": 0}


def test_a_topic_that_is_removed_again_has_a_later_end() -> None:
    log = Log()
    made = removed(log, "new")
    made.ask_for_ends([OLD])
    made.subscribe(["new", "old"])
    log.end = 20
    made.subscribe(["new"])
    log.answer()
    assert made.end_of(OLD) is None
    made.ask_for_ends([OLD])
    log.answer()
    assert made.end_of(OLD) == 20


def test_only_a_split_at_the_end_of_a_removed_topic_is_read() -> None:
    log = Log()
    made = removed(log, "new")

    def has_read(offset: int, topic: str = "old", *, drained: bool = False) -> bool:
        split = KafkaPartitionSplit(
            split_id=f"{topic}-0", topic=topic, partition=0, offset=offset, drained=drained
        )
        return made.has_read(split)

    assert (has_read(9), has_read(9, drained=True)) == (False, True)  # an earlier driver knew
    assert not has_read(9, "new", drained=True)
    made.take_ends(made.find_ends([OLD, NEW]))
    log.end = 20
    assert made.find_ends([NEW]) == {}
    made.take_ends({OLD: 20})  # the first end counts
    assert (has_read(9, drained=True), has_read(10)) == (False, True)
    made.subscribe(["new", "old"])
    made.subscribe(["new"])
    assert not has_read(10, drained=True)  # records can have followed


def test_a_cluster_that_does_not_respond_is_asked_again() -> None:
    log = Log(error=KafkaRetryableError("unavailable"))
    made = removed(log)
    made.ask_for_ends([OLD])
    log.answer()
    log.error = None
    made.ask_for_ends([OLD])
    log.answer()
    assert made.end_of(OLD) == 10


def test_another_error_is_raised() -> None:
    log = Log(error=KafkaFatalError("refused"))
    made = removed(log)
    made.ask_for_ends([OLD])
    with pytest.raises(KafkaFatalError):
        log.answer()


def test_a_dropped_topic_ends_at_its_position_without_a_request() -> None:
    log = Log()
    made = removed(log, drains=False)
    made.ask_for_ends([OLD])
    split = KafkaPartitionSplit(split_id="old-0", topic="old", partition=0, offset=7)
    end = made.end_of(OLD)
    assert end is not None
    (read,) = plan([split], {}, ReadLimits(), {OLD: end}).values()
    assert (read.split.stop, read.split.pauses, read.then, log.asked) == (7, True, None, [])


def test_only_the_paused_partition_ends() -> None:
    splits = [
        KafkaPartitionSplit(split_id=f"{topic}-0", topic=topic, partition=0, offset=7)
        for topic in ("old", "new")
    ]
    reads = plan(splits, {OLD: 12, NEW: 12}, ReadLimits(), {OLD: 10})
    assert (reads["old-0"].split.stop, reads["old-0"].then) == (10, None)
    assert reads["new-0"].then is not None
