# SPDX-License-Identifier: Apache-2.0
"""Tests the file sink: when files become visible, and exact output despite failures."""

from __future__ import annotations

import errno
import gzip
import os
import pickle
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq
import pytest
import zstandard

from connector_filesystem import (
    BucketAssigner,
    Compression,
    CsvOptions,
    FileCommittable,
    FileSink,
    Format,
    JsonOptions,
    OutputFileConfig,
    ParquetOptions,
    RollingPolicy,
)
from connector_filesystem.sink import committer as committer_module
from connector_filesystem.sink import unescape_path_name
from connector_filesystem.sink.part_file import epoch_folder
from connectors_core.errors import (
    BadRecordError,
    CommitError,
    ConfigurationError,
    DataLossError,
    RetryableError,
)
from connectors_core.records import RecordErrorHandler, RecordPolicy
from connectors_core.serialization import decode_versioned, encode_versioned
from connectors_core.sink import (
    CommitOutcome,
    CommitRequest,
    CommitterInitContext,
    WriterInitContext,
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


FORMATS = [
    (Format.CSV, Compression.NONE, ParquetOptions()),
    (Format.CSV, Compression.GZIP, ParquetOptions()),
    (Format.CSV, Compression.ZSTD, ParquetOptions()),
    (Format.JSON_LINES, Compression.NONE, ParquetOptions()),
    (Format.JSON_LINES, Compression.GZIP, ParquetOptions()),
    (Format.JSON_LINES, Compression.ZSTD, ParquetOptions()),
    (Format.PARQUET, Compression.NONE, ParquetOptions()),
    (Format.PARQUET, Compression.NONE, ParquetOptions(compression="snappy", row_group_rows=50)),
    (Format.PARQUET, Compression.NONE, ParquetOptions(compression="gzip")),
    (Format.PARQUET, Compression.NONE, ParquetOptions(compression="none")),
]
ASSIGNERS = {
    "none": BucketAssigner.none(),
    "columns": BucketAssigner.columns("month", "origin"),
    "date": BucketAssigner.date_pattern("ts", "day=%Y-%m-%d"),
}


class TestWriting:
    @pytest.mark.parametrize("assigner", ASSIGNERS)
    @pytest.mark.parametrize(("file_format", "compression", "parquet"), FORMATS)
    def test_rows_read_back_equal_the_rows_written(
        self,
        tmp_path: Path,
        file_format: Format,
        compression: Compression,
        parquet: ParquetOptions,
        assigner: str,
    ) -> None:
        sink = FileSink(
            str(tmp_path),
            format=file_format,
            compression=compression,
            parquet=parquet,
            bucket_assigner=ASSIGNERS[assigner],
        )
        sink = pickle.loads(pickle.dumps(sink))
        sink.validate(SCHEMA)
        batches = [rows(0, 100), rows(100, 0), rows(100, 37), rows(137, 63)]
        committables = stage(sink, batches)
        assert sum(each.rows for each in committables) == 200
        assert visible(tmp_path) == []
        assert outcomes(commit(sink, committables)) == {CommitOutcome.COMMITTED}
        assert sorted(path.stat().st_size for path in visible(tmp_path)) == sorted(
            each.size for each in committables
        )
        wanted = [row for batch in batches for row in batch.to_pylist()]
        if assigner == "columns":
            wanted = [
                {**row, "month": str(row["month"]), "origin": row["origin"] or None}
                for row in wanted
            ]
        if assigner == "date":
            wanted = [{**row, "day": f"{row['ts']:%Y-%m-%d}"} for row in wanted]
        assert read_all(tmp_path) == wanted

    def test_bucket_columns_may_stay_in_the_files(self, tmp_path: Path) -> None:
        assigner = BucketAssigner.columns("month", keep_columns=True)
        sink = FileSink(str(tmp_path), bucket_assigner=assigner)
        commit(sink, stage(sink, [rows(0, 10)]))
        for path in visible(tmp_path):
            assert pq.ParquetFile(path).schema_arrow.names == SCHEMA.names

    def test_rows_of_a_folder_keep_their_order(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path), bucket_assigner=BucketAssigner.columns("month"))
        commit(sink, stage(sink, [rows(0, 500), rows(500, 500)]))
        for path in visible(tmp_path):
            found = pq.ParquetFile(path).read()["id"].to_pylist()
            assert found == sorted(found)

    def test_values_that_share_a_folder_share_a_file(self, tmp_path: Path) -> None:
        by_month = BucketAssigner.date_pattern("ts", "%Y-%m")
        sink = FileSink(str(tmp_path), bucket_assigner=by_month)
        [committable] = commit(sink, stage(sink, [rows(0, 200), rows(200, 200)]))
        assert committable.committable.rows == 400
        [path] = visible(tmp_path)
        assert pq.ParquetFile(path).read()["id"].to_pylist() == list(range(400))
        empty = pa.RecordBatch.from_pydict({"id": [0, 1, 2, 3], "origin": ["", None, "", None]})
        sink = FileSink(str(tmp_path / "b"), bucket_assigner=BucketAssigner.columns("origin"))
        commit(sink, stage(sink, [empty], context(schema=empty.schema)))
        [path] = visible(tmp_path / "b")
        assert pq.ParquetFile(path).read()["id"].to_pylist() == [0, 1, 2, 3]

    def test_file_names_contain_epoch_attempt_and_number(self, tmp_path: Path) -> None:
        sink = FileSink(
            str(tmp_path),
            format=Format.CSV,
            compression=Compression.GZIP,
            output_file=OutputFileConfig(prefix="flights"),
            rolling_policy=RollingPolicy(max_rows=5),
        )
        own = context(12, subtask=3, attempt=1)
        committables = stage(sink, [rows(0, 10)], own)
        names = [each.final_path for each in committables]
        assert all(name.startswith("flights-0000000012-00003-1-") for name in names)
        assert [name.rpartition("-")[2] for name in names] == ["0.csv.gz", "1.csv.gz"]
        folder = f"_staging/{PIPELINE}/{UID}/0000000012/{own.attempt_name}"
        assert [each.staged_path for each in committables] == [f"{folder}/0", f"{folder}/1"]

    def test_hostile_names_of_pipeline_and_sink_stay_in_the_staging_folder(self) -> None:
        assert epoch_folder("..", "../../x", 1) == "_staging/%2E%2E/..%2F..%2Fx/0000000001"

    def test_json_contains_nulls_if_write_nulls_is_set(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path), format=Format.JSON_LINES, json=JsonOptions(write_nulls=True))
        commit(sink, stage(sink, [rows(0, 1)]))
        [path] = visible(tmp_path)
        assert '"delay":null' in path.read_text()

    def test_an_epoch_without_rows_creates_no_files(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path / "target"))
        assert stage(sink, [rows(0, 0)]) == []
        assert not (tmp_path / "target").exists()

    def test_bad_rows_go_to_the_record_policy(self, tmp_path: Path) -> None:
        assigner = BucketAssigner.of(lambda batch: batch.column("origin"))
        sink = FileSink(str(tmp_path), format=Format.CSV, bucket_assigner=assigner)
        batch = pa.RecordBatch.from_pydict(
            {
                "id": [0, 1, 2, 3, 4, 5],
                "origin": ["a", "../..", None, "a", "a", "b/c"],
                "text": ["x", "y", "z", "line\nbreak", "w", "v"],
            }
        )
        with pytest.raises(BadRecordError, match="line break"):
            stage(sink, [batch], context(schema=batch.schema))
        own = context(schema=batch.schema, policy=RecordPolicy.skip())
        commit(sink, stage(sink, [batch, batch], own))
        assert own.record_errors.summary()["skipped"] == 6
        found = [row["id"] for path in visible(tmp_path) for row in _csv_rows(path)]
        assert sorted(found) == [0, 0, 4, 4, 5, 5]
        assert own.metric_group.counters["numRecordsSend"] == 6
        assert own.metric_group.counters["numRecordsSendErrors"] == 6

    def test_a_failed_writer_leaves_only_staged_files(self, tmp_path: Path) -> None:
        def fail(batch: pa.RecordBatch) -> pa.Array:
            if batch.column("id")[0].as_py():
                raise RuntimeError("on purpose")
            return pa.array(["a"] * batch.num_rows)

        # The buffer is so small that the writer stages the first rows at once.
        sink = FileSink(str(tmp_path), bucket_assigner=BucketAssigner.of(fail), buffer_size=1)
        writer = sink.create_writer(context())
        writer.write(rows(0, 10))
        with pytest.raises(RuntimeError):
            writer.write(rows(10, 10))
        writer.close()
        writer.close()
        assert visible(tmp_path) == []
        assert len(staged(tmp_path)) == 1
        assert not [fd for fd in _open_files() if str(tmp_path) in fd]

    def test_an_attempt_does_not_recreate_its_swept_folder(self, tmp_path: Path) -> None:
        sink = FileSink(
            str(tmp_path), bucket_assigner=BucketAssigner.columns("month"), buffer_size=1
        )
        writer = sink.create_writer(context(1))
        writer.write(rows(0, 1))
        _committer(sink).sweep(1)
        with pytest.raises(FileNotFoundError):
            writer.write(rows(1, 2))
        writer.close()
        assert staged(tmp_path) == []


