# SPDX-License-Identifier: Apache-2.0
"""Tests topic-to-topic pipelines while the tests kill drivers and the broker.

Each driver runs in its own process. A printed seed decides at which points the tests kill it. On a
cluster, tasks also have speculative copies. Java's consumer reads the results.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka_sink_suites import open_transactions

from connector_kafka import (
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    OffsetsInitializer,
)
from connector_kafka.testing import KafkaBroker
from connector_kafka.testing.tools import console_consumer
from connectors_core.sink import DeliveryGuarantee
from connectors_core.source import ReadLimits
from connectors_core.testing import (
    READING_POINTS,
    SPECULATION,
    WRITING_POINTS,
    Cluster,
    DriverJob,
    Fault,
    FaultAction,
    FaultPoint,
    decision_path,
    report_path,
    run_driver,
    running_cluster,
    wait_for_survivors,
)

PARTITIONS = 3
POINTS = sorted({*READING_POINTS, *WRITING_POINTS})
# At these points, the driver and its tasks hold nothing that a broker restart destroys.
WAITING_POINTS = [FaultPoint.READER_FETCHED, FaultPoint.AFTER_PREPARE, FaultPoint.AFTER_DECISION]


def write(broker: KafkaBroker, topic: str, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, acks="all")
    with closing(producer):
        for number in range(count):
            value = str(number).encode()
            producer.send(topic, value, key=value, partition=number % PARTITIONS)


def job(
    broker: KafkaBroker, topics: tuple[str, str], folder: Path, spark: Mapping[str, str] | None
) -> DriverJob:
    source = KafkaSource(
        broker.bootstrap_servers,
        topics=topics[0],
        bounded=OffsetsInitializer.latest(),
        deserialization=KafkaRecordDeserializationSchema(metadata_columns=["key", "value"]),
    )
    sink = KafkaSink(
        broker.bootstrap_servers,
        serialization=KafkaRecordSerializationSchema(topic=topics[1]),
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
        transactional_id_prefix=topics[1],
    )
    return DriverJob(
        location=str(folder / "checkpoint"),
        source=source,
        sinks={"topic": sink},
        settings={"limits": ReadLimits(rows=30)},
        spark=spark,
    )


def run_to_death(
    job: DriverJob, broker: KafkaBroker, folder: Path, life: int, chosen: random.Random
) -> None:
    """Run a driver until it is killed in one of its first three epochs.

    In every other run, the broker is killed as well.
    """
    log = folder / "driver.log"
    killed, hangs, go_on = (folder / f"{life:02d}-{what}" for what in ("dies", "hangs", "go-on"))
    death = Fault(
        chosen.choice(POINTS),
        action=FaultAction.KILL_DRIVER,
        nth=chosen.randint(1, 3),
        once=killed,
    )
    hang = Fault(chosen.choice(WAITING_POINTS), action=FaultAction.HANG, once=hangs, until=go_on)
    with ThreadPoolExecutor(1) as driver:
        running = driver.submit(run_driver, job, log, death, *([hang] if life % 2 else []))
        if life % 2:
            while not hangs.exists() and not running.done():
                wait([running], timeout=0.05)
            broker.kill()
            broker.start()
            go_on.touch()
        code = running.result()
    text = log.read_text(errors="replace")[-4000:]
    assert code == -signal.SIGKILL, f"life {life}, {death.point}, {death.nth}: {code}\n{text}"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("spark", "lives", "seed"),
    [
        pytest.param(None, 2, 1, id="in process", marks=pytest.mark.line("3.5")),
        pytest.param(None, 20, None, id="in process, long", marks=pytest.mark.slow),
        pytest.param({}, 12, None, id="on Spark", marks=pytest.mark.slow),
    ],
)
def test_every_record_arrives_exactly_once(
    broker: KafkaBroker,
    topic: str,
    tmp_path: Path,
    spark: Mapping[str, str] | None,
    lives: int,
    seed: int | None,
) -> None:
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    print(f"seed: {seed}")
    chosen = random.Random(seed)
    count = 30 * (3 * lives + 5)  # each driver completes at most three epochs
    target = broker.topics.create(f"{topic}-target", partitions=PARTITIONS)
    broker.topics.add_partitions(topic, PARTITIONS)
    write(broker, topic, count)

    moving = job(broker, (topic, target), tmp_path, spark)
    for life in range(lives):
        run_to_death(moving, broker, tmp_path, life, chosen)
    log = tmp_path / "driver.log"
    assert run_driver(moving, log) == 0, log.read_text(errors="replace")[-4000:]
    wait_for_survivors(log)
    assert_every_record_came_once(broker, target, count)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    # If a copy fails, only a third host can run another one.
    with running_cluster(tmp_path_factory.mktemp("cluster"), workers=3) as started:
        yield started


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_speculative_tasks_and_a_killed_driver_cause_no_loss_and_no_duplicates(
    cluster: Cluster, broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    count = 30 * 12
    target = broker.topics.create(f"{topic}-target", partitions=PARTITIONS)
    broker.topics.add_partitions(topic, PARTITIONS)
    write(broker, topic, count)
    moving = job(broker, (topic, target), tmp_path, cluster.settings() | SPECULATION)
    query, log = tmp_path / "checkpoint" / "query-0", tmp_path / "driver.log"

    def hang(point: FaultPoint, until: str, **where: int) -> Fault:
        once = tmp_path / f"slow-{point.name}"
        return Fault(point, action=FaultAction.HANG, where=where, once=once, until=query / until)

    slow = [
        # The speculative copy of this reader reads the same records and reports first.
        hang(FaultPoint.READER_FETCHED, report_path(0, "source", 0), plan=0, subtask=0),
        # This writer and its copy write to separate transactions.
        hang(FaultPoint.WRITER_WROTE, decision_path(1), epoch=1, subtask=1),
        # The transaction of this writer is complete when the driver chooses the copy's transaction.
        hang(FaultPoint.AFTER_PREPARE, decision_path(2), epoch=2, subtask=0),
    ]
    death = Fault(
        FaultPoint.AFTER_DECISION,
        action=FaultAction.KILL_DRIVER,
        where={"epoch": 3},
        once=tmp_path / "dies",
    )
    ended = run_driver(moving, log, *slow, death)
    assert ended == -signal.SIGKILL, log.read_text(errors="replace")[-4000:]
    assert all(fault.fired for fault in (*slow, death))
    assert run_driver(moving, log) == 0, log.read_text(errors="replace")[-4000:]
    wait_for_survivors(log)
    assert_every_record_came_once(broker, target, count)


def assert_every_record_came_once(broker: KafkaBroker, target: str, count: int) -> None:
    found = console_consumer(broker.internal_servers, target, isolation_level="read_committed")
    values = Counter(int(record.value or b"-1") for record in found)
    assert sorted(set(range(count)) - values.keys()) == [], "records are missing"
    assert [value for value, times in values.items() if times > 1] == [], "records came twice"
    assert len(values) == count
    assert all(record.key == record.value for record in found)
    assert open_transactions(broker, target) == []
