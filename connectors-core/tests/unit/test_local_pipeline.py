# SPDX-License-Identifier: Apache-2.0
"""Tests that the pipeline without Spark behaves like the one on Spark."""

from __future__ import annotations

import errno
import inspect
import socket
import threading
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from number_jobs import numbers_job

from connectors_core import Pipeline
from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.engine.query.status import PipelineState
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    FatalError,
    IdentityError,
    LeaseError,
    RetryableError,
    UnsupportedError,
)
from connectors_core.lineage import OpenLineageListener
from connectors_core.records import RecordPolicy
from connectors_core.sink import Sink, SupportsPostCommitTopology, SupportsPreWriteTopology
from connectors_core.source import (
    DataGeneratorSource,
    NumberSequenceSource,
    ReadLimits,
    WatermarkStrategy,
)
from connectors_core.testing import local_run
from connectors_core.testing.context import ROWS
from connectors_core.testing.data import assert_exactly, make_rows
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.driver import run_driver, wait_for_survivors
from connectors_core.testing.environment import InProcess
from connectors_core.testing.faults import (
    Fault,
    FaultAction,
    FaultInjected,
    FaultPoint,
    crash_chain,
    injected,
)
from connectors_core.testing.local_pipeline import LocalPipeline
from connectors_core.testing.traces import chain_of

SECONDS = 30


def build(root, *, rows=100, limit=20, parallelism=2, uid="numbers", source=None):
    pipeline = InProcess().pipeline("p", root / "checkpoint", parallelism=parallelism)
    source = source or NumberSequenceSource(0, rows - 1, split_rows=25, batch_rows=10)
    frame = pipeline.from_source(source, uid=uid, limits=ReadLimits(rows=limit))
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


READING, RELEASED = threading.Event(), threading.Event()


class EndlessSource(NumberSequenceSource):
    def create_reader(self, context):
        READING.set()
        RELEASED.wait(SECONDS)
        return super().create_reader(context)


def test_a_batch_that_does_not_end_is_named_by_stop(tmp_path):
    pipeline, sinks = build(tmp_path, source=EndlessSource(0, 99, batch_rows=10))
    with pipeline:
        pipeline.start()
        assert READING.wait(SECONDS)
        with pytest.raises(RetryableError, match="does not end"):
            pipeline.stop(timeout=0.1)
        RELEASED.set()
    assert len(values(sinks["one"])) == 20


def batch(root, *, rows=100, crash=None, **settings):
    """Run a batch run with a source that has no version, and return whether it read its input."""
    source = settings.pop("source", NumberSequenceSource)(0, rows - 1, split_rows=25)
    pipeline = InProcess().pipeline("p", root / "checkpoint", streaming=False, **settings)
    sink = DirectorySink(root / "out")
    with pipeline:
        pipeline.sink_to(pipeline.from_source(source, uid="numbers"), sink, uid="out")
        if crash is None:
            return pipeline.run()
        with (
            injected(Fault(crash, action=FaultAction.RAISE, once=root / "failed")),
            pytest.raises(FaultInjected),
        ):
            pipeline.run()
    return None


class Unversioned(NumberSequenceSource):
    def input_version(self, splits):
        return None


def test_every_batch_run_reads_all_rows(tmp_path):
    assert batch(tmp_path)
    assert batch(tmp_path, rows=120)
    assert DirectorySink(tmp_path / "out").read().num_rows == 220


def test_a_batch_run_that_is_tried_again_with_more_readers_has_the_same_input(tmp_path):
    batch(tmp_path, crash=FaultPoint.AFTER_DECISION)
    assert not batch(tmp_path, parallelism=5)
    assert values(DirectorySink(tmp_path / "out")) == list(range(100))


def test_a_batch_run_whose_input_has_no_version_names_the_source(tmp_path, caplog):
    batch(tmp_path, crash=FaultPoint.AFTER_DECISION, source=Unversioned)
    assert not batch(tmp_path, rows=120, source=Unversioned)
    assert "Whether the input of numbers is still the same is unknown" in caplog.text
    assert batch(tmp_path, rows=120, source=Unversioned)
    assert DirectorySink(tmp_path / "out").read().num_rows == 220


