# SPDX-License-Identifier: Apache-2.0
"""Tests that a pipeline never loses records silently when the broker or the network fails.

The pipelines run in this process against a real broker.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from numbered_records import NumberedRecords, wait

from connector_kafka import (
    KafkaSource,
    OffsetsInitializer,
)
from connector_kafka.client.config import CONSUMER_PROPERTIES, ClientConfig
from connector_kafka.client.fetch_api import FetchApi
from connector_kafka.client.metadata import Cluster, TopicPartition
from connector_kafka.client.wire import Wire
from connector_kafka.errors import CorruptRecordsError
from connector_kafka.testing import KafkaBroker, KafkaProxy
from connectors_core.errors import ConnectorError, DataLossError, InvalidOptionError
from connectors_core.records import RecordPolicy
from connectors_core.source import ReadLimits, WatermarkStrategy
from connectors_core.testing import Fault, FaultAction, FaultPoint, LocalPipeline, injected

pytestmark = pytest.mark.line("3.5")  # these tests do not use Spark
# With these properties, the client notices faults quickly.
IMPATIENT = {
    "request.timeout.ms": "1500",
    "reconnect.backoff.ms": "20",
    "reconnect.backoff.max.ms": "200",
}


@pytest.fixture
def records(broker: KafkaBroker, topic: str, tmp_path: Path) -> NumberedRecords:
    """Return an empty topic for numbered records."""
    return NumberedRecords(broker, topic, tmp_path)


def source(servers: str, topic: str, **more: Any) -> KafkaSource:
    """Return an unbounded source that checks for new records and partitions often."""
    settings = {
        "discovery_interval": timedelta(milliseconds=100),
        "poll_interval": timedelta(milliseconds=20),
        "properties": IMPATIENT,
    }
    return KafkaSource(servers, topics=[topic], **settings | more)


def test_reading_resumes_after_a_broker_crashes_and_restarts(
    broker: KafkaBroker,
    topic: str,
    records: NumberedRecords,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def logged(what: str) -> int:
        return sum("discovering records" in each and what in each for each in caplog.messages)

    records.write(500)
    with records.read_to_the_end(source(broker.bootstrap_servers, topic)) as pipeline:
        pipeline.start()
        records.wait_for_all(pipeline)
        broker.kill()
        wait(lambda: logged("retrying") > 0, "the failure in the log", pipeline)
        broker.start()
        wait(lambda: logged("works again") > 0, "its end in the log", pipeline)
        records.write(500)


@pytest.mark.parametrize(
    ("seconds", "properties"),
    [(3, IMPATIENT), pytest.param(30, {}, marks=pytest.mark.slow)],
    ids=["3 s", "30 s"],
)
def test_reading_resumes_after_a_broker_hangs(
    broker: KafkaBroker,
    topic: str,
    records: NumberedRecords,
    seconds: int,
    properties: dict[str, str],
) -> None:
    records.write(500)
    reading = source(broker.bootstrap_servers, topic, properties=properties)
    with records.read_to_the_end(reading, limits=ReadLimits(rows=50)) as pipeline:
        pipeline.start()
        records.wait_for(100, pipeline)
        broker.pause()
        try:
            assert not pipeline.await_termination(seconds)
        finally:
            broker.resume()
        records.write(500)


def test_reading_resumes_after_connections_break_in_the_middle_of_a_response(
    proxy: KafkaProxy, topic: str, records: NumberedRecords
) -> None:
    records.write(1000, size=1000)
    cuts = proxy.cuts
    with records.read_to_the_end(source(proxy.bootstrap_servers, topic)) as pipeline:
        proxy.cut_after(300_000)
        pipeline.start()
        wait(lambda: proxy.cuts == cuts + 1, "the first cut", pipeline)
        proxy.cut_after(500_000)
        wait(lambda: proxy.cuts == cuts + 2, "the second cut", pipeline)


def test_reading_survives_a_slow_network_and_an_outage(
    proxy: KafkaProxy, topic: str, records: NumberedRecords
) -> None:
    records.write(300, size=1000)
    with records.read_to_the_end(source(proxy.bootstrap_servers, topic)) as pipeline:
        proxy.slow(bytes_per_second=1_000_000, latency=0.01)
        pipeline.start()
        wait(lambda: bool(records.read()), "the first records", pipeline)
        proxy.refuse()
        assert not pipeline.await_termination(2)
        proxy.restore()
        records.write(300, size=1000)


def test_new_partitions_are_read_from_their_start(
    broker: KafkaBroker, topic: str, records: NumberedRecords
) -> None:
    records.write(100)
    with records.read_to_the_end(source(broker.bootstrap_servers, topic)) as pipeline:
        pipeline.start()
        records.wait_for_all(pipeline)
        broker.topics.add_partitions(topic, 3)
        records.write(300, partitions=range(3))


def test_a_bounded_stream_keeps_its_end_over_several_available_now_runs(
    broker: KafkaBroker, topic: str, records: NumberedRecords
) -> None:
    end = OffsetsInitializer.offsets({(topic, 0): 30})
    for _ in range(3):
        records.write(20)
        reading = source(broker.bootstrap_servers, topic, bounded=end, as_stream=True)
        with records.pipeline(reading) as pipeline:
            assert pipeline.run(available_now=True, drain=False, timeout=60)
    assert records.read() == list(range(30))


@pytest.mark.parametrize("bounded", [True, False])
def test_a_start_beyond_the_end_of_the_log_is_refused_at_once(
    broker: KafkaBroker, topic: str, records: NumberedRecords, bounded: bool
) -> None:
    records.write(5)
    reading = source(
        broker.bootstrap_servers,
        topic,
        starting_offsets=OffsetsInitializer.offsets({(topic, 0): 6}),
        bounded=OffsetsInitializer.latest() if bounded else None,
        on_data_loss="earliest",
    )
    error = refusal(records, reading)
    assert isinstance(error, InvalidOptionError)
    assert error.option == "scan.startup.specific-offsets"
    assert "option: starting_offsets" in str(error)
    assert (f"{topic}-0: 5" in str(error.expected), error.found) == (True, f"{topic}-0: 6")


@pytest.mark.parametrize("given", ["offset", "time"])
def test_a_start_behind_the_end_is_refused_at_once(
    broker: KafkaBroker, topic: str, records: NumberedRecords, given: str
) -> None:
    records.write(5)
    offsets = {
        "offset": lambda at: OffsetsInitializer.offsets({(topic, 0): at}),
        "time": lambda at: OffsetsInitializer.timestamp(0 if at == 2 else 1 << 42),
    }[given]
    reading = source(
        broker.bootstrap_servers, topic, starting_offsets=offsets(4), bounded=offsets(2)
    )
    error = refusal(records, reading)
    assert isinstance(error, InvalidOptionError)
    assert error.option == "scan.startup.mode"
    assert f"{topic}-0: " in str(error.expected)


def test_a_group_behind_the_end_has_nothing_to_read_which_a_warning_names(
    broker: KafkaBroker,
    topic: str,
    records: NumberedRecords,
    group_beyond_the_end: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    records.write(5)
    reading = source(
        broker.bootstrap_servers,
        topic,
        group_id=group_beyond_the_end,
        starting_offsets=OffsetsInitializer.committed(),
        bounded=OffsetsInitializer.offsets({(topic, 0): 3}),
    )
    with records.pipeline(reading) as pipeline:
        assert pipeline.run(timeout=60)
    assert records.read() == []
    assert f"nothing is read: it would start at {topic}-0: 6, and ends at {topic}-0: 3" in (
        caplog.text
    )


@pytest.fixture
def group_beyond_the_end(broker: KafkaBroker, topic: str, records: NumberedRecords) -> str:
    """Return a group that has committed offset 6 of a log with five records."""
    records.write(5)
    group = f"group-{topic}"
    config = ClientConfig.of(broker.client_properties(), CONSUMER_PROPERTIES)
    with closing(Wire(config)) as wire:
        Cluster(wire).commit(group, {TopicPartition(topic, 0): 6})
    return group


@pytest.mark.parametrize("given", ["offset", "group"])
def test_a_bounded_end_beyond_the_end_of_the_log_is_refused_at_once(
    broker: KafkaBroker,
    topic: str,
    records: NumberedRecords,
    group_beyond_the_end: str,
    given: str,
) -> None:
    reading = source(
        broker.bootstrap_servers,
        topic,
        group_id=group_beyond_the_end,
        bounded=OffsetsInitializer.offsets({(topic, 0): 6})
        if given == "offset"
        else OffsetsInitializer.committed(),
    )
    error = refusal(records, reading)
    assert isinstance(error, InvalidOptionError)
    assert error.option == f"scan.bounded.{'specific-offsets' if given == 'offset' else 'mode'}"
    assert (f"{topic}-0: 5" in str(error.expected), error.found) == (True, f"{topic}-0: 6")
    assert "(as_stream)" in str(error)


@pytest.mark.parametrize("on_data_loss", ["fail", "earliest", "latest"])
def test_group_offsets_beyond_the_end_of_the_log_are_a_data_loss(
    broker: KafkaBroker,
    topic: str,
    records: NumberedRecords,
    group_beyond_the_end: str,
    on_data_loss: str,
) -> None:
    reading = source(
        broker.bootstrap_servers,
        topic,
        group_id=group_beyond_the_end,
        starting_offsets=OffsetsInitializer.committed(),
        on_data_loss=on_data_loss,
    )
    if on_data_loss == "fail":
        error = refusal(records, reading)
        assert isinstance(error, DataLossError)
        assert error.option == "on-data-loss"
        assert group_beyond_the_end in str(error)
        return
    with records.pipeline(reading) as pipeline:
        assert pipeline.run(available_now=True, timeout=60)
    assert records.read() == (list(range(5)) if on_data_loss == "earliest" else [])


def refusal(records: NumberedRecords, reading: KafkaSource) -> ConnectorError:
    """Return the error of a pipeline that cannot read, which it must raise at once."""
    began = time.monotonic()
    with pytest.raises(ConnectorError) as caught, records.pipeline(reading) as pipeline:
        pipeline.run(available_now=True, timeout=60)
    assert time.monotonic() - began < 8, "it is no matter of waiting"
    return caught.value


@contextmanager
def deleted_before_it_is_read(
    broker: KafkaBroker,
    topic: str,
    records: NumberedRecords,
    folder: Path,
    on_data_loss: str,
    **more: Any,
) -> Iterator[LocalPipeline]:
    """Run a pipeline that plans to read 100 records, and delete the first 60 before it reads."""
    records.write(100)
    hangs, go_on = folder / "hangs", folder / "go-on"
    reading = source(broker.bootstrap_servers, topic, on_data_loss=on_data_loss, **more)
    hang = Fault(FaultPoint.READER_STARTED, action=FaultAction.HANG, once=hangs, until=go_on)
    with injected(hang), records.pipeline(reading, parallelism=1) as pipeline:
        pipeline.start()
        wait(hangs.exists, "a reader with a plan", pipeline)
        broker.topics.delete_records(topic, {0: 60})
        go_on.touch()
        yield pipeline


def test_records_deleted_by_retention_after_planning_are_an_error_by_default(
    broker: KafkaBroker, topic: str, records: NumberedRecords, tmp_path: Path
) -> None:
    with (
        pytest.raises(DataLossError) as error,
        deleted_before_it_is_read(broker, topic, records, tmp_path, "fail") as pipeline,
    ):
        records.wait_for(1, pipeline)
    assert topic in str(error.value)
    assert "on_data_loss" in str(error.value)
    assert records.read() == []


def test_records_deleted_after_planning_are_reported_and_skipped(
    broker: KafkaBroker, topic: str, records: NumberedRecords, tmp_path: Path
) -> None:
    with deleted_before_it_is_read(broker, topic, records, tmp_path, "earliest") as pipeline:
        records.wait_for(40, pipeline)
        records.write(10)
        records.wait_for(50, pipeline)
        (status,) = pipeline.status().sources
    assert records.read() == list(range(60, 110))
    assert status.counters["dataLosses"] == 1
    assert status.counters["offsetsLost"] == 60


def test_only_new_records_are_read_after_a_reported_loss_with_on_data_loss_latest(
    broker: KafkaBroker, topic: str, records: NumberedRecords, tmp_path: Path
) -> None:
    with deleted_before_it_is_read(broker, topic, records, tmp_path, "latest") as pipeline:
        wait(lambda: losses(pipeline) == 1, "the loss", pipeline)
        records.write(10)
        records.wait_for(10, pipeline)
    assert records.read() == list(range(100, 110))


def test_records_after_the_end_of_a_bounded_source_do_not_count_as_lost(
    broker: KafkaBroker, topic: str, records: NumberedRecords, tmp_path: Path
) -> None:
    end = OffsetsInitializer.offsets({(topic, 0): 50})
    with deleted_before_it_is_read(
        broker, topic, records, tmp_path, "earliest", bounded=end
    ) as pipeline:
        assert pipeline.await_termination(60)
        (status,) = pipeline.status().sources
    assert records.read() == []
    assert (status.counters["dataLosses"], status.counters["offsetsLost"]) == (1, 50)


@pytest.mark.parametrize("api", list(FetchApi), ids=lambda api: api.value)
def test_a_plan_with_limits_starts_after_all_lost_records(
    broker: KafkaBroker, topic: str, records: NumberedRecords, api: FetchApi
) -> None:
    records.write(3000)
    broker.topics.delete_records(topic, {0: 2950})
    reading = source(
        broker.bootstrap_servers,
        topic,
        on_data_loss="earliest",
        starting_offsets=OffsetsInitializer.offsets({(topic, 0): 7}),
        poll_interval=timedelta(milliseconds=20),
        fetch_api=api,
    )
    with records.pipeline(reading, limits=ReadLimits(rows=10)) as pipeline:
        pipeline.start()
        records.wait_for(50, pipeline)
        (status,) = pipeline.status().sources
    assert records.read() == list(range(2950, 3000))
    assert status.counters["dataLosses"] == 1
    assert status.counters["offsetsLost"] == 2950 - 7


def test_only_new_records_are_read_with_limits_after_a_loss_and_a_restart(
    broker: KafkaBroker, topic: str, records: NumberedRecords
) -> None:
    records.write(500)
    broker.topics.delete_records(topic, {0: 300})
    start = OffsetsInitializer.offsets({(topic, 0): 0})
    reading = source(broker.bootstrap_servers, topic, on_data_loss="latest", starting_offsets=start)
    limits = ReadLimits(rows=7)
    with records.pipeline(reading, limits=limits) as before:
        before.start()
        wait(lambda: losses(before) == 1, "the loss", before)
        before.stop()
    records.write(20)
    with records.pipeline(reading, limits=limits) as after:
        after.start()
        records.wait_for(20, after)
    assert records.read() == list(range(500, 520))


@pytest.mark.parametrize(
    ("on_data_loss", "first", "behind"),
    [("earliest", 20, 31), ("earliest", 60, 61), ("latest", 60, 101)],
)
def test_a_loss_does_not_hide_rows_that_watermark_alignment_held_back(
    broker: KafkaBroker,
    topic: str,
    records: NumberedRecords,
    on_data_loss: str,
    first: int,
    behind: int,
) -> None:
    broker.topics.add_partitions(topic, 2)
    strategy = (
        WatermarkStrategy.for_monotonous_timestamps()
        .with_timestamp_assigner(seconds, column_name="time", epoch_unit="s")
        .with_watermark_alignment("partitions", timedelta(seconds=30))
    )
    records.write(1, partitions=[1])
    records.write(100)  # watermark alignment with the other partition allows the numbers up to 30
    reading = source(broker.bootstrap_servers, topic, on_data_loss=on_data_loss)
    with records.pipeline(reading, watermark_strategy=strategy) as pipeline:
        pipeline.start()
        records.wait_for(31, pipeline)
        broker.topics.delete_records(topic, {0: first})
        records.write(1, partitions=[1])
        wait(lambda: losses(pipeline) == 1, "the loss", pipeline)
        records.write(20)
        expected = [*range(31), *range(behind, 122)]
        records.wait_for(len(expected), pipeline)
    assert records.read() == expected


def seconds(rows: pa.RecordBatch) -> pa.Array:
    """Return an event time that ascends with the number and starts at 1."""
    return pc.add(rows["value"].cast(pa.string()).cast(pa.int64()), 1)


@pytest.mark.slow
def test_a_deleted_topic_is_an_error(
    broker: KafkaBroker, topic: str, records: NumberedRecords
) -> None:
    records.write(100)
    with records.pipeline(source(broker.bootstrap_servers, topic)) as pipeline:
        pipeline.start()
        records.wait_for_all(pipeline)
        broker.topics.delete(topic)
        with pytest.raises(DataLossError, match="deleted"):
            wait(lambda: False, "the failure", pipeline)
    records.assert_complete()


@pytest.mark.slow
def test_a_topic_deleted_between_runs_is_a_loss(
    broker: KafkaBroker, topic: str, records: NumberedRecords
) -> None:
    records.write(100)
    with records.pipeline(source(broker.bootstrap_servers, topic)) as pipeline:
        assert pipeline.run(available_now=True, drain=False, timeout=60)
    records.write(150)
    broker.topics.delete(topic)
    with (
        records.pipeline(source(broker.bootstrap_servers, topic)) as pipeline,
        pytest.raises(DataLossError, match="deleted"),
    ):
        pipeline.run(available_now=True, drain=False, timeout=60)
    reading = source(broker.bootstrap_servers, topic, on_data_loss="earliest")
    with records.pipeline(reading) as pipeline:
        assert pipeline.run(available_now=True, drain=False, timeout=60)
        assert losses(pipeline) == 1
    assert records.read() == list(range(100))


def test_a_recreated_topic_is_reported_as_a_loss_and_read_from_its_start(
    broker: KafkaBroker, topic: str, records: NumberedRecords
) -> None:
    records.write(100)
    reading = source(broker.bootstrap_servers, topic, on_data_loss="earliest")
    with records.pipeline(reading) as pipeline:
        pipeline.start()
        records.wait_for_all(pipeline)
        broker.topics.delete(topic)
        broker.topics.create(topic)
        records.write(150)
        records.wait_for_all(pipeline)
        assert losses(pipeline) >= 1
    for start in range(2):  # the loss is over
        with records.pipeline(source(broker.bootstrap_servers, topic)) as pipeline:
            pipeline.start()
            records.write(10)
            records.wait_for_all(pipeline)
            assert losses(pipeline) == 0, f"restart {start}"
    records.assert_complete()


def test_a_run_whose_topic_is_recreated_ends_where_the_shorter_log_ends(
    broker: KafkaBroker, topic: str, records: NumberedRecords, tmp_path: Path
) -> None:
    records.write(100)
    hangs, go_on = tmp_path / "hangs", tmp_path / "go-on"
    hang = Fault(FaultPoint.READER_STARTED, action=FaultAction.HANG, nth=5, once=hangs, until=go_on)
    reading = source(
        broker.bootstrap_servers,
        topic,
        on_data_loss="earliest",
        poll_interval=timedelta(seconds=1),  # the new topic is found before its end
        properties={**IMPATIENT, "default.api.timeout.ms": "3000"},
    )
    with (
        injected(hang),
        records.pipeline(reading, parallelism=1, limits=ReadLimits(rows=10)) as pipeline,
        ThreadPoolExecutor(1) as thread,
    ):
        run = thread.submit(pipeline.run, available_now=True, drain=False, timeout=60)
        wait(hangs.exists, "a plan after the end was fixed", pipeline)
        broker.topics.delete(topic)
        broker.topics.create(topic)
        records.write(3)
        go_on.touch()
        assert run.result()
        assert losses(pipeline) >= 1
    with records.pipeline(reading) as pipeline:
        assert pipeline.run(available_now=True, drain=False, timeout=60)
    assert records.read() == [*range(40), 100, 101, 102]


def test_a_truncated_log_is_reported_as_a_loss_and_read_from_its_new_end(tmp_path: Path) -> None:
    data = tmp_path / "broker"
    with KafkaBroker(folder=data) as broker:
        topic = broker.topics.create("cut")
        records = NumberedRecords(broker, topic, tmp_path)
        records.write(100)
        reading = source(broker.bootstrap_servers, topic, on_data_loss="earliest")
        with records.pipeline(reading) as pipeline:
            pipeline.start()
            records.wait_for_all(pipeline)
            empty_logs(broker, data, [topic])
            wait(lambda: losses(pipeline) == 1, "the loss", pipeline)
            for _ in range(4):  # until the log is longer than before
                records.write(30)
                records.wait_for_all(pipeline)
            assert losses(pipeline) == 1
        records.assert_complete()


def test_a_log_that_was_cut_between_runs_is_a_loss_even_if_it_has_grown_again(
    tmp_path: Path,
) -> None:
    data = tmp_path / "broker"
    with KafkaBroker(folder=data) as broker:
        ways = [(kind, after) for kind in ("available", "bounded") for after in (60, 150)]
        cases: dict[str, tuple[NumberedRecords, str, int]] = {}
        for kind, after in ways:
            topic = broker.topics.create(f"{kind}-{after}")
            (folder := tmp_path / topic).mkdir()
            cases[topic] = (NumberedRecords(broker, topic, folder), kind, after)

        def read(topic: str, on_data_loss: str) -> int:
            records, kind, _ = cases[topic]
            servers, end = broker.bootstrap_servers, OffsetsInitializer.offsets({(topic, 0): 200})
            more: dict[str, Any] = {"bounded": end, "as_stream": True} if kind == "bounded" else {}
            reading = source(servers, topic, on_data_loss=on_data_loss, **more)
            with records.pipeline(reading) as pipeline:
                assert pipeline.run(available_now=True, drain=False, timeout=60)
                return losses(pipeline)

        for topic, (records, _, _) in cases.items():
            records.write(100)
            assert read(topic, "fail") == 0
        empty_logs(broker, data, cases)
        for topic, (records, _, after) in cases.items():
            records.write(after)
            with pytest.raises(DataLossError, match="cut at offset 0"):
                read(topic, "fail")
            assert read(topic, "earliest") == 1
            records.write(10)
            assert read(topic, "fail") == 0
            records.assert_complete()


def test_a_damaged_segment_is_an_error_even_if_the_record_policy_skips_bad_records(
    tmp_path: Path,
) -> None:
    data = tmp_path / "broker"
    with KafkaBroker(folder=data) as broker:
        topic = broker.topics.create("damaged")
        records = NumberedRecords(broker, topic, tmp_path)
        for _ in range(2):
            records.write(50, size=100)
        broker.stop()
        (segment,) = (data / "data" / f"{topic}-0").glob("*.log")
        content = bytearray(segment.read_bytes())
        content[content.index(b"70 ")] ^= 1
        segment.write_bytes(content)
        broker.start()
        for api in FetchApi:
            folder = tmp_path / api.value
            folder.mkdir()
            reader = NumberedRecords(broker, topic, folder)
            reading = source(broker.bootstrap_servers, topic, fetch_api=api)
            with (
                reader.pipeline(reading, record_policy=RecordPolicy.skip()) as pipeline,
                pytest.raises(CorruptRecordsError) as caught,
            ):
                pipeline.run(available_now=True, timeout=60)
            damaged = caught.value
            assert (damaged.topic, damaged.partition) == (topic, 0)
            assert 50 <= damaged.offset <= 70
            assert reader.read() == []  # the records before the damage belong to the same epoch


def empty_logs(broker: KafkaBroker, data: Path, topics: Iterable[str]) -> None:
    """Restart a broker without its records, like an unclean election of an empty replica."""
    broker.stop()
    for topic in topics:
        for file in (data / "data" / f"{topic}-0").glob("0*"):  # the segments and their indexes
            file.unlink()
    broker.start()


def losses(pipeline: LocalPipeline) -> int:
    """Return the number of data losses that the source has reported."""
    (status,) = pipeline.status().sources
    return int(status.counters.get("dataLosses", 0))
