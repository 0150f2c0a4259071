# SPDX-License-Identifier: Apache-2.0
"""Tests that no file is lost on a store that copies in the background, as Azure does."""

from __future__ import annotations

import io
import os
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from faulty_files import FaultyFiles
from pending_copies import PendingCopies, Shown
from staged_files import commit, committer_of, context, decided, outcomes, rows, stage

from connector_filesystem import CsvOptions, FileSink, KeyedFileSink, RollingPolicy, moves
from connector_filesystem.filesystem import FileLocation
from connector_filesystem.folder_compaction import FolderCompaction
from connector_filesystem.moves import move_file
from connector_filesystem.sink import committer
from connectors_core.errors import ConnectorError, DataLossError, RetryableError
from connectors_core.sink import CommitOutcome, CommitRequest

URL = "pending://lake/out"


@pytest.fixture(params=Shown, ids=lambda shown: shown.value)
def shown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Shown:
    monkeypatch.setattr(moves, "_BLOCK_BYTES", 500)
    PendingCopies.reset(request.param)
    return request.param  # type: ignore[no-any-return]


def visible() -> dict[str, bytes]:
    return {
        path: file.getvalue()
        for path, file in PendingCopies.store.items()
        if not any(part.startswith("_") for part in path.split("/"))
    }


def ids(column: str = "id") -> list[int]:
    assert not PendingCopies.copies
    assert not PendingCopies.lost
    tables = [pq.read_table(io.BytesIO(data)) for data in visible().values()]
    return sorted(each for table in tables for each in table[column].to_pylist())


def staged() -> list[str]:
    return [path for path in PendingCopies.store if "/_" in path]


def sink_of_three_files() -> FileSink:
    return FileSink(URL, rolling_policy=RollingPolicy(max_rows=10))


def out_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "_DEADLINE_SECONDS", 0)


def test_a_commit_waits_until_the_copies_are_complete(shown: Shown) -> None:
    sink = sink_of_three_files()
    files = stage(sink, [rows(0, 30)])
    assert outcomes(commit(sink, files)) == {CommitOutcome.COMMITTED}
    assert ids() == list(range(30))
    assert staged() == []
    assert outcomes(commit(sink, files)) == {CommitOutcome.ALREADY_COMMITTED}
    assert ids() == list(range(30))


