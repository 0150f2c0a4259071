# SPDX-License-Identifier: Apache-2.0
"""Tests how KafkaSource is built in Python and from options, and which settings it refuses."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connector_kafka import (
    KAFKA_SOURCE_OPTIONS,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    OffsetsInitializer,
)
from connector_kafka.source.places import parse_position
from connectors_core.errors import (
    ConfigurationError,
    InvalidOptionError,
    UnknownOptionError,
    UnsupportedError,
)
from connectors_core.formats import JsonFormat
from connectors_core.secrets import Secret
from connectors_core.source import Boundedness
from connectors_core.testing import Capabilities, Capability, OptionsTestSuite

SERVERS = "127.0.0.1:9092"
OPTIONS = {"properties.bootstrap.servers": SERVERS, "topic": "flights"}
FLIGHTS = pa.schema([("id", pa.int64()), ("name", pa.string())])


class TestSourceOptions(OptionsTestSuite):
    written_for = "1.0"
    capabilities = Capabilities(can=frozenset({Capability.SECRETS}))
    factory = KafkaSource
    options = KAFKA_SOURCE_OPTIONS

    def valid_options(self, folder: Path) -> dict[str, Any]:
        return OPTIONS


@pytest.mark.parametrize(
    ("foreign", "ours"),
    [
        ("subscribe", "topic"),
        ("subscribePattern", "topic-pattern"),
        ("assign", "partitions"),
        ("startingOffsets", "scan.startup.mode"),
        ("startingOffsetsByTimestamp", "scan.startup.timestamp-millis"),
        ("endingOffsets", "scan.bounded.mode"),
        ("failOnDataLoss", "on-data-loss"),
        ("kafka.bootstrap.servers", "properties.bootstrap.servers"),
        ("kafka.group.id", "properties.*"),
        ("includeHeaders", "metadata.columns"),
        ("partition.discovery.interval.ms", "scan.topic-partition-discovery.interval"),
        ("format", "value.format"),
    ],
)
def test_option_names_of_flink_and_spark_lead_to_a_suggestion(foreign, ours):
    with pytest.raises(UnknownOptionError) as refused:
        KafkaSource.from_options({**OPTIONS, foreign: "x"})
    assert ours in refused.value.suggestions


def test_a_source_without_a_format_has_the_columns_of_sparks_own_source():
    source = KafkaSource.from_options(OPTIONS)
    assert source.boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestamp_type"]
    assert source.schema().names == names


def test_options_cover_all_arguments_of_the_python_api():
    source = KafkaSource.from_options(
        {
            "properties.bootstrap.servers": SERVERS,
            "properties.group.id": "g",
            "partitions": "flights:0, flights:1",
            "scan.startup.mode": "specific-offsets",
            "scan.startup.specific-offsets": "flights:0=42; flights:1=latest",
            "scan.bounded.mode": "timestamp",
            "scan.bounded.timestamp-millis": "1700000000000",
            "properties.isolation.level": "read_committed",
            "on-data-loss": "earliest",
            "schema": "flight_id BIGINT, name STRING",
            "value.format": "json",
            "key.format": "json",
            "key.fields": "flight_id",
            "key.fields-prefix": "flight_",
            "value.fields-include": "except-key",
            "metadata.columns": '{"offset": "at"}',
        }
    )
    assert source.boundedness() is Boundedness.BOUNDED
    assert source.schema() == pa.schema(
        [("flight_id", pa.int64()), ("name", pa.string()), ("at", pa.int64())]
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"topic-pattern": "f.*"}, "exactly one of"),
        ({"topic": None}, "exactly one of"),
        ({"topic": None, "topic-pattern": "("}, "not a regular expression"),
        ({"scan.startup.mode": "timestamp"}, "timestamp-millis"),
        ({"scan.startup.timestamp-millis": "1"}, "timestamp-millis"),
        ({"scan.bounded.mode": "specific-offsets"}, "specific-offsets"),
        ({"scan.bounded.stream": "true"}, "needs an end"),
        ({"topic": None, "partitions": "flights"}, "numbers of partitions"),
        ({"scan.startup.specific-offsets": '{"flights": 5}'}, "offsets by partition"),
        ({"scan.startup.specific-offsets": ":0=5"}, "offsets by partition"),
        ({"value.format": "json"}, "without a schema"),
        ({"schema": "id BIGINT"}, "without a format"),
        ({"value.format": "raw", "schema": "id BIGINT"}, "raw"),
        ({"metadata.columns": '{"colour": "c"}'}, "no metadata column"),
        (
            {
                "value.format": "json",
                "schema": "offset BIGINT",
                "metadata.columns": '{"offset": "offset"}',
            },
            "twice: offset",
        ),
        (
            {"value.format": "json", "schema": "id BIGINT", "key.fields": "id"},
            r"key\.format and key\.fields",
        ),
        (
            {
                "value.format": "json",
                "schema": "id BIGINT, k STRING",
                "key.format": "string",
                "key.fields": "k",
                "key.fields-prefix": "k",
            },
            "except-key",
        ),
        ({"properties.key.deserializer": "x"}, "Java class"),
        ({"properties.fetch.min.byte": "1"}, r"fetch\.min\.bytes"),
    ],
)
def test_conflicting_options_are_refused(options, reason):
    with pytest.raises(ConfigurationError, match=reason):
        KafkaSource.from_options({**OPTIONS, **options})


def test_a_stream_can_have_an_end():
    end = OffsetsInitializer.latest()
    assert KafkaSource(SERVERS, topics="flights", bounded=end).boundedness() is Boundedness.BOUNDED
    stream = KafkaSource(SERVERS, topics="flights", bounded=end, as_stream=True)
    assert stream.boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    with pytest.raises(InvalidOptionError, match="as_stream"):
        KafkaSource(SERVERS, topics="flights", as_stream=True)


@pytest.mark.parametrize(
    "offsets",
    [
        "flights:0=42; flights:1=300",
        "partition:0,offset:42;partition:1,offset:300",
        '{"flights": {"0": 42, "1": 300}}',
    ],
)
def test_offsets_are_accepted_in_the_notations_of_flink_and_spark(offsets):
    source = KafkaSource.from_options(
        {
            **OPTIONS,
            "topic": "flights",
            "scan.startup.mode": "specific-offsets",
            "scan.startup.specific-offsets": offsets,
        }
    )
    wanted = OffsetsInitializer.offsets({("flights", 0): 42, ("flights", 1): 300})
    assert source.starting_offsets == wanted


def test_topics_and_partitions_are_accepted_in_the_notations_of_flink_and_spark():
    assert KafkaSource.from_options({**OPTIONS, "topic": "a;b"}).topics == ("a", "b")
    assigned = {**OPTIONS, "topic": None, "partitions": '{"a": [0, 1]}'}
    assert [str(each) for each in KafkaSource.from_options(assigned).partitions] == ["a-0", "a-1"]
    looks_once = {**OPTIONS, "scan.topic-partition-discovery.interval": "0"}
    assert KafkaSource.from_options(looks_once).discovery_interval is None
    with pytest.raises(InvalidOptionError, match="the topic of the offsets"):
        KafkaSource.from_options(
            {
                **OPTIONS,
                "topic": "a;b",
                "scan.startup.mode": "specific-offsets",
                "scan.startup.specific-offsets": "partition:0,offset:42",
            }
        )


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        ("maxOffsetsPerTrigger", "rows=..."),
        ("minPartitions", "parallelism"),
        ("startingOffsetsByTimestamp", "'scan.startup.timestamp-millis'"),
        ("failOnDataLoss", "'on-data-loss'"),
        ("subscribe", "'topic'"),
        ("kafka.security.protocol", "'properties.security.protocol'"),
        ("kafka.isolation.level", "'properties.isolation.level'"),
        ("scan.parallelism", "from_source(..., parallelism=...)"),
        ("value.json.ignore-parse-errors", "RecordPolicy.skip()"),
        ("key.csv.ignore-parse-errors", "RecordPolicy.skip()"),
        ("value.json.timestamp-format.standard", "ISO 8601; remove it"),
    ],
)
def test_an_option_of_another_source_is_refused_with_its_replacement(key, instead):
    with pytest.raises(UnknownOptionError) as refused:
        KafkaSource.from_options({**OPTIONS, key: "1"})
    assert instead in (refused.value.hint or "")


@pytest.mark.parametrize("side", ["key", "value"])
def test_an_error_of_a_format_names_the_key_with_its_prefix(side):
    given = {"schema": "a INT", "value.format": "json", "key.format": "json", "key.fields": "a"}
    wrong = {f"{side}.format": "csv", f"{side}.csv.field-delimiter": '"'}
    with pytest.raises(InvalidOptionError, match="also its quote") as refused:
        KafkaSource.from_options({**OPTIONS, **given, **wrong})
    assert refused.value.option == f"{side}.csv.field-delimiter"


def test_a_start_timestamp_needs_a_time_zone_and_offsets_must_not_be_negative():
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    assert OffsetsInitializer.timestamp(moment) == OffsetsInitializer.timestamp(1_704_067_200_000)
    with pytest.raises(InvalidOptionError, match="time zone"):
        OffsetsInitializer.timestamp(moment.replace(tzinfo=None))
    with pytest.raises(InvalidOptionError, match="negative"):
        OffsetsInitializer.offsets({("flights", 0): -1})


def test_the_auto_commit_property_is_refused():
    with pytest.raises(UnsupportedError, match="checkpoint"):
        KafkaSource(SERVERS, topics="flights", properties={"enable.auto.commit": "true"})


def test_a_source_can_be_pickled_and_hides_its_password():
    source = KafkaSource(
        SERVERS,
        topics="flights",
        deserialization=KafkaRecordDeserializationSchema(value_format=JsonFormat(), schema=FLIGHTS),
        properties={
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": Secret("canary-password"),
        },
    )
    copy = pickle.loads(pickle.dumps(source))
    assert copy.schema() == FLIGHTS
    assert "canary" not in repr(source) + repr(vars(copy))


@pytest.mark.parametrize(
    ("position", "begins"),
    [
        ("earliest-offset", OffsetsInitializer.earliest()),
        ("latest-offset", OffsetsInitializer.latest()),
        ("group-offsets", OffsetsInitializer.committed(fallback=OffsetsInitializer.earliest())),
        ("timestamp:1769817600000", OffsetsInitializer.timestamp(1_769_817_600_000)),
        ("timestamp:2026-01-31T00:00:00Z", OffsetsInitializer.timestamp(1_769_817_600_000)),
        (
            "flights:0=42; flights:1=latest",
            OffsetsInitializer.offsets(
                {("flights", 0): 42, ("flights", 1): OffsetsInitializer.latest()}
            ),
        ),
    ],
)
def test_a_position_to_rewind_to_is_parsed(position: str, begins: OffsetsInitializer) -> None:
    assert parse_position(position) == begins


@pytest.mark.parametrize(
    "position", ["", "yesterday", "timestamp:", "timestamp:2026-01-31", "timestamp:soon", "a:b=c"]
)
def test_an_invalid_position_is_refused(position: str) -> None:
    with pytest.raises(InvalidOptionError, match="is not a position"):
        parse_position(position)
    with pytest.raises(InvalidOptionError, match="is not a position"):
        KafkaSource(SERVERS, topics="flights").check_position(position)