class TestRolling:
    def test_files_hold_at_most_max_rows(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path), rolling_policy=RollingPolicy(max_rows=30))
        committables = stage(sink, [rows(0, 100), rows(100, 5), rows(105, 10)])
        assert [each.rows for each in committables] == [30, 30, 30, 25]

    @pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
    def test_files_roll_near_the_size_of_the_policy(
        self, tmp_path: Path, compression: Compression
    ) -> None:
        sink = FileSink(
            str(tmp_path),
            format=Format.JSON_LINES,
            compression=compression,
            rolling_policy=RollingPolicy(max_size=100_000),
            buffer_size=10_000,
        )
        committables = stage(sink, [rows(at, 1_000) for at in range(0, 30_000, 1_000)])
        assert len(committables) > 1
        # A compressor buffers about 64 KiB.
        assert all(90_000 < each.size < 220_000 for each in committables[:-1])
        assert sum(each.rows for each in committables) == 30_000

    def test_old_files_roll_at_the_next_batch(self, tmp_path: Path) -> None:
        now = [0.0]
        policy = RollingPolicy(max_age=timedelta(seconds=10), clock=lambda: now[0])
        assigner = BucketAssigner.of(lambda batch: pa.array(["a"] * batch.num_rows))
        sink = FileSink(str(tmp_path), rolling_policy=policy, bucket_assigner=assigner)
        writer = sink.create_writer(context())
        writer.write(rows(0, 5))
        now[0] = 9.9
        writer.write(rows(5, 5))
        assert writer.prepare_commit() == []
        now[0] = 10.0
        writer.write(rows(10, 1))
        assert [each.rows for each in writer.prepare_commit()] == [11]
        writer.close()

    @pytest.mark.parametrize("file_format", list(Format))
    def test_each_of_many_folders_has_one_file(self, tmp_path: Path, file_format: Format) -> None:
        folders = 90
        assigner = BucketAssigner.of(
            lambda batch: pa.array([f"b{n % folders}" for n in batch.column("id").to_pylist()])
        )
        sink = FileSink(
            str(tmp_path), format=file_format, bucket_assigner=assigner, max_open_buckets=10
        )
        committables = stage(sink, [rows(at, 180) for at in range(0, 900, 180)])
        assert len({each.final_path for each in committables}) == len(committables) == folders
        commit(sink, committables)
        assert sorted(ids(tmp_path)) == list(range(900))

    @pytest.mark.parametrize("file_format", list(Format))
    def test_open_handles_are_bounded_without_completing_files_early(
        self, tmp_path: Path, file_format: Format
    ) -> None:
        assigner = BucketAssigner.of(
            lambda batch: pa.array([f"b{n % 10}" for n in batch.column("id").to_pylist()])
        )
        # The buffer is tiny, so the writer writes every piece at once.
        sink = FileSink(
            str(tmp_path),
            format=file_format,
            bucket_assigner=assigner,
            max_open_buckets=3,
            buffer_size=1,
        )
        writer = sink.create_writer(context())
        for at in range(0, 100, 20):
            writer.write(rows(at, 20))
            assert 1 <= len([name for name in _open_files() if str(tmp_path) in name]) <= 3
        assert len(staged(tmp_path)) == 10
        writer.flush()
        committables = writer.prepare_commit()
        writer.close()
        assert len(committables) == 10
        commit(sink, committables)
        assert sorted(ids(tmp_path)) == list(range(100))

    @pytest.mark.parametrize("where", ["elsewhere", "compressed", "many"])
    def test_the_least_recently_used_file_is_completed_if_it_cannot_stay_open(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
    ) -> None:
        if where == "many":
            monkeypatch.setattr("connector_filesystem.sink.writer._STAGED_FILES", 1)
        sink = FileSink(
            f"memory://{tmp_path}" if where == "elsewhere" else str(tmp_path),
            format=Format.JSON_LINES,
            compression=Compression.GZIP if where == "compressed" else Compression.NONE,
            bucket_assigner=BucketAssigner.of(lambda batch: batch.column("origin")),
            max_open_buckets=2,
            buffer_size=1,
        )
        schema = pa.schema([("origin", pa.string())])
        writer = sink.create_writer(context(schema=schema))
        for origin in ("a", "b", "a", "c"):
            writer.write(pa.RecordBatch.from_arrays([pa.array([origin])], schema=schema))
        assert [each.final_path[0] for each in writer.prepare_commit()] == ["b"]
        writer.flush()
        assert [(each.final_path[0], each.rows) for each in writer.prepare_commit()] == [
            ("a", 2),
            ("c", 1),
        ]
        writer.close()

    def test_a_writer_does_not_recreate_a_swept_file(self, tmp_path: Path) -> None:
        assigner = BucketAssigner.of(lambda batch: batch.column("origin"))
        sink = FileSink(str(tmp_path), bucket_assigner=assigner, max_open_buckets=1, buffer_size=1)
        schema = pa.schema([("origin", pa.string())])
        writer = sink.create_writer(context(schema=schema))
        for origin in ("a", "b"):
            writer.write(pa.RecordBatch.from_arrays([pa.array([origin])], schema=schema))
        _committer(sink).sweep(1)
        with pytest.raises(FileNotFoundError):
            writer.write(pa.RecordBatch.from_arrays([pa.array(["a"])], schema=schema))
        writer.close()
        assert staged(tmp_path) == []

    @pytest.mark.parametrize("file_format", list(Format))
    @pytest.mark.parametrize(("folders", "count"), [(10, 20_000), (80, 1_000)])
    def test_buffered_rows_are_bounded(
        self, tmp_path: Path, file_format: Format, folders: int, count: int
    ) -> None:
        assigner = BucketAssigner.of(
            lambda batch: pa.array([f"b{n % folders}" for n in batch.column("id").to_pylist()])
        )
        sink = FileSink(
            str(tmp_path), format=file_format, bucket_assigner=assigner, buffer_size=10_000
        )
        writer = sink.create_writer(context())
        peak = 0
        for at in range(0, count, 500):
            writer.write(rows(at, 500))
            peak = max(peak, writer._held_bytes)
            assert all(each.held_bytes < 10_000 for each in writer._open.values())
            assert writer._held_bytes == sum(each.held_bytes for each in writer._open.values())
        assert 10_000 < peak <= 40_000
        writer.close()


