# SPDX-License-Identifier: Apache-2.0
"""The pipeline: flights joined with the weather, and their delays by hour."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from connector_filesystem import BucketAssigner, CsvOptions, FileSink, FileSource, Format, PathTime
from connectors_core import Pipeline
from connectors_core.source import WatermarkStrategy
from examples.flights.data import FLIGHTS, WEATHER, Places


def build(spark: SparkSession, places: Places) -> Pipeline:
    """Two sources, a join and an aggregate of them, two sinks; nothing runs yet."""
    pipeline = Pipeline(
        spark, "flights", checkpoint_location=str(places.checkpoint), streaming=True
    )
    not_available = CsvOptions(null_values=("NA",))

    # A folder in which files of all formats arrive, for ever. A file's name tells its day.
    flights = pipeline.from_source(
        FileSource(
            places.flights,
            schema=FLIGHTS,
            csv=not_available,
            order="name",
            monitor_interval=timedelta(seconds=1),
            event_time_lower_bound=PathTime(
                regex=r"\d{4}-\d{2}-\d{2}", format="%Y-%m-%d", time_zone="America/New_York"
            ),
        ),
        uid="flights",
        watermark_strategy=aligned(
            WatermarkStrategy.for_bounded_out_of_orderness(timedelta(days=1))
        ),
    )
    # A file for each airport, there from the start.
    weather = pipeline.from_source(
        FileSource(places.weather, schema=WEATHER, csv=not_available),
        uid="weather",
        watermark_strategy=aligned(WatermarkStrategy.for_monotonous_timestamps()),
    )

    pipeline.sink_to(
        with_weather(flights, weather),
        FileSink(str(places.archive), bucket_assigner=BucketAssigner.columns("month", "origin")),
        uid="archive",
    )
    pipeline.sink_to(
        hourly_delays(flights), FileSink(str(places.delays), format=Format.JSON_LINES), uid="delays"
    )
    return pipeline


def aligned(strategy: WatermarkStrategy) -> WatermarkStrategy:
    """Event times by the hour; no file is read further ahead of the slowest than this."""
    return strategy.with_timestamp_assigner("time_hour").with_watermark_alignment(
        "calendar", max_drift=timedelta(days=21)
    )


def with_weather(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Every flight once, with the weather of its hour where there is one."""
    weather = weather.drop("year", "month", "day", "hour").withColumnsRenamed(
        {"origin": "airport", "time_hour": "weather_hour"}
    )
    same_hour = F.expr("origin = airport AND time_hour = weather_hour")
    return flights.join(weather, same_hour, "left").drop("airport", "weather_hour")


def hourly_delays(flights: DataFrame) -> DataFrame:
    """Flights, cancellations and delays by airport and hour."""
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


def run(spark: SparkSession, places: Places) -> None:
    """Run while files arrive, then to the end of what has arrived.

    A folder that is watched has no end of its own. When the last file is there, the pipeline is
    stopped and run once more with ``available_now``: that reads the rest, and then brings the
    watermark to the end of time, so that every flight that waits for its weather comes out.
    """
    if not places.all_arrived.exists():
        with build(spark, places) as pipeline:
            pipeline.start()
            while not (places.all_arrived.exists() or pipeline.await_termination(timeout=0.5)):
                pass
    with build(spark, places) as pipeline:
        pipeline.run(available_now=True)


def session() -> SparkSession:
    """Two cores, four attempts for each task."""
    spark = (
        SparkSession.builder.master("local[2,4]")
        .appName("flights")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        # A run of minutes: quick compilation counts, not the best code.
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
    run(session(), Places(Path(sys.argv[1])))
