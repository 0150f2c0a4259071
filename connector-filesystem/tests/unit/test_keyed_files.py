# SPDX-License-Identifier: Apache-2.0
"""Tests that changes by key become files that equal their table, through crashes."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st
from staged_files import committer_of, context, visible

from connector_filesystem import (
    BucketAssigner,
    FileCompaction,
    FileFormat,
    FileSink,
    KeyedFileSink,
    RollingPolicy,
)
from connector_filesystem.filesystem import FileLocation
from connector_filesystem.sink.contents import Contents, newest_contents, record
from connectors_core.errors import (
    BadRecordError,
    CommitError,
    ConfigurationError,
    DataLossError,
    FatalError,
)
from connectors_core.records import RecordPolicy
from connectors_core.serialization import decode_versioned, encode_versioned
from connectors_core.sink import CommitOutcome, CommitRequest, messages_of

SCHEMA = pa.schema(
    [
        ("carrier", pa.string()),
        ("id", pa.int64()),
        ("delay", pa.int64()),
        ("_row_kind", pa.string()),
    ]
)
Change = tuple[str, str, int, int]


def sink_at(folder: Path | str, *, rows: int | None = None) -> KeyedFileSink:
    files = FileSink(
        str(folder),
        bucket_assigner=BucketAssigner.columns("carrier"),
        rolling_policy=RollingPolicy(max_rows=rows),
    )
    return KeyedFileSink(files, ("carrier", "id"))


def batch(changes: Iterable[Change], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    rows = [
        {"carrier": carrier, "id": number, "delay": delay, "_row_kind": kind}
        for kind, carrier, number, delay in changes
    ]
    return pa.RecordBatch.from_pylist(rows, schema)


def write(
    sink: KeyedFileSink,
    epoch: int,
    changes: Iterable[Change],
    schema: pa.Schema = SCHEMA,
    **settings: Any,
) -> list[Any]:
    """Return the committables of an epoch, as a decision keeps them."""
    writer = pickle.loads(pickle.dumps(sink)).create_writer(
        context(epoch, schema=schema, **settings)
    )
    writer.write(batch(changes, schema))
    writer.flush()
    found = writer.prepare_commit()
    writer.close()
    messages = messages_of([(0, each) for each in found], checkpoint_id=epoch, number_of_subtasks=1)
    serializer = sink.committable_serializer()
    return [
        decode_versioned(serializer, encode_versioned(serializer, each))
        for each in sink.add_pre_commit_topology(messages)
    ]


def commit(sink: KeyedFileSink, committables: Iterable[Any]) -> list[CommitRequest[Any]]:
    requests = [CommitRequest(each) for each in committables]
    committer_of(sink).commit(requests)
    return requests


def apply(sink: KeyedFileSink, epoch: int, *changes: Change) -> None:
    requests = commit(sink, write(sink, epoch, changes))
    assert {each.outcome for each in requests} == {CommitOutcome.COMMITTED}


def table(folder: Path) -> dict[tuple[str, int], int]:
    """Return the rows as a plain reader sees them."""
    found: dict[tuple[str, int], int] = {}
    if not visible(folder):
        return found
    for row in pq.read_table(folder).to_pylist():
        key = (row["carrier"], row["id"])
        assert key not in found, "a key has several rows"
        found[key] = row["delay"]
    return found


def test_the_last_change_of_each_key_counts(tmp_path: Path) -> None:
    sink = sink_at(tmp_path)
    apply(sink, 1, ("+I", "AA", 1, 10), ("+I", "UA", 1, 5), ("+I", "AA", 2, 20), ("+U", "AA", 1, 3))
    assert table(tmp_path) == {("AA", 1): 3, ("AA", 2): 20, ("UA", 1): 5}
    untouched = list((tmp_path / "carrier=UA").iterdir())
    apply(sink, 2, ("-U", "AA", 1, 3), ("+U", "AA", 1, 4), ("-D", "AA", 2, 20), ("-D", "AA", 9, 0))
    assert table(tmp_path) == {("AA", 1): 4, ("UA", 1): 5}
    assert list((tmp_path / "carrier=UA").iterdir()) == untouched
    apply(sink, 3, ("-U", "AA", 1, 4), ("-D", "UA", 1, 5))
    assert table(tmp_path) == {}
    apply(sink, 4, ("+I", "UA", 1, 6))
    assert table(tmp_path) == {("UA", 1): 6}
    assert len(visible(tmp_path)) == 1


def test_rows_without_nulls_join_those_of_the_files(tmp_path: Path) -> None:
    sink = sink_at(tmp_path)
    required = pa.schema([each.with_nullable(False) for each in SCHEMA])
    apply(sink, 1, ("+I", "AA", 1, 10))
    commit(sink, write(sink, 2, [("+I", "AA", 2, 20)], required))
    commit(sink, write(sink, 3, [("+I", "AA", 3, 30)], required))
    assert table(tmp_path) == {("AA", 1): 10, ("AA", 2): 20, ("AA", 3): 30}


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["+I", "+U", "-D", "-U"]),
        st.sampled_from(["AA", "UA"]),
        st.integers(0, 4),
        st.integers(0, 99),
    ),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(epochs=st.lists(CHANGES, max_size=4), rows=st.sampled_from([None, 2]))
def test_epochs_leave_the_table_of_their_changes(
    tmp_path_factory: pytest.TempPathFactory, epochs: list[list[Change]], rows: int | None
) -> None:
    folder = tmp_path_factory.mktemp("copy")
    sink = sink_at(folder, rows=rows)
    expected: dict[tuple[str, int], int] = {}
    for number, changes in enumerate(epochs):
        write(sink, number, [("+I", "AA", 1, -1)])  # an attempt that loses
        requests = commit(sink, write(sink, number, changes))
        assert all(each.outcome is CommitOutcome.COMMITTED for each in requests)
        for kind, carrier, key, delay in changes:
            expected.pop((carrier, key), None)
            if kind[0] == "+":
                expected[carrier, key] = delay
        assert table(folder) == expected


@pytest.mark.parametrize("step", range(12))
def test_a_commit_that_a_crash_interrupts_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Each link and each removal is a step at which the driver can die."""
    sink = sink_at(tmp_path)
    apply(sink, 1, ("+I", "AA", 1, 1), ("+I", "AA", 2, 2), ("+I", "UA", 1, 3))
    decided = write(sink, 2, [("+U", "AA", 1, 10), ("-D", "UA", 1, 3)])
    steps = iter(range(step + 1))

    def dying(act: Any) -> Any:
        def acts(*arguments: Any, **options: Any) -> None:
            if next(steps, None) == step:
                raise KeyboardInterrupt
            act(*arguments, **options)

        return acts

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", dying(os.link))
        patched.setattr(os, "unlink", dying(os.unlink))
        with contextlib.suppress(KeyboardInterrupt):
            commit(sink, decided)
    for _ in range(2):
        requests = commit(sink, decided)
        assert {each.outcome for each in requests} == {CommitOutcome.COMMITTED}
        assert table(tmp_path) == {("AA", 1): 10, ("AA", 2): 2}
    committer_of(sink).sweep(2)
    apply(sink, 3, ("+U", "AA", 2, 20))
    assert table(tmp_path) == {("AA", 1): 10, ("AA", 2): 20}


