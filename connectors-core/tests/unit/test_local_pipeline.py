# SPDX-License-Identifier: Apache-2.0
"""The pipeline without Spark keeps the promises of the one on Spark."""

from __future__ import annotations

import pytest

from connectors_core.errors import (
    ConfigurationError,
    FatalError,
    IdentityError,
    LeaseError,
    UnsupportedError,
)
from connectors_core.runtime.status import PipelineState
from connectors_core.sink import Sink, SupportsPostCommitTopology, SupportsPreWriteTopology
from connectors_core.source import (
    DataGeneratorSource,
    NumberSequenceSource,
    PlanLimits,
    WatermarkStrategy,
)
from connectors_core.testing import local_pipeline
from connectors_core.testing.context import ROWS
from connectors_core.testing.data import assert_exactly, make_rows
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.driver import DriverJob, run_driver, wait_for_survivors
from connectors_core.testing.environment import InProcess
from connectors_core.testing.faults import Fault, FaultAction, FaultPoint, crash_chain, injected

SECONDS = 30


def build(root, *, rows=100, limit=20, parallelism=2, uid="numbers", source=None):
    pipeline = InProcess().pipeline("p", root / "checkpoint", parallelism=parallelism)
    source = source or NumberSequenceSource(0, rows - 1, split_rows=25, batch_rows=10)
    frame = pipeline.from_source(source, uid=uid, limits=PlanLimits(rows=limit))
    sinks = {name: DirectorySink(root / name) for name in ("one", "two")}
    for name, sink in sinks.items():
        pipeline.sink_to(frame, sink, uid=name)
    return pipeline, sinks


def values(sink):
    rows = sink.read()
    return sorted(rows["value"].to_pylist()) if rows.num_columns else []


def test_all_sinks_get_all_rows_once(tmp_path):
    pipeline, sinks = build(tmp_path)
    with pipeline:
        assert pipeline.run(timeout=SECONDS)
    status = pipeline.status()
    assert status.state is PipelineState.FINISHED
    assert (status.sources[0].rows, status.sinks[0].rows) == (100, 100)
    for sink in sinks.values():
        assert values(sink) == list(range(100))
        assert sink.staged() == []


def test_it_is_stopped_and_goes_on_with_more_readers(tmp_path):
    pipeline, sinks = build(tmp_path, rows=2000, limit=5)
    with pipeline:
        pipeline.start()
        while not values(sinks["one"]):
            assert not pipeline.await_termination(0.01)
    assert pipeline.status().state is PipelineState.STOPPED
    assert len(values(sinks["one"])) < 2000
    pipeline, sinks = build(tmp_path, rows=2000, limit=500, parallelism=3)
    with pipeline:
        assert pipeline.run(timeout=SECONDS)
    assert values(sinks["two"]) == list(range(2000))


def test_a_batch_that_did_not_end_is_run_again_and_written_once(tmp_path):
    for forget in (False, True):
        pipeline, sinks = build(tmp_path)
        if forget:
            InProcess().forget_last_batch(tmp_path / "checkpoint")
        with pipeline:
            assert pipeline.run(timeout=SECONDS)
    assert values(sinks["one"]) == list(range(100))


def test_a_driver_keeps_only_the_epochs_that_may_run_again(tmp_path, monkeypatch):
    monkeypatch.setattr(local_pipeline, "_KEEP_EPOCHS", 3)
    pipeline, _ = build(tmp_path, limit=10)
    with pipeline:
        assert pipeline.run(timeout=SECONDS)
    epochs = pipeline._run._epochs
    last = epochs.last_decided
    assert last >= 8
    known = [batch for batch in range(20) if epochs.is_decided(pipeline._run._query_id, batch)]
    assert len(known) == 4


def test_a_task_has_four_attempts(tmp_path):
    faults = [
        Fault(FaultPoint.READER_FETCHED, action=FaultAction.RAISE, once=tmp_path / str(number))
        for number in range(3)
    ]
    pipeline, sinks = build(tmp_path, parallelism=1)
    with injected(*faults), pipeline:
        assert pipeline.run(timeout=SECONDS)
    assert all(fault.fired for fault in faults)
    assert values(sinks["one"]) == list(range(100))


def broken(_indices):
    raise FatalError("the disk is on fire")


