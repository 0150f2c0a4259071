# SPDX-License-Identifier: Apache-2.0
import pickle
import re
from dataclasses import replace

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from connectors_core.engine.coordinator.source_observation import SplitStatus
from connectors_core.engine.query.status import (
    LookupStatus,
    PipelineStatus,
    QueryStatus,
    SinkStatus,
    SourceStatus,
)
from connectors_core.metrics import (
    CommitterMetric,
    EnumeratorMetric,
    LookupMetric,
    Meter,
    MetricGroup,
    SinkMetric,
    SourceMetric,
    SplitMetric,
)
from connectors_core.spark.exported_metrics import (
    LOOKUP_METRICS,
    SINK_METRICS,
    SOURCE_METRICS,
    SPLIT_METRICS,
    exported_metrics,
)
from connectors_core.spark.telemetry import METER_NAME, Instruments, Telemetry


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def status(rows=7, *, name="p", reader_gauges=None):
    split = SplitStatus(
        split_id="file-1",
        subtask=0,
        read=True,
        idle=False,
        rows=rows,
        watermark=5_000_000,
        head=None,
    )
    source = SourceStatus(
        uid="in",
        splits=(split,),
        counters={"numRecordsIn": rows, "commitsSucceeded": 3},
        gauges={"watermarkLag": 12.0, "openFiles": 2.0},
        reader_gauges=reader_gauges or {},
    )
    sink = SinkStatus(uid="out", counters={"numRecordsSend": rows, "totalCommittables": 1})
    query = QueryStatus(name="query-0", state="running", sources=(source,), sinks=(sink,))
    return PipelineStatus(name=name, queries=(query,))


@pytest.fixture
def reader():
    return InMemoryMetricReader()


@pytest.fixture
def instruments(reader):
    provider = MeterProvider([reader])
    yield Instruments(provider)
    provider.shutdown()


def collected(reader):
    data = reader.get_metrics_data()
    found = {}
    for resource in data.resource_metrics if data else ():
        for scope in resource.scope_metrics:
            assert scope.scope.name == METER_NAME
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    found[metric.name, *sorted(point.attributes.items())] = point.value
    return found


def of(instrument, uid, *, pipeline="p", **attributes):
    return (instrument, *sorted({"pipeline": pipeline, "uid": uid, **attributes}.items()))


def test_metric_names_are_those_of_flip_33():
    assert SourceMetric.NUM_RECORDS_IN == "numRecordsIn"
    assert SinkMetric.NUM_RECORDS_SEND_ERRORS == "numRecordsSendErrors"
    ours = {CommitterMetric.LOST_COMMITTABLES, CommitterMetric.COMMIT_TASKS}
    assert [str(name) for name in CommitterMetric if name not in ours] == [
        "totalCommittables",
        "successfulCommittables",
        "alreadyCommittedCommittables",
        "failedCommittables",
        "retriedCommittables",
        "pendingCommittables",
    ]


def test_a_group_accepts_enum_names_and_returns_plain_strings():
    group = MetricGroup()
    group.inc(SourceMetric.NUM_RECORDS_IN, 2)
    group.inc("numRecordsIn")
    group.set(SourceMetric.PENDING_RECORDS, 9)
    assert group.counters == {"numRecordsIn": 3}
    assert all(type(name) is str for name in [*group.counters, *group.gauges])


def test_a_copy_is_independent_and_groups_can_be_pickled():
    group = MetricGroup()
    group.inc("a")
    copy = group.copy()
    group.inc("a")
    assert copy.counters == {"a": 1}
    assert pickle.loads(pickle.dumps(group)) == group


def test_a_meter_counts_over_its_window():
    clock = Clock()
    meter = Meter(window=10, clock=clock)
    assert meter.rate() == 0
    clock.now += 2
    meter.mark(100)
    assert meter.rate() == 50
    clock.now += 8
    assert meter.rate() == 10
    meter.mark(50)
    clock.now += 5
    assert meter.rate() == 5
    clock.now += 10
    assert meter.rate() == 0