def test_a_retry_continues_a_move_that_took_too_long(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = sink_of_three_files()
    PendingCopies.looks = 4
    files = stage(sink, [rows(0, 30)])
    with monkeypatch.context() as patch:
        out_of_time(patch)
        with pytest.raises(RetryableError, match="did not move the whole file"):
            commit(sink, files)
    assert len(staged()) == 3
    commit(sink, files)
    assert ids() == list(range(30))
    assert staged() == []


def test_a_copy_that_fails_late_is_repeated(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = sink_of_three_files()
    files = stage(sink, [rows(0, 30)])
    PendingCopies.failures = 1
    with monkeypatch.context() as patch:
        out_of_time(patch)
        PendingCopies.looks = 1
        with pytest.raises(RetryableError):
            commit(sink, files)
        assert len(staged()) == 3
        commit(sink, files)
    assert ids() == list(range(30))
    assert staged() == []


def test_a_retry_after_a_lost_answer_is_exact(shown: Shown) -> None:
    sink = sink_of_three_files()
    files = stage(sink, [rows(0, 30)])
    PendingCopies.answers_lost = 1
    with pytest.raises(RetryableError):
        commit(sink, files)
    commit(sink, files)
    assert ids() == list(range(30))
    assert staged() == []


def test_a_final_file_that_is_cut_is_a_loss_if_its_staged_file_is_gone(shown: Shown) -> None:
    sink = FileSink(URL)
    [file] = stage(sink, [rows(0, 10)])
    commit(sink, [file])
    [path] = visible()
    PendingCopies.store[path].truncate(file.size - 1)
    [request] = commit(sink, [file])
    assert isinstance(request.error, DataLossError)
    assert "incomplete" in str(request.error)


def test_an_overwrite_removes_files_once_their_successors_are_complete(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = FileSink(URL)
    commit(sink, stage(sink, [rows(0, 9)]))
    before = set(visible())
    overwriting: Any = sink.apply_overwrite({})
    replacements = decided(overwriting, rows(30, 6))
    PendingCopies.failures = 1
    with monkeypatch.context() as patch:
        out_of_time(patch)
        with pytest.raises(RetryableError):
            commit(overwriting, replacements)
        assert before <= set(visible())
        PendingCopies.looks = 1
        commit(overwriting, replacements)
    assert ids() == list(range(30, 36))


def test_changes_by_key_replace_files_once_their_successors_are_complete(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema([("id", pa.int64()), ("_row_kind", pa.string())])
    sink = KeyedFileSink(FileSink(URL), ("id",))

    def written(epoch: int, *changes: tuple[str, int]) -> list[CommitRequest[Any]]:
        writer = sink.create_writer(context(epoch, schema=schema))
        rows = [{"id": number, "_row_kind": kind} for kind, number in changes]
        writer.write(pa.RecordBatch.from_pylist(rows, schema))
        writer.flush()
        return [CommitRequest(each) for each in writer.prepare_commit()]

    committer_of(sink).commit(written(1, ("+I", 1), ("+I", 2)))
    assert ids() == [1, 2]
    before = set(visible())
    requests = written(2, ("-D", 1), ("+I", 3))
    PendingCopies.failures = 1
    with monkeypatch.context() as patch:
        out_of_time(patch)
        with pytest.raises(RetryableError):
            committer_of(sink).commit(requests)
        assert before <= set(visible())
        PendingCopies.looks = 1
        committer_of(sink).commit(requests)
    assert ids() == [2, 3]


@pytest.mark.parametrize("fails", [False, True])
def test_a_folder_is_compacted_without_a_loss(
    shown: Shown, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        out = io.BytesIO()
        pq.write_table(pa.table({"x": [number, number + 10]}), out)
        PendingCopies().pipe_file(f"{URL}/{number}.parquet", out.getvalue())
    compaction = FolderCompaction(FileLocation(URL), 10_000, CsvOptions())
    if fails:
        PendingCopies.failures = 1
        with monkeypatch.context() as patch:
            out_of_time(patch)
            with pytest.raises(RetryableError):
                compaction.run()
            PendingCopies.looks = 1
            compaction.run()
    else:
        assert compaction.run() == 4
    assert ids("x") == [0, 1, 2, 3, 10, 11, 12, 13]
    assert len(visible()) == 1
    assert staged() == []


def without_a_wait(location: FileLocation, source: str, target: str, *, size: int) -> bool:
    location.fs.mv(source, target)
    return True


def until_the_size_is_right(location: FileLocation, source: str, target: str, *, size: int) -> bool:
    location.fs.cp_file(source, target)
    while location.size(target) != size:
        pass
    location.fs.rm_file(source)
    return True


def checked_at_the_end(location: FileLocation, source: str, target: str, *, size: int) -> bool:
    location.fs.mv(source, target)
    if location.size(target) != size:
        raise RetryableError("the copy is not complete")
    return True


def an_earlier_copy_is_complete(
    location: FileLocation, source: str, target: str, *, size: int
) -> bool:
    if location.size(target) is not None:
        location.fs.rm_file(source)
        return False
    return move_file(location, source, target, size=size)


@pytest.mark.parametrize(
    "broken",
    [
        without_a_wait,
        until_the_size_is_right,
        checked_at_the_end,
        an_earlier_copy_is_complete,
    ],
)
def test_these_tests_see_a_broken_move(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(committer, "move_file", broken)
    for shown in Shown:
        for case in (
            test_a_commit_waits_until_the_copies_are_complete,
            partial(test_a_retry_continues_a_move_that_took_too_long, monkeypatch=monkeypatch),
        ):
            PendingCopies.reset(shown)
            try:
                case(shown)
            except (AssertionError, pytest.fail.Exception, ConnectorError, pa.ArrowException):
                seen.append(shown)
    assert seen


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_storage_that_renames_does_not_copy(
    tmp_path: Path, wrapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **settings: Any) -> None:
        raise AssertionError("a copy")

    monkeypatch.setattr(FaultyFiles, "cp_file", refuse)
    (tmp_path / "a").write_bytes(b"rows")
    before = os.stat(tmp_path / "a").st_ino
    within = {"path": str(tmp_path), "target_protocol": "faulty"}
    location = FileLocation("dir://", within) if wrapped else FileLocation(f"faulty://{tmp_path}")
    assert move_file(location, location.join("a"), location.join("b"), size=4)
    assert os.stat(tmp_path / "b").st_ino == before
    assert not (tmp_path / "a").exists()