def test_a_batch_run_of_an_unbounded_source_is_refused(tmp_path):
    pipeline = InProcess().pipeline("p", tmp_path / "checkpoint", streaming=False)
    rows = pipeline.from_source(DataGeneratorSource(lambda numbers: None, None, ROWS), uid="s")
    pipeline.sink_to(rows, DirectorySink(tmp_path / "out"), uid="o")
    with pytest.raises(ConfigurationError, match="never"):
        pipeline.run(available_now=True)
    with pytest.raises(UnsupportedError, match="streaming"):
        pipeline.start()


def test_a_stopped_pipeline_resumes_with_more_readers(tmp_path):
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


def test_an_unfinished_batch_runs_again_and_is_written_once(tmp_path):
    for forget in (False, True):
        pipeline, sinks = build(tmp_path)
        if forget:
            InProcess().forget_last_batch(tmp_path / "checkpoint")
        with pipeline:
            assert pipeline.run(timeout=SECONDS)
    assert values(sinks["one"]) == list(range(100))


def test_a_driver_keeps_only_the_epochs_that_may_run_again(tmp_path, monkeypatch):
    monkeypatch.setattr(local_run, "_KEEP_EPOCHS", 3)
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


def test_a_connector_error_is_raised_with_its_cause(tmp_path):
    source = DataGeneratorSource(broken, 10, ROWS)
    pipeline, _ = build(tmp_path, source=source)
    with pipeline, pytest.raises(FatalError, match="on fire"):
        pipeline.run(timeout=SECONDS)
    assert pipeline.status().state is PipelineState.FAILED
    assert "on fire" in pipeline.status().error


def full(_indices):
    raise OSError(28, "No space left on device")


def test_an_unknown_exception_becomes_a_connector_error_as_on_spark(tmp_path):
    pipeline, _ = build(tmp_path, source=DataGeneratorSource(full, 10, ROWS))
    with pipeline, pytest.raises(FatalError, match="pipeline 'p' failed") as failure:
        pipeline.run(timeout=SECONDS)
    assert isinstance(failure.value.__cause__, OSError)
    assert failure.value.found in pipeline.status().error
    with pytest.raises(FatalError) as again:
        pipeline.await_termination()
    assert again.value is failure.value


def test_a_changed_shape_a_second_driver_and_an_endless_run_are_refused(tmp_path):
    first, _ = build(tmp_path)
    with first:
        assert first.run(timeout=SECONDS)
    other, _ = build(tmp_path, uid="letters")
    with pytest.raises(IdentityError, match="sources or sinks of pipeline"):
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


def test_a_driver_in_a_separate_process_is_killed_and_restarted(tmp_path):
    job, sink = numbers_job(tmp_path, "checkpoint", split_rows=25, rows=40)
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


def test_a_sink_that_needs_spark_or_has_no_committer_is_refused(tmp_path):
    pipeline = InProcess().pipeline("p", tmp_path / "checkpoint")
    rows = pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers")
    with pytest.raises(UnsupportedError, match="pre-write topology"):
        pipeline.sink_to(rows, SortedSink(tmp_path / "out"), uid="sorted")
    with pytest.raises(ConfigurationError, match="nothing to commit"):
        pipeline.sink_to(rows, OnlyPosted(), uid="posted")


@pytest.mark.parametrize("uid", ["numbers", "a/b", ""])
def test_uids_follow_the_rules_of_pipelines_on_spark(tmp_path, uid):
    pipeline = InProcess().pipeline("p", tmp_path / "checkpoint")
    rows = pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers")
    with pytest.raises(ConfigurationError, match="uid"):
        pipeline.sink_to(rows, DirectorySink(tmp_path / "out"), uid=uid)


# --- Parity with a pipeline on Spark -------------------------------------------------------------


def test_a_local_pipeline_accepts_every_parameter_of_a_pipeline_on_spark():
    of_rows = {"spark", "df"}
    about_dataframes = {"for_each_batch", "explain"}
    calls = [name for name in vars(Pipeline) if not name.startswith("_")]
    calls = [name for name in calls if name not in about_dataframes]
    for name in ["__init__", *calls]:
        if not callable(getattr(Pipeline, name)):
            continue
        mine = inspect.signature(getattr(LocalPipeline, name)).parameters
        if any(each.kind is each.VAR_KEYWORD for each in mine.values()):
            continue
        theirs = inspect.signature(getattr(Pipeline, name)).parameters
        assert theirs.keys() - of_rows <= mine.keys(), name


