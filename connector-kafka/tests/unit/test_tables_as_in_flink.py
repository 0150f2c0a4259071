# SPDX-License-Identifier: Apache-2.0
"""Tests that tables of topics have the options, keys, and metadata of Flink's."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

from connector_kafka import KafkaSource, OffsetsInitializer
from connector_kafka.client.config import GROUP_ID
from connector_kafka.sink import KafkaSink
from connector_kafka.table_factory import KafkaTableFactory, UpsertKafkaTableFactory
from connectors_core.errors import (
    ConfigurationError,
    InvalidOptionError,
    OptionError,
    UnknownOptionError,
)
from connectors_core.records import RecordPolicy
from connectors_core.sink import DeliveryGuarantee
from connectors_core.source import Boundedness
from connectors_core.table import (
    CatalogTable,
    ChangelogMode,
    DynamicTableContext,
    MetadataColumn,
    PhysicalColumn,
    ScanTableSource,
    TableSchema,
)

Factory: TypeAlias = type[KafkaTableFactory]
Column: TypeAlias = PhysicalColumn | MetadataColumn

ID = PhysicalColumn("id", pa.int64())
NAME = PhysicalColumn("name", pa.string())
JSON = {"topic": "flights", "format": "json"}
UPSERTS = {"topic": "flights", "key.format": "json", "value.format": "json"}
HEADERS = pa.map_(pa.string(), pa.binary())
HEADER_LIST = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
both = pytest.mark.parametrize("factory", [KafkaTableFactory, UpsertKafkaTableFactory])


def table(
    options: dict[str, str], *columns: Column, keys: tuple[str, ...] = ()
) -> DynamicTableContext:
    schema = TableSchema(columns=columns or (ID, NAME), primary_key=keys)
    given = {"properties.bootstrap.servers": "localhost:9", **options}
    return DynamicTableContext.of("t", CatalogTable(schema=schema, options=given))


def of(factory: Factory, options: dict[str, str]) -> DynamicTableContext:
    """Return a table that both connectors accept."""
    if factory is KafkaTableFactory:
        return table({**JSON, **options})
    return table({**UPSERTS, **options}, keys=("id",))


def scan(context: DynamicTableContext, factory: Factory = KafkaTableFactory) -> ScanTableSource:
    factory().validate(context)
    return factory().create_scan_source(context)


def read(context: DynamicTableContext, factory: Factory = KafkaTableFactory) -> KafkaSource:
    source = scan(context, factory).source
    assert isinstance(source, KafkaSource)
    return source


def written(context: DynamicTableContext, factory: Factory = KafkaTableFactory) -> KafkaSink:
    factory().validate(context)
    sink = factory().create_sink(context).sink
    assert isinstance(sink, KafkaSink)
    sink.validate(pa.schema([(name, field_type(context, name)) for name in written_names(context)]))
    return sink


def written_names(context: DynamicTableContext) -> list[str]:
    written = set(context.table.schema.written)
    return [each.name for each in context.table.schema.columns if each.name in written]


def field_type(context: DynamicTableContext, name: str) -> Any:
    return next(each.type for each in context.table.schema.columns if each.name == name)


# --- Formats ---


def test_the_format_of_values_and_its_options_need_no_prefix() -> None:
    short = table({"topic": "a", "format": "json", "json.fail-on-unknown-field": "true"})
    long = table({"topic": "a", "value.format": "json", "value.json.fail-on-unknown-field": "true"})
    assert read(short) == read(long)
    assert written(short) == written(long)
    changes = scan(table({"topic": "a", "format": "debezium-json"}))
    assert changes.changelog_mode == ChangelogMode.all()
    with pytest.raises(InvalidOptionError, match="twice"):
        KafkaTableFactory().validate(table({**JSON, "value.format": "csv"}))
    assert KafkaTableFactory().is_secret("avro-confluent.basic-auth.user-info")


@both
def test_a_schema_in_a_registry_has_the_subject_of_its_topic(factory: Factory) -> None:
    url = "http://localhost:9"
    formats = {
        "key.format": "avro-confluent",
        "key.avro-confluent.url": url,
        "value.format": "avro-confluent",
        "value.avro-confluent.url": url,
    }
    keys = {"key.fields": "id"} if factory is KafkaTableFactory else {}

    def subjects(**more: str) -> tuple[Any, ...]:
        options = {"topic": "flights", **formats, **keys, **more}
        context = table(options, keys=() if keys else ("id",))
        parts = written(context, factory).serialization
        return tuple(
            getattr(each, "subject", None) for each in (parts.key_format, parts.value_format)
        )

    assert subjects() == ("flights-key", "flights-value")
    assert subjects(**{"key.avro-confluent.subject": "own"}) == ("own", "flights-value")
    assert subjects(**{"value.avro-confluent.subject": "own"}) == ("flights-key", "own")
    formats |= {"value.format": "json"}
    del formats["value.avro-confluent.url"]
    assert subjects() == ("flights-key", None)


def test_a_changelog_in_a_registry_has_the_subject_of_its_topic() -> None:
    options = {"topic": "a", "format": "debezium-avro-confluent"}
    made = written(table({**options, "debezium-avro-confluent.url": "http://localhost:9"}))
    assert made.serialization.value_format.subject == "a-value"  # type: ignore[union-attr]


def test_records_that_cannot_be_read_are_skipped_if_the_format_ignores_them() -> None:
    assert scan(table(JSON)).record_policy is None
    skipping = scan(table({**JSON, "json.ignore-parse-errors": "true"}))
    assert skipping.record_policy == RecordPolicy.skip()
    assert scan(table({**JSON, "json.ignore-parse-errors": "false"})).record_policy is None
    for key, kind in (
        ("csv.ignore-parse-errors", UnknownOptionError),
        ("json.ignore-parse-errors", InvalidOptionError),
    ):
        with pytest.raises(kind):
            KafkaTableFactory().validate(table({**JSON, key: "soon"}))


# --- Topics and offsets ---


@both
def test_topics_are_a_list_or_a_pattern(factory: Factory) -> None:
    assert read(of(factory, {"topic": "a;b"}), factory).topics == ("a", "b")
    without = of(factory, {})
    options = {key: each for key, each in without.options.items() if key != "topic"}
    matching = table({**options, "topic-pattern": "a.*"}, keys=without.table.schema.primary_key)
    assert read(matching, factory).topic_pattern == "a.*"


def test_topics_and_a_pattern_together_are_refused() -> None:
    context = table(
        {**JSON, "topic-pattern": "a.*"}, ID, MetadataColumn("to", pa.string(), "topic")
    )
    for make in (KafkaTableFactory().create_scan_source, KafkaTableFactory().create_sink):
        with pytest.raises(InvalidOptionError, match="topic-pattern"):
            make(context)


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"topic": "a.b; c"}, r"a\.b|c"),
        ({"topic": "a"}, "a"),
        ({"topic-pattern": "a.*"}, "a.*"),
        ({}, None),
    ],
)
def test_a_column_names_the_topic_of_each_row(options: dict[str, str], pattern: str | None) -> None:
    column = MetadataColumn("to", pa.string(), "topic")
    made = written(table({"format": "json", **options}, ID, column)).serialization
    assert (made.topic, made.topic_column, made.topic_pattern) == (None, "to", pattern)


def test_several_topics_are_written_only_by_a_column() -> None:
    with pytest.raises(InvalidOptionError, match=r"topic\.column"):
        written(table({**JSON, "topic": "a;b"}))


@both
def test_the_discovery_interval_can_be_set_and_turned_off(factory: Factory) -> None:
    key = "scan.topic-partition-discovery.interval"
    assert read(of(factory, {key: "100 ms"}), factory).discovery_interval == timedelta(seconds=0.1)
    assert read(of(factory, {}), factory).discovery_interval == timedelta(minutes=5)
    assert read(of(factory, {key: "0"}), factory).discovery_interval is None


def test_offsets_have_the_notation_of_flink() -> None:
    offsets = "partition:0,offset:100;partition:1,offset:123"
    options = {"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": offsets}
    expected = OffsetsInitializer.offsets({("flights", 0): 100, ("flights", 1): 123})
    assert read(table({**JSON, **options})).starting_offsets == expected


@both
@pytest.mark.parametrize(
    ("mode", "options", "expected"),
    [
        ("latest-offset", {}, OffsetsInitializer.latest()),
        (
            "group-offsets",
            {"properties.group.id": "g"},
            OffsetsInitializer.committed(OffsetsInitializer.earliest()),
        ),
        ("timestamp", {"scan.bounded.timestamp-millis": "1"}, OffsetsInitializer.timestamp(1)),
        (
            "specific-offsets",
            {"scan.bounded.specific-offsets": "partition:0,offset:2"},
            OffsetsInitializer.offsets({("flights", 0): 2}),
        ),
    ],
)
def test_an_end_has_a_mode_and_its_value(
    factory: Factory, mode: str, options: dict[str, str], expected: OffsetsInitializer
) -> None:
    source = read(of(factory, {"scan.bounded.mode": mode, **options}), factory)
    assert source.bounded == expected
    assert source.boundedness() is Boundedness.BOUNDED


@both
@pytest.mark.parametrize(
    ("mode", "missing"),
    [
        ("scan.startup.mode", "timestamp-millis"),
        ("scan.startup.mode", "specific-offsets"),
        ("scan.bounded.mode", "timestamp-millis"),
        ("scan.bounded.mode", "specific-offsets"),
    ],
)
def test_the_error_of_a_mode_without_its_value_names_the_option(
    factory: Factory, mode: str, missing: str
) -> None:
    context = of(factory, {mode: missing.removesuffix("-millis")})
    with pytest.raises(InvalidOptionError) as refused:
        factory().create_scan_source(context)
    assert refused.value.option == mode.replace("mode", missing)


GROUP = {"scan.startup.mode": "group-offsets", "properties.group.id": "g"}


@pytest.mark.parametrize(
    ("reset", "fallback"),
    [
        (None, OffsetsInitializer.earliest()),
        ("earliest", OffsetsInitializer.earliest()),
        ("latest", OffsetsInitializer.latest()),
        ("none", None),
    ],
)
def test_partitions_without_a_committed_offset_start_where_kafkas_property_says(
    reset: str | None, fallback: OffsetsInitializer | None
) -> None:
    given = {} if reset is None else {"properties.auto.offset.reset": reset}
    source = read(table({**JSON, **GROUP, **given}))
    assert source._enumeration.start == OffsetsInitializer.committed(fallback)
    written(table({**JSON, **GROUP, **given}))  # the sink has no such property


@pytest.mark.parametrize("options", [{**GROUP, "properties.auto.offset.reset": "soon"}, {
    "scan.startup.mode": "latest-offset", "properties.auto.offset.reset": "latest"}])  # fmt: skip
def test_the_property_for_missing_offsets_needs_a_value_and_a_group(
    options: dict[str, str],
) -> None:
    with pytest.raises(InvalidOptionError, match=r"auto\.offset\.reset"):
        read(table({**JSON, **options}))


def test_without_a_group_no_offsets_are_committed() -> None:
    assert read(table(JSON))._enumeration.config.get(GROUP_ID) is None


# --- Keys ---


def test_key_and_value_have_their_own_columns_and_formats() -> None:
    columns = [PhysicalColumn(name, pa.string()) for name in ("id", "name", "age", "address")]
    at = MetadataColumn("at", pa.timestamp("us", "UTC"), "timestamp")
    options = {
        "topic": "a",
        "key.format": "csv",
        "key.csv.field-delimiter": "#",
        "key.fields": "address; name",
        "value.format": "csv",
        "value.csv.field-delimiter": "|",
        "value.fields-include": "EXCEPT_KEY",
    }
    source = read(table(options, *columns, at))
    assert source.schema().names == ["address", "name", "id", "age", "at"]
    parts = written(table(options, *columns, at)).serialization
    rows = pa.record_batch({name: [name] for name in ("id", "name", "age", "address")})
    rows = rows.append_column("at", pa.array([0], pa.timestamp("us", "UTC")))
    records = parts.serialize(rows).records
    assert records["key"].to_pylist() == [b'"address"#"name"']
    assert records["value"].to_pylist() == [b'"id"|"age"']


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({}, "key.fields"),
        ({"key.fields": "missing"}, "key.fields"),
        (
            {
                "key.fields": "id;name",
                "key.fields-prefix": "i",
                "value.fields-include": "EXCEPT_KEY",
            },
            "key.fields",
        ),
        ({"key.fields": "id", "key.fields-prefix": "i"}, "prefix"),
    ],
)
def test_columns_that_cannot_be_a_key_are_refused(options: dict[str, str], wrong: str) -> None:
    context = table({**JSON, "key.format": "json", **options})
    for make in (read, written):
        with pytest.raises(ConfigurationError, match=wrong):
            make(context)


def test_a_primary_key_needs_a_format_for_changelogs() -> None:
    for options in (JSON, {**JSON, "key.format": "json", "key.fields": "id"}):
        with pytest.raises(ConfigurationError, match="upsert-kafka"):
            KafkaTableFactory().validate(table(options, keys=("id",)))
    KafkaTableFactory().validate(table({"topic": "a", "format": "debezium-json"}, keys=("id",)))
    upserts = {**JSON, "key.format": "json", "key.fields": "id", "sink.upsert": "every-row"}
    KafkaTableFactory().validate(table(upserts, keys=("id",)))


def test_a_table_of_upserts_needs_a_key_and_the_formats_of_both_parts() -> None:
    with pytest.raises(ConfigurationError, match="PRIMARY KEY"):
        UpsertKafkaTableFactory().validate(table(UPSERTS))
    for key in ("key.format", "value.format"):
        options = {name: each for name, each in UPSERTS.items() if name != key}
        with pytest.raises(OptionError) as refused:
            UpsertKafkaTableFactory().validate(table(options, keys=("id",)))
        assert refused.value.option == key


def test_the_key_of_a_table_of_upserts_can_have_a_prefix() -> None:
    key = PhysicalColumn("k_id", pa.int64())
    options = {**UPSERTS, "key.fields-prefix": "k_", "value.fields-include": "EXCEPT_KEY"}
    context = table(options, key, NAME, keys=("k_id",))
    assert read(context, UpsertKafkaTableFactory).deserialization.key_fields == ("k_id",)
    parts = written(context, UpsertKafkaTableFactory).serialization
    rows = pa.record_batch({"k_id": [7], "name": ["a"]})
    records = parts.serialize(rows).records
    assert (records["key"][0].as_py(), records["value"][0].as_py()) == (
        b'{"id":7}',
        b'{"name":"a"}',
    )


# --- Metadata ---


def test_headers_are_a_list_or_a_map_and_have_one_column_that_is_written() -> None:
    listed = MetadataColumn("listed", HEADER_LIST, "header-list")
    mapped = MetadataColumn("mapped", HEADERS, "headers")
    for column in (listed, mapped):
        assert written(table(JSON, ID, column)).serialization.headers_column == column.name
    with pytest.raises(ConfigurationError, match="'mapped'"):
        KafkaTableFactory().create_sink(table(JSON, ID, listed, mapped))
    made = scan(table(JSON, ID, listed, mapped))
    assert made.source.schema().field("listed").type == pa.list_(
        pa.field(
            "item", pa.struct([pa.field("key", pa.string(), False), ("value", pa.binary())]), False
        )
    )
    assert made.computed.keys() == {"mapped"}


def test_the_type_of_a_timestamp_is_a_number_or_has_the_name_of_flink() -> None:
    columns = [
        MetadataColumn("number", pa.int32(), "timestamp_type", virtual=True),
        MetadataColumn("name", pa.string(), "timestamp-type", virtual=True),
    ]
    made = scan(table(JSON, ID, *columns))
    assert made.source.schema().names == ["id", "number"]
    assert "'CreateTime'" in made.computed["name"]


# --- Sinks ---


@both
def test_a_sink_has_the_guarantee_the_prefix_and_the_writers_of_its_options(
    factory: Factory,
) -> None:
    options = {"sink.delivery-guarantee": "exactly-once"}
    more = {"sink.transactional-id-prefix": "of-flights", "sink.parallelism": "100"}
    sink = written(of(factory, {**options, **more}), factory)
    assert sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
    assert (sink.transactional_id_prefix, sink.parallelism) == ("of-flights", 100)
    assert written(of(factory, options), factory).transactional_id_prefix == "connectors"
    for guarantee in DeliveryGuarantee:
        given = of(factory, {"sink.delivery-guarantee": guarantee.value})
        assert written(given, factory).delivery_guarantee is guarantee


def test_an_unknown_partitioner_is_refused() -> None:
    with pytest.raises(InvalidOptionError) as refused:
        KafkaTableFactory().validate(table({**JSON, "sink.partitioner": "abc"}))
    assert refused.value.option == "sink.partitioner"


@both
@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ("sink.semantic", "sink.delivery-guarantee"),
        ("sink.transaction-naming-strategy", "sink.transactional-id-prefix"),
        ("sink.buffer-flush.max-rows", "sink.upsert"),
        ("sink.buffer-flush.interval", "sink.upsert"),
        ("scan.parallelism", "parallelism.default"),
    ],
)
def test_the_error_of_an_option_of_flink_names_its_replacement(
    factory: Factory, option: str, remedy: str
) -> None:
    with pytest.raises(UnknownOptionError, match=remedy):
        factory().validate(of(factory, {option: "1"}))
