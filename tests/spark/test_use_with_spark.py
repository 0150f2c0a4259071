# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of `docs/use-with-spark.md`, in drivers that are killed and started again."""

from __future__ import annotations

import importlib.metadata
import json
import re
import signal
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from connectors_core.testing import (
    Fault,
    FaultPoint,
    new_session,
    run_driver,
    wait_for_survivors,
)
from connectors_core.testing.servers import PinnedArtifacts

PINNED = Path(__file__).parent / "pinned"
DOCUMENT = Path(__file__).parents[2] / "docs/use-with-spark.md"
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
POINTS = [FaultPoint.BEFORE_DECISION, FaultPoint.AFTER_DECISION, FaultPoint.AFTER_COMMIT]
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@dataclass(frozen=True)
class Example:
    """A section of the document, with its own folder instead of a new one."""

    heading: str
    folder: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def __call__(self) -> None:
        shared, *sections = DOCUMENT.read_text(encoding="utf-8").split("\n## ")
        (section,) = (each for each in sections if each.startswith(f"{self.heading}\n"))
        new_session(self.settings)
        variables: dict[str, Any] = {"__name__": "__main__"}
        for code in CODE.findall(shared) + CODE.findall(section):
            own = code.replace("mkdtemp()", repr(self.folder)).replace(
                ".write.json(", ".write.mode('ignore').json("
            )
            exec(compile(own, str(DOCUMENT), "exec", dont_inherit=True), variables)
        result = variables.get("per_day")
        if result is not None:
            Path(self.folder, "result.json").write_text(json.dumps([tuple(row) for row in result]))


def run(example: Example, *points: FaultPoint) -> None:
    """Run an example, in drivers that die at these points and in one that does not."""
    folder = Path(example.folder)
    log = folder / "driver.log"
    for point in points:
        fault = Fault(point, once=folder / f"fault-{point}")
        code = run_driver(example, log, fault)
        assert code == -signal.SIGKILL, (point, code, log.read_text()[-4000:])
    assert run_driver(example, log) == 0, log.read_text()[-4000:]
    wait_for_survivors(log)


def jars(name: str) -> dict[str, str]:
    files = PinnedArtifacts.read(PINNED / f"{name}.txt", folder_variable="CONNECTORS_PEER_JARS")
    return {"spark.jars": ",".join(map(str, files.paths()))}


def ids(folder: Path) -> Counter[int]:
    return Counter(pq.read_table(folder)["id"].to_pylist())


def test_a_stream_of_spark_is_written_with_a_sink(tmp_path: Path) -> None:
    run(Example("Write a stream of Spark with a sink", str(tmp_path)), FaultPoint.AFTER_DECISION)
    assert ids(tmp_path / "sundays") == Counter(range(0, 100, 7))


@pytest.mark.line("4.3")
def test_a_source_is_joined_with_a_table_of_spark(tmp_path: Path) -> None:
    run(Example("Join a source with a table of Spark", str(tmp_path)))
    assert ids(tmp_path / "named") == Counter(n for n in range(100) if n % 7 in (0, 6))


@pytest.mark.skipif(
    not importlib.metadata.version("pyspark").startswith("3.5"),
    reason="no release of Delta is for Spark 4.3",
)
@pytest.mark.timeout(900)
def test_delta_stores_each_epoch_once(tmp_path: Path) -> None:
    settings = DELTA | jars("delta-3.3.2")
    run(Example("Write to Delta", str(tmp_path), settings), *POINTS)
    table = tmp_path / "delta"
    versions = sorted((table / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for path in versions for line in path.read_text().splitlines()]
    added = [action["add"]["path"] for action in actions if "add" in action]
    found = Counter(n for name in added for n in pq.read_table(table / name)["id"].to_pylist())
    assert found == Counter(range(100))


@pytest.mark.line("4.3")
def test_a_database_stores_each_epoch_once(tmp_path: Path) -> None:
    run(Example("Write to a database", str(tmp_path), jars("sqlite-jdbc-3.53.4.0")), *POINTS)
    with closing(sqlite3.connect(tmp_path / "flights.db")) as connection:
        found = connection.execute("SELECT id FROM flights JOIN epochs USING (epoch)").fetchall()
        assert Counter(row[0] for row in found) == Counter(range(100))
        assert connection.execute("SELECT COUNT(*) FROM flights").fetchone() == (100,)


@pytest.mark.line("3.5")
def test_a_bounded_source_is_queried_directly(tmp_path: Path) -> None:
    run(Example("Query a bounded source yourself", str(tmp_path)))
    found = json.loads((tmp_path / "result.json").read_text())
    assert dict(found) == Counter(n % 7 for n in range(100))
