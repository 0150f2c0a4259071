# SPDX-License-Identifier: Apache-2.0
"""Tests that 3.0 completes the pipelines that `state_of_2_0/write.py` has interrupted under 2.0.0.

Each pipeline has committed two epochs and decided a third one. Half of its rows are unread.
"""

from __future__ import annotations

import base64
import json
import tarfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connector_elasticsearch import ElasticsearchSink, ElasticsearchSource
from connector_elasticsearch.testing import ElasticsearchServer
from connector_filesystem import FileSink, FileSource
from connector_kafka import (
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from connector_kafka.testing import KafkaBroker
from connector_kafka.testing.tools import console_consumer
from connectors_core import Pipeline
from connectors_core.engine.state.documents import encode
from connectors_core.sink import Sink
from connectors_core.source import Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINE = ".".join(version("pyspark").split(".")[:2])
ARCHIVES = Path(__file__).parent.parent / "state_of_2_0"
FORMER_ROOT = "/tmp/connectors-2.0"
FOLDERS = ("plans", "reports", "decisions")
ROWS = list(range(60))
# The broker keeps the open transaction and the receipts, although they are old.
BROKER = {
    "log.retention.ms": "-1",
    "offsets.retention.minutes": str(2**31 - 1),
    "transactional.id.expiration.ms": str(2**31 - 1),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(2**31 - 1),
}


def unpack(connector: str, root: Path) -> None:
    """Restore the state and the external data of a connector in another folder."""
    with tarfile.open(ARCHIVES / f"{connector}-{LINE}.tar.xz") as archive:
        archive.extractall(root, filter="data")


def move(root: Path, former: str, current: str) -> None:
    """Replace an address of external data in all documents, also in what serializers wrote."""

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            if set(value) == {"data", "version"}:
                data = base64.b64decode(value["data"]).replace(former.encode(), current.encode())
                return {**value, "data": base64.b64encode(data).decode()}
            return {moved(key): moved(each) for key, each in value.items()}
        if isinstance(value, list):
            return [moved(each) for each in value]
        return value.replace(former, current) if isinstance(value, str) else value

    query = root / "checkpoint" / "query-0"
    for path in (each for folder in FOLDERS for each in query.glob(f"{folder}/**/*.json")):
        document = json.loads(path.read_text())
        path.write_bytes(encode(document["kind"], moved(document["payload"])))


def point_in_time(root: Path) -> str:
    """Return the point in time that the source has read."""
    plan = json.loads((root / "checkpoint/query-0/plans/0000000000.json").read_text())
    state = plan["payload"]["sources"]["in"]["snapshot"]["enumerator"]["data"]
    return json.loads(base64.b64decode(state))["point_in_time"]


def complete(spark: SparkSession, root: Path, source: Source[Any, Any], sink: Sink) -> None:
    with Pipeline(
        spark,
        "state-of-2.0",
        checkpoint_location=str(root / "checkpoint"),
        streaming=True,
        parallelism=2,
        lease_expiry="2 s",
    ) as pipeline:
        pipeline.sink_to(pipeline.from_source(source, uid="in"), sink, uid="out")
        assert pipeline.run(available_now=True)


def test_a_file_pipeline_is_completed(spark: SparkSession, tmp_path: Path) -> None:
    unpack("filesystem", tmp_path)
    move(tmp_path, FORMER_ROOT, str(tmp_path))
    source = FileSource(tmp_path / "in", schema="n INT", monitor_interval="1 s")
    complete(spark, tmp_path, source, FileSink(tmp_path / "out", format="json"))
    lines = [
        line
        for path in (tmp_path / "out").glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert sorted(json.loads(line)["n"] for line in lines) == ROWS
    assert not list((tmp_path / "out").rglob("_staging/**/0"))


def test_a_kafka_pipeline_is_completed(spark: SparkSession, tmp_path: Path) -> None:
    unpack("kafka", tmp_path)
    with KafkaBroker(folder=tmp_path / "broker", properties=BROKER) as broker:
        source = KafkaSource(
            broker.bootstrap_servers,
            topics="in",
            deserialization=KafkaRecordDeserializationSchema(value_format="json", schema="n INT"),
        )
        sink = KafkaSink(
            broker.bootstrap_servers,
            serialization=KafkaRecordSerializationSchema(topic="out", value_format="json"),
            delivery_guarantee="exactly-once",
        )
        complete(spark, tmp_path, source, sink)
        found = console_consumer(broker.bootstrap_servers, "out", quiet=3)
    assert sorted(json.loads(each.value or b"")["n"] for each in found) == ROWS


def test_an_elasticsearch_pipeline_is_completed(spark: SparkSession, tmp_path: Path) -> None:
    unpack("elasticsearch", tmp_path)
    with ElasticsearchServer() as server:
        written = json.loads((tmp_path / "rows.json").read_text())
        for index, rows in (("in", ROWS), ("out", written)):
            server.request(
                "PUT", f"/{index}", {"mappings": {"properties": {"n": {"type": "integer"}}}}
            )
            for n in rows:
                server.request("PUT", f"/{index}/_doc/{n}", {"n": n})
            server.request("POST", f"/{index}/_refresh")
        opened = server.request("POST", "/in/_pit?keep_alive=10m")["id"]
        move(tmp_path, point_in_time(tmp_path), opened)
        source = ElasticsearchSource(server.url, "in", schema="n INT", sort_field="n", slices=2)
        sink = ElasticsearchSink(server.url, "out", id_columns=["n"])
        complete(spark, tmp_path, source, sink)
        server.request("POST", "/out/_refresh")
        hits = server.request("GET", "/out/_search?size=1000&version=true")["hits"]["hits"]
    assert sorted(each["_source"]["n"] for each in hits) == ROWS
    # The third epoch is not written again, and no row is read again.
    assert {each["_version"] for each in hits} == {1}
