# SPDX-License-Identifier: Apache-2.0
"""Tests what a restarted enumerator knows before it reaches a broker or the metadata service."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from connector_kafka import (
    ClusterMetadata,
    DynamicKafkaSource,
    DynamicKafkaSplit,
    KafkaMetadataService,
    KafkaPartitionSplit,
    KafkaStream,
    OffsetsInitializer,
)
from connector_kafka.dynamic import ClusterState, DynamicKafkaState
from connector_kafka.dynamic.enumerator import DynamicKafkaEnumerator
from connector_kafka.dynamic.split import ClusterEvent
from connector_kafka.source import KafkaEnumeratorState, PartitionPaused
from connector_kafka.source.discovery import Discovery, FoundPartitions
from connector_kafka.source.enumerator import state_serializer
from connectors_core.errors import ConfigurationError, RetryableError
from connectors_core.metrics import MetricGroup
from connectors_core.secrets import Secret
from connectors_core.source import ReadLimits, SourceEvent, SplitEnumeratorContext

PASSWORD = "canary-55d0"  # pragma: allowlist secret
EAST = {"bootstrap.servers": "127.0.0.1:9"}


class Calls(SplitEnumeratorContext[DynamicKafkaSplit]):
    """A coordinator whose asynchronous calls a test runs."""

    current_parallelism = 2
    registered_readers = frozenset({0, 1})
    event_time_order = False

    def __init__(self) -> None:
        self.metrics = MetricGroup()
        self.calls: list[Callable[[], None]] = []
        self.assigned: list[DynamicKafkaSplit] = []
        self.told: list[int] = []
        self.snapshots = 0

    @property
    def metric_group(self) -> MetricGroup:
        return self.metrics

    def assign_splits(self, assignment: Mapping[int, Sequence[DynamicKafkaSplit]]) -> None:
        self.assigned += [each for splits in assignment.values() for each in splits]

    def signal_no_more_splits(self, subtask_id: int) -> None:
        self.told.append(subtask_id)

    def send_event_to_source_reader(self, subtask_id: int, event: SourceEvent) -> None:
        raise AssertionError("not sent")

    def set_reader_limit(self, subtask_id: int, limits: ReadLimits | None) -> None:
        raise AssertionError("not limited")

    def request_snapshot(self) -> None:
        self.snapshots += 1

    def call_async(self, call: Any, handler: Any, **_schedule: Any) -> None:
        def run() -> None:
            try:
                found, error = call(), None
            except Exception as raised:
                found, error = None, raised
            handler(found, error)

        self.calls.append(run)

    def run_in_coordinator_thread(self, action: Callable[[], None]) -> None:
        action()


class Service(KafkaMetadataService):
    """Answers as a test says."""

    def __init__(self, answer: Mapping[str, ClusterMetadata] | Exception) -> None:
        self.answer = answer

    def get_all_streams(self) -> Collection[KafkaStream]:
        raise AssertionError("the streams are named")

    def describe_streams(self, stream_ids: Collection[str]) -> Mapping[str, KafkaStream]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return {each: KafkaStream(stream_id=each, clusters=self.answer) for each in stream_ids}

    def credentials(self, cluster_id: str) -> Mapping[str, str | Secret]:
        if cluster_id == "former":
            raise AssertionError("the former cluster has no credentials")
        return {}


@contextmanager
def enumerator(
    answer: Mapping[str, ClusterMetadata] | Exception,
    state: DynamicKafkaState | None = None,
    **settings: Any,
) -> Iterator[tuple[DynamicKafkaEnumerator, Calls]]:
    calls = Calls()
    source = DynamicKafkaSource(Service(answer), stream_ids="stream", **settings)
    made = source.restore_enumerator(calls, state or DynamicKafkaState())
    try:
        yield made, calls
    finally:
        made.close()


def partition(offset: int, **more: Any) -> KafkaPartitionSplit:
    return KafkaPartitionSplit(
        split_id="flights-0", topic="flights", partition=0, offset=offset, **more
    )


def stored(state: KafkaEnumeratorState, *topics: str) -> ClusterState:
    return ClusterState(
        topics=topics,
        properties=EAST,
        is_later=True,
        version=1,
        data=state_serializer().serialize(state),
    )


def inner(state: DynamicKafkaState, cluster: str) -> KafkaEnumeratorState:
    return state_serializer().deserialize(1, state.clusters[cluster].data)


def test_an_event_of_a_cluster_that_was_found_after_the_state_was_stored_is_kept() -> None:
    event = ClusterEvent.of("east", EAST, PartitionPaused(partition(5, resumed=1)))
    with enumerator({}, DynamicKafkaState(started=True)) as (made, at):
        made.start()
        made.handle_source_event(0, event)
        state = made.snapshot_state(1)
        assert inner(state, "east").waiting == (partition(5, resumed=1),)
        assert state.clusters["east"].properties == EAST
        assert at.assigned == []
        at.calls.pop(0)()  # the cluster was removed before it was read to its end
        assert [each.split_id for each in at.assigned] == ["east:flights-0#1"]
        assert inner(made.snapshot_state(2), "east").known == {"flights-0": ""}


def test_a_split_of_such_a_cluster_waits_for_the_metadata() -> None:
    split = DynamicKafkaSplit.of("east", EAST, partition(5))
    metadata = {"east": ClusterMetadata(topics=frozenset({"flights"}), properties=EAST)}
    with enumerator(metadata, DynamicKafkaState(started=True), removed_topics="drop") as (made, at):
        made.start()
        assert made.plan_reads([split], ReadLimits()) == {}
        at.calls.pop(0)()
        assert made.plan_reads([split], ReadLimits()) == {}  # its end is not known yet
        assert made.snapshot_state(1).clusters["east"].topics == ("flights",)


def test_a_dropped_split_ends_at_its_position() -> None:
    split = DynamicKafkaSplit.of("east", EAST, partition(5))
    known = KafkaEnumeratorState(known={"flights-0": ""}, started=True)
    state = DynamicKafkaState(clusters={"east": stored(known, "flights")}, started=True)
    with enumerator({}, state, removed_topics="drop") as (made, at):
        made.start()
        metadata = at.calls[-1]
        assert made.plan_reads([split], ReadLimits()) == {}
        metadata()
        (read,) = made.plan_reads([split], ReadLimits(rows=1)).values()
        assert (read.split.split.stop, read.split.split.pauses, read.then) == (5, True, None)
        paused = PartitionPaused(read.split.split.resumed_later(5))
        assert paused.split.drained
        made.handle_source_event(0, ClusterEvent.of("east", EAST, paused))
        for epoch in range(2):
            made.notify_checkpoint_complete(epoch)
        assert at.metrics.gauges["kafkaClustersCount"] == 0
        assert inner(made.snapshot_state(2), "east").paused == (paused.split,)


@pytest.mark.parametrize("topics", [("flights",), ()])
def test_a_removed_partition_that_an_earlier_driver_found_is_read(topics: tuple[str, ...]) -> None:
    """Its pause can be stored before the state contains the partition."""
    waiting = KafkaEnumeratorState(waiting=(partition(5, resumed=1),))
    state = DynamicKafkaState(clusters={"east": stored(waiting, *topics)}, started=True)
    with enumerator({}, state) as (made, at):
        made.start()
        at.calls.pop(0)()
        assert inner(made.snapshot_state(1), "east").known == {"flights-0": ""}


def test_a_run_to_the_present_end_reads_a_removed_partition_that_it_did_not_find() -> None:
    split = DynamicKafkaSplit.of("east", EAST, partition(5))
    state = DynamicKafkaState(
        clusters={"east": stored(KafkaEnumeratorState(), "flights")}, started=True
    )
    with enumerator({}, state) as (made, at):
        made.freeze_end()
        made.start()
        at.calls.pop(0)()
        at.calls.pop()()  # the run finds its end
        assert made.plan_reads([split], ReadLimits()) == {}  # the end of the topic is not known yet
        assert inner(made.snapshot_state(1), "east").known == {"flights-0": ""}


def test_a_former_cluster_needs_no_connection() -> None:
    former = KafkaEnumeratorState(
        known={"flights-0": ""},
        started=True,
        paused=(partition(5, resumed=1, drained=True),),
    )
    state = DynamicKafkaState(clusters={"former": stored(former)}, started=True)
    with enumerator({}, state) as (made, at):
        made.start()
        at.calls.pop(0)()
        assert made.snapshot_state(1) == state
        assert at.calls == []


def test_a_removed_partition_that_paused_before_its_end_is_resumed() -> None:
    """A run up to the available records ended before a transaction did."""
    paused = KafkaEnumeratorState(
        known={"flights-0": ""}, started=True, paused=(partition(5, resumed=1),)
    )
    state = DynamicKafkaState(clusters={"east": stored(paused)}, started=True)
    with enumerator({}, state) as (made, at):
        made.start()
        made.add_reader(0)
        assert [each.split_id for each in at.assigned] == ["east:flights-0#1"]


@pytest.mark.parametrize("drained", [True, False])
def test_a_repeated_pause_of_a_removed_partition_is_resumed_before_its_end(drained: bool) -> None:
    known = KafkaEnumeratorState(known={"flights-0": ""}, started=True)
    state = DynamicKafkaState(clusters={"east": stored(known)}, started=True)
    with enumerator({}, state) as (made, _):
        made.start()
        paused = partition(5, resumed=1, drained=drained)
        made.handle_source_event(0, ClusterEvent.of("east", EAST, PartitionPaused(paused)))
        assert bool(inner(made.snapshot_state(1), "east").paused) == drained


@pytest.mark.parametrize(("is_later", "start"), [(False, "earliest"), (True, "latest")])
def test_a_rewind_replaces_the_start_of_the_first_clusters(is_later: bool, start: str) -> None:
    at_end = ClusterMetadata(
        topics=frozenset({"t"}), properties=EAST, starting_offsets=OffsetsInitializer.latest()
    )
    source = DynamicKafkaSource(Service({}), stream_ids="stream")
    made = source.create_enumerator_at(Calls(), "earliest-offset")
    begins = made._settings.enumeration("east", at_end, is_later).start
    assert begins == getattr(OffsetsInitializer, start)()


def test_the_first_discovery_must_succeed() -> None:
    with enumerator(RetryableError("unavailable"), tolerated_discovery_failures=9) as (made, at):
        made.start()
        with pytest.raises(RetryableError):
            at.calls.pop(0)()


def test_the_first_partitions_of_each_cluster_are_stored_with_the_next_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Discovery, "look", lambda *_args, **_more: FoundPartitions({}, (), {}))
    metadata = ClusterMetadata(topics=frozenset({"flights"}), properties=EAST)
    bounded = OffsetsInitializer.latest()
    with enumerator({"east": metadata, "west": metadata}, bounded=bounded) as (made, at):
        made.start()
        at.calls.pop(0)()
        snapshots = []
        while at.calls:
            at.calls.pop(0)()
            snapshots.append(at.snapshots)
        assert snapshots == [1, 2]
        restored = made.snapshot_state(1)
    with enumerator({"east": metadata, "west": metadata}, restored, bounded=bounded) as (made, at):
        made.start()
        at.calls.pop(0)()
        assert (at.calls, at.snapshots) == ([], 0)


def test_later_discoveries_can_fail() -> None:
    state = DynamicKafkaState(started=True)
    with enumerator(RetryableError("unavailable"), state) as (made, at):
        made.start()
        discover = at.calls.pop(0)
        discover()
        assert at.metrics.counters == {"failedMetadataDiscoveries": 1}
        with pytest.raises(RetryableError):
            discover()


def test_a_tolerated_failure_reveals_no_password(caplog: pytest.LogCaptureFixture) -> None:
    error = RetryableError("unavailable")
    error.__cause__ = OSError(f"no answer of https://me:{PASSWORD}@host/streams.json")
    with enumerator(error, DynamicKafkaState(started=True)) as (made, at):
        made.start()
        at.calls.pop(0)()
    assert "no answer" in caplog.text
    assert PASSWORD not in caplog.text


def test_a_cluster_with_an_invalid_property_is_a_failed_discovery() -> None:
    bad = {"east": ClusterMetadata(topics=frozenset({"t"}), properties={"no.such": "property"})}
    with enumerator(bad, DynamicKafkaState(started=True)) as (made, at):
        made.start()
        discover = at.calls.pop(0)
        discover()
        with pytest.raises(ConfigurationError):
            discover()


def test_readers_are_told_when_no_cluster_can_be_found() -> None:
    with enumerator({}, metadata_discovery_interval=None) as (made, at):
        made.start()
        assert at.told == []
        at.calls.pop(0)()
        assert at.told == [0, 1]
