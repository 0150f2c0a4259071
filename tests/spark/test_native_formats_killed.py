# SPDX-License-Identifier: Apache-2.0
"""Tests streams from one connector's format to another's, while the tests kill the drivers."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka import KafkaProducer

from connector_elasticsearch.testing import ElasticsearchServer
from connector_kafka.testing import KafkaBroker
from connectors_core.testing import (
    FaultPoint,
    crash_chain,
    new_session,
    run_driver,
    wait_for_survivors,
)

pytest.importorskip("pyspark.sql.datasource")
pytestmark = [pytest.mark.line("4.3"), pytest.mark.slow, pytest.mark.timeout(1200)]
NAME = "flights"
# The sink commits nothing after its writers, so these are all points between a plan and its end.
POINTS = (
    FaultPoint.AFTER_PLAN,
    FaultPoint.READER_FETCHED,
    FaultPoint.WRITER_WROTE,
    FaultPoint.BEFORE_PREPARE,
    FaultPoint.AFTER_PREPARE,
)
PARTS = len(POINTS) + 3  # each driver completes at most one micro-batch before its death
ROWS = PARTS * 30
PLANES = 20


@dataclass(frozen=True)
class ToElasticsearch:
    """Each document has the ID of its flight or of its plane."""

    root: str
    name: str
    source: Mapping[str, str]
    url: str
    key: str

    def __call__(self) -> None:
        rows = new_session({}).readStream.format(self.name).options(**self.source).load()
        query = (
            rows.selectExpr("n", f"n % {PLANES} AS plane")
            .writeStream.format("connector_elasticsearch")
            .options(
                **{
                    "hosts": self.url,
                    "index": NAME,
                    "document-id.columns": self.key,
                    "checkpointLocation": f"{self.root}/checkpoint",
                }
            )
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


def kill_at_each_point(job: Callable[[], None], folder: Path) -> None:
    log = folder / "driver.log"
    for fault in crash_chain(folder, POINTS):
        code = run_driver(job, log, fault)
        assert fault.fired, (fault.point, code, log.read_text()[-4000:])
        assert code == -signal.SIGKILL, (fault.point, code, log.read_text()[-4000:])
        wait_for_survivors(log)
    assert run_driver(job, log) == 0, log.read_text()[-4000:]


def rows_in(server: ElasticsearchServer) -> list[dict[str, int]]:
    return [hit["_source"] for hit in server.documents(NAME)]


def test_files_arrive_once_in_elasticsearch(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for part in range(PARTS):
        lines = [json.dumps({"n": n}) + "\n" for n in range(part, ROWS, PARTS)]
        (tmp_path / "in" / f"{part}.json").write_text("".join(lines))
    source = {
        "path": f"{tmp_path}/in",
        "schema": "n BIGINT",
        "limits.splits": "1",
    }
    with ElasticsearchServer() as server:
        job = ToElasticsearch(str(tmp_path), "connector_filesystem", source, server.url, "n")
        kill_at_each_point(job, tmp_path)
        found = Counter(row["n"] for row in rows_in(server))
    assert found == Counter(range(ROWS))


def test_records_of_kafka_replace_the_documents_of_their_keys(tmp_path: Path) -> None:
    """The partition of a plane keeps the order of its flights, so its newest one remains."""
    with KafkaBroker() as broker, ElasticsearchServer() as server:
        broker.topics.create(NAME, partitions=2)
        with closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers)) as producer:
            for n in range(ROWS):
                producer.send(NAME, json.dumps({"n": n}).encode(), partition=n % 2)
        source = {
            "properties.bootstrap.servers": broker.bootstrap_servers,
            "topic": NAME,
            "value.format": "json",
            "schema": "n BIGINT",
            "scan.startup.mode": "earliest-offset",
            "limits.rows": str(ROWS // PARTS),
        }
        job = ToElasticsearch(str(tmp_path), "connector_kafka", source, server.url, "plane")
        kill_at_each_point(job, tmp_path)
        newest = {row["plane"]: row["n"] for row in rows_in(server)}
        assert len(rows_in(server)) == PLANES
    assert newest == {plane: ROWS - PLANES + plane for plane in range(PLANES)}
