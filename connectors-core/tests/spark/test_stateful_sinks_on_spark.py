# SPDX-License-Identifier: Apache-2.0
"""Tests that writers on Spark resume from the states of decided epochs, also after kills."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pipeline_support import CANNOT_IN_A_FOLDER, FolderContext, new_pipeline, query_store
from pyspark.sql import functions as F
from test_crash_matrix import log_of, run

from connectors_core.engine.coordinator.plan_log import decisions_since
from connectors_core.errors import ConfigurationError
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.testing import (
    Capabilities,
    Capability,
    SinkTestSuite,
)
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.driver import wait_for_survivors
from connectors_core.testing.faults import Fault, FaultAction, FaultPoint
from connectors_core.testing.stateful_sink import Chain, NumberingDirectorySink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 120
KILLED_AT = [
    (FaultPoint.WRITER_WROTE, FaultAction.KILL_DRIVER),
    (FaultPoint.AFTER_PREPARE, FaultAction.KILL_DRIVER),
    (FaultPoint.BEFORE_DECISION, FaultAction.KILL),
    (FaultPoint.AFTER_DECISION, FaultAction.KILL),
    (FaultPoint.AFTER_COMMIT, FaultAction.KILL),
    (FaultPoint.BEFORE_SPARK_COMMIT, FaultAction.KILL),
]


def states(root: Path) -> list[Chain]:
    """Return the states of the newest decision."""
    newest = list(decisions_since(query_store(root / "checkpoint"), 0).values())[-1]
    (sink,) = (each for each in newest.sinks.values() if each.writer_states)
    serializer = JsonDataclassSerializer(Chain)
    return [serializer.deserialize(1, each.data) for own in sink.writer_states for each in own]


@pytest.mark.parametrize("streaming", [True, None])
def test_writers_resume_from_their_states(
    spark: SparkSession, tmp_path: Path, streaming: bool | None
) -> None:
    """Each batch run is an epoch. The second run has more writers, and the third has fewer."""
    sink = NumberingDirectorySink(tmp_path / "out")
    other = DirectorySink(tmp_path / "other")
    runs = (2, 3, 1) if streaming is None else (2,)
    for number, writers in enumerate(runs, 1):
        with new_pipeline(spark, tmp_path, streaming=streaming) as pipeline:
            source = NumberSequenceSource(0, ROWS - 1, split_rows=10, batch_rows=5)
            df = pipeline.from_source(source, uid="numbers", limits=ReadLimits(rows=40))
            pipeline.sink_to(df, sink, uid="out", parallelism=writers)
            pipeline.sink_to(df.where("value % 2 = 0"), other, uid="other")
            assert pipeline.run()
        sink.assert_numbered(states(tmp_path), ROWS * number)
    assert other.read().num_rows == ROWS * len(runs) // 2


def test_a_stream_resumes_with_another_number_of_writers(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The batches of the second run have windows, some of them without rows."""
    sink = NumberingDirectorySink(tmp_path / "out")
    seen = 0
    for last, writers in ((ROWS // 2, 3), (ROWS, 2)):
        with new_pipeline(spark, tmp_path, parallelism=1) as pipeline:
            source = NumberSequenceSource(0, ROWS - 1, split_rows=10, batch_rows=5)
            df = pipeline.from_source(source, uid="numbers", limits=ReadLimits(rows=10))
            pipeline.sink_to(df.where(F.col("value") >= 20), sink, uid="out", parallelism=writers)
            pipeline.start()
            while seen < last - 20 and not pipeline.await_termination(0.05):
                seen = sink.read().num_rows
        seen = sink.read().num_rows
        sink.assert_numbered(states(tmp_path), seen)
    assert seen == ROWS - 20


def test_a_number_of_writers_that_is_not_fixed_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = NumberingDirectorySink(tmp_path / "out")
    sink.writers = None
    pipeline = new_pipeline(spark, tmp_path)
    df = pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers")
    with pytest.raises(ConfigurationError, match="parallelism=n"):
        pipeline.sink_to(df, sink, uid="out")


def kill_at(root: Path, points: list[tuple[FaultPoint, FaultAction]]) -> None:
    """Kill a driver at each point in turn, and run the last one to its end."""
    rows = 150 * (len(points) + 3)
    for number, (point, action) in enumerate(points):
        fault = Fault(point, action=action, nth=2, once=root / f"fault-{number}")
        code = run(root, "stateless-stateful", fault, rows=rows)
        assert fault.fired, f"{point} was not reached, exit code {code}\n{log_of(root)}"
        assert code == -signal.SIGKILL, f"{point}: {code}\n{log_of(root)}"
    of_worker = Fault(FaultPoint.WRITER_WROTE, once=root / "worker")
    assert run(root, "stateless-stateful", of_worker, rows=rows) == 0, log_of(root)
    assert of_worker.fired
    wait_for_survivors(root / "driver.log")
    sink = NumberingDirectorySink(root / "first")
    sink.assert_numbered(states(root), rows)
    assert sorted(sink.read()["id"].to_pylist()) == list(range(rows))
    assert sink.staged() == []


@pytest.mark.line("3.5")
@pytest.mark.timeout(600)
def test_states_survive_drivers_that_are_killed_around_the_decision(tmp_path: Path) -> None:
    kill_at(tmp_path, KILLED_AT[2:4])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_states_survive_drivers_that_are_killed_at_every_point(tmp_path: Path) -> None:
    kill_at(tmp_path, KILLED_AT)


class Numbered(FolderContext):
    def assert_states(self, states, rows):
        self.sink.assert_numbered(states, rows)


@pytest.mark.slow
class TestNumberingSinkOnSpark(SinkTestSuite):
    on_spark = True
    capabilities = Capabilities(
        can=frozenset({Capability.EXACTLY_ONCE, Capability.WRITER_STATE}),
        cannot=CANNOT_IN_A_FOLDER
        | {Capability.TOPOLOGIES: "every file is committed as it was written"},
    )

    def external_context(self, folder: Path) -> Numbered:
        return Numbered(NumberingDirectorySink(folder))