class TestCommitting:
    def test_files_become_visible_only_at_the_commit(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path), bucket_assigner=BucketAssigner.columns("month"))
        writer = sink.create_writer(context())
        writer.write(rows(0, 50))
        assert visible(tmp_path) == []
        writer.flush()
        assert visible(tmp_path) == []
        committables = writer.prepare_commit()
        writer.close()
        assert visible(tmp_path) == []
        commit(sink, committables)
        assert ids(tmp_path) == list(range(50))
        assert staged(tmp_path) == []

    def test_committing_twice_changes_nothing(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path), bucket_assigner=BucketAssigner.columns("month"))
        committables = stage(sink, [rows(0, 50)])
        commit(sink, committables)
        before = [(path, path.stat().st_ino) for path in visible(tmp_path)]
        assert outcomes(commit(sink, committables)) == {CommitOutcome.ALREADY_COMMITTED}
        _committer(sink).sweep(1)
        assert outcomes(commit(sink, committables)) == {CommitOutcome.ALREADY_COMMITTED}
        assert [(path, path.stat().st_ino) for path in visible(tmp_path)] == before

    def test_a_commit_recovers_from_a_crash_between_link_and_unlink(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sink = FileSink(str(tmp_path), rolling_policy=RollingPolicy(max_rows=10))
        committables = stage(sink, [rows(0, 30)])

        def crash(path: str) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(committer_module.os, "unlink", crash)
            with pytest.raises(KeyboardInterrupt):
                commit(sink, committables)
        assert len(staged(tmp_path)) == 3
        assert outcomes(commit(sink, committables)) == {CommitOutcome.ALREADY_COMMITTED}
        assert staged(tmp_path) == []
        assert ids(tmp_path) == list(range(30))

    def test_lost_and_truncated_files_fail_with_data_loss(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path), rolling_policy=RollingPolicy(max_rows=10))
        gone, cut, whole = stage(sink, [rows(0, 30)])
        (tmp_path / gone.staged_path).unlink()
        with open(tmp_path / cut.staged_path, "r+b") as file:
            file.truncate(cut.size - 1)
        lost, incomplete, good = commit(sink, [gone, cut, whole])
        for request, reason in ((lost, "gone"), (incomplete, "incomplete")):
            assert request.outcome is CommitOutcome.FAILED
            assert isinstance(request.error, DataLossError)
            assert reason in str(request.error)
        assert good.outcome is CommitOutcome.COMMITTED
        assert ids(tmp_path) == list(range(20, 30))

    def test_a_commit_never_overwrites_a_foreign_file(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path))
        [committable] = stage(sink, [rows(0, 10)])
        foreign = tmp_path / committable.final_path
        foreign.write_text("precious")
        [request] = commit(sink, [committable])
        assert isinstance(request.error, CommitError)
        assert foreign.read_text() == "precious"
        assert len(staged(tmp_path)) == 1
        foreign.unlink()
        assert outcomes(commit(sink, [committable])) == {CommitOutcome.COMMITTED}

    def test_a_commit_renames_files_if_the_filesystem_has_no_links(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: str) -> None:
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(committer_module.os, "link", refuse)
        sink = FileSink(str(tmp_path))
        committables = stage(sink, [rows(0, 10)])
        assert outcomes(commit(sink, committables)) == {CommitOutcome.COMMITTED}
        assert outcomes(commit(sink, committables)) == {CommitOutcome.ALREADY_COMMITTED}
        [other] = stage(sink, [rows(10, 10)])
        (tmp_path / other.final_path).write_text("precious")
        [request] = commit(sink, [other])
        assert isinstance(request.error, CommitError)

    def test_a_commit_is_retried_after_a_storage_failure(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sink = FileSink(str(tmp_path))
        committables = stage(sink, [rows(0, 10)])

        def full(*_: str) -> None:
            raise OSError(errno.ENOSPC, "disk full")

        with monkeypatch.context() as patch:
            patch.setattr(committer_module.os, "link", full)
            with pytest.raises(RetryableError):
                commit(sink, committables)
        commit(sink, committables)
        assert ids(tmp_path) == list(range(10))

    def test_attempts_of_a_subtask_never_share_a_file(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path), bucket_assigner=BucketAssigner.columns("month"))
        own = [context(5, attempt=0), context(5, attempt=1), context(5, attempt=1)]
        writers = [sink.create_writer(each) for each in own]
        for batch in (rows(0, 20), rows(20, 20)):
            for writer in writers:
                writer.write(batch)
        for writer in writers:
            writer.flush()
        committables = [writer.prepare_commit() for writer in writers]
        for writer in writers:
            writer.close()
        every = [each for some in committables for each in some]
        assert len({each.staged_path for each in every}) == len(every)
        assert len({each.final_path for each in every}) == len(every)
        commit(sink, committables[1])
        _committer(sink).sweep(5)
        assert ids(tmp_path) == list(range(40))
        assert staged(tmp_path) == []

    def test_file_names_do_not_depend_on_the_machine_or_the_time(self, tmp_path: Path) -> None:
        own = context(5, nonce="abc")
        first = stage(FileSink(str(tmp_path / "a")), [rows(0, 5)], own)
        time.sleep(0.01)
        assert stage(FileSink(str(tmp_path / "b")), [rows(0, 5)], own) == first