def test_a_frozen_driver_that_commits_again_changes_nothing(tmp_path: Path) -> None:
    sink = sink_at(tmp_path)
    former = write(sink, 1, [("+I", "AA", 1, 1)])
    commit(sink, former)
    apply(sink, 2, ("+U", "AA", 1, 2))
    assert [each.outcome for each in commit(sink, former)] == [CommitOutcome.ALREADY_COMMITTED]
    assert table(tmp_path) == {("AA", 1): 2}
    apply(sink, 3, ("+I", "AA", 2, 3))
    assert table(tmp_path) == {("AA", 1): 2, ("AA", 2): 3}


def test_two_pipelines_cannot_write_a_folder_at_the_same_time(tmp_path: Path) -> None:
    sink = sink_at(tmp_path)
    one, other = (
        write(sink, 1, [("+I", "AA", number, 1)], pipeline=f"p{number}") for number in (1, 2)
    )
    commit(sink, one)
    (request,) = commit(sink, other)
    assert isinstance(request.error, CommitError)
    assert table(tmp_path) == {("AA", 1): 1}


def test_a_pipeline_cannot_complete_what_others_have_written_over(tmp_path: Path) -> None:
    """Its driver died between decision and commit, and another pipeline continued."""
    sink = sink_at(tmp_path)
    apply(sink, 1, ("+I", "AA", 1, 1))
    decided = write(sink, 2, [("+I", "AA", 2, 2)], pipeline="killed")
    apply(sink, 2, ("+I", "AA", 3, 3))
    apply(sink, 3, ("+I", "AA", 4, 4))
    (request,) = commit(sink, decided)
    assert isinstance(request.error, CommitError)
    assert table(tmp_path) == {("AA", 1): 1, ("AA", 3): 3, ("AA", 4): 4}


