# SPDX-License-Identifier: Apache-2.0
"""Tests the definitions that a catalog derives from samples, schemas, and statements."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector_kafka.catalog import KafkaCatalog, KafkaCatalogFactory
from connector_kafka.catalog.inference import infer_table, registered_table
from connector_kafka.catalog.sample import Sample, _Part
from connector_kafka.client.metadata import Topic
from connector_kafka.errors import KafkaRetryableError
from connector_kafka.table_factory import KafkaTableFactory, UpsertKafkaTableFactory
from connectors_core.catalog import (
    FileCatalogStore,
    ObjectPath,
    SchemaInferenceError,
    SqliteCatalogStore,
    TableAlreadyExistError,
)
from connectors_core.errors import (
    ConfigurationError,
    InvalidOptionError,
    MissingOptionError,
    UnknownOptionError,
)
from connectors_core.formats import HttpSchemaRegistry, RegisteredSchema, UnknownSchemaError
from connectors_core.schema import type_text
from connectors_core.table import (
    CatalogTable,
    DynamicTableContext,
    MetadataColumn,
    PhysicalColumn,
    TableSchema,
)

PATH = ObjectPath("default", "late")
METADATA = {name: name for name in ("partition", "offset", "timestamp")}
VIRTUAL = ["partition*", "offset*", "timestamp*"]
OPTIONS = {"properties.bootstrap.servers": "127.0.0.1:1", "scan.bounded.mode": "latest-offset"}
PASSWORD = "canary-5"  # pragma: allowlist secret


def sample(*records: tuple[Any, Any]) -> Sample:
    def part(at: int) -> pa.Array:
        values = (each[at] for each in records)
        texts = (json.dumps(each) if isinstance(each, dict) else each for each in values)
        coded = (each.encode() if isinstance(each, str) else each for each in texts)
        return pa.array(list(coded), pa.binary())

    return Sample(part(0), part(1))


def inferred(*records: tuple[Any, Any], upsert: bool = False, **options: Any) -> Any:
    given = {"registry": None, "metadata": METADATA, **options}
    return infer_table(sample(*records), "late", upsert=upsert, **given)


def columns(table: CatalogTable) -> list[str]:
    """Return the columns with their types; a star marks metadata."""
    found = []
    for each in table.schema.columns:
        assert not isinstance(each, MetadataColumn) or each.virtual
        is_metadata = isinstance(each, MetadataColumn)
        is_plain = is_metadata and each.name in METADATA
        found.append(
            f"{each.name}{'*' if is_metadata else ''}"
            + ("" if is_plain else f" {type_text(each.type)}")
        )
    return found


CONTAINED = {"key.format": "json", "key.fields": '["id"]', "value.format": "json"}
BESIDE = {"value.fields-include": "except-key", "value.format": "json"}


@pytest.mark.parametrize(
    ("records", "expected", "options"),
    [
        ([(None, {"id": 1, "x": "a"})], ["id bigint", "x string"], {"value.format": "json"}),
        (
            [("a", {"id": 1}), ("b", {"id": 2})],
            ["key string", "id bigint"],
            {"key.format": "string", "key.fields": '["key"]', **BESIDE},
        ),
        ([("a", {"id": 1}), (None, {"id": 2})], ["key* string", "id bigint"], None),
        (
            [(b"\xff", {"key": 1})],
            ["key_key binary", "key bigint"],
            {
                "key.format": "raw",
                "key.fields": '["key_key"]',
                "key.fields-prefix": "key_",
                **BESIDE,
            },
        ),
        ([({"id": 1}, {"id": 1, "x": 2})], ["id bigint", "x bigint"], CONTAINED),
        (
            [({"id": 1}, {"x": 2}), (None, {"x": 3})],
            ["id bigint", "x bigint"],
            {"key.format": "json", "key.fields": '["id"]', **BESIDE},
        ),
        (
            [({"id": "a"}, {"id": 1})],
            ["key_id string", "id bigint"],
            {
                "key.format": "json",
                "key.fields": '["key_id"]',
                "key.fields-prefix": "key_",
                **BESIDE,
            },
        ),
        (
            [(None, "1,a"), (None, "2,b"), (None, "3,c")],
            ["f0 bigint", "f1 string"],
            {"value.format": "csv"},
        ),
        ([(None, "text")], ["value string"], {"value.format": "string"}),
        ([(None, b"\xff")], ["value binary"], {"value.format": "raw"}),
        ([(None, b"\xff"), (None, None)], ["value* binary"], {}),
        (
            [({"value": 1}, "text")],
            ["key_value bigint", "value string"],
            {
                "key.format": "json",
                "key.fields": '["key_value"]',
                "key.fields-prefix": "key_",
                "value.fields-include": "except-key",
                "value.format": "string",
            },
        ),
    ],
)
def test_a_table_has_the_columns_of_keys_and_values(records, expected, options, tmp_path):
    table = inferred(*records).table
    assert columns(table) == [*expected, *VIRTUAL]
    if options is not None:
        assert table.options == {"connector": "kafka", **options}
    complete = KafkaCatalog("k", OPTIONS).completed(PATH, table)
    context = DynamicTableContext.of("late", complete)
    KafkaTableFactory().validate(context)
    found = KafkaTableFactory().create_scan_source(context).source.schema()
    assert set(found.names) >= {each.name for each in table.schema.columns}
    sink = KafkaTableFactory().create_sink(context).sink
    if table.schema.physical.names:
        sink.serialization.validate(table.schema.physical)
    stored = FileCatalogStore(tmp_path).tables_of("k")
    stored.add(PATH, table)
    assert stored.get(PATH) == table


def test_metadata_has_other_names_if_asked_for_and_gives_way_to_fields():
    assert columns(inferred((None, {"Offset": 1, "x": 2})).table) == [
        "Offset bigint",
        "x bigint",
        "partition*",
        "timestamp*",
    ]
    renamed = inferred((None, {"timestamp": 1}), metadata={"timestamp": "at", "headers": "headers"})
    names = [(each.name, each.key) for each in renamed.table.schema.metadata]
    assert names == [("at", "timestamp"), ("headers", "headers")]


@pytest.mark.parametrize(
    ("records", "key"),
    [
        ([({"id": 1}, {"id": 1, "x": 2}), ({"id": 2}, None)], ("id",)),
        ([("a", {"x": 2})], ("key",)),
        ([("a", "text")], None),
        ([("a", {"x": 2}), (None, {"x": 2})], None),
        ([(None, {"x": 2})], None),
    ],
)
def test_a_compacted_topic_with_keys_can_be_upserted(records, key):
    assert inferred(*records).table.options["connector"] == "kafka"
    table = inferred(*records, upsert=True).table
    if key is None:
        assert table.options["connector"] == "kafka"
        return
    assert (table.options["connector"], table.schema.primary_key) == ("upsert-kafka", key)
    complete = KafkaCatalog("k", OPTIONS).completed(PATH, table)
    context = DynamicTableContext.of("late", complete)
    factory = UpsertKafkaTableFactory()
    factory.validate(context)
    factory.create_scan_source(context)
    factory.create_sink(context).sink.serialization.validate(table.schema.physical)


def test_an_inference_is_reported(caplog):
    found = inferred(
        ("a", {"id": 1, "delay": 5}),
        ("b", {"id": 2, "delay": "late"}),
        (None, None),
    )
    report = found.report
    assert (report.records, report.without_key, report.without_value) == (3, 1, 1)
    assert report.size == 2 + len('{"id": 1, "delay": 5}{"id": 2, "delay": "late"}')
    assert not report.is_clear
    assert str(report) == (
        "inferred from 3 records of 49 bytes; keys are string; values are json; "
        "delay is number or string, read as string"
    )
    assert found.table.comment == str(report)
    assert inferred((None, {"id": 1})).report.is_clear
    mixed = inferred((None, {"id": 1}), (None, "no JSON")).report
    assert str(mixed).endswith("values are string; 1 of 2 messages are JSON objects")
    twins = inferred((None, {"id": 1, "ID": 2})).report
    assert str(twins).endswith("values are json; without ID")


@pytest.mark.parametrize("records", [[], [("a", None)], [(None, b"")]])
def test_a_topic_without_values_shows_no_columns(records):
    with pytest.raises(SchemaInferenceError, match="'late' cannot be inferred") as refused:
        inferred(*records)
    assert f"{len(records)} records, 0 with a value" in str(refused.value)
    assert "'topic' = 'late'" in str(refused.value)


# --- A registry ---

VALUE = {
    "type": "record",
    "name": "V",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "int", "logicalType": "time-millis"}},
    ],
}
KEY = {"type": "record", "name": "K", "fields": [{"name": "id", "type": "long"}]}


JSON_VALUE = {"type": "object", "properties": {"text": {"type": "string"}}}


class Registry(HttpSchemaRegistry):
    """A registry without a server."""

    def newest_schema(self, subject):
        found = SUBJECTS.get(subject)
        if isinstance(found, Exception):
            raise found
        return found


def avro(schema):
    return RegisteredSchema("AVRO", json.dumps(schema))


SUBJECTS = {
    "late-value": avro(VALUE),
    "late-key": avro(KEY),
    "text-value": avro(VALUE),
    "text-key": avro("string"),
    "alone-value": avro(VALUE),
    "whole-value": UnknownSchemaError("the schema of whole-value refers to others"),
    "proto-value": RegisteredSchema("PROTOBUF", 'syntax = "proto3";'),
    "json-value": RegisteredSchema("JSON", json.dumps(JSON_VALUE)),
    "json-key": avro(KEY),
    "key-key": avro(KEY),
}


def registered(topic):
    return registered_table(
        Registry(url="http://127.0.0.1:1"), topic, metadata=METADATA, upsert=False
    )


def test_a_registry_has_the_columns_of_keys_and_values(caplog):
    table = registered("late")
    assert columns(table) == ["id bigint", *VIRTUAL]
    assert table.options == {
        "connector": "kafka",
        "key.format": "avro-confluent",
        "key.fields": '["id"]',
        "value.format": "avro-confluent",
        "key.avro-confluent.schema": json.dumps(KEY),
        "value.avro-confluent.schema": json.dumps(VALUE),
    }
    for topic in ("text", "alone"):
        assert columns(registered(topic)) == ["key* binary", "id bigint", *VIRTUAL]
    assert "subject 'text-key' is not used" in caplog.text
    for topic in ("whole", "proto", "key", "none"):
        assert registered(topic) is None
    assert "subject 'whole-value' is not used" in caplog.text
    assert "no format reads messages with a schema of PROTOBUF" in caplog.text


def test_a_json_schema_of_a_registry_has_the_columns_of_a_topic():
    table = registered("json")
    assert columns(table) == ["id bigint", "text string", *VIRTUAL]
    assert table.options == {
        "connector": "kafka",
        "key.format": "avro-confluent",
        "key.fields": '["id"]',
        "key.avro-confluent.schema": json.dumps(KEY),
        "value.fields-include": "except-key",
        "value.format": "json-confluent",
    }
    catalog = KafkaCatalog("k", {**OPTIONS, "avro-confluent.url": "http://127.0.0.1:1"})
    complete = catalog.completed(PATH, table)
    context = DynamicTableContext.of("late", complete)
    KafkaTableFactory().validate(context)
    assert KafkaTableFactory().create_scan_source(context).source.schema().names[:2] == [
        "id",
        "text",
    ]


def test_tables_of_avro_get_the_registry_and_the_subject_of_their_topic():
    options = {
        **OPTIONS,
        "avro-confluent.url": "http://127.0.0.1:1",
        "avro-confluent.basic-auth.user-info": PASSWORD,
    }
    complete = KafkaCatalog("k", options).completed(PATH, registered("late")).options
    for side in ("key", "value"):
        assert complete[f"{side}.avro-confluent.url"] == "http://127.0.0.1:1"
        assert complete[f"{side}.avro-confluent.basic-auth.user-info"] == PASSWORD
        assert complete[f"{side}.avro-confluent.subject"] == f"late-{side}"


# --- Options ---


def declared(*names: str, **options: str) -> CatalogTable:
    found = tuple(PhysicalColumn(name, pa.int64()) for name in names)
    return CatalogTable(schema=TableSchema(found), options=options)


def test_a_table_has_the_options_of_its_catalog_and_stores_only_its_own():
    catalog = KafkaCatalog("k", {**OPTIONS, "drop-topics": "true", "sample.records": "5"})
    given = declared("id", **{"format": "json", "partitions": "3", "topic-config.a.b": "c"})
    complete = catalog.completed(PATH, given)
    assert complete.options == {
        "connector": "kafka",
        "topic": "late",
        **OPTIONS,
        "value.format": "json",
    }
    stored = catalog._definition(PATH, given)
    assert stored.options == {"connector": "kafka", "value.format": "json"}
    assert catalog.completed(PATH, stored) == complete
    assert catalog._definition(PATH, complete) == stored


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"topic": "other"}, "determines an option"),
        ({"properties.bootstrap.servers": "other:1"}, "determines an option"),
        ({"connector": "elasticsearch"}, "are topics"),
    ],
)
def test_a_table_cannot_contradict_its_catalog(options, shown):
    catalog = KafkaCatalog("k", OPTIONS)
    with pytest.raises(InvalidOptionError, match=shown):
        catalog.completed(PATH, declared("id", **options))
    with pytest.raises(ConfigurationError, match="options without columns"):
        catalog._definition(PATH, declared(**{"value.format": "json"}))


@pytest.mark.parametrize(
    ("options", "error", "shown"),
    [
        ({}, MissingOptionError, "properties.bootstrap.servers"),
        ({**OPTIONS, "drop-topic": "true"}, UnknownOptionError, "'drop-topics'"),
        ({**OPTIONS, "topic": "late"}, UnknownOptionError, "topic"),
        ({**OPTIONS, "value.format": "json"}, UnknownOptionError, "value.format"),
        ({**OPTIONS, "scan.bounded.mode": "soon"}, InvalidOptionError, "scan.bounded.mode"),
        ({**OPTIONS, "sample.records": "0"}, InvalidOptionError, "sample.records"),
        ({**OPTIONS, "avro-confluent.timeout": "1 s"}, MissingOptionError, "avro-confluent.url"),
        ({**OPTIONS, "properties.sasl.pasword": PASSWORD}, UnknownOptionError, "sasl.password"),
    ],
)
def test_wrong_options_of_a_catalog_are_refused(options, error, shown):
    with pytest.raises(error, match=shown) as refused:
        KafkaCatalogFactory().create_catalog("k", options)
    assert PASSWORD not in str(refused.value)


def test_secrets_are_known_by_their_properties():
    factories = (KafkaCatalogFactory(), KafkaTableFactory(), UpsertKafkaTableFactory())
    for factory in factories:
        for name in ("sasl.password", "SASL.jaas.config", "ssl.key.password", "no.such.property"):
            assert factory.is_secret(f"properties.{name}"), name
        for name in ("bootstrap.servers", "group.id", "security.protocol", "compression.type"):
            assert not factory.is_secret(f"properties.{name}"), name
    assert factories[0].is_secret("avro-confluent.basic-auth.user-info")
    assert factories[1].is_secret("value.avro-confluent.basic-auth.user-info")


def test_a_table_reads_and_writes_with_the_properties_of_each_client():
    options = {"properties.group.id": "g", "properties.compression.type": "zstd", **OPTIONS}
    table = KafkaCatalog("k", options).completed(PATH, declared("id", **{"format": "json"}))
    context = DynamicTableContext.of("late", table)
    source = KafkaTableFactory().create_scan_source(context).source
    sink = KafkaTableFactory().create_sink(context).sink
    assert (source.properties, sink.properties) == ({"group.id": "g"}, {"compression.type": "zstd"})


# --- Samples ---


@given(
    st.lists(st.lists(st.integers(0, 50), max_size=8), max_size=5),
    st.integers(1, 20),
    st.integers(1, 200),
)
def test_a_part_of_a_sample_stays_within_its_bounds(batches, records, size):
    part = _Part(records, size)
    for lengths in batches:
        values = pa.array([bytes(each) for each in lengths], pa.binary())
        keys = pa.nulls(len(values), pa.binary())
        part.take(pa.RecordBatch.from_arrays([keys, values], names=["key", "value"]))
    given = [each for lengths in batches for each in lengths]
    taken = [len(each.as_py()) for batch in part.batches for each in batch.column("value")]
    assert taken == given[: len(taken)]
    assert len(taken) <= records
    assert len(taken) == 1 or sum(taken) <= size
    fitting = int(np.searchsorted(np.cumsum(given), size, side="right"))
    assert len(taken) == min(records, max(fitting, min(1, len(given))))
    assert part.is_full == (len(taken) < len(given) or len(taken) == records)


# --- Definitions of several processes ---


class Topics:
    """The topics of a cluster with their IDs."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self.before_creation: Callable[[], None] | None = None
        self.lost = False

    def create(self, wire: Any, name: str, **_: Any) -> str | None:
        hook, self.before_creation = self.before_creation, None
        if hook is not None:
            hook()
        if name in self.ids:
            return None
        self.ids[name] = uuid.uuid4().hex
        lost, self.lost = self.lost, False
        if lost:
            raise KafkaRetryableError("no response")
        return self.ids[name]

    def found(self, path: ObjectPath) -> Topic | None:
        known = self.ids.get(path.name)
        return None if known is None else Topic(path.name, known, (0,))


