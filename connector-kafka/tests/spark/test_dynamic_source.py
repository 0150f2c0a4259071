# SPDX-License-Identifier: Apache-2.0
"""Tests streams whose topics move between two real clusters."""

from __future__ import annotations

import functools
import itertools
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from numbered_records import SECONDS, wait

from connector_kafka import (
    DynamicKafkaSource,
    FileMetadataService,
    KafkaRecordDeserializationSchema,
    OffsetsInitializer,
)
from connector_kafka.testing import BrokerSecurity, KafkaBroker
from connectors_core import Pipeline
from connectors_core.errors import ConfigurationError
from connectors_core.secrets import Secret
from connectors_core.source import ReadLimits
from connectors_core.testing import (
    READING_POINTS,
    DirectorySink,
    Fault,
    FaultAction,
    LocalPipeline,
    run_driver,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASSWORD = "canary-91fd"  # pragma: allowlist secret
SOON = timedelta(milliseconds=50)
STREAM = "numbers"


@pytest.fixture(scope="module")
def other() -> Iterator[KafkaBroker]:
    """Start another cluster, which requires a login."""
    security = BrokerSecurity(mechanism="PLAIN", password=Secret(PASSWORD))
    with KafkaBroker(security=security) as broker:
        yield broker


class Moving:
    """A stream of the numbers from 0, in a topic that moves between two clusters."""

    def __init__(self, west: KafkaBroker, east: KafkaBroker, topic: str, folder: Path) -> None:
        self.brokers = {"west": west, "east": east}
        self.topic = topic
        self.folder = folder
        self.sink = DirectorySink(folder / "out")
        self.written = 0
        east.topics.create(topic, partitions=2)

    def place(self, **topics: Sequence[str]) -> None:
        """Say which topics of which clusters the stream has."""
        clusters = {}
        for name, broker in self.brokers.items():
            properties = broker.client_properties()
            clusters[name] = {
                "properties": {
                    key: value for key, value in properties.items() if isinstance(value, str)
                }
            }
        document = {"clusters": clusters, "streams": {STREAM: topics}}
        path = self.folder / "streams.json.new"
        path.write_text(json.dumps(document))
        os.replace(path, self.path)

    @property
    def path(self) -> Path:
        return self.folder / "streams.json"

    def source(self, **settings: Any) -> DynamicKafkaSource:
        secrets = {
            name: {
                key: value
                for key, value in broker.client_properties().items()
                if isinstance(value, Secret)
            }
            for name, broker in self.brokers.items()
        }
        given: Mapping[str, Any] = {
            "stream_ids": STREAM,
            "metadata_discovery_interval": SOON,
            "discovery_interval": SOON,
            "poll_interval": timedelta(milliseconds=20),
            "deserialization": KafkaRecordDeserializationSchema(
                metadata_columns=["value", "kafka_cluster", "topic", "partition", "offset"]
            ),
            **settings,
        }
        service = FileMetadataService(str(self.path), credentials=secrets)
        return DynamicKafkaSource(service, **given)

    def committed(self, cluster: str, group: str) -> dict[int, int | None]:
        consumer = KafkaConsumer(
            bootstrap_servers=self.brokers[cluster].internal_servers, group_id=group
        )
        with closing(consumer):
            return {at: consumer.committed(TopicPartition(self.topic, at)) for at in range(2)}

    def write(self, cluster: str, count: int, topic: str | None = None) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self.brokers[cluster].internal_servers, acks="all"
        )
        with closing(producer):
            for number in range(self.written, self.written + count):
                producer.send(topic or self.topic, str(number).encode(), partition=number % 2)
        self.written += count

    @contextmanager
    def transaction(self, cluster: str, count: int) -> Iterator[None]:
        """Write records in a transaction that is committed at the end of the block."""
        producer = KafkaProducer(
            bootstrap_servers=self.brokers[cluster].internal_servers, transactional_id=self.topic
        )
        with closing(producer):
            producer.init_transactions()
            producer.begin_transaction()
            for number in range(self.written, self.written + count):
                producer.send(self.topic, str(number).encode(), partition=number % 2)
            producer.flush()
            self.written += count
            yield
            producer.commit_transaction()

    def pipeline(self, limits: ReadLimits | None = None, **settings: Any) -> LocalPipeline:
        location = str(self.folder / "checkpoint")
        pipeline = LocalPipeline("moving", checkpoint_location=location, parallelism=2)
        rows = pipeline.from_source(self.source(**settings), uid="stream", limits=limits)
        pipeline.sink_to(rows, self.sink, uid="out")
        return pipeline

    def job(self) -> Callable[[], None]:
        """Return a run that only a fault ends, for another process."""
        location = str(self.folder / "checkpoint")
        return functools.partial(forever, self.source(), self.sink, location)

    def run_available(self, **settings: Any) -> None:
        with self.pipeline(**settings) as pipeline:
            assert pipeline.run(available_now=True, drain=False, timeout=SECONDS)

    def wait_for_one_cluster(self, pipeline: LocalPipeline, cluster: str) -> None:
        """Write records to a cluster until epochs show that the other one was read to its end."""
        deadline = time.monotonic() + SECONDS
        while gauge(pipeline, "kafkaClustersCount") != 1:
            assert time.monotonic() < deadline
            self.write(cluster, 1)
            self.wait_for_all(pipeline)

    def wait_for_all(self, pipeline: LocalPipeline) -> None:
        wait(lambda: len(self.read()) >= self.written, f"{self.written} records", pipeline)

    def read(self) -> list[int]:
        rows = self.sink.read()
        return [*map(int, rows["value"].to_pylist())] if rows.num_columns else []

    def assert_complete(self) -> None:
        found = Counter(self.read())
        assert found == Counter(range(self.written))