def test_a_damaged_file_is_no_temporary_failure(tmp_path: Path) -> None:
    sink = sink_at(tmp_path)
    apply(sink, 1, ("+I", "AA", 1, 1))
    (file,) = visible(tmp_path)
    file.write_bytes(b"PAR1" + bytes(40) + (9).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(FatalError, match="damaged"):
        apply(sink, 2, ("+I", "AA", 2, 2))


def test_a_lost_file_is_noticed(tmp_path: Path) -> None:
    sink = sink_at(tmp_path)
    apply(sink, 1, ("+I", "AA", 1, 1))
    (file,) = visible(tmp_path)
    file.unlink()
    with pytest.raises(DataLossError, match="is gone"):
        write(sink, 2, [("+I", "AA", 2, 2)])


def test_files_of_others_are_neither_read_nor_mixed_with_the_table(tmp_path: Path) -> None:
    folder = tmp_path / "carrier=AA"
    folder.mkdir()
    pq.write_table(pa.table({"id": [7], "delay": [7]}), folder / "other.parquet")
    with pytest.raises(ConfigurationError, match="no key identifies"):
        committer_of(sink_at(tmp_path))


def test_rows_without_a_key_or_a_known_kind_go_to_the_record_policy(tmp_path: Path) -> None:
    sink = sink_at(tmp_path)
    changes: list[Any] = [("+I", None, 1, 1), ("?", "AA", 1, 1), ("+I", "AA", 2, 2)]
    with pytest.raises(BadRecordError):
        write(sink, 1, changes)
    commit(sink, write(sink, 1, changes, policy=RecordPolicy.skip()))
    assert table(tmp_path) == {("AA", 2): 2}


def test_two_writers_of_one_folder_are_refused(tmp_path: Path) -> None:
    """They would replace each other's files."""
    sink = sink_at(tmp_path)
    (one,), (other,) = (write(sink, 1, [("+I", "AA", number, 1)]) for number in (1, 2))
    messages = messages_of(enumerate((one, other)), checkpoint_id=1, number_of_subtasks=2)
    with pytest.raises(ConfigurationError, match="several writers"):
        sink.add_pre_commit_topology(messages)


def test_a_table_without_partitions_is_one_folder(tmp_path: Path) -> None:
    sink = KeyedFileSink(FileSink(str(tmp_path)), ("carrier", "id"))
    apply(sink, 1, ("+I", "AA", 1, 1), ("+I", "UA", 1, 2))
    apply(sink, 2, ("-D", "AA", 1, 1))
    assert table(tmp_path) == {("UA", 1): 2}


def test_a_partition_can_be_the_whole_key(tmp_path: Path) -> None:
    files = FileSink(str(tmp_path), bucket_assigner=BucketAssigner.columns("carrier", "id"))
    sink = KeyedFileSink(files, ("carrier", "id"))
    apply(sink, 1, ("+I", "AA", 1, 1), ("+I", "AA", 2, 2))
    apply(sink, 2, ("+U", "AA", 1, 3), ("-D", "AA", 2, 2))
    assert table(tmp_path) == {("AA", 1): 3}


def test_a_new_column_is_null_in_former_rows(tmp_path: Path) -> None:
    sink = sink_at(tmp_path)
    apply(sink, 1, ("+I", "AA", 1, 1))
    wider = SCHEMA.append(pa.field("note", pa.string()))
    writer = sink.create_writer(context(2, schema=wider))
    row = {"carrier": "AA", "id": 2, "delay": 2, "note": "new", "_row_kind": "+I"}
    writer.write(pa.RecordBatch.from_pylist([row], wider))
    writer.flush()
    commit(sink, writer.prepare_commit())
    found = pq.read_table(tmp_path).select(["id", "note"]).to_pylist()
    assert sorted(found, key=str) == [{"id": 1, "note": None}, {"id": 2, "note": "new"}]


def test_former_rows_can_lack_what_is_now_not_null(tmp_path: Path) -> None:
    """Spark marks the literals of a statement as not null, but not the rows of another one."""
    sink = sink_at(tmp_path)
    apply(sink, 1, ("+I", "AA", 1, 1))
    schema = pa.schema([each.with_nullable(False) for each in SCHEMA])
    schema = schema.append(pa.field("note", pa.string(), nullable=False))
    writer = sink.create_writer(context(2, schema=schema))
    row = {"carrier": "AA", "id": 2, "delay": 2, "note": "new", "_row_kind": "+I"}
    writer.write(pa.RecordBatch.from_pylist([row], schema))
    writer.flush()
    commit(sink, writer.prepare_commit())
    assert table(tmp_path) == {("AA", 1): 1, ("AA", 2): 2}


def test_a_type_that_former_rows_do_not_fit_is_refused(tmp_path: Path) -> None:
    sink = sink_at(tmp_path)
    apply(sink, 1, ("+I", "AA", 1, 1 << 40))
    narrow = SCHEMA.set(2, pa.field("delay", pa.int32()))
    writer = sink.create_writer(context(2, schema=narrow))
    row = {"carrier": "AA", "id": 2, "delay": 2, "_row_kind": "+I"}
    writer.write(pa.RecordBatch.from_pylist([row], narrow))
    with pytest.raises(ConfigurationError, match="'delay' of the committed file"):
        writer.flush()


@pytest.fixture
def no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EPERM, "no links")

    monkeypatch.setattr(os, "link", refuse)


