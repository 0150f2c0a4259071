# SPDX-License-Identifier: Apache-2.0
"""Tests backups of the state of pipelines on Spark, and rollbacks."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from number_jobs import numbers_job
from pipeline_support import counts, once, wait_until
from pyspark.sql import functions as F
from typer.testing import CliRunner

from connectors_core import Pipeline
from connectors_core.cli import app
from connectors_core.engine.coordinator.plan_log import decisions_since, newest_decision
from connectors_core.engine.protocol import decision_path
from connectors_core.engine.recovery import backup
from connectors_core.engine.state import StateStore
from connectors_core.errors import ConnectorError, StateCorruptedError
from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.driver import run_driver, wait_for_survivors
from connectors_core.testing.faults import Fault, FaultAction, FaultPoint, injected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 3000
DISTINCT = 700
PLAIN, STATEFUL = False, True


def done(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["state", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def build(
    spark: SparkSession,
    state: Path,
    sink: DirectorySink,
    *,
    stateful: bool,
    limit: int = 50,
    where: str | None = None,
) -> Pipeline:
    pipeline = Pipeline(
        spark, "copied", checkpoint_location=str(state), streaming=True, parallelism=2
    )
    numbers = pipeline.from_source(
        NumberSequenceSource(0, ROWS - 1, split_rows=500),
        uid="numbers",
        limits=ReadLimits(rows=limit),
    )
    if stateful:
        numbers = numbers.select((F.col("value") % DISTINCT).alias("value"))
        numbers = numbers.dropDuplicates(["value"])
    pipeline.sink_to(numbers if where is None else numbers.where(where), sink, uid="out")
    return pipeline


def values(sink: DirectorySink, epochs: range) -> Counter[Any]:
    tables = [sink.read(epoch) for epoch in epochs]
    return Counter(
        value for rows in tables if rows.num_columns for value in rows["value"].to_pylist()
    )


@pytest.mark.parametrize(
    "stateful", [PLAIN, pytest.param(STATEFUL, marks=pytest.mark.slow)], ids=["plain", "stateful"]
)
def test_a_pipeline_resumes_from_a_backup_that_was_taken_during_its_run(
    spark: SparkSession, tmp_path: Path, stateful: bool
) -> None:
    before, after = DirectorySink(tmp_path / "before"), DirectorySink(tmp_path / "after")
    state, restored = tmp_path / "state", tmp_path / "restored"
    with build(spark, state, before, stateful=stateful) as first:
        first.start()
        wait_until(lambda: counts(before, "value").total() >= 150, "some epochs", first)
        assert "which runs" in done("backup", state, tmp_path / "copy.zip")
        copied = counts(before, "value").total()
        wait_until(lambda: counts(before, "value").total() > copied, "another epoch", first)
    cut = backup.verify_copy(str(tmp_path / "copy.zip"), {}).cuts[0]
    done("restore", tmp_path / "copy.zip", restored)
    assert build(spark, restored, after, stateful=stateful, limit=1000).run()
    kept = values(before, range(cut.epoch + 1))
    assert kept.total() >= 100
    assert kept + counts(after, "value") == Counter(range(DISTINCT if stateful else ROWS))
    if stateful:
        result = CliRunner().invoke(app, ["state", "rewind", str(restored), "--to-start", "--yes"])
        assert (result.exit_code, "Spark state" in result.output) == (2, True)
        return
    # Rewind to the time of the backup. All later rows are read and written again.
    first_restored = counts(after, "value")
    epochs = decisions_since(StateStore(str(restored)).child("query-0"), 0)
    done("rewind", restored, max(epoch for epoch in epochs if epoch <= cut.epoch), "--yes")
    assert build(spark, restored, after, stateful=False, limit=1000).run()
    assert counts(after, "value") == first_restored + first_restored


@pytest.mark.slow
def test_a_killed_driver_is_replaced_by_one_that_starts_from_a_backup(
    spark: SparkSession, tmp_path: Path
) -> None:
    job, sink = numbers_job(tmp_path, "state", spark={"spark.master": "local[2]"})
    log = tmp_path / "driver.log"
    fault = Fault(FaultPoint.AFTER_DECISION, nth=3, once=tmp_path / "fired")
    assert run_driver(job, log, fault) == -9, log.read_text()
    wait_for_survivors(log)
    done("backup", tmp_path / "state", tmp_path / "copy")
    done("restore", tmp_path / "copy", tmp_path / "restored")
    again = replace(job, location=str(tmp_path / "restored"))
    assert run_driver(again, log) == 0, log.read_text()
    assert counts(sink, "value") == Counter(range(200))


@pytest.mark.parametrize(
    "stateful", [PLAIN, pytest.param(STATEFUL, marks=pytest.mark.slow)], ids=["plain", "stateful"]
)
def test_a_missing_decision_without_written_rows_is_detected(
    spark: SparkSession, tmp_path: Path, stateful: bool
) -> None:
    state, sink = tmp_path / "state", DirectorySink(tmp_path / "out")

    def run() -> None:
        pipeline = build(spark, state, sink, stateful=stateful, limit=1000, where="value < 0")
        assert pipeline.run()

    run()
    store = StateStore(str(state)).child("query-0")
    newest = newest_decision(store)
    assert newest >= 2
    store.delete(decision_path(newest))
    with pytest.raises(StateCorruptedError, match=f"decision {newest} is missing"):
        run()
    done("give-up", state, newest, "--yes")
    run()


def test_an_interrupted_batch_run_is_finished_from_a_backup_or_given_up(
    spark: SparkSession, tmp_path: Path
) -> None:
    state, sink = tmp_path / "state", DirectorySink(tmp_path / "out")

    def run(location: str = "state") -> bool:
        pipeline = Pipeline(spark, "batch", checkpoint_location=str(tmp_path / location))
        numbers = pipeline.from_source(NumberSequenceSource(0, 99), uid="numbers")
        pipeline.sink_to(numbers, sink, uid="out")
        return pipeline.run()

    def cut_off() -> None:
        with (
            injected(Fault(FaultPoint.AFTER_DECISION, action=FaultAction.RAISE)),
            pytest.raises(ConnectorError),
        ):
            run()

    cut_off()
    assert "is not running" in done("backup", state, tmp_path / "copy.zip")
    done("restore", tmp_path / "copy.zip", tmp_path / "restored")
    assert not run("restored"), "the run that was decided is finished"
    assert counts(sink, "value") == once(range(100))
    assert not run(), "the original finds it committed"
    assert run("restored"), "a run of its own"
    assert counts(sink, "value") == Counter(list(range(100)) * 2)

    cut_off()
    shutil.rmtree(sink.path / "_staging")
    with pytest.raises(ConnectorError, match="state give-up"):
        run()
    epoch = newest_decision(StateStore(str(state)).child("query-0"))
    again = CliRunner().invoke(app, ["state", "give-up", str(state), str(epoch), "--read-again"])
    assert (again.exit_code, "next run" in again.output) == (2, True)
    assert "100 rows of out are LOST" in done("give-up", state, epoch, "--yes")
    assert counts(sink, "value") == Counter(list(range(100)) * 2)
    assert run()
    assert counts(sink, "value") == Counter(list(range(100)) * 3)

    store = StateStore(str(state)).child("query-0")
    epoch = newest_decision(store)
    for gone in (epoch - 1, epoch):  # also the fence, or the epoch number stays fenced
        store.delete(decision_path(gone))
    store.delete_tree(f"done/{epoch:010d}")
    with pytest.raises(StateCorruptedError, match=f"decision {epoch} is missing"):
        run()
    done("give-up", state, epoch, "--yes")
    assert run()
    assert newest_decision(store) > epoch, "a sink may take an epoch that it knows for done"
    assert counts(sink, "value") == Counter(list(range(100)) * 4)
