# SPDX-License-Identifier: Apache-2.0
"""Tests that small files are merged before they become visible."""

from __future__ import annotations

import contextlib
import gzip
import os
import pickle
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import s3fs
from hypothesis import given
from hypothesis import strategies as st
from staged_files import (
    SCHEMA,
    commit,
    committer_of,
    context,
    ids,
    read_file,
    rows,
    stage,
    staged,
    visible,
)

from connector_filesystem import (
    BucketAssigner,
    Compression,
    ConcatFileCompactor,
    CsvOptions,
    FileCommittable,
    FileCompactor,
    FileCompactStrategy,
    FileFormat,
    FileSink,
    FileSource,
    IdenticalFileCompactor,
    ParquetOptions,
    RecordWiseFileCompactor,
    RollingPolicy,
)
from connector_filesystem.sink.compact_strategy import FileCompactCoordinator
from connectors_core.errors import (
    ConfigurationError,
    DataLossError,
    FatalError,
    InvalidOptionError,
)
from connectors_core.sink import CompactContext, HeldCommittable
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

ROWS = 100
SECONDS = 60
STRATEGY = FileCompactStrategy(epochs=4)


def merge(sink: FileSink, committables: Sequence[FileCommittable]) -> list[FileCommittable]:
    compaction = sink.create_compaction()
    assert compaction is not None
    compactor = pickle.loads(pickle.dumps(compaction.compactor))
    own = CompactContext(
        pipeline_id="flights",
        sink_uid="archive",
        request_id="0000000003-00000",
        attempt_number=0,
        nonce=uuid.uuid4().hex,
    )
    return list(compactor.compact(committables, own))


def three_files(sink: FileSink, **settings: Any) -> list[FileCommittable]:
    return [
        each
        for epoch in range(3)
        for each in stage(sink, [rows(epoch * 10, 10)], context(epoch, **settings))
    ]


LAYOUTS = [
    {"format": "parquet"},
    {"format": "csv"},
    {"format": "csv", "compression": "gzip"},
    {"format": "csv", "csv": CsvOptions(header=False)},
    {"format": "json"},
    {"format": "json", "compression": "gzip"},
    {"format": "json", "compression": "zstd"},
]


