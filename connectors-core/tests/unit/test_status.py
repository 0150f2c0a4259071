# SPDX-License-Identifier: Apache-2.0
import json
import queue
import time
from datetime import timedelta
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from other_driver import HeldBy

from connectors_core.engine.coordinator.plan_log import read_plan
from connectors_core.engine.coordinator.query_coordinator import QueryCallbacks, QueryCoordinator
from connectors_core.engine.coordinator.source_observation import (
    SourceCounts,
    SourceObservation,
    SplitStatus,
    count_report,
)
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.coordinator.split_ledger import SplitLedger
from connectors_core.engine.execution.reader_task import ReaderTask, read_entry
from connectors_core.engine.protocol import Report
from connectors_core.engine.query.status import (
    PipelineState,
    PipelineStatus,
    QueryStatus,
    SinkProgress,
    SourceStatus,
    error_kinds,
    error_text,
    sink_status,
    source_status,
    spark_watermark,
)
from connectors_core.engine.state import StateStore
from connectors_core.errors import BadRecordError, ConfigurationError, ForeignError
from connectors_core.metrics import MetricGroup
from connectors_core.sink import DeliveryGuarantee
from connectors_core.source.data_generator import DataGeneratorSource
from connectors_core.source.sequence import NumberSequenceSource
from connectors_core.source.split import ReadLimits
from connectors_core.source.watermarks import END_OF_TIME, WatermarkStrategy

SECONDS = 20


class Driver:
    """A query without Spark, which reads the entries of every plan in this process."""

    def __init__(self, folder, source, *, limits=None, strategy=None, parallelism=2):
        self.root = StateStore(str(folder))
        self.reader = ReaderTask(
            source=source, uid="in", store=self.root, schema=source.schema(), strategy=strategy
        )
        self.events = queue.Queue()
        settings = SourceSettings(
            uid="in",
            source=source,
            parallelism=parallelism,
            strategy=strategy,
            limits=limits or ReadLimits(),
        )
        self.coordinator = QueryCoordinator(
            [settings],
            store=self.root.child("query-0"),
            pipeline_id="p",
            query="query-0",
            lease=HeldBy(1),
            callbacks=QueryCallbacks(
                feed=self.events.put,
                finished=lambda: self.events.put(None),
                failed=self.events.put,
            ),
        )

    def start(self):
        self.coordinator.recover()
        self.coordinator.start()
        return self

    def next_plan(self):
        plan = self.events.get(timeout=SECONDS)
        if isinstance(plan, BaseException):
            raise plan
        return plan

    def read(self, plan):
        for entry in plan.sources["in"].entries:
            list(read_entry(self.reader, entry))
        self.coordinator.reports_durable(plan.number)

    def run(self):
        plans = 0
        while (plan := self.next_plan()) is not None:
            self.read(plan)
            plans += 1
        return plans

    def observe(self):
        """Observe the source on the coordinator's thread, as a running query does."""
        source = self.coordinator.sources["in"]
        answers = queue.Queue()
        self.coordinator.execute(lambda: answers.put(source.observe()))
        return answers.get(timeout=SECONDS)

    def status(self):
        return source_status("in", self.observe())


@pytest.fixture
def driver(tmp_path):
    drivers = []

    def make(source, folder="state", **settings):
        made = Driver(tmp_path / folder, source, **settings)
        drivers.append(made)
        return made.start()

    yield make
    for made in drivers:
        made.coordinator.stop()


def numbers(rows=1000):
    return NumberSequenceSource(0, rows - 1, split_rows=100)


def timed(rows, split_rows=100):
    schema = pa.schema([("at", pa.timestamp("us", tz="UTC"))])

    def make(batch):
        micros = pc.multiply(pc.add(batch, 1_000_000_000), 1_000_000)
        return pa.record_batch([micros.cast(schema.field(0).type)], schema=schema)

    return DataGeneratorSource(make, rows, schema, split_rows=split_rows)


def test_rows_bytes_and_splits_come_from_reports(driver):
    query = driver(numbers(), limits=ReadLimits(rows=300))
    plans = query.run()
    status = query.status()
    assert plans >= 4
    assert (status.rows, status.bytes) == (1000, 8000)
    assert (status.splits_finished, status.splits_assigned) == (10, 0)
    assert status.finished
    assert status.rows_per_second > 0