@pytest.fixture
def topics(monkeypatch) -> Topics:
    made = Topics()
    monkeypatch.setattr("connector_kafka.catalog.kafka_catalog.create_topic", made.create)
    monkeypatch.setattr(KafkaCatalog, "_connected", lambda self: None)
    monkeypatch.setattr(KafkaCatalog, "_topic", lambda self, path: made.found(path))
    return made


@pytest.fixture
def new(topics, tmp_path) -> Callable[[], KafkaCatalog]:
    """Return a function that makes the catalog of one more process."""

    def catalog() -> KafkaCatalog:
        made = KafkaCatalog("k", {**OPTIONS, "properties.retry.backoff.ms": "1"})
        made.definitions = SqliteCatalogStore(tmp_path / "catalogs.db").tables_of("k")
        return made

    return catalog


FIRST, OTHER = declared("id", format="json"), declared("other", format="csv")


def test_a_process_that_creates_a_topic_too_late_leaves_its_definition(new, topics):
    first, late = new(), new()
    topics.before_creation = lambda: first.create_table(PATH, FIRST)
    with pytest.raises(TableAlreadyExistError):
        late.create_table(PATH, OTHER)
    assert new().get_table(PATH) == first.completed(PATH, FIRST)


def test_a_topic_whose_creation_was_not_confirmed_has_its_definition(new, topics):
    topics.lost = True
    new().create_table(PATH, FIRST)
    assert new().get_table(PATH).schema == FIRST.schema


def test_a_definition_with_a_secret_in_clear_text_creates_no_topic(new, topics):
    secret = {"format": "json", "properties.sasl.password": PASSWORD}
    with pytest.raises(InvalidOptionError, match="clear text"):
        new().create_table(PATH, declared("id", **secret))
    assert not topics.ids


def test_a_definition_ends_with_its_topic(new, topics, monkeypatch):
    catalog = new()
    catalog.create_table(PATH, FIRST)
    topics.ids[PATH.name] = uuid.uuid4().hex  # another program has replaced the topic
    recent = inferred((None, {"recent": 1}))
    monkeypatch.setattr(KafkaCatalog, "_inferred", lambda self, topic: recent)
    assert catalog.get_table(PATH) == catalog.completed(PATH, recent.table)
    monkeypatch.setattr(KafkaCatalog, "_inferred", lambda self, topic: inferred())
    assert new().get_table(PATH) == catalog.completed(PATH, recent.table)
