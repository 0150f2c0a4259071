# SPDX-License-Identifier: Apache-2.0
"""Tests the example of changes: an index and files equal the database's table, through kills."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from examples.changes.pipeline import FlightCopies
from examples.changes.recorder import ChangeRecorder
from kafka import KafkaProducer

from connector_elasticsearch.testing import ElasticsearchServer
from connector_kafka.testing import KafkaBroker
from connectors_core.testing import Fault, FaultPoint, new_session, run_driver, wait_for_survivors

pytestmark = [pytest.mark.timeout(900), pytest.mark.line("3.5")]  # a full run tests both lines
TOPIC, INDEX = "flights", "late-flights"
POINTS = (
    FaultPoint.WRITER_WROTE,
    FaultPoint.BEFORE_DECISION,
    FaultPoint.AFTER_DECISION,
    FaultPoint.AFTER_COMMIT,
)
KEYS = 40
CARRIERS = ("AA", "B6", "UA")
CHANGES = 400


@dataclass(frozen=True)
class Job:
    """Runs the pipeline in a driver of its own."""

    flights: FlightCopies

    def __call__(self) -> None:
        self.flights.run(new_session({}))


def change(connection: sqlite3.Connection, rng: random.Random) -> None:
    """Change a random flight in a transaction."""
    flight, delay, carrier = rng.randrange(KEYS), rng.randrange(0, 40), rng.choice(CARRIERS)
    exists = connection.execute("SELECT 1 FROM flights WHERE id = ?", [flight]).fetchone()
    with connection:
        if exists is None:
            connection.execute("INSERT INTO flights VALUES (?, ?, ?)", [flight, carrier, delay])
        elif rng.random() < 0.3:
            connection.execute("DELETE FROM flights WHERE id = ?", [flight])
        elif rng.random() < 0.2:
            connection.execute("UPDATE flights SET carrier = ? WHERE id = ?", [carrier, flight])
        else:
            connection.execute("UPDATE flights SET delay = ? WHERE id = ?", [delay, flight])


def test_an_index_and_files_equal_the_table_through_kills(tmp_path: Path) -> None:
    rng = random.Random(1)
    database = tmp_path / "flights.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE flights (id INTEGER PRIMARY KEY, carrier TEXT, delay INT)")
    recorder = ChangeRecorder(database, "flights", "id")
    recorder.install()
    log = tmp_path / "driver.log"
    sent = 0
    with KafkaBroker() as broker, ElasticsearchServer() as server:
        broker.topics.create(TOPIC, partitions=2)
        job = Job(
            FlightCopies(
                servers=broker.bootstrap_servers,
                topic=TOPIC,
                url=server.url,
                index=INDEX,
                files=str(tmp_path / "files"),
                checkpoint=str(tmp_path / "checkpoint"),
                plan_rows=60,
            )
        )
        for point in (*POINTS, None):
            with closing(sqlite3.connect(database)) as connection:
                for _ in range(CHANGES // (len(POINTS) + 1)):
                    change(connection, rng)
            producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
            for each in recorder.changes(after=sent):
                producer.send(TOPIC, each.value, key=each.key)
                if json.loads(each.value)["op"] == "d":
                    producer.send(TOPIC, None, key=each.key)  # a tombstone, as Debezium sends it
                sent = each.number
            producer.close()
            faults = [] if point is None else [Fault(point, once=tmp_path / f"fault-{point}")]
            code = run_driver(job, log, *faults)
            expected = 0 if point is None or point == FaultPoint.WRITER_WROTE else -signal.SIGKILL
            assert code == expected, f"{point}: {code}\n{log.read_text()[-4000:]}"
            assert all(fault.fired for fault in faults)
        wait_for_survivors(log)
        assert documents(server) == late_flights(database)
    assert rows_of_files(tmp_path / "files") == rows_of(database)


def documents(server: ElasticsearchServer) -> dict[str, Any]:
    server.request("POST", f"/{INDEX}/_refresh")
    found = server.request("GET", f"/{INDEX}/_search?size={KEYS + 1}")
    return {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}


def rows_of_files(folder: Path) -> list[tuple[Any, ...]]:
    """Return the rows as a reader without any knowledge of the sink sees them."""
    files = f"{folder}/**/*.parquet"
    query = "SELECT id, carrier, delay FROM read_parquet(?, hive_partitioning = true) ORDER BY id"
    with closing(duckdb.connect()) as connection:
        return connection.execute(query, [files]).fetchall()


def rows_of(database: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT id, carrier, delay FROM flights ORDER BY id").fetchall()


def late_flights(database: Path) -> dict[str, Any]:
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT id, carrier, delay FROM flights WHERE delay > 15")
        return {str(row[0]): {"id": row[0], "carrier": row[1], "delay": row[2]} for row in rows}