@pytest.fixture
def moving(broker: KafkaBroker, other: KafkaBroker, tmp_path: Path, request: Any) -> Moving:
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)
    broker.topics.create(name, partitions=2)
    return Moving(broker, other, name, tmp_path)


def test_a_topic_moves_there_and_back(moving: Moving) -> None:
    moving.place(west=[moving.topic])
    moving.write("west", 100)
    with moving.pipeline() as pipeline:
        pipeline.start()
        moving.wait_for_all(pipeline)
        moving.write("west", 50)
        moving.place(east=[moving.topic])
        moving.write("east", 100)
        moving.wait_for_all(pipeline)
        moving.place(west=[moving.topic])
        moving.write("west", 10)
        moving.wait_for_all(pipeline)
        pipeline.stop()
    moving.assert_complete()
    found = moving.sink.read().to_pylist()
    assert Counter(each["kafka_cluster"] for each in found) == {"west": 160, "east": 100}


def test_a_cluster_that_is_removed_while_no_driver_runs_is_read_to_its_end(moving: Moving) -> None:
    for _ in range(3):
        moving.place(west=[moving.topic], east=[moving.topic])
        moving.write("east", 20)
        moving.run_available()
        moving.write("east", 30)
        moving.place(west=[moving.topic])  # the entry of the cluster remains, with no topic
        moving.write("west", 10)
        moving.run_available()
        moving.assert_complete()


def test_a_transaction_that_is_open_at_a_removal_is_read_when_it_has_ended(moving: Moving) -> None:
    """Runs up to the available records end before the transaction does."""
    settings = {"isolation_level": "read_committed"}
    moving.place(west=[moving.topic], east=[moving.topic])
    moving.write("east", 20)
    moving.run_available(**settings)
    with moving.transaction("east", 10):
        moving.write("east", 5)  # after it in the log
        moving.place(west=[moving.topic])
        for _ in range(2):
            moving.run_available(**settings)
            assert sorted(moving.read()) == [*range(20)]
    deadline = time.monotonic() + SECONDS
    while len(moving.read()) < moving.written:  # the markers follow the commit
        assert time.monotonic() < deadline
        moving.run_available(**settings)
    moving.assert_complete()
    read = len(moving.read())
    moving.write("east", 5)  # after the removal
    moving.run_available(**settings)
    assert len(moving.read()) == read