class TestSweeping:
    def test_a_sweep_removes_dead_attempts_and_keeps_committed_epochs(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path))
        winner = stage(sink, [rows(0, 10)], context(1))
        stage(sink, [rows(0, 10)], context(1, attempt=1))
        waiting = stage(sink, [rows(10, 10)], context(2))
        commit(sink, winner)
        committer = _committer(sink)
        committer.sweep(1)
        committer.sweep(1)
        assert len(staged(tmp_path)) == 1
        assert ids(tmp_path) == list(range(10))
        commit(sink, waiting)
        committer.sweep(2)
        assert ids(tmp_path) == list(range(20))
        stage(sink, [rows(10, 10)], context(2, attempt=3))  # this attempt wrote during the sweep
        committer.sweep(2)
        committer.close()
        assert ids(tmp_path) == list(range(20))
        assert not (tmp_path / "_staging").exists()

    def test_recovery_removes_undecided_files_of_this_sink_only(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path))
        decided = stage(sink, [rows(0, 10)], context(7))
        stage(sink, [rows(10, 10)], context(8))
        foreign = stage(sink, [rows(90, 10)], context(8, pipeline="other"))
        committer = _committer(sink)
        committer.sweep(8)
        committer.recover(8)
        assert outcomes(commit(sink, decided)) == {CommitOutcome.COMMITTED}
        assert outcomes(commit(sink, foreign, pipeline="other")) == {CommitOutcome.COMMITTED}
        assert ids(tmp_path) == [*range(10), *range(90, 100)]
        assert staged(tmp_path) == []

    def test_sweeping_a_missing_target_does_not_create_it(self, tmp_path: Path) -> None:
        committer = _committer(FileSink(str(tmp_path / "target")))
        committer.sweep(3)
        committer.recover(-1)
        committer.close()
        assert not (tmp_path / "target").exists()


