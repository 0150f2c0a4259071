# SPDX-License-Identifier: Apache-2.0
"""Tests of metadata services, and of the settings of the dynamic source, without a broker."""

from __future__ import annotations

import json
import pickle
from collections.abc import Collection, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector_kafka import (
    ClusterMetadata,
    DynamicKafkaSource,
    DynamicKafkaSplit,
    FileMetadataService,
    KafkaMetadataService,
    KafkaPartitionSplit,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaStream,
    OffsetsInitializer,
    RemovedTopicsPolicy,
    SingleClusterMetadataService,
)
from connector_kafka.dynamic.metrics import ClusterMetrics
from connector_kafka.dynamic.subscription import StreamSubscription
from connector_kafka.source import OffsetsLost, PartitionPaused
from connector_kafka.table_factory import DynamicKafkaTableFactory
from connectors_core.errors import (
    ConfigurationError,
    InvalidOptionError,
    OptionError,
    RetryableError,
)
from connectors_core.metrics import MetricGroup
from connectors_core.secrets import Secret
from connectors_core.source import Boundedness
from connectors_core.table import (
    CatalogTable,
    DynamicTableContext,
    MetadataColumn,
    PhysicalColumn,
    TableSchema,
)

PASSWORD = "canary-55d0"  # pragma: allowlist secret
STREAMS: Mapping[str, Any] = {
    "clusters": {
        "east": {
            "properties": {"bootstrap.servers": "east:9092"},
            "starting-offsets": "latest-offset",
        },
        "west": {"properties": {"bootstrap.servers": "west:9092", "client.id": 7}},
    },
    "streams": {
        "flights": {"east": ["flights"], "west": ["flights", "flights-v2"]},
        "weather": {"west": ["weather"]},
        "former": {"east": []},
    },
}
YAML = """
clusters:
  east:
    properties: {bootstrap.servers: "east:9092"}
streams:
  flights:
    east: [flights]
"""


class Known(KafkaMetadataService):
    """Knows the streams that a test names."""

    def __init__(self, *streams: KafkaStream) -> None:
        self.streams = {each.stream_id: each for each in streams}

    def get_all_streams(self) -> Collection[KafkaStream]:
        return self.streams.values()

    def describe_streams(self, stream_ids: Collection[str]) -> Mapping[str, KafkaStream]:
        return {each: self.streams[each] for each in stream_ids if each in self.streams}


