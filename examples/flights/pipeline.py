# SPDX-License-Identifier: Apache-2.0
"""The pipeline: flights with weather, airline, aircraft, and airport, their delays, and totals."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from connector_elasticsearch import ElasticsearchSink, ElasticsearchTable
from connector_filesystem import (
    BucketAssigner,
    CsvOptions,
    FileFormat,
    FileSink,
    FileSource,
    FileTable,
    PathTime,
)
from connector_kafka import (
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    OffsetsInitializer,
)
from connectors_core import (
    DeliveryGuarantee,
    HybridSource,
    JsonFormat,
    Pipeline,
    PipelineStatus,
    SourceSwitchContext,
    WatermarkStrategy,
)
from connectors_core.lineage import LineageDataset, LineageVertexProvider, kafka_datasets
from connectors_core.lookup import LookupRequestConfiguration
from examples.flights.data import (
    AIRPORTS,
    ENRICHED_TOPIC,
    FLIGHTS,
    FLIGHTS_INDEX,
    FLIGHTS_TOPIC,
    OF_AIRPORT,
    OF_PLANE,
    PLANES_INDEX,
    WEATHER,
    Places,
)
from examples.flights.lineage import LineageFile
from examples.flights.totals import AddToTotals

NOT_AVAILABLE = CsvOptions(null_values=("NA",))
# Elasticsearch may be down for as long as its start takes.
PATIENT = LookupRequestConfiguration(max_retries=20)
LAG = re.compile(r"topic\.(.+)\.partition\.(\d+)\.recordsLag")


@dataclass(frozen=True)
class Servers:
    """The addresses of the servers.

    Attributes:
        kafka: The broker's address.
        elasticsearch: The URL of Elasticsearch.
    """

    kafka: str
    elasticsearch: str


def build(spark: SparkSession, places: Places, servers: Servers) -> Pipeline:
    """Build the inputs, joins, lookups, aggregate, and outputs. Starts nothing."""
    pipeline = Pipeline(
        spark,
        "flights",
        checkpoint_location=places.checkpoint,
        streaming=True,
        listeners=[LineageFile(places.lineage)],
        connection_timeout=None,  # servers that were killed with the driver may still be starting
    )
    flights = pipeline.from_source(
        flights_of_files_then_kafka(places, servers.kafka),
        uid="flights",
        watermark_strategy=aligned(WatermarkStrategy.for_bounded_out_of_orderness("1 d")),
    )
    # One file per airport, which exists from the start.
    weather = pipeline.from_source(
        FileSource(places.weather, schema=WEATHER, csv=NOT_AVAILABLE),
        uid="weather",
        watermark_strategy=aligned(WatermarkStrategy.for_monotonous_timestamps()),
    )

    # A table that Spark reads itself. It may be any DataFrame.
    airlines = spark.read.parquet(str(places.airlines)).withColumnRenamed("name", "airline")

    enriched = with_weather(flights, weather).join(airlines, "carrier", "left")
    enriched = pipeline.lookup_join(
        enriched,
        ElasticsearchTable(
            servers.elasticsearch,
            PLANES_INDEX,
            id_column="tailnum",
            cache="partial",
            requests=PATIENT,
        ),
        on=["tailnum"],
        columns=OF_PLANE,
        uid="planes",
    )
    enriched = pipeline.lookup_join(
        enriched,
        FileTable(FileSource(places.airports, schema=AIRPORTS, csv=NOT_AVAILABLE)),
        on={"dest": "faa"},
        columns=OF_AIRPORT,
        uid="airports",
    )
    pipeline.sink_to(
        enriched,
        FileSink(str(places.archive), bucket_assigner=BucketAssigner.columns("month", "origin")),
        uid="archive",
    )
    pipeline.sink_to(
        enriched,
        KafkaSink(
            servers.kafka,
            serialization=KafkaRecordSerializationSchema(
                topic=ENRICHED_TOPIC, key_fields=("carrier",), value_format=JsonFormat()
            ),
            delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
        ),
        uid="enriched",
    )
    pipeline.sink_to(
        enriched,
        # A unique ID for each flight, so that a second write replaces the first one.
        ElasticsearchSink(
            servers.elasticsearch,
            index=FLIGHTS_INDEX,
            id_columns=["time_hour", "carrier", "flight"],
        ),
        uid="index",
    )
    # A function instead of a sink. It receives the rows of an epoch and the epoch's number.
    pipeline.for_each_batch(enriched, AddToTotals(places.database), uid="totals")
    pipeline.sink_to(
        hourly_delays(flights), FileSink(str(places.delays), format=FileFormat.JSON), uid="delays"
    )
    return pipeline


def flights_of_files_then_kafka(places: Places, bootstrap_servers: str) -> HybridSource:
    """Read the backlog as files of all formats, one per day, and after its last hour the topic."""
    files = FileSource(
        places.flights,
        schema=FLIGHTS,
        csv=NOT_AVAILABLE,
        order="name",
        event_time_lower_bound=PathTime(
            regex=r"\d{4}-\d{2}-\d{2}", format="%Y-%m-%d", time_zone="America/New_York"
        ),
    )
    live = LiveFlights(bootstrap_servers, files.schema())
    return HybridSource.builder(files).add_source(live).build()


@dataclass(frozen=True)
class LiveFlights(LineageVertexProvider):
    """Creates the source of the topic, which starts after the last hour of the files.

    Attributes:
        bootstrap_servers: The broker's address.
        columns: The columns of the files.
    """

    bootstrap_servers: str
    columns: pa.Schema

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """The topic."""
        return kafka_datasets([self.bootstrap_servers], [FLIGHTS_TOPIC])

    def __call__(self, switch: SourceSwitchContext) -> KafkaSource:
        """Create the source."""
        after = switch.max_event_time + timedelta(milliseconds=1)
        return KafkaSource(
            self.bootstrap_servers,
            topics=FLIGHTS_TOPIC,
            starting_offsets=OffsetsInitializer.timestamp(after),
            deserialization=KafkaRecordDeserializationSchema(
                value_format="json", schema=self.columns
            ),
            group_id="flights",
        )


def aligned(strategy: WatermarkStrategy) -> WatermarkStrategy:
    """Event times by hour. No file is read further ahead of the slowest one than this."""
    return strategy.with_timestamp_assigner("time_hour").with_watermark_alignment(
        "calendar", max_drift="21 d"
    )


def with_weather(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Return each flight once, with the weather of its hour if it exists."""
    weather = weather.drop("year", "month", "day", "hour").withColumnsRenamed(
        {"origin": "airport", "time_hour": "weather_hour"}
    )
    same_hour = F.expr("origin = airport AND time_hour = weather_hour")
    return flights.join(weather, same_hour, "left").drop("airport", "weather_hour")


