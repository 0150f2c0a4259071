# SPDX-License-Identifier: Apache-2.0
"""Tests that readers of manifests see whole epochs."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from file_discovery import Context, restored, started, take_all
from fsspec.implementations.memory import MemoryFileSystem
from reading_files import rows_of
from staged_files import by_month, commit, context, decided, month, rows, stage, staged, visible

from connector_filesystem import (
    BucketAssigner,
    FileCompactStrategy,
    FileSink,
    FileSource,
    KeyedFileSink,
    manifest_files,
    manifests,
)
from connector_filesystem.filesystem import FileLocation
from connector_filesystem.folder_compaction import FolderCompaction
from connector_filesystem.formats import CsvOptions
from connector_filesystem.sink import committer, replacement
from connectors_core.errors import (
    ConfigurationError,
    DataLossError,
    InvalidOptionError,
    RetryableError,
    StateCorruptedError,
)
from connectors_core.sink import CommitterInitContext
from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.testing import (
    COMPACTING_POINTS,
    Fault,
    FaultAction,
    FaultInjected,
    FaultPoint,
    LocalPipeline,
    injected,
)
from connectors_core.testing.servers import S3Server

PAGE = Path(__file__).parents[2] / "docs" / "manifests.md"
SECONDS = 60
EPOCH_ROWS = 10
ROWS = 20 * EPOCH_ROWS


def epoch(sink: FileSink, number: int, count: int = 10) -> list[Any]:
    """Write and commit an epoch, and return its committables."""
    files = stage(sink, [rows(number * 10, count)], context(number))
    commit(sink, files)
    return list(files)


def numbers(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in (folder / "_manifests").iterdir())


def ids_of(folder: Path) -> list[int]:
    return sorted(row["id"] for row in rows_of(FileSource(folder, order="manifest")))


class TestSink:
    def test_each_epoch_creates_a_manifest_of_all_visible_files(self, tmp_path: Path) -> None:
        sink = FileSink(tmp_path, manifests=True)
        for number in (1, 2):
            [file] = epoch(sink, number)
        lines = (tmp_path / "_manifests" / "0000000002.jsonl").read_text().splitlines()
        assert json.loads(lines[1]) == {
            "path": file.final_path,
            "size": file.size,
            "rows": 10,
            "manifest": 2,
        }
        assert manifest_files(tmp_path) == [str(path) for path in visible(tmp_path)]

    def test_the_first_manifest_lists_older_files(self, tmp_path: Path) -> None:
        epoch(FileSink(tmp_path), 1)
        epoch(FileSink(tmp_path, manifests=True), 2)
        found = manifests.newest_manifest(FileLocation(str(tmp_path)))
        assert found is not None
        assert [(each.rows, each.manifest) for each in found.files] == [(None, 1), (10, 1)]

    def test_a_repeated_commit_creates_no_manifest(self, tmp_path: Path) -> None:
        sink = FileSink(tmp_path, manifests=True)
        first = epoch(sink, 1)
        epoch(sink, 2)
        commit(sink, first)
        assert numbers(tmp_path) == [1, 2]

    def test_a_commit_that_stopped_before_its_manifest_is_completed(self, tmp_path: Path) -> None:
        files = epoch(FileSink(tmp_path), 1)
        sink = FileSink(tmp_path, manifests=True)
        commit(sink, files)
        assert [Path(each).name for each in manifest_files(tmp_path)] == [files[0].final_path]

    def test_a_lost_file_is_in_no_manifest(self, tmp_path: Path) -> None:
        sink = FileSink(tmp_path, manifests=True)
        files = stage(sink, [rows(0, 1)])
        (tmp_path / files[0].staged_path).unlink()
        assert commit(sink, files)[0].error is not None
        assert not (tmp_path / "_manifests").exists()

    def test_two_pipelines_that_commit_at_once_both_have_manifests(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sink = FileSink(tmp_path, manifests=True)
        epoch(sink, 1)
        create = manifests.create_file

        def second(*args: Any, **settings: Any) -> bool:
            monkeypatch.setattr(manifests, "create_file", create)
            files = stage(sink, [rows(50, 1)], context(1, pipeline="other"))
            commit(sink, files, pipeline="other")
            return create(*args, **settings)

        monkeypatch.setattr(manifests, "create_file", second)
        epoch(sink, 2)
        assert numbers(tmp_path) == [1, 2, 3]
        assert ids_of(tmp_path) == [*range(10, 30), 50]

    def test_a_manifest_whose_number_is_already_removed_is_created_again_as_the_newest(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sink = FileSink(tmp_path, manifests=True)
        epoch(sink, 1)
        create = manifests.create_file

        def late(*args: Any, **settings: Any) -> bool:
            monkeypatch.setattr(manifests, "create_file", create)
            for number in range(12):
                files = stage(sink, [rows(50 + number, 1)], context(number, pipeline="other"))
                commit(sink, files, pipeline="other")
            return create(*args, **settings)

        monkeypatch.setattr(manifests, "create_file", late)
        epoch(sink, 2)
        assert ids_of(tmp_path) == [*range(10, 30), *range(50, 62)]

    def test_a_late_commit_lists_no_file_that_was_replaced_meanwhile(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sink = FileSink(tmp_path, manifests=True)
        epoch(sink, 1)
        publish = committer.publish

        def late(*args: Any) -> None:
            monkeypatch.setattr(committer, "publish", publish)
            commit(sink, files)  # by the next driver
            overwriting = sink.apply_overwrite({})
            commit(overwriting, decided(overwriting, rows(70, 1)))
            publish(*args)

        files = stage(sink, [rows(20, 10)], context(2))
        monkeypatch.setattr(committer, "publish", late)
        commit(sink, files)
        assert ids_of(tmp_path) == [70]

    def test_the_last_ten_manifests_are_kept(self, tmp_path: Path) -> None:
        sink = FileSink(tmp_path, manifests=True)
        for number in range(12):
            epoch(sink, number, 1)
        assert numbers(tmp_path) == list(range(3, 13))

    def test_without_hard_links_claims_go_with_their_manifests(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "link", refuse_links)
        sink = FileSink(tmp_path, manifests=True)
        for number in range(12):
            epoch(sink, number, 1)
        kept = [f"{number:010d}.jsonl" for number in range(3, 13)]
        found = sorted(path.name for path in (tmp_path / "_manifests").iterdir())
        assert found == sorted([*kept, *(f"{name}.claim" for name in kept)])

    def test_a_claim_of_a_driver_that_was_killed_ends_the_attempts_of_others(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "link", refuse_links)
        sink = FileSink(tmp_path, manifests=True)
        epoch(sink, 1)
        claim = tmp_path / "_manifests" / "0000000002.jsonl.claim"
        claim.mkdir()
        (claim / "digest-of-another-manifest").touch()
        with pytest.raises(RetryableError, match="next manifest"):
            epoch(sink, 2)

    def test_an_overwrite_replaces_the_files_of_the_manifest_before_it_removes_them(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sink = by_month(tmp_path).replaced(manifests=True)
        commit(sink, stage(sink, [rows(0, 6)]))
        replaced = {str(path) for path in visible(tmp_path) if "month=2" in str(path)}
        overwriting = sink.apply_overwrite(month(2))
        files = decided(overwriting, rows(1, 1))
        remove = replacement.ReplacingCommitter._remove
        monkeypatch.setattr(replacement.ReplacingCommitter, "_remove", fail)
        with pytest.raises(FaultInjected):
            commit(overwriting, files)
        after = set(manifest_files(tmp_path))
        assert replaced.isdisjoint(after)
        assert all(map(os.path.exists, after | replaced))
        monkeypatch.setattr(replacement.ReplacingCommitter, "_remove", remove)
        commit(overwriting, files)
        assert set(map(str, visible(tmp_path))) == after
        assert numbers(tmp_path) == [1, 2]

    def test_storage_that_writes_in_place_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delattr(MemoryFileSystem, "pipe_file")
        sink = FileSink("memory://out", manifests=True)
        with pytest.raises(InvalidOptionError, match="cannot keep manifests"):
            sink.create_committer(CommitterInitContext(pipeline_id="p", sink_uid="s"))

    def test_tables_with_a_key_have_no_manifests(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidOptionError, match="keeps its own records"):
            KeyedFileSink(FileSink(tmp_path, manifests=True), ("id",))

    def test_listed_files_are_not_merged_by_the_command(self, tmp_path: Path) -> None:
        sink = FileSink(tmp_path, manifests=True)
        for number in (1, 2):
            epoch(sink, number)
        compaction = FolderCompaction(FileLocation(str(tmp_path)), 1 << 20, CsvOptions())
        with pytest.raises(ConfigurationError, match="_manifests"):
            compaction.groups()


def refuse_links(*_: Any) -> None:
    raise PermissionError(errno.EPERM, "no hard links")


def fail(*_: Any) -> None:
    raise FaultInjected("stop")


# --- Compaction -----------------------------------------------------------------------------------


def values_of(paths: Iterable[str | Path]) -> list[int]:
    lines = [line for path in paths for line in Path(path).read_text().splitlines()]
    return sorted(json.loads(line)["value"] for line in lines)


class Setup:
    """A pipeline of numbers into two folders of different sizes, a whole epoch at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.out = root / "out"
        self.seen: list[set[str]] = []
        plain = FileSink(
            str(self.out),
            format="json",
            manifests=True,
            bucket_assigner=BucketAssigner.of(
                lambda batch: pa.array([f"b={n % 5 == 0}" for n in batch["value"].to_pylist()])
            ),
        )
        # One folder reaches the size before its files have waited for long enough.
        self.sink = plain.enable_compact(FileCompactStrategy(epochs=4, file_size=250))

    def run(self, *faults: Fault) -> None:
        pipeline = LocalPipeline("p", checkpoint_location=str(self.root / "state"), parallelism=2)
        source = NumberSequenceSource(0, ROWS - 1, split_rows=ROWS)
        values = pipeline.from_source(source, uid="n", limits=ReadLimits(rows=EPOCH_ROWS))
        pipeline.sink_to(values, self.sink, uid="out")
        with injected(*faults), pipeline:
            pipeline.start()
            while not pipeline.await_termination(0.001):
                self.look()
        self.look()

    def look(self) -> None:
        """Read the newest manifest, and check that it has whole epochs."""
        if not (self.out / "_manifests").exists():
            return
        with contextlib.suppress(ConfigurationError):  # the folder is still empty
            files = set(manifest_files(self.out))
            self.seen.append(files)
            found = values_of(files)
            assert found == list(range(len(found)))
            assert len(found) % EPOCH_ROWS == 0

    def assert_complete(self) -> None:
        self.look()
        assert self.seen[-1] == set(map(str, visible(self.out)))
        assert values_of(self.seen[-1]) == list(range(ROWS))
        assert staged(self.out) == []
        assert all(map(os.path.exists, set().union(*self.seen)))  # old manifests stay valid


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


