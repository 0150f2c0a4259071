# SPDX-License-Identifier: Apache-2.0
"""Tests the doctor, the status, and the metrics with a real Spark."""

import io
import json
import sys
from datetime import timedelta
from types import SimpleNamespace

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyspark
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from rich.console import Console
from typer.testing import CliRunner

from connectors_core import Pipeline
from connectors_core.cli import app
from connectors_core.cli.state_view import view_state
from connectors_core.engine.query.status import PipelineState
from connectors_core.engine.state import StateStore
from connectors_core.errors import ConnectorError
from connectors_core.source.data_generator import DataGeneratorSource
from connectors_core.source.sequence import NumberSequenceSource
from connectors_core.source.split import ReadLimits
from connectors_core.source.watermarks import END_OF_TIME, WatermarkStrategy
from connectors_core.spark import pipeline_run, progress
from connectors_core.spark.doctor import found_formats, missing_formats
from connectors_core.spark.telemetry import Instruments
from connectors_core.testing.directory_sink import DirectorySink

FIRST_SECOND = 1_357_000_000
TIMED = pa.schema([("at", pa.timestamp("us", tz="UTC"))])


def numbers(rows=1000):
    return NumberSequenceSource(0, rows - 1, split_rows=100)


def _timed_batch(indexes):
    micros = pc.multiply(pc.add(indexes, FIRST_SECOND), 1_000_000)
    return pa.record_batch([micros.cast(TIMED.field(0).type)], schema=TIMED)


