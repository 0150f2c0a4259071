# SPDX-License-Identifier: Apache-2.0
"""Tests that an earlier state can be restored while the targets contain later rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest
from typer.testing import CliRunner

from connector_elasticsearch import ElasticsearchSink
from connector_elasticsearch.testing import ElasticsearchServer
from connector_filesystem import FileSink, FileSource
from connector_kafka import KafkaRecordSerializationSchema, KafkaSink
from connector_kafka.testing import KafkaBroker
from connector_kafka.testing.tools import console_consumer
from connectors_core import Pipeline
from connectors_core.cli import app
from connectors_core.errors import ConnectorError
from connectors_core.formats import JsonFormat
from connectors_core.sink import DeliveryGuarantee
from connectors_core.testing import Fault, FaultAction, FaultPoint, injected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture(scope="module")
def server() -> Iterator[ElasticsearchServer]:
    with ElasticsearchServer() as server:
        yield server


class Setup:
    """A pipeline from files to files and Kafka, exactly once, and to documents with IDs."""

    def __init__(
        self,
        spark: SparkSession,
        broker: KafkaBroker,
        server: ElasticsearchServer,
        root: Path,
        name: str,
    ) -> None:
        self.spark, self.broker, self.server = spark, broker, server
        self.root, self.name = root, name
        self.data, self.out = root / "data", root / "out"
        self.data.mkdir()
        broker.topics.create(name)
        self.rows = 0

    def arrive(self) -> Counter[int]:
        """Write a file with ten new rows."""
        new = range(self.rows, self.rows + 10)
        self.rows += 10
        (self.data / f"{new.start:04}.jsonl").write_text(
            "".join(json.dumps({"n": number}) + "\n" for number in new)
        )
        return Counter(new)

    def run(self, state: str) -> None:
        pipeline = Pipeline(
            self.spark,
            "restored",
            checkpoint_location=str(self.root / state),
            streaming=True,
            parallelism=1,
        )
        source = FileSource(
            self.data, schema="n BIGINT", monitor_interval=timedelta(milliseconds=100)
        )
        rows = pipeline.from_source(source, uid="files")
        pipeline.sink_to(rows, FileSink(self.out, format="parquet"), uid="archive")
        messages = KafkaRecordSerializationSchema(topic=self.name, value_format=JsonFormat())
        sink = KafkaSink(
            self.broker.bootstrap_servers,
            serialization=messages,
            delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
        )
        pipeline.sink_to(rows, sink, uid="topic")
        index = ElasticsearchSink(self.server.url, self.name, id_columns=["n"])
        pipeline.sink_to(rows, index, uid="index")
        with pipeline:
            assert pipeline.run(available_now=True, drain=False)

    def assert_written(self, expected: Counter[int]) -> None:
        files = ds.dataset(self.out, format="parquet").to_table()["n"].to_pylist()
        assert Counter(files) == expected
        messages = console_consumer(self.broker.bootstrap_servers, self.name, quiet=3)
        assert Counter(json.loads(each.value or b"")["n"] for each in messages) == expected
        documents = [each["_source"]["n"] for each in self.server.documents(self.name)]
        assert Counter(documents) == Counter(set(expected))


def done(*arguments: object) -> None:
    result = CliRunner().invoke(app, ["state", *map(str, arguments)])
    assert result.exit_code == 0, result.output


@pytest.mark.line("4.3")
def test_only_rows_later_than_the_restored_copy_are_written_again(
    spark: SparkSession, broker: KafkaBroker, server: ElasticsearchServer, tmp_path: Path
) -> None:
    setup = Setup(spark, broker, server, tmp_path, "restored")
    before = setup.arrive()
    setup.run("state")
    # The copy has an epoch that is decided but not committed. The original pipeline commits it.
    before += setup.arrive()
    with (
        injected(Fault(FaultPoint.AFTER_DECISION, action=FaultAction.RAISE)),
        pytest.raises(ConnectorError),
    ):
        setup.run("state")
    done("backup", tmp_path / "state", tmp_path / "copy.zip")
    setup.run("state")
    setup.assert_written(before)
    after = setup.arrive()
    setup.run("state")
    setup.assert_written(before + after)
    done("restore", tmp_path / "copy.zip", tmp_path / "again")
    new = setup.arrive()
    setup.run("again")
    setup.assert_written(before + after + after + new)
    newest = setup.arrive()
    setup.run("again")
    setup.assert_written(before + after + after + new + newest)
