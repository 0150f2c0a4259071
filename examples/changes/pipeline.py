# SPDX-License-Identifier: Apache-2.0
"""Applies the changes of flights in a topic to an index of the late ones, and to Parquet files."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from connector_elasticsearch import ElasticsearchSink
from connector_filesystem import BucketAssigner, FileSink, KeyedFileSink
from connector_kafka import KafkaRecordDeserializationSchema, KafkaSource
from connectors_core import Pipeline, ReadLimits

FLIGHTS = "id BIGINT, carrier STRING, delay BIGINT, _row_kind STRING"


@dataclass(frozen=True)
class FlightCopies:
    """Keeps an index equal to `SELECT * FROM flights WHERE delay > 15`, and files to `flights`.

    The key of a file's row has the carrier too, because it names the folder. If an update changes
    the carrier, its change has the row before it, which leaves the other folder.

    Attributes:
        servers: The brokers.
        topic: The topic of the changes. All changes of a flight are in one partition.
        url: The address of Elasticsearch.
        index: The index.
        files: The folder of the files.
        checkpoint: The checkpoint location.
        plan_rows: The number of rows in each micro-batch.
    """

    servers: str
    topic: str
    url: str
    index: str
    files: str
    checkpoint: str
    plan_rows: int = 10_000

    def run(self, spark: SparkSession) -> None:
        """Apply the changes that are in the topic now."""
        changes = KafkaSource(
            self.servers,
            topics=[self.topic],
            deserialization=KafkaRecordDeserializationSchema(
                value_format="debezium-json", schema=FLIGHTS
            ),
        )
        index = ElasticsearchSink(self.url, index=self.index, id_columns=["id"])
        files = FileSink(self.files, bucket_assigner=BucketAssigner.columns("carrier"))
        table = KeyedFileSink(files, ("carrier", "id"))
        with Pipeline(spark, "flight copies", checkpoint_location=self.checkpoint) as pipeline:
            rows = pipeline.from_source(
                changes, uid="changes", limits=ReadLimits(rows=self.plan_rows)
            )
            pipeline.sink_to(rows.where("delay > 15"), index, uid="index")
            pipeline.sink_to(rows, table, uid="table")
            pipeline.run(available_now=True)