@pytest.fixture
def measured(monkeypatch):
    """Return a pipeline's OpenTelemetry metrics, by instrument, uid, and split."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    instruments = Instruments(provider)
    monkeypatch.setattr(pipeline_run, "global_instruments", lambda: instruments)

    def collect():
        data = reader.get_metrics_data()
        return {
            (metric.name, point.attributes["uid"], point.attributes.get("split")): point.value
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
        }

    yield SimpleNamespace(collect=collect)
    provider.shutdown()


def test_doctor_checks_the_running_spark(spark, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    result = CliRunner().invoke(app, ["doctor", "--json"])
    found = {each["check"]: each for each in orjson.loads(result.stdout)["findings"]}
    assert found["start of spark"]["found"].startswith(f"Spark {pyspark.__version__}")
    assert sys.executable in found["python (worker)"]["found"]
    native = pyspark.__version__.startswith("4.")
    assert found["carrier"]["found"] == ("native" if native else "memory")
    assert (result.exit_code, [f for f in found.values() if f["level"] == "problem"]) == (0, [])
    assert spark.range(3).count() == 3  # doctor did not stop the session


def test_a_streaming_pipeline_has_a_status_and_metrics(spark, tmp_path, measured):
    with Pipeline(spark, "p", checkpoint_location=str(tmp_path / "ck"), streaming=True) as pipeline:
        assert pipeline.status().state is PipelineState.NOT_STARTED
        df = pipeline.from_source(numbers(), uid="in", limits=ReadLimits(rows=400))
        pipeline.sink_to(df, DirectorySink(tmp_path / "all"), uid="all")
        pipeline.sink_to(df.where("value % 2 = 0"), DirectorySink(tmp_path / "even"), uid="even")
        assert pipeline.run()
        status = pipeline.status()
        numbers_seen = measured.collect()
    assert status.state is PipelineState.FINISHED
    (query,) = status.queries
    assert query.plan == query.batch
    (source,) = status.sources
    # Two DataFrames are written. Each branch reads the source, but its rows count once.
    assert (source.rows, source.splits_finished, source.finished) == (1000, 10, True)
    rows = {sink.uid: sink.rows for sink in status.sinks}
    assert rows == {"all": 1000, "even": 500}
    for sink in status.sinks:
        assert sink.commits == query.epoch + 1
        assert sink.committed == sink.committables > 0
        assert sink.pending == 0
    assert json.loads(json.dumps(status.to_dict()))["state"] == "finished"

    assert numbers_seen["connectors.source.records.read", "in", None] == 1000
    assert numbers_seen["connectors.source.read", "in", None] == source.bytes == 8000
    assert numbers_seen["connectors.sink.records.written", "even", None] == 500
    assert (
        numbers_seen["connectors.sink.committables.succeeded", "all", None]
        == status.sinks[0].committed
    )
    assert numbers_seen["connectors.sink.committables.pending", "all", None] == 0
    assert numbers_seen["connectors.sink.write.duration", "all", None] > 0
    assert measured.collect() == {}  # a stopped pipeline has no metrics

    view = view_state(StateStore(str(tmp_path / "ck")))
    assert view.pipeline_id == status.pipeline_id
    assert (view.queries[0].plan, view.queries[0].epoch) == (query.plan, query.epoch)
    assert view.queries[0].held == []
    assert view.lease.released


def test_the_status_shows_watermarks_during_the_run(spark, tmp_path, measured):
    long = DataGeneratorSource(_timed_batch, 1_000_000, TIMED, split_rows=1_000_000)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at")
    location = str(tmp_path / "ck")
    pipeline = Pipeline(spark, "p", checkpoint_location=location, streaming=True)
    df = pipeline.from_source(
        long, uid="in", watermark_strategy=strategy, limits=ReadLimits(rows=200), parallelism=1
    )
    pipeline.sink_to(df.where("at IS NOT NULL"), DirectorySink(tmp_path / "out"), uid="out")
    with pipeline:
        pipeline.start()
        while (status := pipeline.status()).queries[0].spark_watermark in (None, 0):
            assert status.state is PipelineState.RUNNING
            assert not pipeline.await_termination(0.2)
        seen = measured.collect()
    (source,) = status.sources
    assert FIRST_SECOND * 1_000_000 <= status.queries[0].spark_watermark <= source.watermark
    assert source.watermark < END_OF_TIME
    assert source.watermark_lag > 0
    assert source.splits_assigned > 0
    assert seen["connectors.source.watermark.lag", "in", None] > 0
    assert any(name == "connectors.split.watermark.timestamp" and split for name, _, split in seen)


def test_a_stopped_pipeline_keeps_its_status(spark, tmp_path, measured):
    location = str(tmp_path / "ck")
    pipeline = Pipeline(
        spark,
        "p",
        checkpoint_location=location,
        streaming=True,
        trigger_interval=timedelta(hours=1),  # one plan, idle at the stop
    )
    df = pipeline.from_source(numbers(), uid="in", limits=ReadLimits(rows=100))
    pipeline.sink_to(df, DirectorySink(tmp_path / "out"), uid="out")
    with pipeline:
        pipeline.start()
        while pipeline.status().queries[0].batch is None:
            assert not pipeline.await_termination(0.2)
    status = pipeline.status()
    assert (status.state, status.error) == (PipelineState.STOPPED, None)
    assert status.sources[0].rows == status.sinks[0].rows == 100


def test_a_second_driver_counts_from_zero(spark, tmp_path, measured):
    def run():
        location = str(tmp_path / "ck")
        with Pipeline(spark, "p", checkpoint_location=location, streaming=True) as pipeline:
            df = pipeline.from_source(numbers(), uid="in")
            pipeline.sink_to(df, DirectorySink(tmp_path / "out"), uid="out")
            assert pipeline.run()
            return pipeline.status()

    assert run().sources[0].rows == 1000
    again = run()
    assert (again.sources[0].rows, again.sinks[0].rows, again.sinks[0].commits) == (0, 0, 0)
    assert again.sources[0].finished


def test_a_batch_pipeline_has_a_status(spark, tmp_path, measured):
    with Pipeline(spark, "b", checkpoint_location=str(tmp_path / "ck")) as pipeline:
        df = pipeline.from_source(numbers(), uid="in")
        pipeline.sink_to(df.where("value < 10"), DirectorySink(tmp_path / "out"), uid="out")
        assert pipeline.run()
        status = pipeline.status()
        assert measured.collect()["connectors.source.records.read", "in", None] == 1000
    assert status.state is PipelineState.FINISHED
    (source,), (sink,) = status.sources, status.sinks
    assert (source.rows, source.splits_finished, source.splits_assigned) == (1000, 10, 0)
    assert (sink.rows, sink.commits) == (10, 1)


def _broken_batch(indexes):
    raise ValueError("the disk is full")


@pytest.mark.parametrize("streaming", [False, True])
def test_a_failed_pipeline_shows_its_error(spark, tmp_path, measured, streaming, monkeypatch):
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr(progress, "Console", lambda: console)
    broken = DataGeneratorSource(_broken_batch, 10, TIMED)
    location = str(tmp_path / "ck")
    with Pipeline(
        spark, "f", checkpoint_location=location, streaming=streaming, progress="auto"
    ) as pipeline:
        df = pipeline.from_source(broken, uid="in")
        pipeline.sink_to(df, DirectorySink(tmp_path / "out"), uid="out")
        with pytest.raises(ConnectorError, match="disk is full"):
            pipeline.run()
        status = pipeline.status()
    assert status.state is PipelineState.FAILED
    assert "disk is full" in status.error
    assert pipeline._run._progress is None or not pipeline._run._progress._thread.is_alive()
    text = console.file.getvalue()
    assert "failed" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


@pytest.mark.line("4.3")
def test_a_module_that_fails_hides_all_formats(tmp_path, monkeypatch):
    pytest.importorskip("pyspark.sql.datasource")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert {"connector_filesystem", "connector_kafka"} <= set(found_formats()[0])
    (tmp_path / "pyspark_broken.py").write_text("raise RuntimeError('no such library')")
    formats, error = found_formats()
    assert formats == {}
    assert error == "the module pyspark_broken fails: RuntimeError: no such library"


@pytest.mark.line("4.3")
def test_formats_that_workers_do_not_have_are_named(spark):
    pytest.importorskip("pyspark.sql.datasource")
    found = found_formats()[0]
    assert missing_formats(spark, found) == ()
    assert missing_formats(spark, {**found, "only_here": "pyspark_only_here"}) == ("only_here",)