class TestCompactors:
    @pytest.mark.parametrize("layout", LAYOUTS, ids=str)
    @pytest.mark.parametrize(
        "chosen", [None, RecordWiseFileCompactor()], ids=["default", "records"]
    )
    def test_files_of_every_format_become_one_with_all_rows_in_order(
        self, tmp_path: Path, layout: dict[str, Any], chosen: FileCompactor | None
    ) -> None:
        sink = FileSink(str(tmp_path), **layout).enable_compact(STRATEGY, chosen)
        files = three_files(sink)
        [merged] = merge(sink, files)
        assert merged.rows == 30
        assert merged.final_path.startswith(files[0].final_path.removesuffix(sink.suffix))
        assert visible(tmp_path) == []
        assert len(staged(tmp_path)) == 4  # the originals stay
        commit(sink, [merged])
        [file] = visible(tmp_path)
        if layout.get("csv"):
            assert file.read_text().count("\n") == 30
        else:
            source = FileSource(str(tmp_path), format=layout["format"], schema=SCHEMA)
            assert read_by(source)["id"].to_pylist() == list(range(30))

    def test_values_of_text_keep_their_spelling(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path), format="csv").enable_compact()
        files = three_files(sink)
        lines = [
            line
            for each in files
            for line in (tmp_path / each.staged_path).read_text().splitlines()[1:]
        ]
        [merged] = merge(sink, files)
        header, *merged_lines = (tmp_path / merged.staged_path).read_text().splitlines()
        assert header.startswith('"id","origin"')
        assert merged_lines == lines

    def test_another_schema_or_header_begins_a_new_file(self, tmp_path: Path) -> None:
        for layout in ("parquet", "csv"):
            sink = FileSink(str(tmp_path / layout), format=layout).enable_compact()
            narrow = rows(0, 5).select(["id", "month"])
            files = [
                *stage(sink, [rows(0, 5)], context(0)),
                *stage(sink, [rows(5, 5)], context(1)),
                *stage(sink, [narrow], context(2, schema=narrow.schema)),
            ]
            merged = merge(sink, files)
            assert [each.rows for each in merged] == [10, 5]
            assert len({each.final_path for each in merged}) == 2

    def test_parquet_gets_row_groups_of_the_size_of_the_sink(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path), parquet=ParquetOptions(row_group_rows=12)).enable_compact()
        [merged] = merge(sink, three_files(sink))
        file = pq.ParquetFile(tmp_path / merged.staged_path)
        counts = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
        assert sum(counts) == 30
        assert max(counts) <= 12

    def test_headers_with_line_breaks_are_one_record(self, tmp_path: Path) -> None:
        csv = CsvOptions(newlines_in_values=True)
        sink = FileSink(str(tmp_path), format="csv", csv=csv).enable_compact()
        batch = pa.record_batch({'a\n"b"': pa.array([1, 2])})
        files = [
            each
            for epoch in range(2)
            for each in stage(sink, [batch], context(epoch, schema=batch.schema))
        ]
        [merged] = merge(sink, files)
        text = (tmp_path / merged.staged_path).read_text()
        assert text == '"a\n""b"""\n1\n2\n1\n2\n'

    @pytest.mark.parametrize(
        ("layout", "reason"),
        [({"format": "parquet"}, "footer"), ({"format": "csv"}, "header")],
    )
    def test_files_that_cannot_be_joined_are_refused_with_the_reason(
        self, tmp_path: Path, layout: dict[str, Any], reason: str
    ) -> None:
        with pytest.raises(InvalidOptionError, match=reason) as raised:
            FileSink(str(tmp_path), **layout).enable_compact(compactor=ConcatFileCompactor())
        assert "RecordWiseFileCompactor" in str(raised.value)

    @pytest.mark.parametrize("layout", [{"format": "parquet"}, {"format": "json"}], ids=str)
    def test_a_missing_or_cut_original_is_data_loss(
        self, tmp_path: Path, layout: dict[str, Any]
    ) -> None:
        sink = FileSink(str(tmp_path), **layout).enable_compact()
        files = three_files(sink)
        os.truncate(tmp_path / files[1].staged_path, files[1].size - 1)
        with pytest.raises(DataLossError, match="gone or incomplete"):
            merge(sink, files)
        (tmp_path / files[1].staged_path).unlink()
        with pytest.raises(DataLossError, match=r"disable_compact\(\)"):
            merge(sink, files)

    @pytest.mark.parametrize(
        "layout",
        [
            {"format": "parquet"},
            {"format": "csv", "compression": "gzip", "csv": CsvOptions(header=True)},
        ],
        ids=["parquet", "csv"],
    )
    def test_a_damaged_original_is_no_temporary_failure_and_can_be_committed_as_it_is(
        self, tmp_path: Path, layout: dict[str, Any]
    ) -> None:
        sink = FileSink(str(tmp_path), **layout).enable_compact()
        files = three_files(sink)
        damaged = tmp_path / files[1].staged_path
        damaged.write_bytes(damaged.read_bytes()[:20] + b"\xff" * (files[1].size - 20))
        with pytest.raises(FatalError, match="damaged") as caught:
            merge(sink, files)
        assert caught.value.code == "FILE_DAMAGED"
        assert "disable_compact()" in str(caught.value.hint)
        commit(sink.disable_compact(), files)
        assert len(visible(tmp_path)) == 3

    def test_rows_that_are_missing_in_a_file_are_data_loss(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path)).enable_compact()
        files = three_files(sink)
        wrong = FileCommittable(
            staged_path=files[1].staged_path,
            final_path=files[1].final_path,
            rows=11,
            size=files[1].size,
        )
        with pytest.raises(DataLossError, match="other rows"):
            merge(sink, [files[0], wrong])


class TestSweeping:
    def test_a_sweep_spares_what_is_held(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path), rolling_policy=RollingPolicy(max_rows=10)).enable_compact()
        kept, released = stage(sink, [rows(0, 20)])
        stage(sink, [rows(20, 5)])  # an attempt that lost
        committer = committer_of(sink)
        committer.sweep_others(1, [kept])
        assert [tmp_path / kept.staged_path] == staged(tmp_path)
        assert released.staged_path != kept.staged_path
        committer.sweep_others(1, [kept])
        committer.sweep(1)
        assert staged(tmp_path) == []

    def test_the_files_of_a_request_are_removed_together(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path)).enable_compact()
        files = three_files(sink)
        merge(sink, files)
        committer_of(sink).sweep_request("0000000003-00000")
        assert len(staged(tmp_path)) == 3


def held(*sizes: int, folder: str = "", suffix: str = ".parquet") -> list[Any]:
    return [
        HeldCommittable(
            committable=FileCommittable(
                staged_path=f"_staging/{epoch}",
                final_path=f"{folder}/{epoch}{suffix}".lstrip("/"),
                rows=1,
                size=size,
            ),
            checkpoint_id=epoch,
            number=0,
        )
        for epoch, size in enumerate(sizes)
    ]


