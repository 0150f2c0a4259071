# SPDX-License-Identifier: Apache-2.0
"""Tests the file sink: formats, folders, and when a file is complete."""

from __future__ import annotations

import os
import pickle
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from staged_files import (
    PIPELINE,
    SCHEMA,
    UID,
    commit,
    committer_of,
    context,
    ids,
    outcomes,
    read_all,
    rows,
    stage,
    staged,
    visible,
)

from connector_filesystem import (
    BucketAssigner,
    Compression,
    FileFormat,
    FileSink,
    JsonOptions,
    OutputFileConfig,
    ParquetOptions,
    RollingPolicy,
    moves,
)
from connector_filesystem.sink.part_file import epoch_folder
from connectors_core.errors import (
    BadRecordError,
)
from connectors_core.records import RecordPolicy
from connectors_core.sink import (
    CommitOutcome,
)

FORMATS = [
    (FileFormat.CSV, Compression.NONE, ParquetOptions()),
    (FileFormat.CSV, Compression.GZIP, ParquetOptions()),
    (FileFormat.CSV, Compression.ZSTD, ParquetOptions()),
    (FileFormat.JSON, Compression.NONE, ParquetOptions()),
    (FileFormat.JSON, Compression.GZIP, ParquetOptions()),
    (FileFormat.JSON, Compression.ZSTD, ParquetOptions()),
    (FileFormat.PARQUET, Compression.NONE, ParquetOptions()),
    (FileFormat.PARQUET, Compression.NONE, ParquetOptions(compression="snappy", row_group_rows=50)),
    (FileFormat.PARQUET, Compression.NONE, ParquetOptions(compression="gzip")),
    (FileFormat.PARQUET, Compression.NONE, ParquetOptions(compression="none")),
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
        file_format: FileFormat,
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
            format=FileFormat.CSV,
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
        sink = FileSink(str(tmp_path), format=FileFormat.JSON, json=JsonOptions(write_nulls=True))
        commit(sink, stage(sink, [rows(0, 1)]))
        [path] = visible(tmp_path)
        assert '"delay":null' in path.read_text()

    def test_an_epoch_without_rows_creates_no_files(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path / "target"))
        assert stage(sink, [rows(0, 0)]) == []
        assert not (tmp_path / "target").exists()

    def test_bad_rows_go_to_the_record_policy(self, tmp_path: Path) -> None:
        assigner = BucketAssigner.of(lambda batch: batch.column("origin"))
        sink = FileSink(str(tmp_path), format=FileFormat.CSV, bucket_assigner=assigner)
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
        committer_of(sink).sweep(1)
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
            format=FileFormat.JSON,
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

    @pytest.mark.parametrize("file_format", list(FileFormat))
    def test_each_of_many_folders_has_one_file(
        self, tmp_path: Path, file_format: FileFormat
    ) -> None:
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

    @pytest.mark.parametrize("file_format", list(FileFormat))
    def test_open_handles_are_bounded_without_completing_files_early(
        self, tmp_path: Path, file_format: FileFormat
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
            format=FileFormat.JSON,
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
        committer_of(sink).sweep(1)
        with pytest.raises(FileNotFoundError):
            writer.write(pa.RecordBatch.from_arrays([pa.array(["a"])], schema=schema))
        writer.close()
        assert staged(tmp_path) == []

    @pytest.mark.parametrize("file_format", list(FileFormat))
    @pytest.mark.parametrize(("folders", "count"), [(10, 20_000), (80, 1_000)])
    def test_buffered_rows_are_bounded(
        self, tmp_path: Path, file_format: FileFormat, folders: int, count: int
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


class TestMemoryFilesystem:
    @pytest.mark.parametrize("file_format", list(FileFormat))
    def test_the_memory_filesystem_supports_every_format(
        self, file_format: FileFormat, tmp_path: Path
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
        committer = committer_of(sink)
        for epoch in (1, 2):
            committer.sweep(epoch)
        committer.recover(2)
        committer.close()
        assert sorted(fs.find(root)) == sorted(shown())
        fs.get(root, str(tmp_path / "copy"), recursive=True)
        assert ids(tmp_path / "copy") == list(range(50))
        fs.rm(shown()[0])
        assert CommitOutcome.FAILED in outcomes(commit(sink, committables))

    def test_a_commit_recovers_from_a_crash_during_a_copy(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(moves, "_DEADLINE_SECONDS", 0.5)  # the other copy never completes
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


def _csv_rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pacsv.read_csv(path).to_pylist()
    return rows


def _open_files() -> list[str]:
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("needs /proc to see open files")
    return [os.readlink(each) for each in folder.iterdir() if each.is_symlink()]