class FromProperties(Known):
    """Is created from the options of a table."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        super().__init__()
        self.properties = properties


def stream(name: str, topics: Mapping[str, Collection[str]], **properties: str) -> KafkaStream:
    clusters = {
        cluster: ClusterMetadata(
            topics=frozenset(own), properties={"bootstrap.servers": f"{cluster}:1", **properties}
        )
        for cluster, own in topics.items()
    }
    return KafkaStream(stream_id=name, clusters=clusters)


def written(folder: Path, document: Any, name: str = "streams.json") -> FileMetadataService:
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return FileMetadataService(str(path))


# --- Services ---------------------------------------------------------------------------------


def test_a_file_describes_streams(tmp_path: Path) -> None:
    found = written(tmp_path, STREAMS).describe_streams(["flights", "unknown"])
    clusters = found["flights"].clusters
    assert found.keys() == {"flights"}
    assert clusters["east"].starting_offsets == OffsetsInitializer.latest()
    assert clusters["west"].topics == {"flights", "flights-v2"}
    assert clusters["west"].properties == {"bootstrap.servers": "west:9092", "client.id": "7"}


def test_a_file_is_read_again_each_time(tmp_path: Path) -> None:
    service = written(tmp_path, {"clusters": {}, "streams": {}})
    assert service.get_all_streams() == []
    written(tmp_path, STREAMS)
    assert len(service.get_all_streams()) == 3


def test_a_file_can_be_yaml_and_at_any_address(tmp_path: Path) -> None:
    (found,) = written(tmp_path, YAML, "streams.yaml").get_all_streams()
    assert found.clusters["east"].topics == {"flights"}
    service = FileMetadataService((tmp_path / "streams.yaml").as_uri())
    assert service.get_all_streams() == [found]


@pytest.mark.parametrize(
    "document",
    [
        "{",
        "[]",
        "{}",
        {"clusters": {}, "streams": {"s": {"unknown": ["t"]}}},
        {"clusters": {"a": {"properties": {}, "topics": []}}, "streams": {}},
        {"clusters": {"a": {"properties": {}}}, "streams": {"s": {"a": "t"}}},
        {"clusters": {"a": {}}, "streams": {"s": {"a": ["t"]}}},
        {"clusters": {}, "streams": {}, "more": 1},
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, document: Any) -> None:
    with pytest.raises(ConfigurationError) as refused:
        written(tmp_path, document).get_all_streams()
    assert refused.value.option == "metadata-service.path"


@pytest.mark.parametrize(
    "document",
    [
        "{clusters: {1: {properties: {}}}, streams: {s: {1: [t]}}}",
        "{clusters: {'': {properties: {}}}, streams: {s: {'': [t]}}}",
        "{clusters: {}, streams: {2026: {}}}",
    ],
)
def test_an_id_is_text(tmp_path: Path, document: str) -> None:
    with pytest.raises(InvalidOptionError, match="an ID that cannot be used"):
        written(tmp_path, document, "streams.yaml").get_all_streams()


def test_a_file_that_cannot_be_read_can_come_back(tmp_path: Path) -> None:
    with pytest.raises(RetryableError, match=r"missing\.json"):
        FileMetadataService(str(tmp_path / "missing.json")).get_all_streams()


def test_credentials_are_given_by_cluster() -> None:
    wrong: Any = {"sasl.password": PASSWORD}
    with pytest.raises(InvalidOptionError) as refused:
        FileMetadataService("streams.json", credentials=wrong)
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize(
    "properties",
    [{"sasl.password": PASSWORD}, {"ssl.keystore.key": PASSWORD}, {"client.id": Secret(PASSWORD)}],
)
def test_metadata_contains_no_secret(properties: Any) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        ClusterMetadata(topics=frozenset({"t"}), properties=properties)
    assert PASSWORD not in str(refused.value)


def test_the_topics_of_a_cluster_are_no_text() -> None:
    one: Any = "flights"
    with pytest.raises(InvalidOptionError, match="a set of names"):
        ClusterMetadata(topics=one)


def test_one_cluster_separates_its_secrets() -> None:
    service = SingleClusterMetadataService(
        "east", {"bootstrap.servers": "east:9092", "sasl.password": PASSWORD}
    )
    found = service.describe_streams(["a", "b"])
    assert [each.clusters["east"].topics for each in found.values()] == [{"a"}, {"b"}]
    assert found["a"].clusters["east"].properties == {"bootstrap.servers": "east:9092"}
    assert service.credentials("east") == {"sasl.password": Secret(PASSWORD)}
    assert service.credentials("west") == {}
    assert PASSWORD not in repr(service)


# --- Streams ----------------------------------------------------------------------------------


def test_the_topics_of_streams_are_united_by_cluster() -> None:
    service = Known(stream("a", {"x": ["1"], "y": ["2"]}), stream("b", {"x": ["3"]}))
    found = StreamSubscription(stream_ids=("a", "b")).find(service)
    assert {name: each.topics for name, each in found.items()} == {"x": {"1", "3"}, "y": {"2"}}


def test_a_pattern_matches_whole_ids() -> None:
    service = Known(stream("ab", {"x": ["1"]}), stream("abc", {"x": ["2"]}))
    assert StreamSubscription(pattern="a.").find(service)["x"].topics == {"1"}
    assert StreamSubscription(pattern="z").find(service) == {}


def test_an_unknown_stream_is_not_an_empty_one() -> None:
    with pytest.raises(ConfigurationError, match="does not know the stream b"):
        StreamSubscription(stream_ids=("a", "b")).find(Known(stream("a", {"x": ["1"]})))


def test_streams_agree_about_a_cluster() -> None:
    service = Known(stream("a", {"x": ["1"]}), stream("b", {"x": ["2"]}, **{"client.id": "me"}))
    with pytest.raises(ConfigurationError, match="different settings of the cluster 'x'"):
        StreamSubscription(pattern=".*").find(service)


# --- Splits and metrics -----------------------------------------------------------------------


def test_a_resumed_partition_is_another_split() -> None:
    split = KafkaPartitionSplit(split_id="t-0", topic="t", partition=0, offset=5)
    ids = []
    for _ in range(3):
        ids.append(DynamicKafkaSplit.of("east", {}, split).split_id)
        split = split.resumed_later(split.offset)
    assert ids == ["east:t-0", "east:t-0#1", "east:t-0#2"]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=9))
def test_metrics_of_a_source_are_sums_over_its_clusters(changes: list[tuple[str, int]]) -> None:
    source, siblings = MetricGroup(), {}
    for name in "ab":
        ClusterMetrics(source=source, cluster=name, siblings=siblings)
    last = {"a": 0, "b": 0}
    for name, value in changes:
        siblings[name].inc("dataLosses", value)
        siblings[name].set("pendingRecords", value)
        siblings[name].set("topic.t.partition.0.recordsLag", value)
        last[name] = value
    if changes:
        assert source.counters["dataLosses"] == sum(value for _, value in changes)
        assert source.gauges["pendingRecords"] == sum(last.values())
    assert "topic.t.partition.0.recordsLag" not in source.gauges
    for name in siblings:
        siblings[name].clear()
    assert not any(source.gauges.values())


# --- The source -------------------------------------------------------------------------------


def source(**settings: Any) -> DynamicKafkaSource:
    service = Known(stream("a", {"x": ["1", "2"], "y": ["3"]}))
    return DynamicKafkaSource(service, **{"stream_ids": "a", **settings})


@pytest.mark.parametrize("settings", [{}, {"stream_ids": "a", "stream_pattern": "a"}])
def test_streams_are_named_or_matched(settings: Any) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        DynamicKafkaSource(Known(), **settings)
    assert refused.value.option == "stream-ids"


def test_the_lineage_names_every_cluster() -> None:
    found = [(each.namespace, each.name) for each in source().lineage_datasets()]
    assert found == [("kafka://x:1", "1"), ("kafka://x:1", "2"), ("kafka://y:1", "3")]


def test_an_end_makes_the_source_bounded() -> None:
    latest = OffsetsInitializer.latest()
    assert source().boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    assert source(bounded=latest).boundedness() is Boundedness.BOUNDED
    stream_that_ends = source(bounded=latest, as_stream=True)
    assert stream_that_ends.boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    with pytest.raises(InvalidOptionError):
        source(as_stream=True)


@pytest.mark.parametrize(
    ("given_interval", "interval"),
    [
        ("1000", timedelta(seconds=1)),
        (250, timedelta(milliseconds=250)),
        ("5 s", timedelta(seconds=5)),
        ("-1", None),
        ("0", None),
        (None, None),
    ],
)
def test_the_interval_is_a_duration_or_milliseconds(given_interval: Any, interval: Any) -> None:
    made = source(metadata_discovery_interval=given_interval)
    assert made.metadata_discovery_interval == interval


@pytest.mark.parametrize("interval", ["soon", "99999999999999999999"])
def test_an_interval_of_another_form_is_refused(interval: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        source(metadata_discovery_interval=interval)
    assert refused.value.option == "stream-metadata-discovery-interval-ms"


def test_only_the_dynamic_source_names_the_cluster() -> None:
    columns = KafkaRecordDeserializationSchema(metadata_columns={"kafka_cluster": "at"})
    assert source(deserialization=columns).schema().names == ["at"]
    with pytest.raises(InvalidOptionError, match="kafka_cluster"):
        KafkaSource("a:1", topics="t", deserialization=columns)


def test_the_events_of_a_native_format_have_their_cluster() -> None:
    paused = KafkaPartitionSplit(
        split_id="t-0", topic="t", partition=0, offset=5, stop=9, pauses=True
    )
    properties = {"client.id": "me"}
    (event,) = source().events_after([DynamicKafkaSplit.of("east", properties, paused)])
    assert (event.cluster, event.properties) == ("east", properties)
    assert event.event == PartitionPaused(paused.resumed_later(9))
    assert not isinstance(event.event, OffsetsLost)


def test_a_source_can_be_pickled_and_hides_its_secrets(tmp_path: Path) -> None:
    service = FileMetadataService(
        str(tmp_path / "streams.json"), credentials={"east": {"sasl.password": PASSWORD}}
    )
    made = DynamicKafkaSource(
        service, stream_pattern=".*", properties={"sasl.password": Secret(PASSWORD)}
    )
    again = pickle.loads(pickle.dumps(made))
    assert again.metadata_service.credentials("east") == {"sasl.password": Secret(PASSWORD)}
    assert PASSWORD not in f"{made!r} {made} {service!r} {vars(made)}"


# --- Options and tables -----------------------------------------------------------------------


SINGLE = {
    "metadata-service": "single-cluster",
    "metadata-service.cluster-id": "east",
    "properties.bootstrap.servers": "east:9092",
}


def table(options: Mapping[str, str], *columns: Any) -> DynamicTableContext:
    given = {"connector": "dynamic-kafka", "stream-ids": "a;b", "format": "json", **options}
    schema = TableSchema(columns=(PhysicalColumn("n", pa.int64()), *columns))
    return DynamicTableContext.of("t", CatalogTable(schema=schema, options=given))


def read(options: Mapping[str, str], *columns: Any) -> DynamicKafkaSource:
    context = table(options, *columns)
    DynamicKafkaTableFactory().validate(context)
    found = DynamicKafkaTableFactory().create_scan_source(context).source
    assert isinstance(found, DynamicKafkaSource)
    return found


def test_a_table_has_the_options_of_flink() -> None:
    made = read(
        {
            **SINGLE,
            "stream-metadata-discovery-interval-ms": "500",
            "stream-metadata-discovery-failure-threshold": "3",
            "stream-metadata-removed-topics": "drop",
            "scan.startup.mode": "latest-offset",
            "properties.group.id": "g",
        },
        MetadataColumn("at", pa.string(), "kafka_cluster", virtual=True),
    )
    assert made.stream_ids == ("a", "b")
    assert made.metadata_discovery_interval == timedelta(milliseconds=500)
    assert made.tolerated_discovery_failures == 3
    assert made.removed_topics is RemovedTopicsPolicy.DROP
    assert made.starting_offsets == OffsetsInitializer.latest()
    assert made.schema().names == ["n", "at"]
    datasets = {(each.namespace, each.name) for each in made.lineage_datasets()}
    assert datasets == {("kafka://east:9092", "a"), ("kafka://east:9092", "b")}


def test_a_table_can_have_a_file_or_a_class(tmp_path: Path) -> None:
    written(tmp_path, STREAMS)
    path = {"metadata-service": "file", "metadata-service.path": str(tmp_path / "streams.json")}
    credentials = {
        "metadata-service.credentials": json.dumps({"west": {"sasl.password": PASSWORD}})
    }
    made = read({**path, **credentials}).metadata_service
    assert made.credentials("west") == {"sasl.password": Secret(PASSWORD)}
    assert DynamicKafkaTableFactory().is_secret("metadata-service.credentials")
    custom = read(
        {"metadata-service": f"{__name__}:FromProperties", "properties.client.id": "me"}
    ).metadata_service
    assert isinstance(custom, FromProperties)
    assert custom.properties == {"client.id": "me"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"metadata-service": "file"},
        {"metadata-service": "single-cluster"},
        {"metadata-service": "no_such_module:Service"},
        {"metadata-service": "builtins:dict"},
        {"metadata-service": "other"},
        {**SINGLE, "metadata-service.path": "x"},
        {**SINGLE, "stream-pattern": "a"},
        {**SINGLE, "stream-metadata-discovery-failure-threshold": "-1"},
    ],
)
def test_options_that_do_not_fit_are_refused(options: Mapping[str, str]) -> None:
    with pytest.raises(OptionError):
        read(options)


def test_a_stream_cannot_be_written() -> None:
    with pytest.raises(InvalidOptionError, match="has no sink"):
        DynamicKafkaTableFactory().create_sink(table(SINGLE))