def test_unfinished_splits_show_their_rows(driver):
    query = driver(numbers(), limits=ReadLimits(rows=120), parallelism=1)
    query.read(query.next_plan())
    query.next_plan()
    status = query.status()
    assert status.rows == 120
    assert status.splits_finished == 1
    assert [(split.split_id, split.rows) for split in status.splits] == [("100", 20)]
    assert status.splits_assigned > 1
    assert not status.finished


def test_a_replayed_batch_is_counted_once(driver):
    query = driver(numbers(), limits=ReadLimits(rows=300))
    first = query.next_plan()
    query.read(first)
    query.next_plan()
    query.read(first)
    query.read(first)
    assert query.status().rows == 300


def test_counters_start_from_zero_with_each_driver(driver):
    first = driver(numbers(), limits=ReadLimits(rows=300))
    first.read(first.next_plan())
    first.next_plan()
    first.coordinator.stop()
    second = driver(numbers(), limits=ReadLimits(rows=300))
    assert second.status().rows == 0  # the driver has read its logs
    # Spark knows the outstanding plan and runs it again.
    second.read(read_plan(second.root.child("query-0"), second.coordinator.newest))
    second.run()
    assert second.status().rows == 700
    assert second.status().finished


def test_a_stopped_coordinator_can_still_be_observed(driver):
    query = driver(numbers())
    query.run()
    query.coordinator.stop()
    assert query.coordinator.sources["in"].observe().metrics.counters["numRecordsIn"] == 1000


def test_the_status_shows_the_watermark_and_lags(driver):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(
        timedelta(seconds=1)
    ).with_timestamp_assigner("at")
    query = driver(timed(200), strategy=strategy, limits=ReadLimits(rows=50), parallelism=1)
    query.read(query.next_plan())
    second = query.next_plan()
    status = query.status()
    assert status.splits[0].watermark is not None
    assert status.gauges["currentEmitEventTimeLag"] > 0
    query.read(second)
    query.run()
    end = query.status()
    assert end.watermark >= END_OF_TIME
    assert end.watermark_lag is None


def report(**fields):
    return Report(pipeline_id="p", plan=0, nonce="n", source="in", subtask=0, attempt=0, **fields)


def test_bytes_come_from_the_reader_but_rows_do_not():
    metrics = MetricGroup()
    counters = {"numBytesIn": 999, "numRecordsIn": 5, "commitsSucceeded": 2}
    count_report(metrics, report(rows=10, bytes=80, skipped=1, dead_letters=2, counters=counters))
    assert metrics.counters == {
        "numRecordsIn": 10,
        "numBytesIn": 999,
        "numRecordsInErrors": 3,
        "numRecordsSkipped": 1,
        "numDeadLetters": 2,
        "commitsSucceeded": 2,
    }


def observation(**fields):
    known = {
        "splits": (),
        "splits_finished": 0,
        "watermark": None,
        "finished": False,
        "rows_per_second": 0.0,
        "idle_seconds": 1.5,
        "metrics": MetricGroup(),
        "reader_gauges": {},
    }
    return SourceObservation(**(known | fields))


def test_the_status_shows_enumerator_gauges_and_pending_work():
    metrics = MetricGroup(gauges={"unassignedSplits": 4, "pendingRecords": 10})
    status = source_status("in", observation(metrics=metrics))
    assert (status.splits_unassigned, status.pending_records, status.pending_bytes) == (4, 10, None)
    assert status.gauges["sourceIdleTime"] == 1500


def test_the_status_shows_idle_and_held_splits():
    def split(name, **fields):
        known = {"subtask": 0, "read": True, "idle": False, "rows": 0, "watermark": 1, "head": None}
        return SplitStatus(split_id=name, **(known | fields))

    splits = (split("a", idle=True), split("b", head=70), split("c", head=50))
    status = source_status("in", observation(splits=splits))
    assert status.idle_splits == 1
    assert status.head == 50