def test_a_failure_is_raised_with_its_cause(tmp_path):
    source = DataGeneratorSource(broken, 10, ROWS)
    pipeline, _ = build(tmp_path, source=source)
    with pipeline, pytest.raises(FatalError, match="on fire"):
        pipeline.run(timeout=SECONDS)
    assert pipeline.status().state is PipelineState.FAILED
    assert "on fire" in pipeline.status().error


def full(_indices):
    raise OSError(28, "No space left on device")


def test_a_failure_of_another_kind_is_an_error_of_the_tree_as_on_spark(tmp_path):
    pipeline, _ = build(tmp_path, source=DataGeneratorSource(full, 10, ROWS))
    with pipeline, pytest.raises(FatalError, match="pipeline 'p' failed") as failure:
        pipeline.run(timeout=SECONDS)
    assert isinstance(failure.value.__cause__, OSError)


def test_another_shape_a_second_driver_and_an_endless_run_are_refused(tmp_path):
    first, _ = build(tmp_path)
    with first:
        assert first.run(timeout=SECONDS)
    other, _ = build(tmp_path, uid="letters")
    with pytest.raises(IdentityError, match="sources and sinks it had"):
        other.run(timeout=SECONDS)
    endless = DataGeneratorSource(split_of_rows, None, ROWS)
    one, _ = build(tmp_path / "endless", source=endless)
    with pytest.raises(ConfigurationError, match="never end"):
        one.run()
    with one:
        one.start()
        two, _ = build(tmp_path / "endless", source=endless)
        with pytest.raises(LeaseError):
            two.start()


def split_of_rows(indices):
    first = indices[0].as_py()
    (batch,) = make_rows(0, first, len(indices), 7).combine_chunks().to_batches()
    return batch


def test_heartbeats_are_not_written(tmp_path):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at")
    sink = DirectorySink(tmp_path / "out")
    with InProcess().pipeline("p", tmp_path / "checkpoint") as pipeline:
        source = DataGeneratorSource(split_of_rows, 60, ROWS, split_rows=20, batch_rows=7)
        rows = pipeline.from_source(source, uid="made", watermark_strategy=strategy)
        pipeline.sink_to(rows, sink, uid="out")
        assert pipeline.run(timeout=SECONDS)
    assert_exactly(sink.read(), [make_rows(0, 0, 60, 7)])


def test_a_driver_in_a_process_of_its_own_is_killed_and_started_again(tmp_path):
    sink = DirectorySink(tmp_path / "out")
    job = DriverJob(
        location=str(tmp_path / "checkpoint"),
        source=NumberSequenceSource(0, 199, split_rows=25, batch_rows=10),
        sinks={"out": sink},
        settings={"limits": PlanLimits(rows=40)},
    )
    log = tmp_path / "driver.log"
    points = [FaultPoint.READER_FETCHED, FaultPoint.AFTER_DECISION, FaultPoint.BEFORE_SPARK_COMMIT]
    for fault in crash_chain(tmp_path, points):
        assert run_driver(job, log, fault) == -9, log.read_text()
        assert fault.fired
    assert run_driver(job, log) == 0, log.read_text()
    wait_for_survivors(log)
    assert values(sink) == list(range(200))


class SortedSink(DirectorySink, SupportsPreWriteTopology):
    def add_pre_write_topology(self, df):
        return df.sortWithinPartitions("value")


class OnlyPosted(Sink, SupportsPostCommitTopology):
    def create_writer(self, context):
        raise NotImplementedError

    def add_post_commit_topology(self, messages):
        raise NotImplementedError


def test_what_needs_spark_or_has_no_committer_is_refused_and_not_passed_over(tmp_path):
    pipeline = InProcess().pipeline("p", tmp_path / "checkpoint")
    rows = pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers")
    with pytest.raises(UnsupportedError, match="pre-write topology"):
        pipeline.sink_to(rows, SortedSink(tmp_path / "out"), uid="sorted")
    with pytest.raises(ConfigurationError, match="nothing to commit"):
        pipeline.sink_to(rows, OnlyPosted(), uid="posted")


@pytest.mark.parametrize("uid", ["numbers", "a/b", ""])
def test_uids_are_those_that_spark_pipelines_take(tmp_path, uid):
    pipeline = InProcess().pipeline("p", tmp_path / "checkpoint")
    rows = pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers")
    with pytest.raises(ConfigurationError, match="uid"):
        pipeline.sink_to(rows, DirectorySink(tmp_path / "out"), uid=uid)
