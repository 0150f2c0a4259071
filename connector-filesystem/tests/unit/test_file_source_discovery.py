# SPDX-License-Identifier: Apache-2.0
"""Every complete file is found once, whatever its name and time, and little is remembered."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.local import LocalFileSystem

from connector_filesystem import FileOrder, FileSource, PathTime
from connector_filesystem.filesystem import FileLocation, FileStatus
from connector_filesystem.source.enumerator import FileEnumerator, FileEnumeratorState
from connectors_core.errors import (
    ConfigurationError,
    FatalError,
    InvalidOptionError,
    RetryableError,
)
from connectors_core.metrics import MetricGroup


class Context:
    """A coordinator whose worker threads run when a test says so."""

    def __init__(self, readers=(0,), event_time_order=False):
        self.registered_readers = frozenset(readers)
        self.current_parallelism = len(readers)
        self.event_time_order = event_time_order
        self.metric_group = MetricGroup()
        self.assigned = []
        self.ended = []
        self.calls = []

    def call_async(self, call, handler, *, initial_delay=timedelta(0), period=None):
        self.calls.append((call, handler, period))

    def run_calls(self):
        pending, self.calls = self.calls, [each for each in self.calls if each[2] is not None]
        for call, handler, _ in pending:
            try:
                result = call()
            except Exception as exc:
                handler(None, exc)
            else:
                handler(result, None)

    def assign_split(self, split, subtask_id):
        self.assigned.append((subtask_id, split))

    def signal_no_more_splits(self, subtask_id):
        self.ended.append(subtask_id)

    @property
    def names(self):
        return [split.path.rpartition("/")[2] for _, split in self.assigned]


def write(path, mtime, content="x\n1\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.utime(path, (mtime, mtime))


def files(source):
    return [
        source._selection.relative(file.path)
        for file in source._selection.files(may_be_missing=False)
    ]


def take_all(enumerator, context, reader=0):
    """Ask until there is nothing; returns the names that were assigned by it."""
    before = len(context.assigned)
    while True:
        count = len(context.assigned)
        enumerator.handle_split_request(reader)
        if len(context.assigned) == count:
            return context.names[before:]


def monitored(path, **options):
    return FileSource(path, schema="x INT", monitor_interval=timedelta(seconds=1), **options)


def restored(source, enumerator, context):
    serializer = source.enumerator_state_serializer()
    data = serializer.serialize(enumerator.snapshot_state(1))
    again = source.restore_enumerator(context, serializer.deserialize(serializer.version, data))
    again.start()
    return again


# --- Which files ---------------------------------------------------------------------------------


def test_folders_patterns_and_several_paths(tmp_path):
    for name in ("a.csv", "sub/b.csv", "sub/deep/c.csv", "d.json"):
        write(tmp_path / name, 100)
    assert files(FileSource(tmp_path)) == ["a.csv", "d.json", "sub/b.csv", "sub/deep/c.csv"]
    assert files(FileSource(f"{tmp_path}/*.csv")) == ["a.csv"]
    assert files(FileSource(f"{tmp_path}/**/*.csv")) == ["a.csv", "sub/b.csv", "sub/deep/c.csv"]
    assert files(FileSource(f"{tmp_path}/s*")) == ["sub/b.csv", "sub/deep/c.csv"]
    assert files(FileSource([tmp_path / "a.csv", tmp_path / "sub"])) == [
        "a.csv",
        "b.csv",
        "deep/c.csv",
    ]
    assert files(FileSource(tmp_path, path_regex=r"sub/.*\.csv")) == ["sub/b.csv", "sub/deep/c.csv"]


def test_hidden_temporary_and_empty_files_are_left_out(tmp_path):
    for name in (
        "a.csv",
        ".b.csv",
        "_SUCCESS",
        "_staging/c.csv",
        ".x/d.csv",
        "e.csv.tmp",
        "f.csv._COPYING_",
        "g~",
        "_k=1/h.csv",
    ):
        write(tmp_path / name, 100)
    write(tmp_path / "empty.parquet", 100, "")
    assert files(FileSource(tmp_path)) == ["_k=1/h.csv", "a.csv"]
    write(tmp_path / "_named.csv", 100)
    assert files(FileSource(tmp_path / "_named.csv")) == ["_named.csv"]


def test_the_memory_filesystem():
    fs = fsspec.filesystem("memory")
    fs.pipe({"/found/a/x.csv": b"x\n1\n", "/found/b.csv": b"x\n2\n", "/found/_c.csv": b"x\n"})
    assert files(FileSource("memory://found")) == ["a/x.csv", "b.csv"]
    assert files(FileSource("memory://found/*/*.csv")) == ["a/x.csv"]


def test_a_path_that_does_not_exist(tmp_path):
    context = Context()
    FileSource(tmp_path / "no", schema="x INT").create_enumerator(context).start()
    with pytest.raises(ConfigurationError, match="no file or folder"):
        context.run_calls()
    context = Context()
    enumerator = monitored(tmp_path / "later").create_enumerator(context)
    enumerator.start()
    context.run_calls()
    write(tmp_path / "later" / "a.csv", 100)
    context.run_calls()
    assert take_all(enumerator, context) == ["a.csv"]


def test_a_file_of_unknown_format(tmp_path):
    write(tmp_path / "a.dat", 100)
    context = Context()
    FileSource(tmp_path, schema="x INT").create_enumerator(context).start()
    with pytest.raises(ConfigurationError, match=r"a\.dat is not known"):
        context.run_calls()


def test_a_path_without_its_partition_column(tmp_path):
    write(tmp_path / "month=x" / "a.csv", 100)
    for name in ("day", "month"):
        source = FileSource(tmp_path, schema="x INT", partition_columns={name: pa.int32()})
        context = Context()
        source.create_enumerator(context).start()
        with pytest.raises(FatalError, match=name):
            context.run_calls()


# --- Bounded -------------------------------------------------------------------------------------


def test_a_bounded_source_gives_out_the_largest_first_and_ends(tmp_path):
    for name, rows in (("a", 1), ("b", 30), ("c", 10)):
        write(tmp_path / f"{name}.csv", 100, "x\n" + "1\n" * rows)
    context = Context(readers=(0, 1))
    source = FileSource(tmp_path, schema="x INT")
    enumerator = source.create_enumerator(context)
    enumerator.start()
    enumerator.handle_split_request(0)  # before anything was found
    assert context.assigned == []
    context.run_calls()
    assert context.names == ["b.csv"]
    assert context.ended == []
    assert take_all(enumerator, context, 1) == ["c.csv", "a.csv"]
    assert context.ended == [0, 1]
    assert enumerator.snapshot_state(1) == FileEnumeratorState(complete=True)


def test_a_restored_bounded_source_does_not_list_again(tmp_path):
    for name in "abc":
        write(tmp_path / f"{name}.csv", 100)
    context = Context()
    source = FileSource(tmp_path, schema="x INT")
    enumerator = source.create_enumerator(context)
    enumerator.start()
    context.run_calls()
    enumerator.handle_split_request(0)
    later = Context()
    again = restored(source, enumerator, later)
    write(tmp_path / "new.csv", 100)
    assert later.calls == []
    assert context.names + take_all(again, later) == ["a.csv", "b.csv", "c.csv"]
    assert later.ended == [0]


def test_splits_that_come_back_go_to_readers_that_were_told_the_end(tmp_path):
    write(tmp_path / "a.csv", 100)
    context = Context(readers=(0, 1))
    enumerator = FileSource(tmp_path, schema="x INT").create_enumerator(context)
    enumerator.start()
    context.run_calls()
    take_all(enumerator, context, 1)
    ((_, split),) = context.assigned
    assert context.ended == [0, 1]
    moved = replace(split, offset=2, rows=1)
    enumerator.add_splits_back([moved], 1)
    assert context.assigned[1:] == [(0, moved)]


def test_files_go_by_event_time_where_it_is_asked_for(tmp_path):
    for name in ("2013-03", "2013-01", "2013-02"):
        write(tmp_path / f"{name}.csv", 100, "x\n" + "1\n" * int(name[-1]))
    bound = PathTime(regex=r"(\d{4})-(\d\d)", format="%Y-%m")
    source = FileSource(tmp_path, schema="x INT", event_time_lower_bound=bound)
    context = Context(event_time_order=True)
    enumerator = source.create_enumerator(context)
    enumerator.start()
    context.run_calls()
    assert take_all(enumerator, context) == ["2013-01.csv", "2013-02.csv", "2013-03.csv"]
    january = context.assigned[0][1]
    assert january.event_time_lower_bound() == 1356998400 * 1_000_000


def test_event_times_of_paths():
    bound = PathTime(regex=r"\d{8}", format="%Y%m%d", time_zone="America/New_York")
    assert bound("/a/20130101.csv") == datetime(2013, 1, 1, 5, tzinfo=UTC)
    assert bound("/a/none.csv") is None
    with pytest.raises(InvalidOptionError, match="tells no event time"):
        bound("/a/99999999.csv")
    with pytest.raises(InvalidOptionError, match="no regular expression"):
        PathTime(regex="(", format="%Y")


def test_large_files_are_cut_and_compressed_ones_are_not(tmp_path):
    write(tmp_path / "a.csv", 100, "x\n" + "1\n" * 500)
    write(tmp_path / "b.csv.gz", 100, "1" * 1000)
    write(tmp_path / "c.parquet", 100, "1" * 1000)
    source = FileSource(tmp_path, schema="x INT", split_size=300)
    cut = {
        source._selection.relative(file.path): source._selection.splits_of(file)
        for file in source._selection.files(may_be_missing=False)
    }
    assert {name: len(splits) for name, splits in cut.items()} == {
        "a.csv": 4,
        "b.csv.gz": 1,
        "c.parquet": 4,
    }
    assert sum(split.weight() for split in cut["a.csv"]) == 1002
    assert len({split.split_id for splits in cut.values() for split in splits}) == 9


# --- Monitored -----------------------------------------------------------------------------------


def test_new_files_are_found_and_equal_times_are_no_trouble(tmp_path):
    write(tmp_path / "b.csv", 1000)
    source, context = monitored(tmp_path), Context()
    enumerator = source.create_enumerator(context)
    enumerator.start()
    context.run_calls()
    assert take_all(enumerator, context) == ["b.csv"]
    write(tmp_path / "a.csv", 1000)  # the same time, a lower name
    write(tmp_path / "c.csv", 1000)
    write(tmp_path / "d.csv", 990)  # older, but became visible only now
    context.run_calls()
    assert context.names[1:] == ["d.csv"]  # the reader that waited has one already
    assert take_all(enumerator, context) == ["a.csv", "c.csv"]
    context.run_calls()
    assert take_all(enumerator, context) == []
    assert context.ended == []
    write(tmp_path / "b.csv", 1001, "x\n7\n")  # a replaced file is a new one
    context.run_calls()
    assert context.names[-1] == "b.csv"


def test_discovery_goes_on_after_a_restart_and_finds_the_same(tmp_path):
    for name in "abc":
        write(tmp_path / f"{name}.csv", 1000)
    source, context = monitored(tmp_path), Context()
    enumerator = source.create_enumerator(context)
    enumerator.start()
    before_listing = Context()
    early = restored(source, enumerator, before_listing)
    context.run_calls()
    first = take_all(enumerator, context)
    assert first == ["a.csv", "b.csv", "c.csv"]
    # From a snapshot before the listing all is found again, under the same ids.
    before_listing.run_calls()
    take_all(early, before_listing)
    assert [split for _, split in before_listing.assigned] == [s for _, s in context.assigned]
    # From one after it only what is new.
    later = Context()
    again = restored(source, enumerator, later)
    write(tmp_path / "d.csv", 1000)
    later.run_calls()
    assert take_all(again, later) == ["d.csv"]


def test_pending_splits_are_kept_over_a_restart(tmp_path):
    for name in "abc":
        write(tmp_path / f"{name}.csv", 1000)
    source, context = monitored(tmp_path), Context()
    enumerator = source.create_enumerator(context)
    enumerator.start()
    context.run_calls()
    enumerator.handle_split_request(0)
    later = Context()
    again = restored(source, enumerator, later)
    later.run_calls()
    assert take_all(again, later) == ["b.csv", "c.csv"]


def test_files_in_the_order_of_their_names(tmp_path):
    write(tmp_path / "2013-01-02.csv", 1000)
    write(tmp_path / "2013-01-01.csv", 2000)
    source, context = monitored(tmp_path, order="name"), Context()
    enumerator = source.create_enumerator(context)
    enumerator.start()
    context.run_calls()
    assert take_all(enumerator, context) == ["2013-01-01.csv", "2013-01-02.csv"]
    later = Context()
    again = restored(source, enumerator, later)
    write(tmp_path / "2013-01-03.csv", 10)  # its time does not matter
    later.run_calls()
    assert take_all(again, later) == ["2013-01-03.csv"]
    assert again.snapshot_state(1).last_paths == {str(tmp_path): "2013-01-03.csv"}


def test_files_that_come_too_late_are_told_of(tmp_path, caplog):
    write(tmp_path / "b.csv", 10_000)
    for order in FileOrder:
        source = monitored(tmp_path, order=order, late_file_window=timedelta(seconds=5))
        context = Context()
        enumerator = source.create_enumerator(context)
        enumerator.start()
        context.run_calls()
        assert take_all(enumerator, context) == ["b.csv"]
        write(tmp_path / "a.csv", 9_000)
        with caplog.at_level(logging.WARNING):
            context.run_calls()
            context.run_calls()
        assert take_all(enumerator, context) == []
        assert context.metric_group.counters["lateFiles"] == 1
        assert "late-file-window" in caplog.text
        (tmp_path / "a.csv").unlink()
        caplog.clear()


def test_a_clock_that_runs_ahead_does_not_hide_other_files(tmp_path):
    write(tmp_path / "future.csv", 4_000_000_000)
    source, context = monitored(tmp_path), Context()
    enumerator = source.create_enumerator(context)
    enumerator.start()
    context.run_calls()
    assert take_all(enumerator, context) == ["future.csv"]
    now = datetime.now(UTC).timestamp()
    write(tmp_path / "now.csv", now)
    context.run_calls()
    assert take_all(enumerator, context) == []  # the reader that waited has it already
    assert context.names == ["future.csv", "now.csv"]


class Listing:
    """A selection whose files a test makes up."""

    def __init__(self, source):
        self._source = source._selection
        self.found = []

    def files(self, *, may_be_missing):
        return list(self.found)

    def __getattr__(self, name):
        return getattr(self._source, name)


@pytest.mark.parametrize("order", list(FileOrder))
def test_state_does_not_grow_with_the_number_of_files(order):
    source = monitored("/data", order=order)
    listing, context = Listing(source), Context()
    window = timedelta(minutes=1)
    enumerator = FileEnumerator(
        context, listing, order=order, monitor_interval=window, late_file_window=window
    )
    enumerator.start()
    sizes = []
    serializer = source.enumerator_state_serializer()
    for number in range(10_000):
        listing.found.append(
            FileStatus(
                path=f"/data/{number:08d}.csv", size=5, modification_time=number * 1_000_000 + 1
            )
        )
        if number % 500 == 499:
            context.run_calls()
            take_all(enumerator, context)
            sizes.append(len(serializer.serialize(enumerator.snapshot_state(1))))
    assert len(set(context.names)) == len(context.assigned) == 10_000
    assert max(sizes) < 4000
    assert max(sizes[1:]) - min(sizes[1:]) < 200


def test_a_listing_that_fails_is_tried_again(tmp_path):
    source = monitored("/data")
    listing, context = Listing(source), Context()
    enumerator = FileEnumerator(
        context,
        listing,
        order=FileOrder.NAME,
        monitor_interval=timedelta(seconds=1),
        late_file_window=timedelta(0),
    )
    enumerator.start()

    def fail(**_):
        raise RetryableError("the store is busy")

    working, listing.files = listing.files, fail
    for _ in range(4):
        context.run_calls()
    assert context.metric_group.counters["failedListings"] == 4
    listing.files = working
    context.run_calls()
    listing.files = fail
    for _ in range(4):
        context.run_calls()
    with pytest.raises(RetryableError):
        context.run_calls()


def test_available_now_lists_once_more_and_ends(tmp_path):
    write(tmp_path / "a.csv", 1000)
    source, context = monitored(tmp_path), Context()
    enumerator = source.create_enumerator(context)
    enumerator.start()
    context.run_calls()
    write(tmp_path / "b.csv", 1000)
    periodic = list(context.calls)
    enumerator.freeze_end()
    context.calls = [call for call in context.calls if call not in periodic]
    context.run_calls()
    assert context.ended == []
    assert take_all(enumerator, context) == ["a.csv", "b.csv"]
    assert context.ended == [0]
    write(tmp_path / "c.csv", 1000)
    context.calls = periodic
    context.run_calls()
    assert take_all(enumerator, context) == []
    # The next run goes on from there.
    later = Context()
    again = restored(source, enumerator, later)
    again.freeze_end()
    later.run_calls()
    assert take_all(again, later) == ["c.csv"]
    assert later.ended == [0]


# --- Locations -----------------------------------------------------------------------------------


def test_paths_stay_inside_of_a_location():
    location = FileLocation("/data/*.csv")
    assert location.root == "/data"
    assert location.join("a", "b.csv") == "/data/a/b.csv"
    for bad in ("../a", "/etc/passwd", "a/../../b"):
        with pytest.raises(InvalidOptionError):
            location.join(bad)
    with pytest.raises(InvalidOptionError):
        location.relative("/other/a.csv")
    assert location.relative("/data/x/a.csv") == "x/a.csv"


def test_secrets_of_a_location_are_masked():
    location = FileLocation("s3://user:word@bucket/x?token=t", {"secret": "hidden", "region": "eu"})
    assert "word" not in repr(location)
    assert "hidden" not in repr(location)
    assert "=t" not in repr(location)
    assert "eu" in repr(location)


@pytest.fixture
def refuse(monkeypatch):
    """Makes listings of folders called `closed` fail; the user of the tests may list any folder."""
    ls = LocalFileSystem.ls

    def refuse(error):
        def refusing(self, path, *arguments, **named):
            if path.endswith("/closed"):
                raise error
            return ls(self, path, *arguments, **named)

        monkeypatch.setattr(LocalFileSystem, "ls", refusing)

    return refuse


@pytest.mark.cell
@pytest.mark.parametrize("pattern", ["", "*", "**/*.csv"])
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PermissionError(13, "Permission denied"), ConfigurationError),
        (ConnectionResetError("the storage has gone"), RetryableError),
    ],
)
def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path, refuse, pattern, error, expected):
    write(tmp_path / "a.csv", 100)
    write(tmp_path / "b" / "closed" / "b.csv", 100)
    refuse(error)
    with pytest.raises(expected) as failure:
        files(FileSource(tmp_path / pattern, format="csv"))
    assert failure.value.__cause__ is error


def test_a_folder_that_is_hidden_or_removed_while_it_is_listed_is_left_out(tmp_path, refuse):
    write(tmp_path / "a.csv", 100)
    write(tmp_path / "_temporary" / "closed" / "b.csv", 100)
    refuse(PermissionError(13, "Permission denied"))
    assert files(FileSource(tmp_path)) == ["a.csv"]
    write(tmp_path / "closed" / "b.csv", 100)
    refuse(FileNotFoundError("removed"))
    assert files(FileSource(tmp_path)) == ["a.csv"]