def hourly_delays(flights: DataFrame) -> DataFrame:
    """Return flights, cancellations, and delays by airport and hour."""
    return (
        flights.groupBy(F.window("time_hour", "1 hour"), "origin")
        .agg(
            F.count("*").alias("flights"),
            (F.count("*") - F.count("dep_time")).alias("cancelled"),
            F.avg("dep_delay").alias("mean_delay"),
            F.max("dep_delay").alias("longest_delay"),
        )
        .select(F.col("window.start").alias("time_hour"), "*")
        .drop("window")
    )


def run(spark: SparkSession, places: Places, servers: Servers) -> None:
    """Run while flights are sent, and then to the end of the sent flights.

    A topic has no end. After the last flight was sent, the pipeline stops and runs once more with
    ``available_now``. This run reads the rest and then advances the watermark to the end of time,
    so that it emits every flight that waits for its weather.
    """
    if not places.all_sent.exists():
        with build(spark, places, servers) as pipeline:
            pipeline.start()
            while not (places.all_sent.exists() or pipeline.await_termination(timeout=0.5)):
                note(pipeline.status(), places)
    with build(spark, places, servers) as pipeline:
        ended = pipeline.run(available_now=True, timeout=0.5)
        while not ended:
            note(pipeline.status(), places)
            ended = pipeline.await_termination(timeout=0.5)
        note(pipeline.status(), places)


def note(status: PipelineStatus, places: Places) -> None:
    """Record the lag of each partition and the lookup metrics."""
    lag = {
        f"{found[1]}-{found[2]}": int(value)
        for query in status.queries
        for source in query.sources
        for name, value in source.gauges.items()
        if (found := LAG.fullmatch(name))
    }
    lookups = {lookup.uid: dict(lookup.counters) for lookup in status.lookups}
    line = {"time": time.time(), "driver": os.getpid(), "lag": lag, "lookups": lookups}
    with places.notes.open("a") as file:
        file.write(json.dumps(line) + "\n")


def session() -> SparkSession:
    """Start Spark with two cores and four attempts per task."""
    spark = (
        SparkSession.builder.master("local[2,4]")
        .appName("flights")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        # The run takes minutes, so fast compilation matters more than optimal code.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    run(session(), Places(Path(sys.argv[1])), Servers(sys.argv[2], sys.argv[3]))
