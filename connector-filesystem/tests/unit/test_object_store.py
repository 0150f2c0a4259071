# SPDX-License-Identifier: Apache-2.0
"""Tests source and sink on object stores: a strict one, and ones like MinIO and Ceph."""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pa_dataset
import pyarrow.parquet as pq
import pytest
import s3fs
from staged_files import committer_of, context

from connector_filesystem import BucketAssigner, FileSink, FileSource, KeyedFileSink
from connector_filesystem.catalog import FileCatalog
from connector_filesystem.sink.replacement import FileReplacement
from connector_filesystem.source.reader import read_split
from connector_filesystem.table_factory import FileTableFactory
from connectors_core.catalog import ObjectPath
from connectors_core.errors import ConnectorError, DataLossError, SplitChangedError
from connectors_core.sink import CommitOutcome, CommitRequest
from connectors_core.table import CatalogTable, DynamicTableContext
from connectors_core.testing import LocalPipeline, table_schema
from connectors_core.testing.servers import HttpAnswer, HttpRelay, HttpRequest, S3Server

BUCKET = "lake"
_LISTED_TIME = re.compile(rb"(<LastModified>[^<.]*)(?:\.\d+)?Z</LastModified>")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server(buckets=[BUCKET]) as server:
        yield server


def with_milliseconds(request: HttpRequest, forward: Callable[[], HttpAnswer]) -> HttpAnswer:
    """Return milliseconds in listings but not in HEAD responses, like MinIO and Ceph."""
    answer = forward()
    return replace(answer, body=_LISTED_TIME.sub(rb"\1.789Z</LastModified>", answer.body))


class Lake:
    """A folder of a bucket, with the options to reach it."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.url = f"s3://{BUCKET}/{uuid.uuid4().hex}"
        revealed = {**options, "secret": options["secret"].reveal()}
        self.fs = s3fs.S3FileSystem(**revealed, use_listings_cache=False)

    def put(self, name: str, data: bytes) -> None:
        self.fs.pipe_file(f"{self.url}/{name}", data)

    def source(self, folder: str = "in", **settings: Any) -> FileSource:
        url = f"{self.url}/{folder}"
        return FileSource(url, schema="x BIGINT", storage_options=self.options, **settings)


@pytest.fixture(params=["strict", "milliseconds"])
def lake(request: pytest.FixtureRequest, server: S3Server) -> Iterator[Lake]:
    if request.param == "strict":
        yield Lake(server.storage_options())
        return
    with HttpRelay(server.port, with_milliseconds) as relay:
        yield Lake(server.storage_options(relay.endpoint))


def splits(source: FileSource) -> list[Any]:
    found = source._selection.files(may_be_missing=False)
    return [split for file in found for split in source._selection.splits_of(file)]


def read(source: FileSource, split: Any) -> list[int]:
    chunks = read_split(source.read_settings(), split)
    return [row["x"] for chunk in chunks if chunk.batch for row in chunk.batch.to_pylist()]


def test_an_object_is_read_at_any_precision_of_modification_times(lake: Lake) -> None:
    lake.put("in/a.csv", b"x\n1\n2\n")
    source = lake.source()
    (split,) = splits(source)
    assert split.etag
    assert read(source, split) == [1, 2]


def test_an_object_that_was_replaced_or_removed_is_an_error(lake: Lake) -> None:
    lake.put("in/a.csv", b"x\n1\n2\n")
    source = lake.source()
    (split,) = splits(source)
    lake.put("in/a.csv", b"x\n1\n3\n")  # in the same second, with the same size
    with pytest.raises(SplitChangedError):
        read(source, split)
    lake.fs.rm_file(f"{lake.url}/in/a.csv")
    with pytest.raises(DataLossError):
        read(source, split)


def test_a_pipeline_between_object_stores_is_exact(lake: Lake) -> None:
    expected = []
    for number in range(5):
        rows = range(number * 100, number * 100 + 100)
        expected += rows
        if number % 2:
            out = pa.BufferOutputStream()
            pq.write_table(pa.table({"x": pa.array(rows, pa.int64())}), out)
            lake.put(f"in/{number}.parquet", out.getvalue().to_pybytes())
        else:
            lake.put(f"in/{number}.csv", b"x\n" + b"".join(b"%d\n" % each for each in rows))
    sink = FileSink(
        f"{lake.url}/out",
        bucket_assigner=BucketAssigner.of(lambda batch: pa.array(["b"] * batch.num_rows)),
        storage_options=lake.options,
    )
    # The second run finds no new files, although it detects new files by another rule.
    for order in ("modification-time", "any"):
        pipeline = LocalPipeline(
            "lake",
            checkpoint_location=f"{lake.url}/checkpoint",
            storage_options=lake.options,
        )
        source = lake.source(monitor_interval=timedelta(seconds=1), order=order)
        pipeline.sink_to(pipeline.from_source(source, uid="in"), sink, uid="out")
        assert pipeline.run(available_now=True, drain=False, timeout=60)
    files = [name for name in lake.fs.find(f"{lake.url}/out") if name.endswith(".parquet")]
    found = pa_dataset.dataset(files, filesystem=lake.fs, format="parquet").to_table()
    assert sorted(found["x"].to_pylist()) == expected
    assert not [name for name in lake.fs.find(f"{lake.url}/out") if "_staging" in name]


def copies_of(request: HttpRequest) -> str | None:
    """Return the source object of a copy request."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    return headers.get("x-amz-copy-source")