class TestMemoryFilesystem:
    @pytest.mark.parametrize("file_format", list(Format))
    def test_the_memory_filesystem_supports_every_format(
        self, file_format: Format, tmp_path: Path
    ) -> None:
        url = f"memory://{uuid.uuid4().hex}/target"
        fs, root = fsspec.core.url_to_fs(url)
        sink = FileSink(
            url,
            format=file_format,
            bucket_assigner=BucketAssigner.columns("month", "origin"),
            rolling_policy=RollingPolicy(max_rows=7),
        )
        committables = stage(sink, [rows(0, 50)])
        stage(sink, [rows(0, 50)], context(1, attempt=1))
        stage(sink, [rows(50, 50)], context(2))

        def shown() -> list[str]:
            return [path for path in fs.find(root) if "/_staging/" not in path]

        assert shown() == []
        assert outcomes(commit(sink, committables)) == {CommitOutcome.COMMITTED}
        assert len(shown()) == len(committables)
        assert outcomes(commit(sink, committables)) == {CommitOutcome.ALREADY_COMMITTED}
        committer = _committer(sink)
        for epoch in (1, 2):
            committer.sweep(epoch)
        committer.recover(2)
        committer.close()
        assert sorted(fs.find(root)) == sorted(shown())
        fs.get(root, str(tmp_path / "copy"), recursive=True)
        assert ids(tmp_path / "copy") == list(range(50))
        fs.rm(shown()[0])
        assert CommitOutcome.FAILED in outcomes(commit(sink, committables))

    def test_a_commit_recovers_from_a_crash_during_a_copy(self) -> None:
        url = f"memory://{uuid.uuid4().hex}/target"
        fs, root = fsspec.core.url_to_fs(url)
        sink = FileSink(url, rolling_policy=RollingPolicy(max_rows=10))
        whole, cut = stage(sink, [rows(0, 20)])
        fs.copy(f"{root}/{whole.staged_path}", f"{root}/{whole.final_path}")
        fs.pipe_file(f"{root}/{cut.final_path}", b"half")
        first, second = commit(sink, [whole, cut])
        assert first.outcome is CommitOutcome.ALREADY_COMMITTED
        assert second.outcome is CommitOutcome.COMMITTED
        assert fs.size(f"{root}/{cut.final_path}") == cut.size
        assert [path for path in fs.find(root) if "/_staging/" in path] == []


