# SPDX-License-Identifier: Apache-2.0
"""Tests the commits of a sink that Spark writes without a pipeline."""

from __future__ import annotations

import pyarrow as pa
import pytest

from connectors_core.engine.coordinator.sink_without_pipeline import SinkWithoutPipeline
from connectors_core.engine.execution.writer_task import (
    WRITER_MESSAGES,
    SinkTask,
    WriteTask,
    write_task,
)
from connectors_core.engine.state import StateStore
from connectors_core.errors import (
    CommitError,
    DataLossError,
    StateCorruptedError,
    UnsupportedError,
)
from connectors_core.sink import ColumnRouter, DemultiplexingSink
from connectors_core.testing.compacting_sink import CompactingDirectorySink
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.faults import Fault, FaultAction, FaultInjected, FaultPoint, injected
from connectors_core.testing.leased_sink import LeasedDirectorySink
from connectors_core.testing.merging_sink import MergingDirectorySink
from connectors_core.testing.stateful_sink import NumberingDirectorySink

NUMBERS = pa.schema([("n", pa.int64())])
QUERY = "q"


@pytest.fixture
def sink(tmp_path):
    return DirectorySink(tmp_path / "out")


@pytest.fixture
def stream(sink, tmp_path):
    return SinkWithoutPipeline(uid="s", sink=sink, decisions=StateStore(str(tmp_path / "state")))


def written(job, epoch, *tasks):
    """Return the messages of writers that have staged these numbers."""
    task = WriteTask(
        pipeline_id=QUERY,
        epoch=epoch,
        store=StateStore("memory://none"),
        sinks=(SinkTask(uid=job.uid, sink=job.sink, schema=NUMBERS),),
    )
    messages = []
    for subtask, numbers in enumerate(tasks):
        batch = pa.record_batch([pa.array(numbers, pa.int64())], schema=NUMBERS)
        [payload] = write_task(task, subtask, 0, [batch])
        messages.append(WRITER_MESSAGES.decode(payload.column(0)[0].as_py()))
    return messages


def numbers_in(sink):
    return sorted(sink.read()["n"].to_pylist())


def test_a_batch_write_commits_the_rows_of_all_writers(sink):
    job = SinkWithoutPipeline(uid="s", sink=sink)
    decision = job.commit(QUERY, 0, written(job, 0, [1, 2], [3]))
    assert decision.rows == 3
    assert numbers_in(sink) == [1, 2, 3]
    assert sink.staged() == []


def test_a_failed_batch_write_is_rolled_back(sink):
    job = SinkWithoutPipeline(uid="s", sink=sink)
    written(job, 0, [1, 2])
    job.roll_back(QUERY, 0)
    assert sink.staged() == []
    assert not list(sink.path.glob("*.arrow"))


@pytest.mark.parametrize(
    "point", [FaultPoint.AFTER_DECISION, FaultPoint.BEFORE_COMMIT, FaultPoint.AFTER_COMMIT]
)
def test_a_replayed_micro_batch_repeats_the_first_commit(stream, sink, point):
    stream.commit(QUERY, 0, written(stream, 0, [1]))
    with injected(Fault(point, action=FaultAction.RAISE)), pytest.raises(FaultInjected):
        stream.commit(QUERY, 1, written(stream, 1, [2, 3]))
    stream.roll_back(QUERY, 1)  # Spark aborts a write whose commit has failed
    stream.commit(QUERY, 1, written(stream, 1, [2, 3]))
    assert numbers_in(sink) == [1, 2, 3]
    assert sink.staged() == []


def test_a_micro_batch_that_failed_before_its_decision_is_written_again(stream, sink):
    fault = Fault(FaultPoint.BEFORE_DECISION, action=FaultAction.RAISE)
    with injected(fault), pytest.raises(FaultInjected):
        stream.commit(QUERY, 0, written(stream, 0, [1]))
    stream.roll_back(QUERY, 0)
    assert sink.staged() == []
    stream.commit(QUERY, 0, written(stream, 0, [1]))
    assert numbers_in(sink) == [1]


def test_other_rows_under_a_decided_number_are_refused(stream, sink):
    stream.commit(QUERY, 0, written(stream, 0, [1]))
    with pytest.raises(DataLossError, match="other rows"):
        stream.commit(QUERY, 0, written(stream, 0, [1, 2]))
    assert numbers_in(sink) == [1]


def test_the_decisions_of_another_query_are_refused(stream):
    stream.commit(QUERY, 0, written(stream, 0, [1]))
    with pytest.raises(StateCorruptedError, match="belongs to another query"):
        stream.commit("other", 0, written(stream, 0, [1]))


def test_old_decisions_are_removed(stream, tmp_path):
    for epoch in range(104):
        stream.commit(QUERY, epoch, [])
    kept = sorted(path.stem for path in (tmp_path / "state" / "decisions").iterdir())
    assert (kept[0], len(kept)) == ("0000000004", 100)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (NumberingDirectorySink, "keeps state"),
        (MergingDirectorySink, "reworks committables"),
        (LeasedDirectorySink, "leases resources"),
        (CompactingDirectorySink, "cannot compact"),
        (lambda path: DemultiplexingSink(ColumnRouter("n", {}.get)), "a sink per route"),
    ],
)
def test_a_sink_that_needs_more_of_its_driver_is_refused(tmp_path, kind, reason):
    with pytest.raises(UnsupportedError, match=reason) as refusal:
        SinkWithoutPipeline(uid="s", sink=kind(tmp_path)).check()
    assert "Pipeline.sink_to" in refusal.value.hint


def test_data_that_is_lost_after_its_staging_is_an_error(stream, sink):
    messages = written(stream, 0, [1])
    for file in sink.staged():
        file.unlink()
    with pytest.raises(CommitError, match="cannot commit"):
        stream.commit(QUERY, 0, messages)
