# SPDX-License-Identifier: Apache-2.0
"""Writes the state of an interrupted pipeline of the connectors 2.0.0, for the tests of 3.0.

Run it with connectors-core 1.0.0 and the connectors 2.0.0, once for each connector and Spark line.
Their sources are the folders `src` of the commits in `releases/*-2.0.0.yaml`:

    PYTHONPATH=... python tests/state_of_2_0/write.py kafka

A pipeline reads 30 of 60 rows in three epochs, and a kill ends it after the decision of the third
one, before its commit. The archive has the state, the external data, and `rows.json`, the rows
that the sink holds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.version import __version__ as spark_version

from connectors_core import Pipeline, ReadLimits
from connectors_core.testing import Fault, FaultPoint, faults_env

HERE = Path(__file__).parent
ROOT = Path("/tmp/connectors-2.0")
LINE = ".".join(spark_version.split(".")[:2])
# A broker writes them at each start.
OF_PROCESS = {"broker.log", "server.properties"}
ROWS, EACH, DECIDED = 60, 10, 3
MODIFIED = 1_700_000_000
# The broker of a later year still has the records, the transaction, and the receipts.
BROKER = {
    "log.retention.ms": "-1",
    "offsets.retention.minutes": str(2**31 - 1),
    "transactional.id.expiration.ms": str(2**31 - 1),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(2**31 - 1),
    "log.segment.bytes": "1048576",
}


@contextmanager
def files() -> Iterator[str]:
    (ROOT / "in").mkdir()
    for number in range(2):
        rows = range(number * ROWS // 2, (number + 1) * ROWS // 2)
        path = ROOT / "in" / f"{number}.csv"
        path.write_text("n\n" + "".join(f"{n}\n" for n in rows))
        os.utime(path, (MODIFIED, MODIFIED))  # an archive does not keep all digits of now
    yield ""
    (ROOT / "rows.json").write_text(
        json.dumps(
            sorted(
                json.loads(line)["n"]
                for path in (ROOT / "out").glob("*.jsonl")
                for line in path.read_text().splitlines()
            )
        )
    )


@contextmanager
def topics() -> Iterator[str]:
    from kafka import KafkaProducer

    from connector_kafka.testing import KafkaBroker

    with KafkaBroker(folder=ROOT / "broker", properties=BROKER) as broker:
        broker.topics.create("in", partitions=2)
        broker.topics.create("out")
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        for n in range(ROWS):
            producer.send("in", json.dumps({"n": n}).encode(), partition=n % 2)
        producer.close()
        yield broker.bootstrap_servers


@contextmanager
def indices() -> Iterator[str]:
    from connector_elasticsearch.testing import ElasticsearchServer

    with ElasticsearchServer() as server:
        mapping = {"mappings": {"properties": {"n": {"type": "integer"}}}}
        for index in ("in", "out"):
            server.request("PUT", f"/{index}", mapping)
        for n in range(ROWS):
            server.request("PUT", f"/in/_doc/{n}", {"n": n})
        server.request("POST", "/in/_refresh")
        yield server.url
        server.request("POST", "/out/_refresh")
        found = server.request("GET", "/out/_search?size=1000")["hits"]["hits"]
        (ROOT / "rows.json").write_text(json.dumps(sorted(each["_source"]["n"] for each in found)))


def drive(connector: str, address: str) -> None:
    """Run the pipeline until the fault kills it."""
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    if connector == "filesystem":
        from connector_filesystem import FileSink, FileSource

        source = FileSource(str(ROOT / "in"), schema="n INT", monitor_interval="1 s")
        sink = FileSink(str(ROOT / "out"), format="json-lines")
    elif connector == "kafka":
        from connector_kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource

        source = KafkaSource(address, topics="in", value_format="json", schema="n INT")
        serialization = KafkaRecordSerializationSchema(topic="out", value_format="json")
        sink = KafkaSink(address, serialization=serialization, delivery_guarantee="exactly-once")
    else:
        from connector_elasticsearch import ElasticsearchSink, ElasticsearchSource

        source = ElasticsearchSource(address, "in", schema="n INT", sort_field="n", slices=2)
        sink = ElasticsearchSink(address, "out", id_columns=["n"])
    with Pipeline(
        spark.getOrCreate(),
        "state-of-2.0",
        checkpoint_location=str(ROOT / "checkpoint"),
        streaming=True,
        parallelism=2,
    ) as pipeline:
        rows = pipeline.from_source(source, uid="in", limits=ReadLimits(rows=EACH))
        pipeline.sink_to(rows, sink, uid="out")
        pipeline.run(available_now=True)


def main(connector: str) -> None:
    ROOT.mkdir()
    system = {"filesystem": files, "kafka": topics, "elasticsearch": indices}[connector]
    with system() as address:
        once = Path(tempfile.mkdtemp(), "killed")
        fault = Fault(FaultPoint.AFTER_DECISION, nth=DECIDED, once=once)
        subprocess.run(
            [sys.executable, __file__, connector, address],
            env={**os.environ, **faults_env(fault)},
            check=False,
        )
        assert fault.fired
    with tarfile.open(HERE / f"{connector}-{LINE}.tar.xz", "w:xz") as archive:
        for path in sorted(ROOT.rglob("*")):
            if path.is_file() and path.name not in OF_PROCESS:
                archive.add(path, path.relative_to(ROOT), filter=_without_owner)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    if len(sys.argv) > 2:
        drive(*sys.argv[1:])
    else:
        main(sys.argv[1])