class TestConfiguration:
    def test_options_create_the_same_sink(self, tmp_path: Path) -> None:
        made = FileSink.from_options(
            {
                "path": str(tmp_path),
                "format": "csv",
                "compression": "gzip",
                "partition.columns": "month, origin",
                "partition.keep-columns": "true",
                "sink.rolling-policy.file-size": "1mb",
                "sink.rolling-policy.row-count": "10",
                "sink.rolling-policy.rollover-interval": "5 min",
                "sink.file-prefix": "f",
                "sink.max-open-buckets": "7",
                "sink.buffer-size": "2mb",
                "sink.parallelism": "3",
                "csv.delimiter": ";",
                "csv.header": "false",
                "storage-options.auto_mkdir": "true",
            }
        )
        assert made == FileSink(
            str(tmp_path),
            format=Format.CSV,
            compression=Compression.GZIP,
            bucket_assigner=BucketAssigner.columns("month", "origin", keep_columns=True),
            rolling_policy=RollingPolicy(
                max_size=1 << 20, max_rows=10, max_age=timedelta(minutes=5)
            ),
            output_file=OutputFileConfig(prefix="f"),
            csv=CsvOptions(delimiter=";", header=False),
            storage_options={"auto_mkdir": "true"},
            max_open_buckets=7,
            buffer_size=2 << 20,
            parallelism=3,
        )
        assert made.writer_parallelism() == 3
        assert FileSink.from_options({"path": str(tmp_path)}) == FileSink(str(tmp_path))

    @pytest.mark.parametrize(
        ("make", "option"),
        [
            (lambda: FileSink(""), "path"),
            (lambda: FileSink("/data/*"), "path"),
            (lambda: FileSink("/data", format="orc"), "format"),  # type: ignore[arg-type]
            (lambda: FileSink("/data", compression=Compression.GZIP), "compression"),
            (lambda: FileSink("/data", max_open_buckets=0), "sink.max-open-buckets"),
            (lambda: FileSink("/data", buffer_size=0), "sink.buffer-size"),
            (lambda: OutputFileConfig(prefix="_x"), "sink.file-prefix"),
            (lambda: OutputFileConfig(prefix="../x"), "sink.file-prefix"),
            (lambda: OutputFileConfig(suffix="/x"), "sink.file-suffix"),
            (
                lambda: FileSink("/data", output_file=OutputFileConfig(suffix=".csv")),
                "sink.file-suffix",
            ),
            (lambda: RollingPolicy(max_rows=0), "sink.rolling-policy.row-count"),
            (
                lambda: FileSink("/data", format=Format.CSV, csv=CsvOptions(null_values=(",",))),
                "csv.null-values",
            ),
            (
                lambda: FileSink("/data", parquet=ParquetOptions(compression="lzo")),
                "parquet.compression",
            ),
            (
                lambda: FileSink.from_options({"path": "/d", "partition.date-column": "ts"}),
                "partition.date-pattern",
            ),
            (
                lambda: FileSink.from_options(
                    {
                        "path": "/d",
                        "partition.columns": "a",
                        "partition.date-column": "ts",
                        "partition.date-pattern": "%Y",
                    }
                ),
                "partition.columns",
            ),
            (lambda: FileSink.from_options({"path": "/d", "partitionBy": "a"}), "partitionBy"),
        ],
    )
    def test_conflicting_settings_are_rejected(
        self, make: Callable[[], object], option: str
    ) -> None:
        with pytest.raises(ConfigurationError) as caught:
            make()
        assert caught.value.option == option

    @pytest.mark.parametrize(
        ("file_format", "kind"),
        [
            (Format.CSV, pa.list_(pa.int64())),
            (Format.JSON_LINES, pa.duration("s")),
            (Format.PARQUET, pa.month_day_nano_interval()),
        ],
    )
    def test_types_that_the_format_lacks_are_rejected(
        self, file_format: Format, kind: pa.DataType
    ) -> None:
        sink = FileSink("/data", format=file_format)
        with pytest.raises(ConfigurationError, match="'wrong'") as caught:
            sink.validate(pa.schema([("right", pa.int64()), ("wrong", kind)]))
        assert caught.value.option == "format"

    def test_duplicate_column_names_are_rejected(self) -> None:
        with pytest.raises(ConfigurationError, match="same name"):
            FileSink("/data").validate(pa.schema([("a", pa.int64()), ("a", pa.int64())]))

    def test_secrets_are_not_shown(self) -> None:
        sink = FileSink("s3://me:hunter2@bucket/x", storage_options={"secret": "hunter2"})
        assert "hunter2" not in repr(sink)

    def test_stored_committables_of_layout_1_are_read(self, tmp_path: Path) -> None:
        serializer = FileSink(str(tmp_path)).committable_serializer()
        assert serializer.version == 1
        assert serializer.deserialize(
            1, b'{"final_path":"a/f.csv","rows":2,"size":3,"staged_path":"_staging/x/0"}'
        ) == FileCommittable(staged_path="_staging/x/0", final_path="a/f.csv", rows=2, size=3)


