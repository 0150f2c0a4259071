# SPDX-License-Identifier: Apache-2.0
"""Runs the Python code of the READMEs unchanged, on both Spark lines except for one program."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from connector_kafka.testing import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(name: str) -> list[str]:
    return CODE.findall((ROOT / name).read_text(encoding="utf-8"))


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run the blocks of a document in order with our own addresses, and return their variables."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def run_document(name: str, own: Mapping[str, str] | None = None) -> dict[str, Any]:
        variables: dict[str, Any] = {"__name__": "__main__"}
        for block in blocks(name):
            for shown, used in (own or {}).items():
                block = block.replace(shown, used)
            exec(compile(block, name, "exec", dont_inherit=True), variables)
        return variables

    return run_document


@pytest.mark.line("3.5")
def test_the_readme_copies_a_topic_to_files(run, tmp_path: Path) -> None:
    rows = [
        {"flight": "UA1545", "origin": "EWR", "delay": 2},
        {"flight": "AA1141", "origin": "JFK", "delay": -4},
        {"flight": "B6725", "origin": "JFK", "delay": 9},
    ]
    with KafkaBroker() as broker:
        broker.topics.create("flights", partitions=2)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for row in rows:
            producer.produce("flights", json.dumps(row))
        assert producer.flush(30) == 0
        for _ in range(2):  # the second run finds no new rows
            run("README.md", {"localhost:9092": broker.bootstrap_servers, "/data/": f"{tmp_path}/"})
    found = pq.read_table(tmp_path / "late").sort_by("flight").to_pylist()
    assert found == [rows[2], rows[0]]


@pytest.mark.line("4.3")
def test_getting_started(run, capsys) -> None:
    run("docs/getting-started.md")
    said = [line for line in capsys.readouterr().out.splitlines() if line.isdigit()]
    assert said == ["1", "2", "2"]


@pytest.mark.line("4.3")
def test_hybrid_source(run, capsys) -> None:
    run("docs/hybrid-source.md")
    assert capsys.readouterr().out.splitlines()[-1] == "630 630"


@pytest.mark.line("3.5")
def test_event_time(run, capsys) -> None:
    run("docs/event-time.md")
    windows = "[('05:00', 2), ('05:10', 1), ('05:20', 1), ('05:30', 1)]"
    assert capsys.readouterr().out.splitlines()[-1] == windows


@pytest.mark.line("4.3")
def test_dead_letters(run, capsys) -> None:
    run("docs/dead-letters.md")
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "[1, 1, 3]"
    assert lines[-2].endswith("""b'{"id": "one"}'""")


@pytest.mark.line("3.5")
def test_lookup_joins(run, capsys) -> None:
    run("docs/lookup-joins.md")
    assert capsys.readouterr().out.splitlines()[-1] == "['Kennedy', 'Newark', None]"


@pytest.mark.line("3.5")
def test_own_source_and_sink(tmp_path: Path) -> None:
    # A separate program, because Spark's processes import the module from their start folder.
    code = blocks("connectors-core/README.md")
    definitions = [block for block in code if "Pipeline(" not in block and "Test" not in block]
    (script,) = (block for block in code if "Pipeline(" in block)
    (tmp_path / "sqlite_connector.py").write_text("\n\n".join(definitions), encoding="utf-8")
    (tmp_path / "copy_rows.py").write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "copy_rows.py"],
        cwd=tmp_path,
        env={
            **os.environ,
            "TMPDIR": str(tmp_path),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_SUBMIT_ARGS": "--conf spark.ui.enabled=false "
            "--driver-java-options -XX:TieredStopAtLevel=1 pyspark-shell",
        },
        timeout=240,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-1] == "3333"
    (out,) = tmp_path.glob("*/out")
    assert sorted(pq.read_table(out)["id"].to_pylist()) == list(range(1, 10_000, 3))
    assert not list(out.glob("_staged/*"))


def test_files(run, capsys) -> None:
    folder = run("connector-filesystem/README.md")["folder"]
    table = pq.read_table(folder / "out", partitioning="hive")
    found = {(row["flight"], row["origin"], row["delay"], row["file"]) for row in table.to_pylist()}
    assert found == {("UA1545", "EWR", 2, "1.csv"), ("B6725", "JFK", 9, "2.jsonl")}
    assert table.num_rows == 2
    (bad,) = pq.read_table(folder / "bad").to_pylist()
    assert b"soon" in bad["raw"]
    assert bad["error_code"] in capsys.readouterr().out
