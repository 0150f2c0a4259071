# SPDX-License-Identifier: Apache-2.0
"""Tests queries that read a part of a range: on a real broker, with crashes and other queries."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaProducer

from connector_kafka import KafkaSource
from connector_kafka.testing import KafkaBroker
from connectors_core import ConnectorError, Pipeline
from connectors_core.testing import DirectorySink, Fault, FaultAction, injected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.line("4.3")

START = datetime(2026, 1, 1, tzinfo=UTC)
# Seconds after the start, out of order.
SECONDS = [10, 20, 5, 30, 15, 40, 35, 50, 45]
ABORTED = 4


def write(broker: KafkaBroker, topic: str, *, transactions: bool) -> None:
    """Write one record in each batch. The marker of a transaction takes an offset, too."""
    producer = KafkaProducer(
        bootstrap_servers=broker.internal_servers,
        transactional_id=f"id-{topic}" if transactions else None,
    )
    with closing(producer):
        if transactions:
            producer.init_transactions()
        for at, second in enumerate(SECONDS):
            moment = START + timedelta(seconds=second)
            if transactions:
                producer.begin_transaction()
            producer.send(
                topic,
                str(at).encode(),
                partition=0,
                timestamp_ms=int(moment.timestamp() * 1000),
            ).get(30)
            if transactions and at == ABORTED:
                producer.abort_transaction()
            elif transactions:
                producer.commit_transaction()


def read(
    spark: SparkSession, source: KafkaSource, condition: str, folder: Path, *, fails: bool = False
) -> tuple[list[str], int]:
    """Return the values that a query writes, and the number of rows that it read."""
    sink = DirectorySink(folder / "out")
    with Pipeline(spark, "seeks", checkpoint_location=str(folder / "checkpoint")) as pipeline:
        rows = pipeline.from_source(source, uid="topic").where(condition)
        pipeline.sink_to(rows.selectExpr("CAST(value AS STRING)"), sink, uid="out")
        if fails:
            fault = Fault("before_decision", action=FaultAction.RAISE)
            with injected(fault), pytest.raises(ConnectorError):
                pipeline.run()
            return [], 0
        assert pipeline.run()
        (status,) = pipeline.status().sources
        return sorted(sink.read()["value"].to_pylist()), status.rows


@pytest.mark.parametrize("transactions", [False, True])
def test_a_read_seeks_and_a_restart_with_another_query_gets_its_own_rows(
    spark: SparkSession, broker: KafkaBroker, topic: str, tmp_path: Path, transactions: bool
) -> None:
    write(broker, topic, transactions=transactions)
    source = KafkaSource.from_options(
        {
            "properties.bootstrap.servers": broker.bootstrap_servers,
            "topic": topic,
            "properties.isolation.level": "read_committed",
            "scan.bounded.mode": "latest-offset",
        }
    )
    step = 2 if transactions else 1
    wanted = {str(at) for at in range(len(SECONDS)) if not (transactions and at == ABORTED)}
    late = f"timestamp >= '{(START + timedelta(seconds=40)).isoformat()}'"
    some = f"offset >= {3 * step} AND offset < {5 * step}"
    expected = {
        late: {str(at) for at, second in enumerate(SECONDS) if second >= 40},
        some: {"3", "4"} & wanted,
        "true": wanted,
    }
    counts = {}
    for condition, rows in expected.items():
        found, counts[condition] = read(spark, source, condition, tmp_path / str(len(condition)))
        assert found == sorted(rows)
    assert counts["true"] == len(wanted)
    assert counts[some] == len(expected[some])
    if not transactions:  # the markers, which the test writes now, are late too
        assert counts[late] == len(SECONDS) - SECONDS.index(40)
    for first, second in ((late, "true"), ("true", late)):
        folder = tmp_path / f"restarted-{len(first)}"
        read(spark, source, first, folder, fails=True)
        assert read(spark, source, second, folder)[0] == sorted(expected[second])