# A separate driver that stages, decides, and commits epochs, and prints its progress.
DRIVER = """
import importlib.util, json, os, sys
spec = importlib.util.spec_from_file_location("case", sys.argv[1])
case = importlib.util.module_from_spec(spec)
spec.loader.exec_module(case)
target, state, stop_in = sys.argv[2], sys.argv[3], sys.argv[4]
case.run_epochs(target, state, stop_in)
"""


def run_epochs(target: str, state: str, stop_in: str) -> None:
    """Continue until all three epochs are committed. Decisions are files in `state`.

    Args:
        target: The target of the sink.
        state: The folder of the decisions.
        stop_in: The step of epoch 1 that halts for the kill, `write` or `commit`. Empty for none.
    """
    sink = FileSink(
        target,
        format=Format.JSON_LINES,
        bucket_assigner=BucketAssigner.columns("month"),
        rolling_policy=RollingPolicy(max_rows=100),
    )
    serializer = sink.committable_serializer()
    committer = _committer(sink)
    decided = sorted(int(name) for name in os.listdir(state) if name.isdigit())

    def finish(epoch: int) -> None:
        lines = Path(state, str(epoch)).read_bytes().splitlines()
        requests = [CommitRequest(serializer.deserialize(1, line)) for line in lines]
        if stop_in == "commit" and epoch == 1:
            unlink, link, calls = os.unlink, os.link, [0]

            def halting(call: Callable[..., None]) -> Callable[..., None]:
                def halt(*args: str) -> None:
                    calls[0] += 1
                    if calls[0] == int(os.environ["HALT_AT"]):
                        _halt()
                    call(*args)

                return halt

            os.unlink, os.link = halting(unlink), halting(link)
        committer.commit(requests)
        assert CommitOutcome.FAILED not in outcomes(requests)
        committer.sweep(epoch)

    for epoch in decided:
        finish(epoch)
    last = max(decided, default=-1)
    committer.recover(last)
    for epoch in range(last + 1, 3):
        committables: list[FileCommittable] = []
        for subtask in range(2):
            writer = sink.create_writer(context(epoch, subtask=subtask))
            for part in range(3):
                writer.write(rows(epoch * 1800 + subtask * 900 + part * 300, 300))
                if stop_in == "write" and epoch == 1 and subtask == 1 and part == 1:
                    _halt()
            writer.flush()
            committables += writer.prepare_commit()
            writer.close()
        scratch = Path(state, "scratch")
        scratch.write_bytes(b"\n".join(map(serializer.serialize, committables)))
        scratch.rename(Path(state, str(epoch)))
        finish(epoch)
    committer.close()