def test_metrics_carry_pipeline_uid_and_split(instruments, reader):
    telemetry = Telemetry(status)
    instruments.add(telemetry)
    found = collected(reader)
    assert found[of("connectors.source.records.read", "in")] == 7
    assert found[of("connectors.sink.records.written", "out")] == 7
    assert found[of("connectors.sink.committables.received", "out")] == 1
    assert found[of("connectors.source.watermark.lag", "in")] == 0.012
    assert found[of("connectors.split.watermark.timestamp", "in", split="file-1")] == 5
    assert found[of("connectors.split.records.read", "in", split="file-1")] == 7


def test_lookups_have_metrics(instruments, reader):
    lookup = LookupStatus(
        uid="planes",
        counters={"hitCount": 3, "own": 2},
        gauges={"numCachedRecord": 9.0},
    )
    telemetry = Telemetry(lambda: replace(status(), lookups=(lookup,)))
    instruments.add(telemetry)
    found = collected(reader)
    assert found[of("connectors.lookup.cache.hits", "planes")] == 3
    assert found[of("connectors.lookup.cache.records", "planes")] == 9
    assert found[of("connectors.custom.counter", "planes", name="own")] == 2


def test_custom_metrics_of_a_connector_share_two_instruments(instruments, reader):
    telemetry = Telemetry(lambda: status(reader_gauges={1: {"openFiles": 4.0}}))
    instruments.add(telemetry)
    found = collected(reader)
    assert found[of("connectors.custom.counter", "in", name="commitsSucceeded")] == 3
    assert found[of("connectors.custom.gauge", "in", name="openFiles")] == 2
    assert found[of("connectors.custom.gauge", "in", name="openFiles", subtask=1)] == 4


def test_one_collection_requests_one_status(instruments, reader):
    asked = []

    def ask():
        asked.append(True)
        return status(len(asked))

    clock = Clock()
    telemetry = Telemetry(ask, clock)
    instruments.add(telemetry)
    assert collected(reader)[of("connectors.source.records.read", "in")] == 1
    clock.now += 60
    assert collected(reader)[of("connectors.sink.records.written", "out")] == 2
    telemetry.refresh()
    assert collected(reader)[of("connectors.source.records.read", "in")] == 3
    assert len(asked) == 3


def test_pipelines_share_the_instruments_until_they_close(instruments, reader):
    first, second = Telemetry(status), Telemetry(lambda: status(9, name="q"))
    instruments.add(first)
    instruments.add(second)
    found = collected(reader)
    assert found[of("connectors.source.records.read", "in")] == 7
    assert found[of("connectors.source.records.read", "in", pipeline="q")] == 9
    first.close()
    assert of("connectors.source.records.read", "in") not in collected(reader)
    del second
    assert collected(reader) == {}


def test_every_metric_has_its_own_instrument():
    known = {*SOURCE_METRICS, *SPLIT_METRICS, *SINK_METRICS, *LOOKUP_METRICS}
    enums = (
        SourceMetric,
        EnumeratorMetric,
        SplitMetric,
        SinkMetric,
        CommitterMetric,
        LookupMetric,
    )
    assert known == {str(metric) for each in enums for metric in each}
    names = [each.prometheus_name for each in exported_metrics()]
    assert len(names) == len(set(names))


def test_instrument_names_are_valid_in_prometheus():
    for each in exported_metrics():
        assert re.fullmatch(r"connectors(\.[a-z_]+)+", each.name)
        assert each.prometheus_name.endswith("_total") == each.is_counter
        assert each.unit in {"", "s", "By"} or re.fullmatch(r"\{[a-z]+\}", each.unit)
    metrics = {each.name: each.prometheus_name for each in exported_metrics()}
    assert metrics["connectors.source.records.read"] == "connectors_source_records_read_total"
    assert metrics["connectors.source.watermark.lag"] == "connectors_source_watermark_lag_seconds"
    assert metrics["connectors.sink.written"] == "connectors_sink_written_bytes_total"


def test_without_an_sdk_no_metrics_are_recorded():
    telemetry = Telemetry(lambda: pytest.fail("no one asks"))
    Instruments().add(telemetry)
