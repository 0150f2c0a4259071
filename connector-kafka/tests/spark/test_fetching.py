# SPDX-License-Identifier: Apache-2.0
"""Tests fetches from a real broker, including missing records."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pytest
from kafka import KafkaProducer

from connector_kafka.client import retries
from connector_kafka.client.config import CONSUMER_PROPERTIES, ClientConfig
from connector_kafka.client.fetch_api import FetchApi, open_fetcher
from connector_kafka.client.fetcher import (
    Fetched,
    Fetcher,
    FetchSettings,
    OffsetRange,
    PartitionRange,
)
from connector_kafka.client.metadata import (
    EARLIEST,
    LATEST,
    Cluster,
    IsolationLevel,
    TopicPartition,
)
from connector_kafka.client.wire import Wire
from connector_kafka.errors import CorruptRecordsError
from connector_kafka.testing import KafkaBroker
from connectors_core.clients import RetryLog
from connectors_core.errors import DataLossError

pytestmark = pytest.mark.line("3.5")


@pytest.fixture
def config(broker: KafkaBroker) -> ClientConfig:
    return ClientConfig.of(
        {**broker.client_properties(), "default.api.timeout.ms": 3_000}, CONSUMER_PROPERTIES
    )


def produce(broker: KafkaBroker, topic: str, values: Sequence[bytes], **settings: object) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.internal_servers, **settings)
    futures = [producer.send(topic, value, partition=0) for value in values]
    for future in futures:
        future.get(30)
    producer.close()


def found_in(config: ClientConfig, topic: str) -> tuple[str, int, int]:
    """Return the ID of a topic, and the start and end offsets of its partition 0."""
    partition = TopicPartition(topic, 0)
    wire = Wire(config)
    try:
        cluster = Cluster(wire)
        topic_id = cluster.topics([topic])[topic].topic_id
        ends = [cluster.offsets([partition], at)[partition] for at in (EARLIEST, LATEST)]
    finally:
        wire.close()
    return topic_id, ends[0], ends[1]


@pytest.fixture(params=list(FetchApi), ids=lambda api: api.value)
def api(request: pytest.FixtureRequest) -> FetchApi:
    return request.param


def read(
    config: ClientConfig,
    *ranges: PartitionRange,
    api: FetchApi = FetchApi.AUTO,
    **settings: object,
) -> list[Fetched]:
    fetcher = open_fetcher(config, FetchSettings(**settings), api)
    fetcher.add(ranges)
    came: list[Fetched] = []
    try:
        while sum(each.finished for each in came) < len(ranges):
            came += fetcher.poll()
    finally:
        fetcher.close()
    return came


def range_of(topic: str, start: int, stop: int, topic_id: str = "") -> PartitionRange:
    return PartitionRange(
        key=f"{topic}@{start}-{stop}",
        partition=TopicPartition(topic, 0),
        topic_id=topic_id,
        start=start,
        stop=stop,
    )


def values(came: Sequence[Fetched]) -> list[bytes]:
    return [
        value
        for each in came
        if each.records is not None
        for value in each.records.column("value").to_pylist()
    ]


def test_several_ranges_of_one_partition_are_read_at_the_same_time(broker, topic, config, api):
    sent = [b"%d" % n for n in range(100)]
    produce(broker, topic, sent)
    topic_id, first, last = found_in(config, topic)
    came = read(
        config,
        range_of(topic, first, 40, topic_id),
        range_of(topic, 40, last, topic_id),
        range_of(topic, 7, 7, topic_id),
        api=api,
        batch_rows=9,
    )
    assert sorted(values(came)) == sorted(sent)
    ends = {each.key: each.next_offset for each in came if each.finished}
    assert sorted(ends.values()) == [7, 40, 100]


def test_a_partition_that_ends_does_not_repeat_records_of_others(broker, topic, config, api):
    broker.topics.create(f"{topic}-wide", partitions=6)
    producer = KafkaProducer(bootstrap_servers=broker.internal_servers)
    for number in range(6 * 50):
        producer.send(f"{topic}-wide", b"%d" % number, partition=number % 6)
    producer.close()
    ranges = [
        PartitionRange(
            key=str(partition),
            partition=TopicPartition(f"{topic}-wide", partition),
            start=0,
            stop=10 * (partition % 3) + 10,
        )
        for partition in range(6)
    ]
    came = read(config, *ranges, api=api, batch_rows=120)  # a poll ends within a partition
    assert sorted(map(int, values(came))) == sorted(
        number for number in range(6 * 50) if number // 6 < 10 * (number % 3) + 10
    )


def test_read_committed_skips_aborted_transactions(broker, topic, config, api):
    producer = KafkaProducer(
        bootstrap_servers=broker.internal_servers, transactional_id=f"id-{topic}"
    )
    producer.init_transactions()
    for what, end in (
        (b"committed", producer.commit_transaction),
        (b"aborted", producer.abort_transaction),
    ):
        producer.begin_transaction()
        producer.send(topic, what, partition=0).get(30)
        end()
    producer.close()
    topic_id, first, last = found_in(config, topic)
    whole = range_of(topic, first, last, topic_id)
    assert values(read(config, whole, api=api)) == [b"committed", b"aborted"]
    committed = read(config, whole, api=api, isolation=IsolationLevel.READ_COMMITTED)
    assert values(committed) == [b"committed"]
    assert committed[-1].next_offset == last, "the markers take up offsets too"


def test_records_deleted_by_retention_cause_an_error_or_are_skipped(broker, topic, config, api):
    produce(broker, topic, [b"%d" % n for n in range(10)])
    broker.topics.delete_records(topic, {0: 6})
    topic_id, _, last = found_in(config, topic)
    whole = range_of(topic, 2, last, topic_id)
    with pytest.raises(DataLossError, match="on-data-loss"):
        read(config, whole, api=api)
    came = read(config, whole, api=api, on_data_loss="earliest")
    assert [each.lost for each in came if each.lost] == [OffsetRange(2, 6)]
    assert values(came) == [b"6", b"7", b"8", b"9"]
    came = read(config, whole, api=api, on_data_loss="latest")
    assert [each.lost for each in came if each.lost] == [OffsetRange(2, 10)]
    assert values(came) == []


def test_the_error_of_a_batch_that_expands_too_much_names_the_batch(broker, topic, config, api):
    produce(broker, topic, [b"small"])
    produce(broker, topic, [bytes(4 << 20)], compression_type="gzip", max_request_size=8 << 20)
    topic_id, first, last = found_in(config, topic)
    whole = range_of(topic, first, last, topic_id)
    with pytest.raises(CorruptRecordsError) as caught:
        read(config, whole, api=api, max_record_bytes=1 << 20, batch_bytes=1 << 20)
    damaged = caught.value
    assert (damaged.topic, damaged.partition, damaged.offset) == (topic, 0, 1)
    assert damaged.option == "source.max-record-size"
    assert [len(each) for each in values(read(config, whole, api=api))] == [5, 4 << 20]


def test_a_recreated_topic_is_not_mistaken_for_the_old_one(broker, topic, config):
    produce(broker, topic, [b"old"])
    topic_id, first, last = found_in(config, topic)
    broker.topics.delete(topic)
    broker.topics.create(topic)
    produce(broker, topic, [b"new"])
    whole = range_of(topic, first, last, topic_id)
    with pytest.raises(DataLossError, match="was deleted"):
        read(config, whole)
    came = read(config, whole, on_data_loss="earliest")
    assert values(came) == []
    assert came[-1].lost == OffsetRange(0, 1)


def test_reading_resumes_after_a_broker_restarts(broker, topic, config):
    produce(broker, topic, [b"%d" % n for n in range(10)])
    topic_id, first, last = found_in(config, topic)
    fetcher = Fetcher(Wire(config), FetchSettings())
    try:
        fetcher.add([range_of(topic, first, 5, topic_id)])
        came = []
        while not came:
            came += fetcher.poll()
        broker.restart()
        fetcher.add([range_of(topic, 5, last, topic_id)])
        while not any(each.finished and each.next_offset == last for each in came):
            came += fetcher.poll()
    finally:
        fetcher.close()
    assert values(came) == [b"%d" % n for n in range(10)]


def test_an_outage_is_logged_when_it_starts_while_it_lasts_and_when_it_ends(
    broker, topic, config, caplog, monkeypatch
):
    monkeypatch.setattr(retries, "RetryLog", partial(RetryLog, every=1.0))
    produce(broker, topic, [b"0"])
    topic_id, first, last = found_in(config, topic)
    impatient = {"request.timeout.ms": 500, "reconnect.backoff.max.ms": 100}
    config = ClientConfig.of({**broker.client_properties(), **impatient}, CONSUMER_PROPERTIES)
    fetcher = Fetcher(Wire(config), FetchSettings())
    came: list[Fetched] = []

    def logged(what: str) -> int:
        return sum("reading from Kafka" in each and what in each for each in caplog.messages)

    def poll_until(done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not done():
            assert time.monotonic() < deadline, caplog.messages
            came.extend(fetcher.poll())

    try:
        fetcher.add([replace(range_of(topic, first, last, topic_id), stop=None)])
        poll_until(lambda: values(came) == [b"0"])
        assert not logged("")
        broker.stop()
        try:
            poll_until(lambda: logged("still fails") == 2)
        finally:
            broker.start()
        poll_until(lambda: logged("works again") == 1)
        produce(broker, topic, [b"1"])
        poll_until(lambda: values(came) == [b"0", b"1"])
    finally:
        fetcher.close()
    assert logged("failed; retrying") == 1
    assert logged("works again") == 1