class TestCompaction:
    def test_manifests_list_whole_epochs_whose_files_never_vanish(self, setup: Setup) -> None:
        setup.run()
        setup.assert_complete()
        assert 4 <= len(numbers(setup.out)) < 20  # several epochs at a time
        assert len(visible(setup.out)) < 30

    @pytest.mark.parametrize("nth", [1, 3])
    @pytest.mark.parametrize("point", COMPACTING_POINTS)
    def test_a_crash_at_any_step_shows_no_part_of_an_epoch(
        self, setup: Setup, point: FaultPoint, nth: int
    ) -> None:
        fault = Fault(point, action=FaultAction.RAISE, once=setup.root / "failed", nth=nth)
        with contextlib.suppress(FaultInjected):  # a task that fails is retried
            setup.run(fault)
        assert fault.fired
        setup.look()
        setup.run()
        setup.assert_complete()

    def test_manifests_can_be_enabled_while_files_are_held(self, setup: Setup) -> None:
        with_manifests = setup.sink
        setup.sink = setup.sink.replaced(manifests=False)
        fault = Fault(FaultPoint.BEFORE_DECISION, action=FaultAction.RAISE, where={"epoch": 6})
        with pytest.raises(FaultInjected):
            setup.run(fault)
        assert visible(setup.out)
        setup.sink = with_manifests
        setup.run()
        setup.assert_complete()

    def test_a_source_reads_each_row_once(self, setup: Setup) -> None:
        setup.run()
        target = FileSink(setup.root / "copy", format="json")
        pipeline = LocalPipeline("copy", checkpoint_location=str(setup.root / "copied"))
        source = FileSource(setup.out, schema="value BIGINT", order="manifest")
        pipeline.sink_to(pipeline.from_source(source, uid="files"), target, uid="copy")
        with pipeline:
            assert pipeline.run(timeout=SECONDS)
        assert values_of(visible(setup.root / "copy")) == list(range(ROWS))


