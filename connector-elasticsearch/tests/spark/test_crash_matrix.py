# SPDX-License-Identifier: Apache-2.0
"""Tests the content of indices after the test kills drivers at each critical point."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from connector_elasticsearch import ElasticsearchSink
from connector_elasticsearch.testing import ElasticsearchServer
from connectors_core.source import DataGeneratorSource, ReadLimits
from connectors_core.testing import (
    WRITING_POINTS,
    DriverJob,
    crash_chain,
    run_driver,
    wait_for_survivors,
)

pytestmark = pytest.mark.slow
ROWS = 240
PLANS = len(WRITING_POINTS) + 2
PLANES = 20
SCHEMA = pa.schema([("n", pa.int64()), ("plane", pa.int64()), ("version", pa.int64())])


def flights(numbers: pa.Array) -> pa.RecordBatch:
    """Return rows with a plane and a version. The newest version of each plane comes first."""
    planes = pc.subtract(numbers, pc.multiply(pc.divide(numbers, PLANES), PLANES))
    versions = pc.subtract(pa.scalar(ROWS), numbers)
    return pa.RecordBatch.from_arrays([numbers, planes, versions], schema=SCHEMA)


def test_killed_drivers_lose_no_rows_and_with_ids_write_no_duplicates_or_stale_versions(
    server: ElasticsearchServer, index: str, tmp_path: Path
) -> None:
    """Kill real Spark drivers of a pipeline with three sinks."""
    mapping = {"properties": {name: {"type": "long"} for name in SCHEMA.names}}
    for name in ("automatic", "ids", "versions"):
        server.request("PUT", f"/{index}-{name}", {"mappings": mapping})
    job = DriverJob(
        location=str(tmp_path / "checkpoint"),
        source=DataGeneratorSource(flights, ROWS, SCHEMA, split_rows=ROWS // 8, batch_rows=7),
        sinks={
            "automatic": ElasticsearchSink(server.url, f"{index}-automatic"),
            "ids": ElasticsearchSink(server.url, f"{index}-ids", id_columns=["n"]),
            "versions": ElasticsearchSink(
                server.url,
                f"{index}-versions",
                id_columns=["plane"],
                version_column="version",
            ),
        },
        settings={"limits": ReadLimits(rows=ROWS // PLANS)},
        spark={},
    )
    log = tmp_path / "driver.log"
    for fault in crash_chain(tmp_path, WRITING_POINTS):
        assert run_driver(job, log, fault) == -signal.SIGKILL, (
            fault.point,
            log.read_text()[-4000:],
        )
        assert fault.fired
    assert run_driver(job, log) == 0, log.read_text()[-4000:]
    wait_for_survivors(log)

    def found(name: str) -> list[dict[str, int]]:
        return [hit["_source"] for hit in server.documents(f"{index}-{name}")]

    written = Counter(row["n"] for row in found("automatic"))
    assert written.keys() == set(range(ROWS))
    assert written.total() > ROWS, "no kill let a row be written again"
    assert Counter(row["n"] for row in found("ids")) == Counter(range(ROWS))
    newest = {row["plane"]: row["version"] for row in found("versions")}
    assert newest == {plane: ROWS - plane for plane in range(PLANES)}
    assert len(found("versions")) == PLANES
