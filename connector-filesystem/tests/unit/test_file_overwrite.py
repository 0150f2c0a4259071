# SPDX-License-Identifier: Apache-2.0
"""Tests which files a run with INSERT OVERWRITE replaces, and its exactness through crashes."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from staged_files import (
    SCHEMA,
    by_month,
    commit,
    committer_of,
    context,
    decided,
    ids,
    month,
    outcomes,
    rows,
    visible,
)

from connector_filesystem import FileSink
from connectors_core.errors import ConfigurationError
from connectors_core.sink import CommitOutcome


def insert(sink: FileSink, batch: pa.RecordBatch) -> None:
    writer = sink.create_writer(context(0))
    writer.write(batch)
    writer.flush()
    commit(sink, writer.prepare_commit())
    writer.close()


def only(batch: pa.RecordBatch, months: Iterable[int]) -> pa.RecordBatch:
    return batch.filter(pa.array([each in months for each in batch.column("month").to_pylist()]))


def test_the_partitions_that_receive_rows_are_replaced(tmp_path: Path) -> None:
    sink = by_month(tmp_path)
    insert(sink, rows(0, 9))  # months 1, 2, and 3
    commit(overwriting := sink.apply_overwrite({}), decided(overwriting, only(rows(30, 6), {1})))
    assert ids(tmp_path) == [1, 2, 4, 5, 7, 8, 30, 33]


def test_a_folder_without_partitions_is_replaced_as_a_whole(tmp_path: Path) -> None:
    sink = FileSink(str(tmp_path))
    insert(sink, rows(0, 9))
    commit(overwriting := sink.apply_overwrite({}), decided(overwriting, rows(30, 2)))
    assert ids(tmp_path) == [30, 31]
    commit(overwriting := sink.apply_overwrite({}), decided(overwriting))
    assert visible(tmp_path) == []


def test_a_given_partition_is_replaced_even_without_rows(tmp_path: Path) -> None:
    sink = by_month(tmp_path)
    insert(sink, rows(0, 9))
    commit(overwriting := sink.apply_overwrite(month(2)), decided(overwriting))
    assert ids(tmp_path) == [0, 2, 3, 5, 6, 8]
    with pytest.raises(ConfigurationError, match="other partitions"):
        decided(sink.apply_overwrite(month(2)), rows(0, 1))


def test_without_rows_no_partition_is_replaced(tmp_path: Path) -> None:
    sink = by_month(tmp_path)
    insert(sink, rows(0, 9))
    assert decided(sink.apply_overwrite({})) == []


def test_rows_that_others_add_during_the_run_stay(tmp_path: Path) -> None:
    sink = FileSink(str(tmp_path))
    insert(sink, rows(0, 3))
    overwriting = sink.apply_overwrite({})
    insert(sink, rows(10, 2))
    committables = decided(overwriting, rows(30, 1))
    insert(sink, rows(20, 2))
    commit(overwriting, committables)
    assert ids(tmp_path) == [10, 11, 20, 21, 30]


def test_nothing_outside_the_folder_and_no_hidden_file_is_removed(tmp_path: Path) -> None:
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.mkdir()
    (outside / "kept.parquet").write_bytes(b"kept")
    sink = FileSink(str(target))
    insert(sink, rows(0, 3))
    (target / "link").symlink_to(outside)
    (target / "_kept").write_bytes(b"kept")
    commit(overwriting := sink.apply_overwrite({}), decided(overwriting, rows(30, 1)))
    assert (outside / "kept.parquet").exists()
    assert (target / "_kept").exists()
    assert len(list(target.glob("*.parquet"))) == 1


@pytest.mark.parametrize("step", range(8))
def test_a_commit_that_a_crash_interrupts_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Each link and each removal is a step at which the driver can die."""
    sink = by_month(tmp_path)
    insert(sink, rows(0, 9))
    overwriting = sink.apply_overwrite({})
    committables = decided(overwriting, only(rows(30, 6), {1, 2}))
    left = iter(range(step))

    def dying(act: Any) -> Any:
        def acts(*arguments: Any, **options: Any) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt
            act(*arguments, **options)

        return acts

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", dying(os.link))
        patched.setattr(os, "unlink", dying(os.unlink))
        try:
            commit(overwriting, committables)
        except KeyboardInterrupt:
            assert step < 6  # the moves and removals of two files each
    insert(sink, only(rows(90, 3), {1}))
    restarted = by_month(tmp_path).apply_overwrite({})  # its own listing does not matter
    for _ in range(2):
        assert outcomes(commit(restarted, committables)) == {CommitOutcome.COMMITTED}
    committer_of(restarted).sweep(1)
    assert ids(tmp_path) == [2, 5, 8, 30, 31, 33, 34, 90]


def test_an_object_store_is_overwritten_too() -> None:
    sink = FileSink("memory://overwritten")
    insert(sink, rows(0, 3))
    commit(overwriting := sink.apply_overwrite({}), decided(overwriting, rows(30, 2)))
    fs = sink.location.fs
    (file,) = fs.glob("/overwritten/*.parquet")
    with fs.open(file) as opened:
        assert pq.ParquetFile(opened).read().column("id").to_pylist() == [30, 31]
    fs.rm("/overwritten", recursive=True)


def test_executors_do_not_receive_the_listing(tmp_path: Path) -> None:
    sink = by_month(tmp_path)
    insert(sink, rows(0, 9))
    overwriting = sink.apply_overwrite(month(1))
    assert len(overwriting.existing) == 3
    assert pickle.loads(pickle.dumps(overwriting)).existing == ()
    overwriting.validate(SCHEMA)
