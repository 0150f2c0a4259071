# SPDX-License-Identifier: Apache-2.0
"""Tests stopping a pipeline from another thread and with SIGTERM."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pipeline_support import (
    LogSource,
    counts,
    new_pipeline,
    once,
    travel_with_closures,
    wait_until,
)

from connectors_core.engine.query.status import PipelineState
from connectors_core.engine.state import Lease, StateStore
from connectors_core.errors import ConnectorError
from connectors_core.testing.directory_sink import DirectorySink, StagedFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from connectors_core import Pipeline
    from connectors_core.sink import Committer, CommitterInitContext

travel_with_closures(__name__)


def test_a_stopped_batch_run_writes_no_rows_and_the_next_run_writes_all(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = LogSource(tmp_path / "log")
    log.write("a", range(30))
    gate = log.folder / "gate"
    gate.touch()
    sink = DirectorySink(tmp_path / "out")

    def build() -> Pipeline:
        pipeline = new_pipeline(spark, tmp_path, streaming=False)
        pipeline.sink_to(pipeline.from_source(log, uid="log"), sink, uid="out")
        return pipeline

    with build() as pipeline:
        answers: list[bool] = []
        running = threading.Thread(target=lambda: answers.append(pipeline.run()))
        running.start()
        wait_until(lambda: log.reads > 0, "a reader waits")
        pipeline.stop()
        running.join(60)
        assert answers == [False]
        assert pipeline.status().state is PipelineState.STOPPED
    gate.unlink()
    assert not counts(sink)
    with build() as pipeline:
        assert pipeline.run()
    assert counts(sink) == once(range(30))


def test_a_micro_batch_that_does_not_end_is_canceled_and_runs_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = LogSource(tmp_path / "log", live=True)
    log.write("a", range(30))
    gate = log.folder / "gate"
    gate.touch()
    sink = DirectorySink(tmp_path / "out")

    def build() -> Pipeline:
        pipeline = new_pipeline(spark, tmp_path)
        pipeline.sink_to(pipeline.from_source(log, uid="log"), sink, uid="out")
        return pipeline

    with build() as pipeline:
        pipeline.start()
        wait_until(lambda: log.reads > 0, "a reader waits")
        pipeline.stop(timeout=0.1)
        assert pipeline.status().state is PipelineState.STOPPED
    assert not counts(sink)
    gate.unlink()
    with build() as pipeline:
        pipeline.start()
        wait_until(lambda: len(counts(sink)) == 30, "all rows are written")
    assert counts(sink) == once(range(30))


class CountedSink(DirectorySink):
    """A sink that counts its open committers, of which some cannot recover."""

    is_broken = False

    def create_committer(self, context: CommitterInitContext) -> Committer[StagedFile]:
        committer = super().create_committer(context)
        close, self.open = committer.close, 1

        def counted() -> None:
            self.open -= 1
            close()

        def fail(_last_decided: int) -> None:
            raise OSError("the target is away")

        committer.close = counted  # type: ignore[method-assign]
        if self.is_broken:
            committer.recover = fail  # type: ignore[method-assign]
        return committer


def test_a_start_that_fails_stops_the_started_queries_and_closes_all_committers(
    spark: SparkSession, tmp_path: Path
) -> None:
    sinks = [CountedSink(tmp_path / f"out-{number}") for number in range(3)]
    sinks[1].is_broken = True
    with new_pipeline(spark, tmp_path) as pipeline:
        for number, sink in enumerate(sinks):
            log = LogSource(tmp_path / f"log-{number}", live=True)
            pipeline.sink_to(
                pipeline.from_source(log, uid=f"log-{number}"), sink, uid=f"out-{number}"
            )
        with pytest.raises(ConnectorError, match="the target is away"):
            pipeline.start()
        assert [sink.open for sink in sinks] == [0, 0, 0]
        assert not spark.streams.active


def end_by_sigterm(
    process: subprocess.Popen[str], is_at_work: Callable[[], bool], what: str
) -> None:
    """Send SIGTERM to a program whose pipeline is running, and check that the pipeline stops."""
    try:
        wait_until(
            lambda: is_at_work() or process.poll() is not None,
            f"{what}, of a Spark of its own",
            seconds=180,
        )
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        shown, _ = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 128 + signal.SIGTERM
    assert "finally stopped" in shown


_PROGRAM = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from connectors_core import NumberSequenceSource, Pipeline, ReadLimits
from connectors_core.testing.directory_sink import DirectorySink

root = Path(sys.argv[1])
spark = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
where = str(root / "checkpoint")
with Pipeline(spark, "p", checkpoint_location=where, streaming={streaming}) as pipeline:
    df = pipeline.from_source(NumberSequenceSource({numbers}), uid="numbers", {reading})
    pipeline.sink_to(df, DirectorySink(root / "out"), uid="out")
    try:
        pipeline.run()
    finally:
        print("finally", pipeline.status().state, flush=True)
"""


def program(
    folder: Path, numbers: str, *, streaming: bool = False, reading: str = ""
) -> subprocess.Popen[str]:
    """Start a driver that copies numbers."""
    text = _PROGRAM.format(numbers=numbers, streaming=streaming, reading=reading)
    command = [sys.executable, "-c", text, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.line("4.3")
def test_sigterm_stops_a_pipeline_after_its_micro_batch_and_ends_the_process(
    tmp_path: Path,
) -> None:
    sink = DirectorySink(tmp_path / "out")
    process = program(tmp_path, "0, 99_999", streaming=True, reading="limits=ReadLimits(rows=50)")
    end_by_sigterm(process, lambda: bool(counts(sink, "value")), "the first rows")
    rows = counts(sink, "value")
    assert set(rows.values()) == {1}
    assert len(rows) % 50 == 0
    assert not sink.staged()
    Lease.acquire(StateStore(str(tmp_path / "checkpoint"))).release()  # no one holds the lease


@pytest.mark.line("4.3")
def test_sigterm_stops_a_batch_run_without_writes_and_the_next_run_writes_all_rows(
    tmp_path: Path,
) -> None:
    sink = DirectorySink(tmp_path / "out")
    process = program(tmp_path, "0, 10**10, split_rows=10**10 + 1")
    end_by_sigterm(
        process,
        lambda: any(path.stat().st_size > 10**6 for path in sink.staged()),
        "a writer at work",
    )
    assert not counts(sink, "value")
    assert not sink.staged()
    Lease.acquire(StateStore(str(tmp_path / "checkpoint"))).release()  # no one holds the lease
    process = program(tmp_path, "0, 99, split_rows=100")
    shown, _ = process.communicate(timeout=180)
    assert (process.returncode, "finally finished" in shown) == (0, True)
    assert counts(sink, "value") == once(range(100))