class TestCoordinator:
    def groups(
        self, files: list[Any], epoch: int = 0, *, everything: bool = False, **settings: Any
    ) -> list[list[int]]:
        coordinator = FileCompactCoordinator(
            strategy=FileCompactStrategy(file_size=100, epochs=5), suffix=".parquet", **settings
        )
        found = coordinator.requests(files, epoch, everything=everything)
        return [[each.checkpoint_id for each in request.held] for request in found]

    def test_files_are_merged_when_they_reach_the_size(self) -> None:
        assert self.groups(held(40, 40, 30, 20)) == [[0, 1, 2]]
        assert self.groups(held(40, 40)) == []

    def test_files_are_merged_when_the_oldest_has_waited(self) -> None:
        assert self.groups(held(40, 40), 3) == []
        assert self.groups(held(40, 40), 4) == [[0, 1]]

    def test_every_file_is_merged_if_all_are_asked_for(self) -> None:
        assert self.groups(held(40), everything=True) == [[0]]

    def test_a_large_file_stays_as_it_is_and_keeps_its_place(self) -> None:
        assert self.groups(held(40, 30, 100, 20)) == [[0, 1], [2]]

    def test_folders_are_apart(self) -> None:
        files = held(60, 60, folder="a") + held(60, folder="b")
        assert self.groups(files) == [[0, 1]]

    def test_files_of_another_format_stay_as_they_are(self) -> None:
        assert self.groups(held(60, 60, suffix=".csv")) == [[0], [1]]

    def test_files_that_are_only_held_back_stay_apart(self) -> None:
        assert self.groups(held(10, 10), merges=False) == [[0], [1]]

    @given(st.lists(st.integers(1, 150), max_size=30), st.integers(0, 40), st.booleans())
    def test_order_is_kept_and_no_file_is_in_two_groups(
        self, sizes: list[int], epoch: int, everything: bool
    ) -> None:
        groups = self.groups(held(*sizes), epoch, everything=everything)
        named = [each for group in groups for each in group]
        assert named == list(range(len(named)))
        if everything:
            assert len(named) == len(sizes)


def read_by(source: FileSource) -> pa.Table:
    from connector_filesystem.source.reader import read_split

    found = source._selection.files(may_be_missing=False)
    splits = [split for file in found for split in source._selection.splits_of(file)]
    chunks = [
        chunk.batch
        for split in splits
        for chunk in read_split(source.read_settings(), split)
        if chunk.batch
    ]
    return pa.Table.from_batches(chunks)


# --- In pipelines ---------------------------------------------------------------------------------


