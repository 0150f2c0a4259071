# SPDX-License-Identifier: Apache-2.0
"""Tests `connectors sql` on Spark: as a program, and its engine in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connectors_core import ConfigurationError, ConnectorError, TableEnvironment
from connectors_core.spark.tables.shell_engine import ShellEngine
from connectors_core.table import SqlError

FILES = "'connector' = 'filesystem', 'path' = '{folder}/{name}', 'format' = '{kind}'"


def files(folder: Path, name: str, kind: str) -> str:
    return f"WITH ({FILES.format(folder=folder, name=name, kind=kind)})"


def put_flights(folder: Path) -> None:
    (folder / "flights").mkdir()
    (folder / "flights" / "1.csv").write_text("id,delay\n1,30\n2,90\n3,150\n")


def test_a_script_runs_as_a_program_up_to_its_first_error(tmp_path: Path) -> None:
    put_flights(tmp_path)
    script = tmp_path / "late.sql"
    script.write_text(
        f"""
CREATE TABLE flights (id BIGINT, delay BIGINT) {files(tmp_path, "flights", "csv")};
CREATE TABLE late (id BIGINT, at TIMESTAMP) {files(tmp_path, "late", "parquet")};

INSERT INTO late
SELECT id, TIMESTAMP '2026-01-31 12:00:00' FROM flights WHERE delay > 60;
SELECT id, at, array(1, 2) AS `list`, cast(null AS STRING) AS id FROM late ORDER BY 1;
SHOW JOBS;
SELECT id,
  dely FROM late;
SELECT 'not reached';
"""
    )
    options = ["--format", "json", "--checkpoint-location", str(tmp_path / "checkpoints")]
    for conf in ("master=local[2]", "ui.enabled=false", "sql.session.timeZone=UTC"):
        options += ["--spark-conf", f"spark.{conf}"]
    program = "from connectors_core.cli import app; app()"
    done = subprocess.run(
        [sys.executable, "-c", program, "sql", "-f", str(script), *options],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    *rows, job = done.stdout.splitlines()
    moment = "2026-01-31T12:00:00.000Z"
    assert rows == [
        f'{{"id":{number},"at":"{moment}","list":[1,2],"id":null}}' for number in (2, 3)
    ], done.stderr
    shown = json.loads(job)
    assert (shown["status"], shown["rows read"], shown["rows written"]) == ("finished", 3, 2)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "stacktrace" not in done.stderr
    error, *_, line, caret = done.stderr[done.stderr.index("error: ") :].splitlines()
    assert error.startswith(f"error: {script}:10:3: [SQL] Spark rejects the statement: [UNRES")
    assert (line, caret) == ("10 |   dely FROM late;", "       ^")


@pytest.fixture
def engine(spark: SparkSession, tmp_path: Path) -> Iterator[ShellEngine]:
    put_flights(tmp_path)
    tables = TableEnvironment(spark, checkpoint_location=tmp_path / "checkpoints")
    found = ShellEngine(spark, tables, owns_session=False)
    flights = files(tmp_path, "flights", "csv")
    arriving = flights.replace(")", ", 'source.monitor-interval' = '50 ms')")
    found.execute(f"CREATE TABLE flights (id BIGINT, delay BIGINT) {flights}")
    found.execute(f"CREATE TABLE arriving (id BIGINT, delay BIGINT) {arriving}")
    found.execute(f"CREATE TABLE ids (id BIGINT) {files(tmp_path, 'ids', 'parquet')}")
    yield found
    found.close()
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # of this thread


def test_a_job_is_shown_described_and_stopped(engine: ShellEngine) -> None:
    engine.execute("SET 'pipeline.name' = 'copy'")
    assert engine.execute("INSERT INTO ids SELECT id FROM arriving").job == "copy"
    while sum(each.rows for each in engine.jobs()["copy"].sinks) < 3:
        assert engine.jobs()["copy"].error is None
    with pytest.raises(ConfigurationError, match="the job 'copy' is running"):
        engine.execute("INSERT INTO ids SELECT id + 1 FROM arriving")
    [(name, _, state, *_, read, written, statement)] = engine.execute("SHOW JOBS").rows()
    assert (name, state, read, written) == ("copy", "running", "3", "3")
    assert statement == "INSERT INTO ids SELECT id FROM arriving"
    facts = dict(engine.execute("DESCRIBE JOB 'copy'").rows())
    assert facts["source default.arriving"].startswith("3 rows")
    engine.execute("STOP JOB 'copy'")
    assert engine.jobs()["copy"].state.value == "stopped"
    engine.execute("INSERT INTO ids SELECT id FROM arriving")
    assert engine.jobs()["copy"].state.value == "running"


@pytest.mark.line("4.3")
def test_rows_are_text_in_the_session_of_spark(engine: ShellEngine) -> None:
    found = engine.execute("SELECT 1 AS n, 'a' AS t, X'0A' AS b, NULL AS n, map('k', 1.5) AS m")
    assert list(found.columns) == ["n", "t", "b", "n", "m"]
    assert found.numbers == {0}
    assert list(found.rows(5)) == [("1", "a", "0A", None, "{k -> 1.5}")]
    assert list(found.json_rows()) == ['{"n":1,"t":"a","b":"Cg==","n":null,"m":{"k":1.5}}']
    assert len(list(engine.execute("SELECT * FROM range(100)").rows(7))) == 7
    assert list(engine.execute("SHOW CURRENT DATABASE").rows()) == [("default",)]
    assert next(engine.execute("DESCRIBE arriving").rows())[:2] == ("id", "bigint")
    assert not engine.execute("CREATE DATABASE d").columns


@pytest.mark.line("4.3")
def test_a_running_query_can_be_canceled(engine: ShellEngine, spark: SparkSession) -> None:
    waiting = threading.Event()

    def cancel() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not tracker.getActiveJobsIds():
            waiting.wait(0.02)
        engine.cancel()

    rows = engine.execute("SELECT count(*) FROM range(1000000000000) WHERE hash(id) = id").rows()
    threading.Thread(target=cancel).start()
    with pytest.raises(ConnectorError, match="cancel"):
        list(rows)


@pytest.mark.line("4.3")
@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("SELECT f.id, nope FROM flights AS f", (1, 14)),
        ("SELECT id, nope\nFROM range(3)", (1, 12)),
        ("SELEC 1", (1, 1)),
        ("INSERT INTO ids\nSELECT a.id, nope FROM arriving a", (2, 14)),
    ],
)
def test_errors_of_spark_have_their_place(
    engine: ShellEngine, statement: str, place: tuple[int, int]
) -> None:
    with pytest.raises(SqlError) as caught:
        engine.execute(statement)
    assert (caught.value.line, caught.value.column) == place
