# SPDX-License-Identifier: Apache-2.0
"""The Spark session of the benchmarks, their pipeline, and a sink that discards rows."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from connector_filesystem import FileSource
from connectors_core import Pipeline
from connectors_core.sink import Sink


def new_session(cores: int = 2, *, jars: str | None = None) -> SparkSession:
    """Start a local Spark with default settings for everything that affects the time.

    Args:
        cores: The number of slots.
        jars: The paths of additional jars, separated by commas.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.jars", jars or "")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def write_files(
    spark: SparkSession,
    folder: Path,
    schema: pa.Schema,
    sink: Sink,
    condition: str | None,
    **settings: Any,
) -> None:
    """Write the rows of Parquet files to a sink, or those that meet a condition in Spark.

    Args:
        spark: The Spark session.
        folder: The folder of the files.
        schema: The schema of the rows.
        sink: The sink.
        condition: The condition, or None for all rows.
        settings: Additional arguments of `Pipeline`.
    """
    with (
        tempfile.TemporaryDirectory() as state,
        Pipeline(spark, "write", checkpoint_location=f"{state}/c", **settings) as pipeline,
    ):
        source = FileSource(str(folder), format="parquet", schema=schema)
        df = pipeline.from_source(source, uid="files")
        pipeline.sink_to(df if condition is None else df.where(condition), sink, uid="sink")
        pipeline.run()