@pytest.mark.parametrize(
    "needs_spark",
    [
        {"state_location": "/elsewhere"},
        {"on_changed_query": "new-generation"},
        {"stop_on_sigterm": True},
        {"progress": "auto"},
        {"listeners": [OpenLineageListener()]},
    ],
    ids=str,
)
def test_an_argument_that_needs_spark_is_refused_by_name(tmp_path, needs_spark):
    (option,) = needs_spark
    with pytest.raises(UnsupportedError, match=option) as refused:
        LocalPipeline("p", checkpoint_location=tmp_path, **needs_spark)
    assert refused.value.option == option
    assert refused.value.hint


def test_arguments_that_a_pipeline_on_spark_accepts_are_accepted(tmp_path):
    location = str(tmp_path)
    LocalPipeline(
        "p",
        checkpoint_location=location,
        state_location=Path(location),
        streaming=True,
        on_changed_query="refuse",
        stop_on_sigterm=False,
        progress=False,
    )


def test_dataframe_operations_are_refused(tmp_path):
    pipeline = LocalPipeline("p", checkpoint_location=tmp_path)
    rows = pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers")
    with pytest.raises(UnsupportedError, match="joined"):
        pipeline.lookup_join(rows, object(), on=["value"], how="inner")
    with pytest.raises(UnsupportedError, match="output_mode"):
        pipeline.sink_to(rows, DirectorySink(tmp_path / "out"), uid="out", output_mode="update")


@pytest.mark.parametrize("call", ["run", "start"])
def test_a_pipeline_without_a_sink_reads_no_source(tmp_path, call):
    pipeline = LocalPipeline("p", checkpoint_location=tmp_path / "checkpoint")
    pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers")
    with pytest.raises(ConfigurationError, match="no sink"):
        getattr(pipeline, call)()
    assert not (tmp_path / "checkpoint").exists()


def test_a_source_without_a_sink_is_named_and_not_read(tmp_path, caplog):
    sink = DirectorySink(tmp_path / "out")
    with LocalPipeline("p", checkpoint_location=tmp_path / "checkpoint") as pipeline:
        pipeline.from_source(NumberSequenceSource(100, 109), uid="unused")
        rows = pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers")
        pipeline.sink_to(rows, sink, uid="out")
        assert pipeline.run(timeout=SECONDS)
    assert "does not read unused" in caplog.text
    assert [each.uid for each in pipeline.status().sources] == ["numbers"]
    assert values(sink) == list(range(10))


@pytest.mark.parametrize("uid", ["numbers", "others"])
def test_rows_of_another_pipeline_are_refused(tmp_path, uid):
    first, other = (LocalPipeline(name, checkpoint_location=tmp_path / name) for name in ("a", "b"))
    first.from_source(NumberSequenceSource(0, 9), uid="numbers")
    rows = other.from_source(NumberSequenceSource(0, 9), uid=uid)
    for foreign in (rows, object()):
        with pytest.raises(ConfigurationError, match="rows of another pipeline"):
            first.sink_to(foreign, DirectorySink(tmp_path / "out"), uid="out")


def test_calls_after_the_start_are_refused(tmp_path):
    pipeline, _ = build(tmp_path)
    rows = pipeline._rows[0]
    with pipeline:
        pipeline.start()
        for call in (
            lambda: pipeline.from_source(NumberSequenceSource(0, 9), uid="more"),
            lambda: pipeline.sink_to(rows, DirectorySink(tmp_path / "more"), uid="more"),
            pipeline.start,
            pipeline.run,
        ):
            with pytest.raises(ConfigurationError, match="after the pipeline was started"):
                call()


def test_dead_letters_without_a_sink_are_refused(tmp_path):
    pipeline = LocalPipeline("p", checkpoint_location=tmp_path / "checkpoint")
    policy = RecordPolicy.dead_letter(object())
    rows = pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers", record_policy=policy)
    pipeline.sink_to(rows, DirectorySink(tmp_path / "out"), uid="out")
    with pytest.raises(ConfigurationError, match="'numbers' need a sink"):
        pipeline.run()


def test_an_injected_fault_is_raised_unchanged(tmp_path):
    pipeline, _ = build(tmp_path)
    fault = Fault(FaultPoint.BEFORE_DECISION, action=FaultAction.RAISE, once=tmp_path / "failed")
    with injected(fault), pipeline, pytest.raises(FaultInjected):
        pipeline.run(timeout=SECONDS)


