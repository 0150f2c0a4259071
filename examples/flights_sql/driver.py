# SPDX-License-Identifier: Apache-2.0
"""The driver of the SQL job: gives the scripts their addresses, and runs them to the end."""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from connectors_core import TableEnvironment
from examples.flights.data import Places
from examples.flights.lineage import LineageFile
from examples.flights.pipeline import Servers, note, session

TABLES: Final = Path(__file__).with_name("tables.sql").read_text(encoding="utf-8")
PIPELINE: Final = Path(__file__).with_name("pipeline.sql").read_text(encoding="utf-8")
# The last run reads the rest of the topic, and then emits every flight that waits for its weather.
TO_THE_END: Final = "SET 'execution.available-now' = 'true'; SET 'execution.drain' = 'true'"


def run(spark: SparkSession, places: Places, servers: Servers) -> None:
    """Run while flights are sent, and then to the end of the sent flights."""
    os.environ |= addresses(places, servers)
    if not places.all_sent.exists():
        with environment(spark, places) as tables:
            *_, job = tables.execute_script(PIPELINE)
            while not (places.all_sent.exists() or job.await_termination(timeout=0.5)):
                note(job.status(), places)
    with environment(spark, places) as tables:
        tables.execute_script(TO_THE_END)
        *_, job = tables.execute_script(PIPELINE)
        note(job.status(), places)


def environment(spark: SparkSession, places: Places) -> TableEnvironment:
    """Create the environment with the tables of the job."""
    tables = TableEnvironment(
        spark,
        checkpoint_location=places.checkpoint,
        listeners=[LineageFile(places.lineage)],
    )
    tables.execute_script(TABLES)
    return tables


def addresses(places: Places, servers: Servers) -> dict[str, str]:
    """Return the environment variables that the tables name."""
    with places.live.open() as live:
        first = datetime.fromisoformat(json.loads(live.readline())["time_hour"])
    return {
        "FLIGHTS_FOLDER": str(places.root),
        "FLIGHTS_KAFKA": servers.kafka,
        "FLIGHTS_ELASTICSEARCH": servers.elasticsearch,
        "FLIGHTS_AFTER_FILES": str(int(first.timestamp() * 1000)),
    }


if __name__ == "__main__":
    run(session(), Places(Path(sys.argv[1])), Servers(sys.argv[2], sys.argv[3]))
