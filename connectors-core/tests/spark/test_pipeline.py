# SPDX-License-Identifier: Apache-2.0
"""Tests that each row is written exactly once, despite failures."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pipeline_support import (
    EVENTS,
    LogSource,
    PickySink,
    counts,
    event_rows,
    identity,
    new_pipeline,
    once,
    plans_and_reports,
    query_store,
    travel_with_closures,
    wait_until,
)

from connectors_core import Pipeline
from connectors_core.engine.coordinator.plan_log import decisions_since
from connectors_core.engine.query.status import PipelineState
from connectors_core.errors import (
    BadRecordLimitError,
    ConfigurationError,
    ConnectorError,
    FatalError,
    InvalidOptionError,
    LeaseError,
    UnsupportedError,
)
from connectors_core.records import RecordPolicy
from connectors_core.sink import Sink, SupportsPostCommitTopology
from connectors_core.source import (
    DataGeneratorSource,
    NumberSequenceSource,
    RateLimiterStrategy,
    ReadLimits,
    RecordEvaluator,
    WatermarkStrategy,
)
from connectors_core.spark.writing_job import SparkEngine
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.faults import Fault, FaultAction, FaultPoint, injected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

travel_with_closures(__name__)


def numbers(count: int, split_rows: int = 25) -> NumberSequenceSource:
    return NumberSequenceSource(0, count - 1, split_rows=split_rows, batch_rows=10)


def fails_once_at(point: FaultPoint) -> Fault:
    return Fault(point, action=FaultAction.RAISE)


# --- Batch ----------------------------------------------------------------------------------------


def test_each_batch_run_is_exact_and_reads_everything_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = DirectorySink(tmp_path / "out")

    def run() -> bool:
        pipeline = new_pipeline(spark, tmp_path, streaming=None)
        df = pipeline.from_source(numbers(200), uid="numbers")
        assert not df.isStreaming
        pipeline.sink_to(df, sink, uid="out")
        with pipeline:
            return pipeline.run()

    for runs in (1, 2):
        assert run()
        assert counts(sink, "value") == Counter(dict.fromkeys(range(200), runs))
    # The second run fences the first, so epoch 1 is a fence.
    assert sorted(decisions_since(query_store(tmp_path / "checkpoint"), 0)) == [0, 2]

    with (
        injected(fails_once_at(FaultPoint.AFTER_DECISION)),
        pytest.raises(FatalError, match="FaultInjected"),
    ):
        run()
    assert counts(sink, "value") == Counter(dict.fromkeys(range(200), 2))
    assert run() is False  # finishes the decided run without starting a new one
    assert counts(sink, "value") == Counter(dict.fromkeys(range(200), 3))

    with (
        injected(fails_once_at(FaultPoint.BEFORE_DECISION)),
        pytest.raises(FatalError, match="FaultInjected"),
    ):
        run()
    assert run()  # the undecided run is rolled back and read again
    assert counts(sink, "value") == Counter(dict.fromkeys(range(200), 4))
    assert sink.staged() == []


@pytest.mark.parametrize("sinks", [1, 2])
def test_columns_with_dots_and_backticks_in_their_names_are_written(
    spark: SparkSession, tmp_path: Path, sinks: int
) -> None:
    with new_pipeline(spark, tmp_path, streaming=None) as pipeline:
        df = pipeline.from_source(numbers(3), uid="numbers")
        named = df.selectExpr("value AS `a.b`", "value + 1 AS `a``c`", "value + 2 AS a")
        for number in range(sinks):
            rows = named.where(f"`a.b` >= {number}")
            pipeline.sink_to(rows, DirectorySink(tmp_path / f"out{number}"), uid=f"out{number}")
        assert pipeline.run()
    for number in range(sinks):
        written = DirectorySink(tmp_path / f"out{number}").read().sort_by("a")
        expected = [{"a.b": n, "a`c": n + 1, "a": n + 2} for n in range(number, 3)]
        assert written.to_pylist() == expected


@pytest.mark.parametrize("streaming", [True, None])
def test_rows_that_are_written_unchanged_do_not_pass_through_spark(
    spark: SparkSession, tmp_path: Path, streaming: bool | None
) -> None:
    sinks = {uid: DirectorySink(tmp_path / uid) for uid in ("one", "two")}
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("ts")
    with new_pipeline(spark, tmp_path, streaming=streaming) as pipeline:
        source = DataGeneratorSource(event_rows, 90, EVENTS, split_rows=30, batch_rows=7)
        df = pipeline.from_source(source, uid="made", watermark_strategy=strategy)
        for uid, sink in sinks.items():
            pipeline.sink_to(df, sink, uid=uid)
        assert pipeline.run()
        run = pipeline._run
        (job,) = [stream.job for stream in run.streams] or [run.batch.query.engine.job]
        assert len(job.df.columns) == 1  # only entries
    expected = pa.Table.from_batches([event_rows(pa.array(range(90)))])
    for sink in sinks.values():
        assert sink.read().sort_by("n").equals(expected)


@pytest.mark.parametrize("streaming", [True, None])
def test_a_source_without_a_sink_is_not_read(
    spark: SparkSession, tmp_path: Path, streaming: bool | None, caplog: pytest.LogCaptureFixture
) -> None:
    sink = DirectorySink(tmp_path / "out")
    with new_pipeline(spark, tmp_path, streaming=streaming, parallelism=1) as pipeline:
        pipeline.from_source(DataGeneratorSource(fails, 10, EVENTS), uid="unused")
        pipeline.sink_to(pipeline.from_source(numbers(20), uid="numbers"), sink, uid="out")
        assert pipeline.run()
    assert counts(sink, "value") == once(range(20))
    assert "does not read unused" in caplog.text


def fails(indices: pa.Array) -> pa.RecordBatch:
    raise ValueError(f"{len(indices)} rows that no one wants")


def test_a_batch_run_writes_dead_letters_and_can_end_at_a_record(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = LogSource(tmp_path / "log")
    log.write("a", [*range(30), "bad"])
    log.write("b", ["worse", *range(30, 60)])
    out, unread = PickySink(tmp_path / "out"), DirectorySink(tmp_path / "unread")
    unwritten, ended = DirectorySink(tmp_path / "unwritten"), DirectorySink(tmp_path / "ended")
    with new_pipeline(spark, tmp_path, streaming=None) as pipeline:
        df = pipeline.from_source(log, uid="log", record_policy=RecordPolicy.dead_letter(unread))
        policy = RecordPolicy.dead_letter(unwritten)
        pipeline.sink_to(df.limit(1000), out, uid="out", record_policy=policy)
        cut = pipeline.from_source(
            numbers(100, split_rows=100),
            uid="cut",
            record_evaluator=RecordEvaluator.column_equals("value", 42),
        )
        pipeline.sink_to(cut, ended, uid="ended")
        assert pipeline.run()
    assert counts(out) == once(n for n in range(60) if n % 10 != 3)
    assert counts(unread, "raw") == once([b"bad", b"worse"])
    assert counts(unwritten, "raw") == once(b"%d" % n for n in range(3, 60, 10))
    assert not any((tmp_path / "checkpoint" / "runs").iterdir())
    assert counts(ended, "value") == once(range(43))


def test_a_source_that_only_a_subquery_reads_belongs_to_a_batch_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    log, wanted = LogSource(tmp_path / "log"), LogSource(tmp_path / "wanted")
    log.write("a", range(10))
    wanted.write("a", [*range(5, 20), "bad"])
    out, unread = DirectorySink(tmp_path / "out"), DirectorySink(tmp_path / "unread")
    with new_pipeline(spark, tmp_path, streaming=None) as pipeline:
        policy = RecordPolicy.dead_letter(unread)
        pipeline.from_source(log, uid="log").createOrReplaceTempView("events")
        pipeline.from_source(wanted, uid="wanted", record_policy=policy).createOrReplaceTempView(
            "wanted"
        )
        df = spark.sql("SELECT * FROM events WHERE n IN (SELECT n FROM wanted)")
        pipeline.sink_to(df, out, uid="out")
        assert pipeline.run()
        assert {source.uid: source.rows for source in pipeline.status().sources} == {
            "log": 10,
            "wanted": 15,
        }
    assert counts(out) == once(range(5, 10))
    assert counts(unread, "raw") == once([b"bad"])
    assert identity(tmp_path / "checkpoint").queries[0].sources == ("log",)


# --- Streaming ------------------------------------------------------------------------------------


def test_a_bounded_stream_is_written_to_sinks_of_all_kinds(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = LogSource(tmp_path / "log")
    log.write("a", range(100))
    log.write("b", range(100, 180))
    sinks = {uid: DirectorySink(tmp_path / uid) for uid in ("all", "copy", "thirds", "numbers")}
    with new_pipeline(spark, tmp_path) as pipeline:
        df = pipeline.from_source(log, uid="log", limits=ReadLimits(rows=75))
        pipeline.sink_to(df, sinks["all"], uid="all")
        pipeline.sink_to(df, sinks["copy"], uid="copy", parallelism=3)
        pipeline.sink_to(df.where("n % 3 = 0"), sinks["thirds"], uid="thirds")
        other = pipeline.from_source(numbers(60), uid="numbers")
        pipeline.sink_to(other, sinks["numbers"], uid="numbers-out")
        assert pipeline.run()
        assert pipeline.status().state is PipelineState.FINISHED
    assert counts(sinks["all"]) == counts(sinks["copy"]) == once(range(180))
    assert counts(sinks["thirds"]) == once(range(0, 180, 3))
    assert counts(sinks["numbers"], "value") == once(range(60))
    assert all(sink.staged() == [] for sink in sinks.values())
    # Sinks on different DataFrames form a tagged union. Sinks that share no source are two queries.
    queries = identity(tmp_path / "checkpoint").queries
    assert [query.sources for query in queries] == [("log", "log"), ("numbers",)]
    assert [query.sinks for query in queries] == [("all", "copy", "thirds"), ("numbers-out",)]
    for decision in decisions_since(query_store(tmp_path / "checkpoint"), 0).values():
        assert decision.sinks["all"].rows == decision.sinks["copy"].rows
    assert len(list(sinks["copy"].path.glob("0000000000-*"))) <= 3


def test_sinks_on_one_dataframe_share_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    log = LogSource(tmp_path / "log")
    log.write("a", range(40))
    log.write("b", range(40, 80))
    sinks = [DirectorySink(tmp_path / f"out-{number}") for number in range(3)]
    with new_pipeline(spark, tmp_path) as pipeline:
        df = pipeline.from_source(log, uid="log")
        for number, sink in enumerate(sinks):
            own = 2 if number == 2 else None
            pipeline.sink_to(df, sink, uid=f"out-{number}", parallelism=own)
        assert pipeline.run()
    assert all(counts(sink) == once(range(80)) for sink in sinks)
    entries = [
        entry
        for plan, _ in plans_and_reports(tmp_path / "checkpoint")
        for entry in plan.sources["log"].entries
    ]
    assert log.reads == sum(bool(entry.splits) for entry in entries)


def test_the_parallelism_can_change_at_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    log = LogSource(tmp_path / "log", live=True)
    for name in range(5):
        log.write(f"f{name}", range(10_000 + name * 1000, 10_000 + name * 1000 + 40))
    sink = DirectorySink(tmp_path / "out")
    expected = set(range(600)) | {10_000 + f * 1000 + n for f in range(5) for n in range(40)}

    def run(parallelism: int, rows: int) -> None:
        with new_pipeline(spark, tmp_path, parallelism=parallelism) as pipeline:
            made = pipeline.from_source(
                DataGeneratorSource(event_rows, 600, EVENTS, split_rows=30, batch_rows=7),
                uid="made",
                limits=ReadLimits(rows=60),
            )
            live = pipeline.from_source(log, uid="log", limits=ReadLimits(rows=20))
            pipeline.sink_to(made.union(live), sink, uid="out")
            pipeline.start()
            wait_until(lambda: sink.read().num_rows >= rows, f"{rows} rows", pipeline)
        assert pipeline.status().state is PipelineState.STOPPED

    run(2, 100)
    run(5, 350)
    log.write("f0", range(20_000, 20_010))  # resumes in another reader
    expected |= set(range(20_000, 20_010))
    run(1, len(expected))
    assert counts(sink) == once(expected)
    assert sink.staged() == []


def test_an_endless_source_respects_its_rate(spark: SparkSession, tmp_path: Path) -> None:
    sink = DirectorySink(tmp_path / "out")
    rate, burst = 60, 30

    def run(rows: int) -> None:
        before = sink.read().num_rows
        with new_pipeline(spark, tmp_path, streaming=None) as pipeline:
            source = DataGeneratorSource(
                event_rows,
                None,
                EVENTS,
                RateLimiterStrategy.per_second(rate, burst),
                split_rows=20,
            )
            df = pipeline.from_source(source, uid="made")
            assert df.isStreaming
            pipeline.sink_to(df, sink, uid="out")
            began = time.monotonic()
            pipeline.start()
            assert not pipeline.await_termination(timeout=0.2)
            assert pipeline.status().state is PipelineState.RUNNING
            wait_until(lambda: sink.read().num_rows >= before + rows, f"{rows} rows", pipeline)
            pipeline.stop()
            assert pipeline.await_termination()
        seconds = time.monotonic() - began
        assert sink.read().num_rows - before <= rate * seconds + burst

    run(150)
    run(50)
    found = counts(sink)
    assert max(found.values()) == 1
    # Every split is read from its start without a gap, and no split is left out.
    for first in range(0, max(found), 20):
        own = [n for n in range(first, first + 20) if n in found]
        assert own == list(range(first, first + len(own)))
    assert len({n // 20 for n in found}) >= max(found) // 20 - 2


def test_stop_lets_the_running_micro_batch_end(spark: SparkSession, tmp_path: Path) -> None:
    log = LogSource(tmp_path / "log")
    log.write("a", range(50))
    (log.folder / "gate").touch()
    sink = DirectorySink(tmp_path / "out")

    def build() -> Pipeline:
        pipeline = new_pipeline(spark, tmp_path)
        df = pipeline.from_source(log, uid="log", limits=ReadLimits(rows=30))
        pipeline.sink_to(df, sink, uid="out")
        return pipeline

    pipeline = build()
    pipeline.start()
    wait_until(lambda: log.reads > 0, "a reader has begun", pipeline)
    stopper = threading.Thread(target=pipeline.stop)
    stopper.start()
    assert not pipeline.await_termination(0.5)  # it waits for the batch
    (log.folder / "gate").unlink()
    stopper.join(30)
    assert not stopper.is_alive()
    assert pipeline.await_termination()  # a stop is not a failure
    assert pipeline.status().state is PipelineState.STOPPED
    assert counts(sink) == once(range(30))
    with build() as pipeline:
        assert pipeline.run()
    assert counts(sink) == once(range(50))


def test_a_failure_stops_all_queries_and_a_restart_resumes_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = LogSource(tmp_path / "log", live=True)
    log.write("a", range(40))
    endless, out = DirectorySink(tmp_path / "endless"), DirectorySink(tmp_path / "out")

    def build() -> Pipeline:
        pipeline = new_pipeline(spark, tmp_path)
        source = DataGeneratorSource(
            event_rows, None, EVENTS, RateLimiterStrategy.per_second(50, 50), split_rows=20
        )
        made = pipeline.from_source(source, uid="made")
        pipeline.sink_to(made, endless, uid="endless")
        df = pipeline.from_source(log, uid="log")
        pipeline.sink_to(df, out, uid="out")
        return pipeline

    with build() as pipeline:
        pipeline.start()
        wait_until(lambda: sum(counts(out).values()) == 40, "the first rows", pipeline)
        (log.folder / "broken").touch()
        log.write("a", range(40, 60))
        with pytest.raises(FatalError) as failure:
            pipeline.await_termination(timeout=60)
    assert "the log cannot be read" in str(failure.value)
    assert pipeline.status().state is PipelineState.FAILED
    assert [q.state for q in pipeline.status().queries] == [
        PipelineState.STOPPED,
        PipelineState.FAILED,
    ]
    (log.folder / "broken").unlink()
    rows = sum(counts(endless).values())
    with build() as pipeline:
        pipeline.start()
        wait_until(
            lambda: sum(counts(out).values()) >= 60 and sum(counts(endless).values()) > rows,
            "all rows of the log",
            pipeline,
        )
    assert counts(out) == once(range(60))
    assert max(counts(endless).values()) == 1


def test_rows_that_a_limit_leaves_unread_are_read_for_their_report(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unread: list[int] = []
    read_missing = SparkEngine.read
    monkeypatch.setattr(
        SparkEngine,
        "read",
        lambda self, entries: unread.append(len(entries)) or read_missing(self, entries),
    )
    sink = DirectorySink(tmp_path / "out")
    rows = 8_000_000  # more than the socket buffers between Python and the JVM hold
    with new_pipeline(spark, tmp_path) as pipeline:
        source = NumberSequenceSource(0, rows - 1, split_rows=rows // 4, batch_rows=100_000)
        df = pipeline.from_source(source, uid="numbers", limits=ReadLimits(rows=rows // 2))
        pipeline.sink_to(df.limit(7), sink, uid="out")
        assert pipeline.run()
    assert sum(unread) > 0
    assert len(counts(sink, "value")) == sum(counts(sink, "value").values()) == 7
    reports = [
        report for _, own in plans_and_reports(tmp_path / "checkpoint") for report in own["numbers"]
    ]
    assert all(report is not None for report in reports)
    assert sum(report.rows for report in reports if report is not None) == rows


# --- Bad records ----------------------------------------------------------------------------------


@pytest.mark.line("3.5")
def test_dead_letters_are_written_once_even_if_their_epoch_runs_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = LogSource(tmp_path / "log")
    log.write("a", [n if n % 8 else f"bad-{n}" for n in range(40)])
    log.write("b", [n if n % 8 else f"bad-{n}" for n in range(40, 80)])
    out, unread = PickySink(tmp_path / "out"), DirectorySink(tmp_path / "unread")
    unwritten = DirectorySink(tmp_path / "unwritten")

    def run() -> None:
        with new_pipeline(spark, tmp_path) as pipeline:
            df = pipeline.from_source(
                log,
                uid="log",
                limits=ReadLimits(rows=30),
                record_policy=RecordPolicy.dead_letter(unread),
            )
            policy = RecordPolicy.dead_letter(unwritten)
            pipeline.sink_to(df, out, uid="out", record_policy=policy)
            assert pipeline.run()

    for point in (FaultPoint.BEFORE_DECISION, FaultPoint.AFTER_DECISION):
        with injected(fails_once_at(point)), pytest.raises(FatalError):
            run()
    broken = tmp_path / "log" / "broken"
    broken.touch()
    with pytest.raises(FatalError, match="the log cannot be read"):
        run()
    broken.unlink()
    run()
    good = [n for n in range(80) if n % 8]
    assert counts(out) == once(n for n in good if n % 10 != 3)
    assert counts(unread, "raw") == once(b"bad-%d" % n for n in range(0, 80, 8))
    assert counts(unwritten, "raw") == once(b"%d" % n for n in good if n % 10 == 3)

    def nothing_is_staged() -> bool:
        # A task that Spark kills can stage a file after the sweeps. The next start removes it.
        run()
        return not any(sink.staged() for sink in (out, unread, unwritten))

    wait_until(nothing_is_staged, "all staged files are removed")
    assert set(unread.read()["split_id"].to_pylist()) == {"a", "b"}


def test_the_limit_of_skipped_records_applies_to_all_readers_and_plans_together(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = LogSource(tmp_path / "log", batch_rows=5)
    log.write("a", [n if n % 10 else "bad" for n in range(30)])
    log.write("b", [n if n % 10 else "bad" for n in range(30, 60)])
    sink = DirectorySink(tmp_path / "out")

    def run(limit: int) -> Pipeline:
        with new_pipeline(spark, tmp_path) as pipeline:
            df = pipeline.from_source(
                log,
                uid="log",
                limits=ReadLimits(rows=20),
                record_policy=RecordPolicy.skip(max_records=limit),
            )
            pipeline.sink_to(df, sink, uid="out")
            assert pipeline.run()
        return pipeline

    with pytest.raises(ConnectorError) as failure:
        run(5)
    assert isinstance(failure.value, BadRecordLimitError) or "than allowed" in str(failure.value)
    committed = sum(counts(sink).values())
    assert committed < 54
    pipeline = run(6)  # all bad records, also those before the restart
    assert counts(sink) == once(n for n in range(60) if n % 10)
    decisions = decisions_since(query_store(tmp_path / "checkpoint"), 0).values()
    assert sum(decision.skipped for decision in decisions) == 6
    assert pipeline.status().state is PipelineState.FINISHED


def test_a_matching_record_ends_its_split(spark: SparkSession, tmp_path: Path) -> None:
    sink = DirectorySink(tmp_path / "out")
    with new_pipeline(spark, tmp_path) as pipeline:
        df = pipeline.from_source(
            numbers(400, split_rows=100),
            uid="numbers",
            limits=ReadLimits(rows=90),
            record_evaluator=RecordEvaluator.of(ends_in_42),
        )
        pipeline.sink_to(df, sink, uid="out")
        assert pipeline.run()
    assert counts(sink, "value") == once(n for n in range(400) if n % 100 <= 42)


def ends_in_42(batch: pa.RecordBatch) -> pa.Array:
    return pa.array([n % 100 == 42 for n in batch.column("value").to_pylist()])


# --- Refused pipelines ---------------------------------------------------------------------------


class PostCommitOnly(Sink, SupportsPostCommitTopology):
    def create_writer(self, context: Any) -> Any:
        raise AssertionError("never asked")

    def add_post_commit_topology(self, messages: Any) -> None:
        raise AssertionError("never asked")


def _uid_twice(pipeline: Pipeline, spark: SparkSession) -> None:
    pipeline.from_source(numbers(1), uid="a")
    pipeline.from_source(numbers(1), uid="a")


def _uid_of_source_and_sink(pipeline: Pipeline, spark: SparkSession) -> None:
    df = pipeline.from_source(numbers(1), uid="a")
    pipeline.sink_to(df, DirectorySink("/nowhere"), uid="a")


def _uid_not_usable(pipeline: Pipeline, spark: SparkSession) -> None:
    pipeline.from_source(numbers(1), uid="../a")


def _no_sink(pipeline: Pipeline, spark: SparkSession) -> None:
    pipeline.from_source(numbers(1), uid="a")
    pipeline.run()


def _no_end(pipeline: Pipeline, spark: SparkSession) -> None:
    source = DataGeneratorSource(event_rows, None, EVENTS)
    df = pipeline.from_source(source, uid="a")
    pipeline.sink_to(df, DirectorySink("/nowhere"), uid="out")
    pipeline.run()


def _post_commit_without_commits(pipeline: Pipeline, spark: SparkSession) -> None:
    pipeline.sink_to(pipeline.from_source(numbers(1), uid="a"), PostCommitOnly(), uid="out")


def _stream_of_spark(pipeline: Pipeline, spark: SparkSession) -> None:
    df = spark.readStream.format("rate").load()
    pipeline.sink_to(df, DirectorySink("/nowhere"), uid="out")
    pipeline.run()


def _table_of_spark(pipeline: Pipeline, spark: SparkSession) -> None:
    pipeline.from_source(numbers(1), uid="a")
    pipeline.sink_to(spark.range(3), DirectorySink("/nowhere"), uid="out")
    pipeline.run()


def _rows_of_another_pipeline(pipeline: Pipeline, spark: SparkSession) -> None:
    with TemporaryDirectory() as folder:
        other = new_pipeline(spark, Path(folder), "other", streaming=None)
        rows = other.from_source(numbers(1), uid="b")
        pipeline.sink_to(rows, DirectorySink("/nowhere"), uid="out")
        pipeline.run()


@pytest.mark.parametrize(
    ("build", "streaming", "message"),
    [
        (_uid_twice, True, "used twice"),
        (_uid_of_source_and_sink, True, "used twice"),
        (_uid_not_usable, True, "cannot be a uid"),
        (_no_sink, True, "no sink"),
        (_no_sink, None, "no sink"),
        (_no_end, None, "has no end"),
        (_post_commit_without_commits, True, "nothing to commit"),
        (_stream_of_spark, True, "would never end: out reads a stream of Spark"),
        (_table_of_spark, True, "writes rows of a batch DataFrame"),
        (_rows_of_another_pipeline, None, "a source that is not of this pipeline"),
    ],
)
def test_an_invalid_pipeline_is_refused(
    spark: SparkSession,
    tmp_path: Path,
    build: Callable[[Pipeline, SparkSession], None],
    streaming: bool | None,
    message: str,
) -> None:
    pipeline = new_pipeline(spark, tmp_path, streaming=streaming)
    with pytest.raises((ConfigurationError, UnsupportedError), match=message):
        build(pipeline, spark)
    new_pipeline(spark, tmp_path)  # the refused pipeline holds no lease
    assert not (tmp_path / "checkpoint" / "query-0").exists()


@pytest.mark.parametrize("keyword", ["trigger_interval", "lease_expiry", "connection_timeout"])
def test_the_durations_of_a_pipeline_are_checked(
    spark: SparkSession, tmp_path: Path, keyword: str
) -> None:
    new_pipeline(spark, tmp_path, **{keyword: "90 s"})
    with pytest.raises(InvalidOptionError, match="a duration with a unit") as refused:
        new_pipeline(spark, tmp_path, **{keyword: 5})
    assert refused.value.option == keyword


def test_batch_and_streaming_sources_cannot_be_mixed(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = new_pipeline(spark, tmp_path, streaming=None)
    batch = pipeline.from_source(numbers(1), uid="batch")
    stream = pipeline.from_source(DataGeneratorSource(event_rows, None, EVENTS), uid="stream")
    pipeline.sink_to(batch, DirectorySink(tmp_path / "a"), uid="a")
    pipeline.sink_to(stream, DirectorySink(tmp_path / "b"), uid="b")
    with pytest.raises(ConfigurationError, match="mixes streaming and batch"):
        pipeline.start()


@pytest.mark.parametrize("streaming", [True, None])
def test_a_dataframe_of_another_pipeline_is_refused(
    spark: SparkSession, tmp_path: Path, streaming: bool | None
) -> None:
    other = new_pipeline(spark, tmp_path / "other", streaming=streaming)
    theirs = other.from_source(numbers(5), uid="theirs")
    pipeline = new_pipeline(spark, tmp_path, streaming=streaming)
    ours = pipeline.from_source(numbers(5), uid="ours")
    pipeline.sink_to(ours.union(theirs), DirectorySink(tmp_path / "out"), uid="out")
    with pytest.raises(ConfigurationError, match="theirs"):
        pipeline.run()


def test_a_pipeline_object_runs_once(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = new_pipeline(spark, tmp_path, streaming=None)
    df = pipeline.from_source(numbers(5), uid="numbers")
    pipeline.sink_to(df, DirectorySink(tmp_path / "out"), uid="out")
    assert pipeline.run()
    with pytest.raises(ConfigurationError, match="after the pipeline was started") as refusal:
        pipeline.run()
    assert "new Pipeline" in str(refusal.value)
    with pytest.raises(ConfigurationError, match="after the pipeline was started"):
        pipeline.sink_to(df, DirectorySink(tmp_path / "more"), uid="more")


TAKE_THE_LEASE = """
import sys
from connectors_core.engine.state import Lease, StateStore
Lease.acquire(StateStore(sys.argv[1]))  # what every driver does first
"""


def test_a_second_driver_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    log = LogSource(tmp_path / "log", live=True)
    log.write("a", range(10))
    sink = DirectorySink(tmp_path / "out")

    def build() -> Pipeline:
        pipeline = new_pipeline(spark, tmp_path)
        pipeline.sink_to(pipeline.from_source(log, uid="log"), sink, uid="out")
        return pipeline

    with build() as pipeline:
        pipeline.start()
        wait_until(lambda: sum(counts(sink).values()) == 10, "the first rows", pipeline)
        with pytest.raises(LeaseError, match="this process holds it"):
            build().start()
        second = subprocess.run(
            [sys.executable, "-c", TAKE_THE_LEASE, str(tmp_path / "checkpoint")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert second.returncode == 1, second.stderr[-3000:]
        assert "LeaseError" in second.stderr
        assert f"pid {os.getpid()}" in second.stderr
        log.write("a", range(10, 20))
        wait_until(lambda: sum(counts(sink).values()) == 20, "the first continues", pipeline)
    with build() as pipeline:  # the released lease is free
        pipeline.start()
    assert counts(sink) == once(range(20))
