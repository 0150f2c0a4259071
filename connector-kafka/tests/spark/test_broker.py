# SPDX-License-Identifier: Apache-2.0
"""Tests the test broker: start, stop, crash, and freeze."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from connector_kafka.testing import BrokerError, KafkaBroker

pytestmark = pytest.mark.line("3.5")  # these tests do not use Spark


def write(broker: KafkaBroker, topic: str, *values: bytes, at: int | None = None) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for value in values:
        producer.send(topic, value, partition=0, timestamp_ms=at)
    producer.close()


def read(broker: KafkaBroker, topic: str) -> list[bytes]:
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=10_000,
    )
    consumer.assign([TopicPartition(topic, 0)])
    count = broker.topics.end_offsets(topic)[0]
    values = [record.value for _, record in zip(range(count), consumer, strict=False)]
    consumer.close()
    return values


def test_a_broker_keeps_its_records_and_its_address_after_a_crash(
    broker: KafkaBroker, topic: str
) -> None:
    address = broker.bootstrap_servers
    write(broker, topic, b"before")

    broker.kill()
    assert not broker.running
    broker.start()

    write(broker, topic, b"after")
    assert broker.bootstrap_servers == address
    assert read(broker, topic) == [b"before", b"after"]


@pytest.mark.slow
def test_a_broker_finds_the_existing_data_in_its_folder(tmp_path: Path) -> None:
    with KafkaBroker(folder=tmp_path) as first:
        first.topics.create("kept")
        write(first, "kept", b"x")
    with KafkaBroker(folder=tmp_path) as second:
        assert read(second, "kept") == [b"x"]


@pytest.mark.slow
def test_a_broker_keeps_records_with_old_timestamps() -> None:
    often = {"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "100"}
    with KafkaBroker(properties=often) as broker:
        broker.topics.create("kept")
        broker.topics.create("deleted", config={"retention.ms": "1000"})
        for topic in ("kept", "deleted"):
            write(broker, topic, b"x", at=0)
        deadline = time.monotonic() + 60
        while broker.topics.start_offsets("deleted")[0] == 0:
            assert time.monotonic() < deadline, "the retention never ran"
        assert read(broker, "kept") == [b"x"]


def test_the_topics_of_a_broker_can_be_extended_trimmed_and_deleted(
    broker: KafkaBroker, topic: str
) -> None:
    write(broker, topic, b"1", b"2", b"3")
    broker.topics.add_partitions(topic, 2)
    broker.topics.delete_records(topic, {0: 2})
    assert broker.topics.start_offsets(topic) == {0: 2, 1: 0}
    assert broker.topics.end_offsets(topic) == {0: 3, 1: 0}
    broker.topics.delete(topic)


def test_a_paused_broker_answers_after_it_is_resumed(broker: KafkaBroker, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    producer.partitions_for(topic)
    broker.pause()
    try:
        sent = producer.send(topic, b"x")
        with pytest.raises(Exception, match="Timeout"):
            sent.get(timeout=0.5)
    finally:
        broker.resume()
    assert sent.get(timeout=10).offset == 0
    producer.close()


def test_a_broker_stops_when_its_parent_process_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from connector_kafka.testing import KafkaBroker\n"
        "with KafkaBroker(folder=Path(sys.argv[1])): print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        assert processes_of(tmp_path)
        os.kill(parent.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while left := processes_of(tmp_path):
        assert time.monotonic() < deadline, f"{left} outlived their parent"
        time.sleep(0.05)


def test_a_broker_that_cannot_start_reports_the_reason(tmp_path: Path) -> None:
    with pytest.raises(BrokerError) as error:
        KafkaBroker(folder=tmp_path, properties={"num.io.threads": "none"}).start()
    assert "num.io.threads" in str(error.value)


def processes_of(folder: Path) -> list[int]:
    found = []
    for process in Path("/proc").iterdir():
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if process.name.isdigit() and f"{folder}/server.properties".encode() in command:
            found.append(int(process.name))
    return found
