# SPDX-License-Identifier: Apache-2.0
"""Tests that readers see every row once when the broker or the network fails during writes.

The pipelines run in this process against a real broker.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka_sink_suites import open_transactions, read_committed

from connector_kafka import KafkaRecordSerializationSchema, KafkaSink
from connector_kafka.testing import KafkaBroker, KafkaProxy
from connectors_core.errors import ConfigurationError
from connectors_core.formats import JsonFormat
from connectors_core.sink import DeliveryGuarantee
from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.testing import Fault, FaultAction, FaultPoint, LocalPipeline, injected

pytestmark = pytest.mark.line("3.5")  # these tests do not use Spark
ROWS = 1_000
PLAN_ROWS = 100
SECONDS = 100.0
# With these properties, the client notices faults quickly.
IMPATIENT = {
    "request.timeout.ms": "1500",
    "reconnect.backoff.ms": "20",
    "reconnect.backoff.max.ms": "200",
}


def sink(servers: str, topic: str) -> KafkaSink:
    return KafkaSink(
        servers,
        serialization=KafkaRecordSerializationSchema(topic=topic, value_format=JsonFormat()),
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
        transactional_id_prefix=topic,
        properties=IMPATIENT,
    )


def pipeline(to: KafkaSink, folder: Path, **settings: Any) -> LocalPipeline:
    """Return a pipeline that writes numbers in ten epochs."""
    made = LocalPipeline("faults", checkpoint_location=str(folder), parallelism=2, **settings)
    numbers = NumberSequenceSource(0, ROWS - 1, split_rows=PLAN_ROWS)
    rows = made.from_source(numbers, uid="numbers", limits=ReadLimits(rows=PLAN_ROWS))
    made.sink_to(rows, to, uid="topic")
    return made


def assert_exact(broker: KafkaBroker, topic: str) -> None:
    found = Counter(json.loads(value)["value"] for value in read_committed(broker, topic))
    assert sorted(set(range(ROWS)) - found.keys()) == [], "rows are missing"
    assert [number for number, times in found.items() if times > 1] == [], "rows came twice"
    assert open_transactions(broker, topic) == []


def wait_for_rows(count: int, running: LocalPipeline) -> None:
    """Wait until the pipeline has read `count` rows. Raise if it fails."""
    deadline = time.monotonic() + SECONDS
    while running.status().sources[0].rows < count:
        assert time.monotonic() < deadline, f"not within {SECONDS:.0f} s: {count} rows"
        running.await_termination(0.01)


def crash(broker: KafkaBroker, _: KafkaProxy, __: LocalPipeline) -> None:
    broker.kill()
    broker.start()


def hang(broker: KafkaBroker, _: KafkaProxy, running: LocalPipeline) -> None:
    broker.pause()
    try:
        assert not running.await_termination(3)
    finally:
        broker.resume()


def leave(_: KafkaBroker, proxy: KafkaProxy, running: LocalPipeline) -> None:
    proxy.refuse()
    assert not running.await_termination(2)
    proxy.restore()


@pytest.mark.parametrize("harm", [crash, hang, leave])
def test_epochs_wait_for_an_unavailable_broker(
    broker: KafkaBroker,
    proxy: KafkaProxy,
    topic: str,
    tmp_path: Path,
    harm: Callable[[KafkaBroker, KafkaProxy, LocalPipeline], None],
) -> None:
    with pipeline(sink(proxy.bootstrap_servers, topic), tmp_path) as running:
        running.start()
        wait_for_rows(ROWS // 2, running)
        harm(broker, proxy, running)
        assert running.await_termination(SECONDS)
    assert_exact(broker, topic)


@pytest.mark.parametrize(
    "point",
    [FaultPoint.BEFORE_PREPARE, FaultPoint.AFTER_PREPARE, FaultPoint.AFTER_DECISION],
)
def test_every_row_is_written_once_when_connections_break_in_a_transaction(
    broker: KafkaBroker, proxy: KafkaProxy, topic: str, tmp_path: Path, point: FaultPoint
) -> None:
    hangs, go_on = tmp_path / "hangs", tmp_path / "go-on"
    hang = Fault(point, action=FaultAction.HANG, nth=3, once=hangs, until=go_on)
    with (
        injected(hang),
        pipeline(sink(proxy.bootstrap_servers, topic), tmp_path / "checkpoint") as running,
    ):
        running.start()
        deadline = time.monotonic() + SECONDS
        while not hangs.exists():
            assert time.monotonic() < deadline, f"not within {SECONDS:.0f} s: {point}"
            running.await_termination(0.01)
        proxy.cut()
        go_on.touch()
        assert running.await_termination(SECONDS)
    assert_exact(broker, topic)


def test_a_missing_topic_is_an_error_before_the_first_epoch(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    missing = sink(broker.bootstrap_servers, f"{topic}-missing")
    with (
        pipeline(missing, tmp_path, connection_timeout="10 s") as running,
        pytest.raises(ConfigurationError, match="does not exist") as raised,
    ):
        running.run(timeout=SECONDS)
    assert raised.value.option == "topic"
    assert not list(tmp_path.rglob("plans/*"))
