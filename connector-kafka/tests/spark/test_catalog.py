# SPDX-License-Identifier: Apache-2.0
"""Tests a cluster as a catalog: topics as tables, stored inferences, creation, and deletion."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kafka import KafkaProducer

from connector_kafka.catalog import KafkaCatalog
from connector_kafka.client.cluster import topic_setting
from connector_kafka.errors import KafkaRequestError
from connector_kafka.table_factory import KafkaTableFactory
from connector_kafka.testing import KafkaBroker
from connectors_core.catalog import (
    CatalogError,
    CatalogOperationUnsupportedError,
    DatabaseNotExistError,
    FileCatalogStore,
    ObjectPath,
    SchemaInferenceError,
    TableAlreadyExistError,
    TableNotExistError,
)
from connectors_core.formats import FormatName
from connectors_core.schema import FieldChange
from connectors_core.table import (
    CatalogTable,
    CatalogView,
    DynamicTableContext,
    PhysicalColumn,
    TableSchema,
)
from connectors_core.testing import DirectorySink, LocalPipeline

pytestmark = pytest.mark.line("3.5")  # these tests do not use Spark


@pytest.fixture
def new(broker: KafkaBroker, tmp_path: Path) -> Iterator[Callable[..., KafkaCatalog]]:
    """Return a function that opens another catalog with the same stored definitions."""
    opened: list[KafkaCatalog] = []

    def catalog(**options: str) -> KafkaCatalog:
        given = {key.replace("_", "."): each for key, each in options.items()}
        servers = {"properties.bootstrap.servers": broker.bootstrap_servers}
        made = KafkaCatalog("k", {**servers, **given})
        made.definitions = FileCatalogStore(tmp_path).tables_of("k")
        made.open()
        opened.append(made)
        return made

    yield catalog
    for each in opened:
        each.close()


def send(broker: KafkaBroker, topic: str, *values: Any, key: bytes | None = None) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for number, value in enumerate(values):
        partition = number % len(producer.partitions_for(topic))
        producer.send(topic, json.dumps(value).encode(), key=key, partition=partition)
    producer.close()


def path_of(topic: str) -> ObjectPath:
    return ObjectPath("default", topic)


def physical(table: CatalogTable) -> dict[str, pa.DataType]:
    return {each.name: each.type for each in table.schema.physical}


def test_a_second_use_and_another_session_see_the_same_columns(
    new: Callable[..., KafkaCatalog], broker: KafkaBroker, topic: str
) -> None:
    path, catalog = path_of(topic), new()
    send(broker, topic, {"id": 1, "delay": 5}, {"id": 2})
    first = catalog.get_table(path)
    assert physical(first) == {"id": pa.int64(), "delay": pa.int64()}
    assert first.options["topic"] == topic
    send(broker, topic, {"id": 3, "delay": "late", "gate": "B2"})
    assert catalog.get_table(path) == new().get_table(path) == first
    changes = (FieldChange("delay", "bigint", "string"), FieldChange("gate", None, "string"))
    assert new().compare_table(path) == changes
    assert catalog.get_table(path) == first
    refreshed = catalog.refresh_table(path)
    (conflict,) = refreshed.report.value.conflicts
    assert str(conflict) == "delay is number or string, read as string"
    assert new().compare_table(path) == ()
    assert list(physical(new().get_table(path))) == ["id", "delay", "gate"]


def test_a_sample_has_the_newest_or_oldest_records_of_each_partition(
    new: Callable[..., KafkaCatalog], broker: KafkaBroker
) -> None:
    path = path_of(broker.topics.create("sampled", partitions=3))
    old, recent = ({"old": 1},) * 20, ({"recent": 1},) * 20
    send(broker, "sampled", *old, *recent)
    for options, names, records in (
        ({"sample_records": "4"}, ["recent"], 12),
        ({"sample_records": "4", "sample_from": "earliest"}, ["old"], 12),
        ({"sample_size": "1"}, ["recent", "old"], 3),
        ({}, ["old", "recent"], 40),
    ):
        report = new(**options).infer_table(path).report
        assert set(report.value.schema.names) <= set(names), options
        assert report.records == records, options


def test_a_topic_without_records_has_no_columns(
    new: Callable[..., KafkaCatalog], topic: str
) -> None:
    catalog = new()
    with pytest.raises(SchemaInferenceError, match="cannot be inferred"):
        catalog.get_table(path_of(topic))
    assert catalog.table_exists(path_of(topic))
    assert catalog.definitions.get(path_of(topic)) is None


def test_topics_of_other_systems_are_not_listed(
    new: Callable[..., KafkaCatalog], broker: KafkaBroker, topic: str
) -> None:
    broker.topics.create("_schemas")
    catalog = new()
    assert topic in catalog.list_tables("default")
    assert not [each for each in catalog.list_tables("default") if each.startswith("_")]
    assert catalog.list_databases() == ["default"]
    with pytest.raises(DatabaseNotExistError):
        catalog.list_tables("none")
    for missing in (ObjectPath("none", topic), path_of("none"), path_of("no topic"), path_of("..")):
        assert not catalog.table_exists(missing)
        with pytest.raises(TableNotExistError):
            catalog.get_table(missing)


def test_a_compacted_topic_with_keys_is_upserted_if_asked_for(
    new: Callable[..., KafkaCatalog], broker: KafkaBroker
) -> None:
    for name, policy in (("compacted", "compact,delete"), ("kept", "delete")):
        broker.topics.create(name, config={"cleanup.policy": policy})
        send(broker, name, {"x": 1}, key=b"a")
    upserting = new(**{"compacted-topics_upsert": "true"})
    connectors = [
        upserting.infer_table(path_of(name)).table.options["connector"]
        for name in ("compacted", "kept")
    ]
    assert connectors == ["upsert-kafka", "kafka"]
    plain = new().get_table(path_of("compacted"))
    assert plain.options["connector"] == "kafka"


class Rows:
    """Reads and writes tables of a catalog without Spark."""

    def __init__(self, catalog: KafkaCatalog, folder: Path) -> None:
        self._catalog = catalog
        self._folder = folder
        self._runs = 0

    def context(self, topic: str) -> DynamicTableContext:
        return DynamicTableContext.of(topic, self._catalog.get_table(path_of(topic)))

    def read(self, topic: str) -> list[dict[str, Any]]:
        out = DirectorySink(self._folder / topic)
        self._run(topic, out)
        return sorted(out.read().to_pylist(), key=repr)

    def copy(self, topic: str, target: str) -> None:
        self._run(topic, KafkaTableFactory().create_sink(self.context(target)).sink)

    def _run(self, topic: str, sink: Any) -> None:
        self._runs += 1
        location = str(self._folder / f"checkpoint{self._runs}")
        source = KafkaTableFactory().create_scan_source(self.context(topic)).source
        with LocalPipeline(f"run-{self._runs}", checkpoint_location=location) as pipeline:
            pipeline.sink_to(pipeline.from_source(source, uid="in"), sink, uid="out")
            pipeline.run()


PLAIN = {"scan.bounded.mode": "latest-offset", "metadata.columns": "{}"}
TEXT_KEYS = [(b"a", b'{"id": 1}'), (b"b", b'{"id": 2}')]
SAME_KEYS = [(b'{"id": 1}', b'{"id": 1, "x": "y"}')]
OTHER_KEYS = [(b'{"id": "k"}', b'{"id": 1}')]


@pytest.mark.parametrize(
    ("records", "rows"),
    [
        (TEXT_KEYS, [{"id": 1, "key": "a"}, {"id": 2, "key": "b"}]),
        (SAME_KEYS, [{"id": 1, "x": "y"}]),
        (OTHER_KEYS, [{"id": 1, "key_id": "k"}]),
        (
            [(None, b"1,a"), (None, b"2,b"), (None, b"3,c")],
            [{"f0": 1, "f1": "a"}, {"f0": 2, "f1": "b"}, {"f0": 3, "f1": "c"}],
        ),
        ([(b"\0", b"text")], [{"key": b"\0", "value": "text"}]),
    ],
    ids=["text", "same", "other", "csv", "binary"],
)
def test_records_are_read_and_written_with_inferred_columns(
    new: Callable[..., KafkaCatalog],
    broker: KafkaBroker,
    topic: str,
    tmp_path: Path,
    records: list[tuple[bytes | None, bytes]],
    rows: list[dict[str, Any]],
) -> None:
    catalog = new(**PLAIN)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for key, value in records:
        producer.send(topic, value, key=key)
    producer.close()
    tables = Rows(catalog, tmp_path)
    assert tables.read(topic) == rows
    catalog.create_table(path_of(f"{topic}-copy"), catalog.infer_table(path_of(topic)).table)
    tables.copy(topic, f"{topic}-copy")
    assert tables.read(f"{topic}-copy") == rows


def test_a_single_value_can_be_missing(
    new: Callable[..., KafkaCatalog], broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for key, value in ((None, b"\xff"), (b"k", None)):
        producer.send(topic, value, key=key)
    producer.close()
    tables = Rows(new(**PLAIN), tmp_path)
    assert tables.read(topic) == [{"key": None, "value": b"\xff"}, {"key": b"k", "value": None}]


SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "flights.Late",
        "fields": [{"name": "id", "type": "long"}, {"name": "x", "type": ["null", "string"]}],
    }
)


class Registry(BaseHTTPRequestHandler):
    """A registry that has one schema, of the subject `avro-value`."""

    def do_GET(self) -> None:
        known = self.path in {"/subjects/avro-value/versions/latest", "/schemas/ids/7"}
        self._answer({"id": 7, "schema": SCHEMA} if known else None)

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        known = (self.path, given["schema"]) == ("/subjects/avro-value/versions", SCHEMA)
        self._answer({"id": 7} if known else None)

    def _answer(self, content: dict[str, Any] | None) -> None:
        data = json.dumps(content or {}).encode()
        self.send_response(200 if content else 404)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_registry_has_the_columns_with_which_records_are_read_and_written(
    new: Callable[..., KafkaCatalog],
    broker: KafkaBroker,
    topic: str,
    tmp_path: Path,
    registry: str,
) -> None:
    rows = [{"id": 1, "x": "a"}, {"id": 2, "x": None}]
    send(broker, topic, *rows)
    broker.topics.create("avro")
    catalog = new(**{"avro-confluent.url": registry, **PLAIN})
    assert physical(catalog.get_table(path_of("avro"))) == {"id": pa.int64(), "x": pa.string()}
    assert catalog.definitions.get(path_of("avro")) is None
    tables = Rows(catalog, tmp_path)
    tables.copy(topic, "avro")
    assert [{"id": row["id"], "x": row["x"]} for row in tables.read("avro")] == rows
    assert catalog.compare_table(path_of("avro")) == ()
    report = catalog.infer_table(path_of("avro")).report
    assert report.value.format is FormatName.AVRO_CONFLUENT
    assert new().infer_table(path_of("avro")).report.value.format is FormatName.RAW


def declared(**options: str) -> CatalogTable:
    columns = (PhysicalColumn("id", pa.int64(), nullable=False), PhysicalColumn("x", pa.string()))
    return CatalogTable(schema=TableSchema(columns, primary_key=("id",)), options=options)


def test_a_table_is_created_altered_and_dropped(
    new: Callable[..., KafkaCatalog], broker: KafkaBroker
) -> None:
    catalog, path = new(), path_of("made")
    table = declared(
        **{"format": "json", "partitions": "3", "topic-config.retention.ms": "86400000"}
    )
    catalog.create_table(path, table)
    assert len(broker.topics.end_offsets("made")) == 3
    assert topic_setting(catalog._connected(), "made", "retention.ms") == "86400000"
    found = new().get_table(path)
    assert (found.schema, found.options["value.format"]) == (table.schema, "json")
    with pytest.raises(TableAlreadyExistError, match="the topic made exists"):
        catalog.create_table(path, table)
    bounded = CatalogTable(
        schema=found.schema, options={**found.options, "scan.bounded.mode": "latest-offset"}
    )
    catalog.alter_table(path, bounded)
    assert new().get_table(path) == bounded
    with pytest.raises(CatalogError, match="does not delete topics") as refused:
        catalog.drop_table(path)
    assert "drop-topics" in str(refused.value)
    dropping = new(**{"drop-topics": "true"})
    dropping.drop_table(path)
    assert not catalog.table_exists(path)
    assert catalog.definitions.get(path) is None
    dropping.create_table(path, declared())
    assert new().get_table(path).options["connector"] == "kafka"


def test_an_upserted_table_has_a_compacted_topic(
    new: Callable[..., KafkaCatalog],
) -> None:
    catalog, path = new(), path_of("upserted")
    options = {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"}
    catalog.create_table(path, declared(**options))
    assert topic_setting(catalog._connected(), "upserted", "cleanup.policy") == "compact"
    assert catalog.get_table(path).schema.primary_key == ("id",)


def test_what_the_cluster_refuses_is_not_stored(new: Callable[..., KafkaCatalog]) -> None:
    catalog, path = new(), path_of("refused")
    for wrong in ({"replication-factor": "7"}, {"topic-config.retention.ms": "soon"}):
        with pytest.raises(KafkaRequestError, match="creating the topic 'refused'"):
            catalog.create_table(path, declared(**{"format": "json", **wrong}))
        assert catalog.definitions.get(path) is None
    with pytest.raises(CatalogOperationUnsupportedError, match="create a view"):
        catalog.create_table(path, CatalogView(query="SELECT 1"))
    assert not catalog.table_exists(path)
