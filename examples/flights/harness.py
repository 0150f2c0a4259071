# SPDX-License-Identifier: Apache-2.0
"""The tools of every run: ready servers, a driver, and the output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from connector_elasticsearch.testing import ElasticsearchServer
from connector_kafka.testing import KafkaBroker
from connector_kafka.testing.tools import console_consumer
from examples.flights import search, totals
from examples.flights.data import (
    ENRICHED_TOPIC,
    FLIGHTS_INDEX,
    FLIGHTS_TOPIC,
    TOTALS_INDEX,
    Places,
)
from examples.flights.jobs import JOBS, Job, JobName

_HOUSE = Path(__file__).parents[2]
_PARTITIONS = 3
_JOB = JOBS[JobName.FLIGHTS]


def prepare_servers(places: Places, broker: KafkaBroker, server: ElasticsearchServer) -> None:
    """Create the topics, the indices, and the database."""
    search.prepare_indices(server, places)
    # Otherwise the broker would immediately delete the flights of 2013, because of their
    # timestamps.
    broker.topics.create(FLIGHTS_TOPIC, partitions=_PARTITIONS, config={"retention.ms": "-1"})
    broker.topics.create(ENRICHED_TOPIC, partitions=_PARTITIONS)
    totals.create_database(places.database)


def start_driver(
    places: Places, broker: KafkaBroker, server: ElasticsearchServer, log: Path, job: Job = _JOB
) -> subprocess.Popen[bytes]:
    """A driver of the job, in its own process group with its JVM."""
    with log.open("wb") as out:
        return subprocess.Popen(
            [
                *(sys.executable, "-m", job.driver),
                *(str(places.root), broker.bootstrap_servers, server.url),
            ],
            cwd=_HOUSE,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def fetch_outputs(
    places: Places, broker: KafkaBroker, server: ElasticsearchServer, job: Job = _JOB
) -> None:
    """Copy the contents of the topic, the indices, and the database to files."""
    places.enriched.write_bytes(
        b"".join(
            (record.value or b"") + b"\n"
            for record in console_consumer(broker.bootstrap_servers, ENRICHED_TOPIC)
        )
    )
    _copy_index(server, FLIGHTS_INDEX, places.indexed)
    if job.totals_are_indexed:
        _copy_index(server, TOTALS_INDEX, places.totals)
    else:
        totals.export_totals(places.database, places.totals)


def _copy_index(server: ElasticsearchServer, index: str, file: Path) -> None:
    with file.open("w") as lines:
        lines.writelines(f"{json.dumps(each)}\n" for each in search.documents(server, index))
