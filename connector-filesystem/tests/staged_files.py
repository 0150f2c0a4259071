# SPDX-License-Identifier: Apache-2.0
"""Stages, commits, and reads the files of a file sink."""

from __future__ import annotations

import gzip
import pickle
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq
import zstandard

from connector_filesystem import (
    BucketAssigner,
    FileCommittable,
    FileSink,
)
from connector_filesystem.sink import unescape_path_name
from connectors_core.records import RecordErrorHandler, RecordPolicy
from connectors_core.serialization import decode_versioned, encode_versioned
from connectors_core.sink import (
    CommitOutcome,
    CommitRequest,
    CommitterInitContext,
    WriterInitContext,
    messages_of,
)

PIPELINE, UID = "flights", "archive"
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("origin", pa.string()),
        ("month", pa.int32()),
        ("delay", pa.float64()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
)
ORIGINS = ["EWR", "J/K", "", None, 'L"G\\A', ".."]


def rows(start: int, count: int) -> pa.RecordBatch:
    moment = datetime(2013, 1, 1, tzinfo=UTC)
    numbers = range(start, start + count)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(numbers, pa.int64()),
            pa.array([ORIGINS[n % len(ORIGINS)] for n in numbers], pa.string()),
            pa.array([n % 3 + 1 for n in numbers], pa.int32()),
            pa.array([None if n % 7 == 0 else n / 4 for n in numbers], pa.float64()),
            pa.array([moment + timedelta(hours=n) for n in numbers], pa.timestamp("us", "UTC")),
        ],
        schema=SCHEMA,
    )


def context(
    epoch: int = 1,
    *,
    subtask: int = 0,
    attempt: int = 0,
    nonce: str | None = None,
    schema: pa.Schema = SCHEMA,
    policy: RecordPolicy | None = None,
    pipeline: str = PIPELINE,
) -> WriterInitContext:
    return WriterInitContext(
        pipeline_id=pipeline,
        sink_uid=UID,
        checkpoint_id=epoch,
        subtask_id=subtask,
        attempt_number=attempt,
        nonce=nonce or uuid.uuid4().hex[:8],
        schema=schema,
        record_errors=RecordErrorHandler(policy or RecordPolicy.fail()),
    )


def stage(
    sink: FileSink, batches: Iterable[pa.RecordBatch], own: WriterInitContext | None = None
) -> Sequence[FileCommittable]:
    writer = sink.create_writer(own or context())
    try:
        for batch in batches:
            writer.write(batch)
        writer.flush()
        return writer.prepare_commit()
    finally:
        writer.close()


def commit(
    sink: FileSink, committables: Sequence[FileCommittable], *, pipeline: str = PIPELINE
) -> list[CommitRequest[FileCommittable]]:
    serializer = sink.committable_serializer()
    # The driver reads them from a stored decision.
    stored = [encode_versioned(serializer, each) for each in committables]
    requests = [CommitRequest(decode_versioned(serializer, each)) for each in stored]
    committer = sink.create_committer(CommitterInitContext(pipeline_id=pipeline, sink_uid=UID))
    committer.commit(requests)
    return requests


def outcomes(requests: Iterable[CommitRequest[FileCommittable]]) -> set[CommitOutcome]:
    return {request.outcome for request in requests}


def visible(target: Path) -> list[Path]:
    """Return the files that a reader sees. Names with a leading `_` or `.` are hidden."""
    found = (path for path in target.rglob("*") if path.is_file())
    return sorted(
        path
        for path in found
        if not any(
            (part[0] == "_" and "=" not in part) or part[0] == "."
            for part in path.relative_to(target).parts
        )
    )


def staged(target: Path) -> list[Path]:
    return sorted(path for path in target.glob("_staging/**/*") if path.is_file())


def read_file(path: Path, schema: pa.Schema) -> pa.Table:
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    elif path.suffix == ".zst":
        data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    source = pa.BufferReader(data)
    if ".parquet" in path.name:
        return pq.read_table(source).cast(schema)
    if ".csv" in path.name:
        options = pacsv.ConvertOptions(
            column_types=schema, strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        return pacsv.read_csv(source, convert_options=options)
    options = pajson.ParseOptions(explicit_schema=schema)
    return pajson.read_json(source, parse_options=options)


def read_all(target: Path, schema: pa.Schema = SCHEMA) -> list[dict[str, Any]]:
    """Return all visible rows by id, with the columns from the folder names."""
    found: list[dict[str, Any]] = []
    for path in visible(target):
        values: dict[str, Any] = {}
        for part in path.relative_to(target).parts[:-1]:
            name, _, value = part.partition("=")
            values[name] = unescape_path_name(value)
        missing = [field for field in schema if field.name not in values]
        table = read_file(path, pa.schema(missing))
        found += [{**row, **values} for row in table.to_pylist()]
    return sorted(found, key=lambda row: int(row["id"]))


def ids(target: Path) -> list[int]:
    return [int(row["id"]) for row in read_all(target)]


def committer_of(sink: FileSink) -> Any:
    return sink.create_committer(CommitterInitContext(pipeline_id=PIPELINE, sink_uid=UID))


def by_month(folder: Path) -> FileSink:
    return FileSink(str(folder), bucket_assigner=BucketAssigner.columns("month"))


def month(number: int) -> Mapping[str, pa.Scalar]:
    return {"month": pa.scalar(number, pa.int32())}


def decided(sink: Any, *batches: pa.RecordBatch) -> list[Any]:
    """Write rows on an executor, and return the committables, as a decision keeps them."""
    writer = pickle.loads(pickle.dumps(sink)).create_writer(context())
    for batch in batches:
        writer.write(batch)
    writer.flush()
    messages = messages_of(
        [(0, each) for each in writer.prepare_commit()], checkpoint_id=1, number_of_subtasks=1
    )
    writer.close()
    serializer = sink.committable_serializer()
    return [
        decode_versioned(serializer, encode_versioned(serializer, each))
        for each in sink.add_pre_commit_topology(messages)
    ]