def test_pending_gauges_of_readers_are_summed_and_lags_are_maximized():
    ledger = SplitLedger(
        SourceSettings(uid="in", source=numbers(), parallelism=2), clock=time.monotonic
    )
    counts = SourceCounts(MetricGroup(), strategy=None, clock=time.monotonic)
    for subtask, (pending, lag) in enumerate([(5, 10.0), (7, 90.0)]):
        gauges = {"pendingRecords": pending, "currentFetchEventTimeLag": lag, "own": subtask}
        counts.report(Report(**(vars(report()) | {"subtask": subtask, "gauges": gauges})), ledger)
    seen = counts.observe(ledger, watermark=None, finished=True, replayable=True)
    assert seen.metrics.gauges == {"pendingRecords": 12, "currentFetchEventTimeLag": 90.0}
    assert seen.reader_gauges == {0: {"own": 0}, 1: {"own": 1}}


def test_the_status_shows_sink_counters_and_pending_committables():
    progress = SinkProgress()
    progress.metrics.inc("numRecordsSend", 10)
    progress.metrics.inc("numEpochsCommitted")
    metrics = MetricGroup(
        counters={
            "totalCommittables": 6,
            "successfulCommittables": 2,
            "alreadyCommittedCommittables": 1,
            "retriedCommittables": 3,
        }
    )
    committer = SimpleNamespace(metrics=metrics, guarantee=DeliveryGuarantee.EXACTLY_ONCE)
    status = sink_status("out", progress, committer)
    assert status.guarantee is DeliveryGuarantee.EXACTLY_ONCE
    assert (status.rows, status.commits, status.committables) == (10, 1, 6)
    assert (status.committed, status.pending, status.failed, status.retries) == (3, 3, 0, 3)
    assert status.counters["failedCommittables"] == 0
    assert status.gauges["pendingCommittables"] == 3


def test_a_sink_without_commits_has_no_committer_metrics():
    assert "totalCommittables" not in sink_status("out", SinkProgress(), None).counters


def query(state, error=None):
    source = SourceStatus(uid="in", rows=3, reader_gauges={0: {"own": 1.0}})
    return QueryStatus(name="query-0", state=state, sources=(source,), error=error)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([], PipelineState.RUNNING),
        (["running", "finished"], PipelineState.RUNNING),
        (["finished", "finished"], PipelineState.FINISHED),
        (["finished", "stopped"], PipelineState.STOPPED),
    ],
)
def test_the_state_of_a_pipeline_follows_from_its_queries(states, expected):
    queries = [query(PipelineState(state)) for state in states]
    assert PipelineStatus.of("p", "id", queries, started=True).state is expected


def test_a_pipeline_before_its_start_is_not_started():
    assert PipelineStatus.of("p", None, [], started=False).state is PipelineState.NOT_STARTED


def test_a_failed_query_fails_the_pipeline_with_its_error():
    status = PipelineStatus.of(
        "p",
        "id",
        [query(PipelineState.FINISHED), query(PipelineState.FAILED, "disk full")],
        started=True,
    )
    assert (status.state, status.error) == (PipelineState.FAILED, "disk full")


def test_an_error_before_the_queries_start_is_shown_without_secrets():
    error = ConfigurationError("cannot reach https://user:hunter2@host/x")
    status = PipelineStatus.of("p", None, [], started=True, error=error)
    assert status.state is PipelineState.FAILED
    assert "hunter2" not in json.dumps(status.to_dict())
    # pragma: allowlist nextline secret
    assert "hunter2" not in error_text(ValueError("s3://me:hunter2@bucket"))


def test_to_dict_is_json_serializable():
    status = PipelineStatus.of("p", "id", [query(PipelineState.RUNNING)], started=True)
    plain = status.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["state"] == "running"
    assert plain["queries"][0]["sources"][0]["rows"] == 3


def test_the_watermark_is_parsed_from_the_progress_of_spark():
    progress = {"eventTime": {"watermark": "2013-01-01T05:00:00.000Z"}}
    assert spark_watermark(progress) == 1_357_016_400_000_000
    assert spark_watermark({"eventTime": {}}) is None
    assert spark_watermark(None) is None


def test_the_kinds_of_an_error_tell_classes_and_codes_but_no_values():
    error = BadRecordError("'Ann' is no number", option="schema")
    error.__cause__ = ForeignError("ArrowInvalid: 'Ann'", type_name="pyarrow.lib.ArrowInvalid")
    error.__cause__.__cause__ = ValueError("Ann")
    assert error_kinds(error) == (
        "BadRecordError [BAD_RECORD] about the option schema, caused by ArrowInvalid, caused by "
        "ValueError"
    )