@pytest.mark.usefixtures("no_links")
def test_a_disk_without_hard_links_keeps_the_table(tmp_path: Path) -> None:
    sink = sink_at(tmp_path)
    for epoch in range(1, 5):
        apply(sink, epoch, ("+I", "AA", epoch, epoch))
    assert table(tmp_path) == {("AA", epoch): epoch for epoch in range(1, 5)}
    assert len(list(tmp_path.rglob("*.claim"))) <= len(list(tmp_path.rglob("_contents/**/*.json")))


@pytest.mark.usefixtures("no_links")
@pytest.mark.parametrize("renames", [0, 1])
def test_without_hard_links_one_of_two_simultaneous_records_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    """The other pipeline creates its record before or after this one renames its claim."""
    location = FileLocation(str(tmp_path))
    mine, theirs = (Contents(folder="", version=1, files=(name,)) for name in ("mine", "theirs"))
    rename, results, calls = os.rename, [], itertools.count()

    def interrupted(*paths: Any) -> None:
        if next(calls) == renames:
            results.append(record(location, theirs))
        rename(*paths)

    monkeypatch.setattr(os, "rename", interrupted)
    results.append(record(location, mine))
    winner = theirs if renames == 0 else mine
    assert newest_contents(location, "") == winner
    assert results[1] == winner
    assert results[0] in (winner, Contents(folder=""))  # the other one has no record of its own


@pytest.mark.usefixtures("no_links")
def test_without_hard_links_a_record_is_created_after_a_crash_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = FileLocation(str(tmp_path))
    contents = Contents(folder="", version=1, files=("a",))
    rename = os.rename

    def dying(old: str, new: str) -> None:
        if not new.endswith(".claim"):
            raise KeyboardInterrupt
        rename(old, new)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", dying)
        with pytest.raises(KeyboardInterrupt):
            record(location, contents)
    assert record(location, contents) == contents


def test_a_storage_that_writes_in_place_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(MemoryFileSystem, "pipe_file")
    with pytest.raises(ConfigurationError, match="MemoryFileSystem, which writes in place"):
        committer_of(sink_at("memory://in-place"))


def test_an_object_store_has_the_same_table() -> None:
    sink = sink_at("memory://keyed-copy")
    apply(sink, 1, ("+I", "AA", 1, 1), ("+I", "AA", 2, 2))
    apply(sink, 2, ("+U", "AA", 1, 3), ("-D", "AA", 2, 2))
    fs = sink.files.location.fs
    (file,) = fs.glob("/keyed-copy/carrier=*/*.parquet")
    with fs.open(file) as opened:
        assert pq.ParquetFile(opened).read().to_pylist() == [{"id": 1, "delay": 3}]
    fs.rm("/keyed-copy", recursive=True)


@pytest.mark.parametrize(
    ("files", "key", "shown"),
    [
        ({"format": FileFormat.CSV}, ("id",), "read again"),
        ({"bucket_assigner": BucketAssigner.columns("carrier")}, ("id",), "PRIMARY KEY"),
        ({"bucket_assigner": BucketAssigner.of(lambda rows: rows.column(0))}, ("id",), "share"),
        ({"bucket_assigner": BucketAssigner.date_pattern("day", "%Y")}, ("day",), "share"),
        ({}, (), "no key columns"),
        ({"parallelism": 2}, ("id",), "one writer has all changes"),
        ({"compaction": FileCompaction()}, ("id",), "nothing can be merged"),
    ],
)
def test_a_key_that_does_not_fit_is_refused(
    tmp_path: Path, files: dict[str, Any], key: tuple[str, ...], shown: str
) -> None:
    with pytest.raises(ConfigurationError, match=shown):
        KeyedFileSink(FileSink(str(tmp_path), **files), key)


def test_a_fixed_number_of_writers_keeps_the_changes_of_a_folder_together(tmp_path: Path) -> None:
    by_carrier = BucketAssigner.columns("carrier")
    files = FileSink(str(tmp_path), bucket_assigner=by_carrier, parallelism=2)
    sink = KeyedFileSink(files, ("carrier", "id"))
    assert (sink.writer_parallelism(), tuple(sink.writer_keys())) == (2, ("carrier",))


def test_columns_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    sink = KeyedFileSink(FileSink(str(tmp_path)), ("delay",))
    sink.validate(SCHEMA)
    with pytest.raises(ConfigurationError, match="cannot be part of the key"):
        sink.validate(pa.schema([("delay", pa.float64())]))


def test_the_columns_of_the_folders_can_be_named_in_partition(tmp_path: Path) -> None:
    assert list(sink_at(tmp_path).partition_columns()) == ["carrier"]