# An epoch has 18 files. Calls 1 to 18 are links, and calls 19 to 36 are unlinks.
@pytest.mark.parametrize(("stop_in", "halt_at"), [("write", 0), ("commit", 10), ("commit", 30)])
def test_output_is_exact_after_a_killed_driver_restarts(
    tmp_path: Path, stop_in: str, halt_at: int
) -> None:
    target, state = tmp_path / "target", tmp_path / "state"
    state.mkdir()
    command = [sys.executable, "-c", DRIVER, __file__, str(target), str(state), stop_in]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        env={
            **os.environ,
            "HALT_AT": str(halt_at),
            "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
        },
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"halted\n"
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=20)
    process.stdout.close()
    before = ids(target)
    assert len(before) == len(set(before))
    assert set(range(1800)) <= set(before) <= set(range(2 * 1800))
    assert staged(target)
    run_epochs(str(target), str(state), "")
    assert ids(target) == list(range(3 * 1800))
    assert not (target / "_staging").exists()


def _halt() -> None:
    print("halted", flush=True)
    time.sleep(60)


def _committer(sink: FileSink) -> Any:
    return sink.create_committer(CommitterInitContext(pipeline_id=PIPELINE, sink_uid=UID))


def _csv_rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pacsv.read_csv(path).to_pylist()
    return rows


def _open_files() -> list[str]:
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("needs /proc to see open files")
    return [os.readlink(each) for each in folder.iterdir() if each.is_symlink()]