# --- Readers --------------------------------------------------------------------------------------


def followed(folder: Path) -> FileSource:
    interval = timedelta(seconds=1)
    return FileSource(folder, order="manifest", schema="id BIGINT", monitor_interval=interval)


class TestSource:
    def test_it_reads_only_listed_files(self, tmp_path: Path) -> None:
        epoch(FileSink(tmp_path, manifests=True), 1)
        epoch(FileSink(tmp_path), 2)
        assert ids_of(tmp_path) == list(range(10, 20))
        context = Context()
        take_all(started(followed(tmp_path), context), context)
        assert context.metric_group.gauges["leftOutFiles.unlisted"] == 1

    def test_it_reads_epochs_in_order_and_each_file_once(self, tmp_path: Path) -> None:
        sink, now = FileSink(tmp_path, manifests=True), Context()
        enumerator = started(followed(tmp_path), now)
        assert take_all(enumerator, now) == []
        names = [Path(each.final_path).name for n in (1, 2) for each in epoch(sink, n)]
        os.utime(tmp_path / names[0], (2e9, 2e9))  # times and names play no role
        now.run_calls()
        now.run_calls()
        take_all(enumerator, now)
        assert now.names == names
        later = Context()
        again = restored(followed(tmp_path), enumerator, later)
        names = [Path(each.final_path).name for n in (9, 3) for each in epoch(sink, n)]
        later.run_calls()
        assert take_all(again, later) == names

    def test_files_that_are_replaced_meanwhile_are_read_from_the_newer_manifest(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sink = FileSink(tmp_path, manifests=True)
        epoch(sink, 1)
        source = FileSource(tmp_path, order="manifest")
        listing = type(source._selection)._listing

        def replaced_first(*args: Any) -> Any:
            monkeypatch.setattr(type(source._selection), "_listing", listing)
            overwriting = sink.apply_overwrite({})
            commit(overwriting, decided(overwriting, rows(70, 1)))
            return listing(*args)

        monkeypatch.setattr(type(source._selection), "_listing", replaced_first)
        assert [row["id"] for row in rows_of(source)] == [70]

    def test_a_listed_file_that_is_gone_is_data_loss(self, tmp_path: Path) -> None:
        [file] = epoch(FileSink(tmp_path, manifests=True), 1)
        (tmp_path / file.final_path).unlink()
        with pytest.raises(DataLossError, match="the newest manifest"):
            ids_of(tmp_path)

    def test_a_folder_without_manifests_is_refused_unless_it_is_monitored(
        self, tmp_path: Path
    ) -> None:
        epoch(FileSink(tmp_path), 1)
        with pytest.raises(ConfigurationError, match="has no manifest"):
            ids_of(tmp_path)
        with pytest.raises(ConfigurationError, match="has no manifest"):
            manifest_files(tmp_path)
        context = Context()
        assert take_all(started(followed(tmp_path), context), context) == []

    def test_manifests_that_start_over_are_refused(self, tmp_path: Path) -> None:
        sink, now = FileSink(tmp_path, manifests=True), Context()
        for number in (1, 2):
            epoch(sink, number)
        enumerator = started(followed(tmp_path), now)
        for path in (tmp_path / "_manifests").iterdir():
            path.unlink()
        epoch(sink, 3)
        later = Context()
        restored(followed(tmp_path), enumerator, later)
        with pytest.raises(DataLossError, match="start over"):
            later.run_calls()

    def test_files_that_were_read_in_another_order_stay_read(self, tmp_path: Path) -> None:
        sink, now, later = FileSink(tmp_path, manifests=True), Context(), Context()
        epoch(sink, 1)
        enumerator = started(followed(tmp_path).replaced(order="any"), now)
        assert len(take_all(enumerator, now)) == 1
        again = restored(followed(tmp_path), enumerator, later)
        [file] = epoch(sink, 2)
        later.run_calls()
        assert take_all(again, later) == [file.final_path]

    def test_another_order_cannot_continue(self, tmp_path: Path) -> None:
        epoch(FileSink(tmp_path, manifests=True), 1)
        now, later = Context(), Context()
        enumerator = started(followed(tmp_path), now)
        take_all(enumerator, now)
        restored(followed(tmp_path).replaced(order="any"), enumerator, later)
        with pytest.raises(ConfigurationError, match="cannot change to another order"):
            later.run_calls()

    def test_patterns_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidOptionError, match="manifests of a folder"):
            FileSource(f"{tmp_path}/*", order="manifest")

    def test_a_damaged_manifest_is_refused(self, tmp_path: Path) -> None:
        epoch(FileSink(tmp_path, manifests=True), 1)
        (tmp_path / "_manifests" / "0000000002.jsonl").write_text('{"path": 1}\n')
        with pytest.raises(StateCorruptedError, match="cannot be read"):
            ids_of(tmp_path)

    def test_a_manifest_leads_to_no_file_outside(self, tmp_path: Path) -> None:
        epoch(FileSink(tmp_path / "out", manifests=True), 1)
        line = {"path": "../secret.parquet", "size": 1, "rows": 1, "manifest": 2}
        (tmp_path / "out" / "_manifests" / "0000000002.jsonl").write_text(json.dumps(line))
        with pytest.raises(InvalidOptionError, match="leads out"):
            manifest_files(tmp_path / "out")
        with pytest.raises(DataLossError):
            ids_of(tmp_path / "out")


def test_duckdb_and_polars_read_as_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sink = by_month(Path("data/archive")).replaced(manifests=True)
    commit(sink, stage(sink, [rows(0, 10)]))
    commit(sink.replaced(manifests=False), stage(sink, [rows(10, 10)], context(2)))
    code = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    with contextlib.closing(duckdb.connect()) as database:
        database.execute(code)
        assert database.fetchall() == [(10,)]
    assert polars.read_parquet(manifest_files("data/archive")).height == 10


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server(buckets=["lake"]) as server:
        yield server


def test_manifests_on_an_object_store(server: S3Server, tmp_path: Path) -> None:
    options = server.storage_options()
    url = f"s3://lake/{tmp_path.name}"
    sink = FileSink(url, manifests=True, storage_options=options)
    first = epoch(sink, 1)
    epoch(sink, 2)
    commit(sink, first)
    found = manifest_files(url, options)
    assert found[0] == f"{url}/{first[0].final_path}"
    assert len(found) == 2
    source = FileSource(url, order="manifest", storage_options=options)
    assert sorted(row["id"] for row in rows_of(source)) == list(range(10, 30))
