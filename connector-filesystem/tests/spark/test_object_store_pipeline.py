# SPDX-License-Identifier: Apache-2.0
"""Tests a real pipeline with files and state in an object store."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as pa_dataset
import pytest
import s3fs

from connector_filesystem import FileSink, FileSource
from connectors_core import Pipeline
from connectors_core.testing.servers import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow  # tests/unit/test_object_store.py runs the same case in process
def test_a_stream_resumes_where_it_stopped(spark: SparkSession, tmp_path: Path) -> None:
    with S3Server(buckets=["lake"]) as server:
        options = server.storage_options()
        revealed = {**options, "secret": options["secret"].reveal()}
        fs = s3fs.S3FileSystem(**revealed, use_listings_cache=False)
        for run in range(2):
            for number in range(3):
                ids = range((run * 3 + number) * 50, (run * 3 + number + 1) * 50)
                text = "id\n" + "".join(f"{each}\n" for each in ids)
                fs.pipe_file(f"lake/in/{2 - number}-{run}.csv", text.encode())
            source = FileSource(
                "s3://lake/in",
                schema="id BIGINT",
                monitor_interval=timedelta(milliseconds=200),
                order="any",
                storage_options=options,
            )
            sink = FileSink("s3://lake/out", storage_options=options)
            with Pipeline(
                spark,
                "lake",
                checkpoint_location=str(tmp_path / "checkpoint"),
                state_location="s3://lake/state",
                storage_options=options,
            ) as pipeline:
                pipeline.sink_to(pipeline.from_source(source, uid="in"), sink, uid="out")
                assert pipeline.run(available_now=True, drain=False)
        files = [name for name in fs.find("lake/out") if name.endswith(".parquet")]
        found = pa_dataset.dataset(files, filesystem=fs, format="parquet").to_table()
    assert sorted(found["id"].to_pylist()) == list(range(300))