def test_a_removed_cluster_is_not_asked_again_after_its_end(moving: Moving) -> None:
    moving.place(west=[moving.topic], east=[moving.topic])
    moving.write("east", 20)
    with moving.pipeline() as pipeline:
        pipeline.start()
        moving.wait_for_all(pipeline)
        moving.place(west=[moving.topic], east=[])
        moving.wait_for_one_cluster(pipeline, "west")
        moving.brokers["east"].kill()
        try:
            moving.write("west", 20)
            moving.wait_for_all(pipeline)
            pipeline.stop()
            with moving.pipeline() as again:
                again.start()
                moving.write("west", 5)
                moving.wait_for_all(again)
                again.stop()
        finally:
            moving.brokers["east"].start()
    moving.assert_complete()


def test_a_dropped_topic_is_not_read_even_if_its_cluster_is_gone(moving: Moving) -> None:
    moving.place(east=[moving.topic])
    moving.write("east", 20)
    moving.run_available()
    moving.write("east", 5)
    moving.place(west=[moving.topic])
    moving.brokers["east"].kill()
    try:
        with moving.pipeline(removed_topics="drop") as pipeline:
            pipeline.start()
            moving.write("west", 20)
            wait(lambda: len(moving.read()) >= 40, "40 records", pipeline)
            pipeline.stop()
    finally:
        moving.brokers["east"].start()
    assert sorted(moving.read()) == [*range(20), *range(25, 45)]


def test_the_group_has_the_positions_in_each_cluster(moving: Moving) -> None:
    moving.place(west=[moving.topic], east=[moving.topic])
    moving.write("west", 20)
    moving.write("east", 40)
    moving.run_available(group_id=moving.topic)
    assert moving.committed("west", moving.topic) == {0: 10, 1: 10}
    assert moving.committed("east", moving.topic) == {0: 20, 1: 20}


def test_failed_discoveries_are_tolerated_up_to_a_threshold(moving: Moving) -> None:
    moving.place(west=[moving.topic])
    with moving.pipeline(tolerated_discovery_failures=10_000) as pipeline:
        pipeline.start()
        moving.write("west", 10)
        moving.wait_for_all(pipeline)
        moving.path.write_text("{")
        wait(lambda: counter(pipeline, "failedMetadataDiscoveries") > 1, "failures", pipeline)
        moving.write("west", 10)
        moving.wait_for_all(pipeline)
        pipeline.stop()
    moving.place(west=[moving.topic])
    with moving.pipeline(tolerated_discovery_failures=0) as pipeline:
        pipeline.start()
        moving.write("west", 10)
        moving.wait_for_all(pipeline)
        moving.path.write_text("{")
        with pytest.raises(ConfigurationError, match="cannot be parsed"):
            pipeline.await_termination(SECONDS)
    moving.assert_complete()


def test_each_cluster_can_have_its_own_start_and_end(moving: Moving) -> None:
    moving.write("west", 10)
    moving.write("east", 10)
    moving.place(west=[moving.topic], east=[moving.topic])
    document = json.loads(moving.path.read_text())
    offsets = {"starting-offsets": f"{moving.topic}:0=1; {moving.topic}:1=1"}
    document["clusters"]["west"] |= offsets
    document["clusters"]["east"] |= {"stopping-offsets": f"{moving.topic}:0=2; {moving.topic}:1=0"}
    moving.path.write_text(json.dumps(document))
    with moving.pipeline(bounded=OffsetsInitializer.latest()) as pipeline:
        assert pipeline.run(timeout=SECONDS)
    found = moving.sink.read().to_pylist()
    west = [int(each["value"]) for each in found if each["kafka_cluster"] == "west"]
    east = [int(each["value"]) for each in found if each["kafka_cluster"] == "east"]
    assert (sorted(west), sorted(east)) == ([*range(2, 10)], [10, 12])