class Setup:
    """A pipeline of numbers into files, 5 rows per epoch."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.out = root / "out"
        self.plain = FileSink(
            str(self.out),
            format="json",
            bucket_assigner=BucketAssigner.of(
                lambda batch: pa.array([f"b={n % 2}" for n in batch["value"].to_pylist()])
            ),
        )
        self.sink = self.plain.enable_compact(STRATEGY)

    def run(self, sink: FileSink | None = None, *faults: Fault) -> Any:
        pipeline = LocalPipeline("p", checkpoint_location=str(self.root / "state"), parallelism=2)
        source = NumberSequenceSource(0, ROWS - 1, split_rows=25, batch_rows=5)
        numbers = pipeline.from_source(source, uid="numbers", limits=ReadLimits(rows=5))
        pipeline.sink_to(numbers, sink or self.sink, uid="out")
        with injected(*faults), pipeline:
            assert pipeline.run(timeout=SECONDS)
        return pipeline.status().queries[0].sinks[0]

    def values(self) -> list[int]:
        """Read all files as a reader does that ignores hidden folders."""
        schema = pa.schema([("value", pa.int64())])
        tables = [read_file(path, schema) for path in self.out.glob("b=*/*")]
        return sorted(value for table in tables for value in table["value"].to_pylist())

    def assert_complete(self) -> None:
        assert self.values() == list(range(ROWS))
        assert staged(self.out) == []
        for path in visible(self.out):
            values = read_file(path, pa.schema([("value", pa.int64())]))["value"].to_pylist()
            assert len({value % 2 for value in values}) == 1


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


class TestPipelines:
    def test_epochs_leave_few_files(self, setup: Setup) -> None:
        status = setup.run()
        setup.assert_complete()
        assert status.counters["numFilesCompacted"] > 3 * len(visible(setup.out))
        assert status.gauges["heldCommittables"] == 0

    @pytest.mark.parametrize("nth", [1, 3])
    @pytest.mark.parametrize("point", COMPACTING_POINTS)
    def test_every_file_is_exactly_once_after_a_crash_at_any_step(
        self, setup: Setup, point: FaultPoint, nth: int
    ) -> None:
        fault = Fault(point, action=FaultAction.RAISE, once=setup.root / "failed", nth=nth)
        with contextlib.suppress(FaultInjected):  # a task that fails is retried
            setup.run(None, fault)
        assert fault.fired
        found = setup.values()
        assert len(set(found)) == len(found)
        setup.run()
        setup.assert_complete()

    def test_a_reader_never_sees_a_row_twice_or_a_row_vanish(self, setup: Setup) -> None:
        pipeline = LocalPipeline("p", checkpoint_location=str(setup.root / "state"), parallelism=2)
        source = NumberSequenceSource(0, ROWS - 1, split_rows=25, batch_rows=5)
        numbers = pipeline.from_source(source, uid="numbers", limits=ReadLimits(rows=5))
        pipeline.sink_to(numbers, setup.sink, uid="out")
        seen: set[int] = set()
        with pipeline:
            pipeline.start()
            ended = False
            while not ended:
                ended = pipeline.await_termination(0.001)
                counts = Counter(setup.values())
                assert not counts or max(counts.values()) == 1
                assert seen <= counts.keys()
                seen = set(counts)
        assert seen == set(range(ROWS))

    def test_files_are_hidden_until_they_are_merged(self, setup: Setup) -> None:
        fault = Fault(FaultPoint.BEFORE_DECISION, action=FaultAction.RAISE, where={"epoch": 3})
        with pytest.raises(Exception, match="fault injected"):
            setup.run(None, fault)
        assert visible(setup.out) == []
        assert staged(setup.out)

    def test_a_sink_that_merely_omits_compaction_is_refused(self, setup: Setup) -> None:
        fault = Fault(FaultPoint.BEFORE_DECISION, action=FaultAction.RAISE, where={"epoch": 3})
        with pytest.raises(Exception, match="fault injected"):
            setup.run(None, fault)
        with pytest.raises(ConfigurationError, match="cannot hold committables") as raised:
            setup.run(setup.plain)
        assert "disable_compact()" in str(raised.value)
        setup.run(setup.sink.disable_compact())
        setup.assert_complete()
        setup.run(setup.plain)  # nothing is held any more

    def test_compaction_can_be_enabled_on_an_existing_checkpoint(self, setup: Setup) -> None:
        fault = Fault(FaultPoint.BEFORE_DECISION, action=FaultAction.RAISE, where={"epoch": 5})
        with pytest.raises(Exception, match="fault injected"):
            setup.run(setup.plain, fault)
        before = visible(setup.out)
        assert before
        setup.run()
        setup.assert_complete()
        assert set(before) < set(visible(setup.out))

    @pytest.mark.parametrize(
        ("point", "where"),
        [(FaultPoint.BEFORE_DECISION, {"epoch": 3}), (FaultPoint.BEFORE_COMPACTION, {})],
        ids=["waiting", "requested"],
    )
    def test_another_compression_leaves_held_files_as_they_are(
        self, setup: Setup, point: FaultPoint, where: dict[str, int]
    ) -> None:
        fault = Fault(point, action=FaultAction.RAISE, where=where)
        with pytest.raises(Exception, match="fault injected"):
            setup.run(None, fault)
        setup.run(setup.sink.replaced(compression="gzip"))
        suffixes = Counter(path.suffix for path in visible(setup.out))
        assert set(suffixes) == {".jsonl", ".gz"}
        setup.assert_complete()


class TestSettings:
    def test_options_create_the_same_sink(self, tmp_path: Path) -> None:
        strategy = FileCompactStrategy(
            file_size=1 << 20,
            epochs=3,
            max_wait=timedelta(minutes=1),
            parallelism=2,
            max_backlog=7,
        )
        made = FileSink.from_options(
            {
                "path": str(tmp_path),
                "auto-compaction": "true",
                "compaction.file-size": "1mb",
                "compaction.epochs": "3",
                "compaction.max-wait": "1 min",
                "compaction.parallelism": "2",
                "compaction.max-backlog": "7",
            }
        )
        assert made == FileSink(str(tmp_path)).enable_compact(strategy)
        off = FileSink.from_options({"path": str(tmp_path), "auto-compaction": "false"})
        assert off == FileSink(str(tmp_path)).disable_compact()

    def test_an_option_without_effect_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidOptionError, match="no effect"):
            FileSink.from_options({"path": str(tmp_path), "compaction.file-size": "1mb"})

    def test_sinks_are_immutable(self, tmp_path: Path) -> None:
        sink = FileSink(str(tmp_path))
        assert sink.enable_compact() != sink
        assert sink.create_compaction() is None
        assert pickle.loads(pickle.dumps(sink.enable_compact())) == sink.enable_compact()

    def test_a_compactor_can_only_hold_files_back(self, tmp_path: Path) -> None:
        setup = Setup(tmp_path)
        setup.run(setup.plain.enable_compact(STRATEGY, IdenticalFileCompactor()))
        setup.assert_complete()


# --- On an object store ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server(buckets=["lake"]) as server:
        yield server


def test_files_are_merged_once_on_an_object_store(server: S3Server, tmp_path: Path) -> None:
    options = server.storage_options()
    url = f"s3://lake/{tmp_path.name}"
    sink = FileSink(f"{url}/out", storage_options=options).enable_compact(STRATEGY)
    faults = [
        Fault(point, action=FaultAction.RAISE, once=tmp_path / point, nth=2)
        for point in COMPACTING_POINTS
    ]
    for _ in range(len(faults) + 1):
        pipeline = LocalPipeline(
            "lake", checkpoint_location=f"{url}/state", storage_options=options, parallelism=1
        )
        source = NumberSequenceSource(0, 59, split_rows=60)
        numbers = pipeline.from_source(source, uid="numbers", limits=ReadLimits(rows=5))
        pipeline.sink_to(numbers, sink, uid="out")
        with contextlib.suppress(Exception), injected(*faults), pipeline:
            assert pipeline.run(timeout=SECONDS)
            break
    assert all(fault.fired for fault in faults)
    revealed = {**options, "secret": options["secret"].reveal()}
    fs = s3fs.S3FileSystem(**revealed, use_listings_cache=False)
    assert not [name for name in fs.find(f"{url}/out") if "_staging" in name]
    names = sorted(fs.glob(f"{url}/out/*.parquet"))
    values = [pq.read_table(name, filesystem=fs)["value"].to_pylist() for name in names]
    assert [value for each in values for value in each] == list(range(60))
    assert len(values) < 6


def test_compressed_files_that_were_joined_are_read_by_other_tools(tmp_path: Path) -> None:
    sink = FileSink(
        str(tmp_path), format=FileFormat.JSON, compression=Compression.GZIP
    ).enable_compact()
    [merged] = merge(sink, three_files(sink))
    lines = gzip.decompress((tmp_path / merged.staged_path).read_bytes()).splitlines()
    assert len(lines) == 30


def test_all_rows_are_read_back(tmp_path: Path) -> None:
    sink = FileSink(str(tmp_path)).enable_compact()
    commit(sink, merge(sink, three_files(sink)))
    assert ids(tmp_path) == list(range(30))


@pytest.mark.parametrize(
    ("writers", "epochs"),
    [(8, 12), pytest.param(64, 200, marks=pytest.mark.slow)],
)
def test_many_writers_and_epochs_end_with_files_of_the_target_size(
    tmp_path: Path, writers: int, epochs: int
) -> None:
    per_file = 20
    total = writers * epochs * per_file
    target = 16_384
    strategy = FileCompactStrategy(file_size=target, epochs=epochs, parallelism=2)
    sink = FileSink(str(tmp_path / "out"), format="json").enable_compact(strategy)
    pipeline = LocalPipeline(
        "many", checkpoint_location=str(tmp_path / "state"), parallelism=writers
    )
    source = NumberSequenceSource(0, total - 1, split_rows=total // writers)
    limits = ReadLimits(rows=writers * per_file)
    pipeline.sink_to(pipeline.from_source(source, uid="n", limits=limits), sink, uid="out")
    with pipeline:
        assert pipeline.run(timeout=30 * SECONDS)
    (status,) = pipeline.status().queries[0].sinks
    small = status.counters["numFilesCompacted"]
    files = visible(tmp_path / "out")
    sizes = sorted(path.stat().st_size for path in files)
    assert small == writers * epochs
    assert all(target <= size < target + 1024 for size in sizes[1:])  # the last may be smaller
    values = [
        value
        for path in files
        for value in read_file(path, pa.schema([("value", pa.int64())]))["value"].to_pylist()
    ]
    assert sorted(values) == list(range(total))