# --- Connection checks and storage ---------------------------------------------------------------


class UnreachableSink(DirectorySink, SupportsConnectionCheck):
    def check_connection(self, timeout):
        raise RetryableError("the service does not answer", found=f"localhost:9 in {timeout} s")


def test_systems_are_checked_if_a_timeout_is_set(tmp_path):
    def run(**settings):
        location = str(tmp_path / "checkpoint")
        with LocalPipeline("p", checkpoint_location=location, **settings) as pipeline:
            rows = pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers")
            pipeline.sink_to(rows, UnreachableSink(tmp_path / "out"), uid="out")
            return pipeline.run(timeout=SECONDS)

    with pytest.raises(RetryableError, match="sink 'out'") as failure:
        run(connection_timeout=timedelta(seconds=2))
    assert "localhost:9 in 2.0 s" in str(failure.value)
    assert run()


def wait_for_checks():
    """Wait for the checks, so that none opens connections in the next test."""
    for thread in threading.enumerate():
        if thread.name.startswith("connection-check"):
            thread.join(SECONDS)


def test_a_state_location_that_never_responds_is_named_within_the_timeout(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        pipeline = LocalPipeline(
            "p",
            checkpoint_location="s3://bucket/state",
            storage_options={
                "endpoint_url": f"http://{host}:{port}",
                "key": "key",
                "secret": "secret",  # pragma: allowlist secret
                "config_kwargs": {"retries": {"total_max_attempts": 1}},
            },
            connection_timeout=timedelta(seconds=0.3),
        )
        rows = pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers")
        pipeline.sink_to(rows, DirectorySink(tmp_path / "out"), uid="out")
        began = time.monotonic()
        with pytest.raises(RetryableError, match="s3://bucket/state") as failure:
            pipeline.run()
        assert time.monotonic() - began < 10
        silent.settimeout(SECONDS)
        silent.accept()[0].close()  # the location was contacted
    wait_for_checks()
    assert failure.value.code == "CONNECTION"
    assert failure.value.option == "state_location"
    assert "no response within 0.3 s" in failure.value.found
    assert failure.value.hint


class SmallDisk(MemoryFileSystem):
    """A separate file system, which is full from some point on."""

    protocol = "small-disk"
    store: ClassVar[dict] = {}
    pseudo_dirs: ClassVar[list] = [""]
    full_at: ClassVar[str | None] = None
    full: ClassVar[bool] = False
    lock: ClassVar[threading.Lock] = threading.Lock()

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("small-disk://"))

    @classmethod
    def clear(cls):
        cls.full_at, cls.full = None, False

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        cls = type(self)
        with cls.lock:
            cls.full = cls.full or (cls.full_at is not None and cls.full_at in path)
            if cls.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            super().pipe_file(path, value, mode=mode, **kwargs)


fsspec.register_implementation(SmallDisk.protocol, SmallDisk, clobber=True)


@pytest.mark.parametrize(
    "full_at",
    [
        "query-0/plans/0000000001",
        "query-0/reports/0000000001",
        "query-0/decisions/0000000001",
        "query-0/done/0000000001",
        "spark-0/commits/1",
    ],
)
def test_a_full_disk_fails_the_run_and_the_next_run_is_exact(tmp_path, full_at):
    location, sink = f"small-disk://{uuid.uuid4().hex}", DirectorySink(tmp_path / "out")

    def run():
        with LocalPipeline("p", checkpoint_location=location) as pipeline:
            source = NumberSequenceSource(0, 99, split_rows=25, batch_rows=10)
            rows = pipeline.from_source(source, uid="numbers", limits=ReadLimits(rows=20))
            pipeline.sink_to(rows, sink, uid="out")
            assert pipeline.run(timeout=SECONDS)

    SmallDisk.full_at = full_at
    try:
        with pytest.raises(ConnectorError, match="No space left") as failure:
            run()
    finally:
        SmallDisk.clear()
    assert location in str(failure.value)
    assert errno.ENOSPC in [getattr(each, "errno", None) for each in chain_of(failure.value)]
    began = time.monotonic()
    run()
    assert time.monotonic() - began < SECONDS / 2, "it waits for the lease of its own process"
    assert values(sink) == list(range(100))
    assert sink.staged() == []