def test_limits_hold_for_all_clusters_together(moving: Moving) -> None:
    moving.place(west=[moving.topic], east=[moving.topic])
    moving.write("west", 30)
    moving.write("east", 30)
    with moving.pipeline(limits=ReadLimits(rows=7)) as pipeline:
        assert pipeline.run(available_now=True, timeout=SECONDS)
        assert pipeline.status().sources[0].rows == 60
    moving.assert_complete()
    epochs = {int(path.name[:10]) for path in moving.sink.path.glob("*.arrow")}
    assert all(moving.sink.read(epoch).num_rows <= 7 for epoch in epochs)


def test_a_topic_that_returns_after_it_was_recreated_is_read_from_its_start(
    moving: Moving,
) -> None:
    moving.place(west=[moving.topic], east=[moving.topic])
    moving.write("west", 20)
    with moving.pipeline() as pipeline:
        pipeline.start()
        moving.wait_for_all(pipeline)
        moving.place(east=[moving.topic])
        moving.wait_for_one_cluster(pipeline, "east")
        moving.brokers["west"].topics.delete(moving.topic)
        moving.brokers["west"].topics.create(moving.topic, partitions=2)
        moving.write("west", 5)
        moving.place(west=[moving.topic])
        moving.wait_for_all(pipeline)
        pipeline.stop()
    moving.assert_complete()


def test_a_topic_moves_between_runs_on_spark(spark: SparkSession, moving: Moving) -> None:
    def run() -> None:
        location = str(moving.folder / "on-spark")
        with Pipeline(spark, "moving", checkpoint_location=location) as pipeline:
            rows = pipeline.from_source(moving.source(), uid="stream")
            rows = rows.where("kafka_cluster <> 'nowhere'").select("value", "kafka_cluster")
            pipeline.sink_to(rows, moving.sink, uid="out")
            assert "the source reads: value, kafka_cluster" in pipeline.explain()
            assert pipeline.run(available_now=True, drain=False)

    moving.place(west=[moving.topic])
    moving.write("west", 20)
    run()
    moving.write("west", 10)
    moving.place(east=[moving.topic])
    moving.write("east", 20)
    run()
    moving.assert_complete()


def forever(source: DynamicKafkaSource, sink: DirectorySink, location: str) -> None:
    with LocalPipeline("moving", checkpoint_location=location, parallelism=2) as pipeline:
        pipeline.sink_to(pipeline.from_source(source, uid="stream"), sink, uid="out")
        pipeline.start()
        pipeline.await_termination(SECONDS)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("lives", "seed"), [(2, 1), pytest.param(20, None, marks=pytest.mark.slow)]
)
def test_no_driver_that_is_killed_loses_or_repeats_a_record_of_a_move(
    moving: Moving, lives: int, seed: int | None
) -> None:
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    print(f"seed: {seed}")
    chosen = random.Random(seed)
    places = itertools.cycle(["west", "east"])
    log, job = moving.folder / "driver.log", moving.job()
    moving.place(**{next(places): [moving.topic]})
    for life in range(lives):
        death = Fault(
            chosen.choice(READING_POINTS),
            action=FaultAction.KILL_DRIVER,
            nth=chosen.randint(1, 6),
            once=moving.folder / f"{life:02d}-dies",
        )
        with ThreadPoolExecutor(1) as driver:
            running = driver.submit(run_driver, job, log, death)
            while not running.done():
                place = next(places)
                moving.write(place, chosen.randint(1, 40))
                moving.place(**{place: [moving.topic]})
                moving.write(place, chosen.randint(1, 40))
        assert running.result() == -signal.SIGKILL, (death, log.read_text()[-4000:])
    # No driver notices a return between two discoveries, so both topics return at the end.
    moving.place(west=[moving.topic], east=[moving.topic])
    with moving.pipeline() as pipeline:
        pipeline.start()
        moving.wait_for_all(pipeline)
        pipeline.stop()
    moving.assert_complete()


def gauge(pipeline: LocalPipeline, name: str) -> float:
    return pipeline.status().sources[0].gauges.get(name, 0)


def counter(pipeline: LocalPipeline, name: str) -> int:
    return pipeline.status().sources[0].counters.get(name, 0)