def pipeline_of_three_files(lake: Lake) -> LocalPipeline:
    lake.put("in/a.csv", b"x\n1\n2\n3\n")
    bucket_assigner = BucketAssigner.of(lambda rows: rows["x"].cast(pa.string()))
    sink = FileSink(
        f"{lake.url}/out", bucket_assigner=bucket_assigner, storage_options=lake.options
    )
    pipeline = LocalPipeline(
        "lake", checkpoint_location=f"{lake.url}/checkpoint", storage_options=lake.options
    )
    pipeline.sink_to(pipeline.from_source(lake.source(), uid="in"), sink, uid="out")
    return pipeline


def test_files_are_committed_in_parallel(server: S3Server) -> None:
    together = threading.Barrier(3)

    def answering(request: HttpRequest, forward: Callable[[], HttpAnswer]) -> HttpAnswer:
        if copies_of(request):
            together.wait(30)
        return forward()

    with HttpRelay(server.port, answering) as relay:
        lake = Lake(server.storage_options(relay.endpoint))
        assert pipeline_of_three_files(lake).run(timeout=60)
        assert len(lake.fs.glob(f"{lake.url}/out/**/*.parquet")) == 3


def test_a_file_that_cannot_be_moved_is_an_error_and_a_retry_moves_it(server: S3Server) -> None:
    refused: set[str] = set()

    def answering(request: HttpRequest, forward: Callable[[], HttpAnswer]) -> HttpAnswer:
        source = copies_of(request)
        if source and not refused:
            refused.add(source)
        return HttpAnswer(403) if source in refused else forward()

    with HttpRelay(server.port, answering) as relay:
        lake = Lake(server.storage_options(relay.endpoint))
        with pytest.raises(ConnectorError, match="is not allowed"):
            pipeline_of_three_files(lake).run(timeout=60)
        assert len(refused) == 1
        relay.answering = None
        assert pipeline_of_three_files(lake).run(timeout=60)
        names = [name for name in lake.fs.find(f"{lake.url}/out") if name.endswith(".parquet")]
        assert len(names) == 3


def test_databases_and_tables_are_created_on_a_store_without_folders(server: S3Server) -> None:
    lake = Lake(server.storage_options())
    revealed = {**lake.options, "secret": lake.options["secret"].reveal()}
    options = {"storage-options": json.dumps(revealed)}
    path, table = ObjectPath("shop", "days"), CatalogTable(schema=table_schema())

    def new() -> FileCatalog:
        catalog = FileCatalog("lake", {"path": lake.url, "drop-files": "true"} | options)
        catalog.open()
        return catalog

    first, second = new(), new()
    first.create_database("shop")
    assert second.list_databases() == ["default", "shop"]
    first.create_table(path, table)
    assert first.list_tables("shop") == ["days"]
    context = DynamicTableContext.of("days", first.get_table(path))
    source = FileTableFactory().create_scan_source(context).source
    assert isinstance(source, FileSource)
    assert splits(source) == []
    lake.put("shop/days/1.csv", b"id\n1\n")
    assert second.list_tables("shop") == ["days"]
    first.drop_database("shop", cascade=True)
    assert second.list_databases() == ["default"]
    assert lake.fs.find(lake.url) == []


def test_a_commit_by_key_is_completed_twice_and_excludes_others(lake: Lake) -> None:
    schema = pa.schema([("id", pa.int64()), ("_row_kind", pa.string())])
    sink = KeyedFileSink(FileSink(f"{lake.url}/out", storage_options=lake.options), ("id",))

    def written(number: int, pipeline: str) -> CommitRequest[FileReplacement]:
        writer = sink.create_writer(context(1, schema=schema, pipeline=pipeline))
        writer.write(pa.RecordBatch.from_pylist([{"id": number, "_row_kind": "+I"}], schema))
        writer.flush()
        (replacement,) = writer.prepare_commit()
        return CommitRequest(replacement)

    one, other = written(1, "one"), written(2, "other")
    for request in (one, CommitRequest(one.committable), other):
        committer_of(sink).commit([request])
    assert (one.outcome, other.outcome) == (CommitOutcome.COMMITTED, CommitOutcome.FAILED)
    (file,) = lake.fs.glob(f"{lake.url}/out/*.parquet")
    with lake.fs.open(file) as opened:
        assert pq.ParquetFile(opened).read().to_pylist() == [{"id": 1}]
