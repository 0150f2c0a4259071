# SPDX-License-Identifier: Apache-2.0
"""Tests that each complete file is found once, with little state, for any name and time."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import fsspec
import pyarrow as pa
import pytest
from file_discovery import (
    Context,
    MadeUp,
    enumerating,
    files,
    monitored,
    restored,
    started,
    take_all,
    write,
)
from hypothesis import given
from hypothesis import strategies as st

from connector_filesystem import FileOrder, FileSource, PathTime
from connector_filesystem.filesystem import FileStatus
from connector_filesystem.source.enumerator import FileEnumerator, FileEnumeratorState
from connector_filesystem.source.memory import ListedFiles
from connectors_core.errors import (
    ConfigurationError,
    FatalError,
    InvalidOptionError,
    RetryableError,
)

# --- Selection -----------------------------------------------------------------------------------


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
        ".k=1/i.csv",
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
    with pytest.raises(ConfigurationError, match=r"a\.dat is unknown"):
        context.run_calls()


def test_a_path_without_its_partition_column(tmp_path):
    write(tmp_path / "month=x" / "a.csv", 100)
    for name in ("day", "month"):
        source = FileSource(tmp_path, schema="x INT", partition_columns={name: pa.int32()})
        context = Context()
        source.create_enumerator(context).start()
        with pytest.raises(FatalError, match=name):
            context.run_calls()


def test_patterns_match_the_same_files_as_in_fsspec(tmp_path):
    for name in ("a.csv", "a/b.csv", "a/c/d.csv", "b/a/c.csv", "b/x.json", "ab/cd/ef/g.csv"):
        write(tmp_path / name, 100)
    fs = fsspec.filesystem("file")
    for pattern in ("*", "*.csv", "a*", "*/*.csv", "**/*.csv", "a/**", "[ab]/*", "?/c", "*/a"):
        matches = fs.glob(f"{tmp_path}/{pattern}")
        expected = sorted({path for match in matches for path in fs.find(match)})
        found = FileSource(f"{tmp_path}/{pattern}")._selection.files(may_be_missing=False)
        assert [file.path for file in found] == expected, pattern


# --- Bounded -------------------------------------------------------------------------------------


def test_a_bounded_source_assigns_the_largest_files_first_and_ends(tmp_path):
    for name, rows in (("a", 1), ("b", 30), ("c", 10)):
        write(tmp_path / f"{name}.csv", 100, "x\n" + "1\n" * rows)
    context = Context(readers=(0, 1))
    source = FileSource(tmp_path, schema="x INT")
    enumerator = source.create_enumerator(context)
    enumerator.start()
    enumerator.handle_split_request(0)  # before the first listing
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
    enumerator = started(source, context)
    enumerator.handle_split_request(0)
    later = Context()
    again = restored(source, enumerator, later)
    write(tmp_path / "new.csv", 100)
    assert later.calls == []
    assert context.names + take_all(again, later) == ["a.csv", "b.csv", "c.csv"]
    assert later.ended == [0]


def test_returned_splits_go_to_readers_that_have_no_more_splits(tmp_path):
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


def test_files_are_assigned_by_event_time_if_configured(tmp_path):
    for name in ("2013-03", "2013-01", "2013-02"):
        write(tmp_path / f"{name}.csv", 100, "x\n" + "1\n" * int(name[-1]))
    bound = PathTime(regex=r"(\d{4})-(\d\d)", format="%Y-%m")
    source = FileSource(tmp_path, schema="x INT", event_time_lower_bound=bound)
    context = Context(event_time_order=True)
    enumerator = started(source, context)
    assert take_all(enumerator, context) == ["2013-01.csv", "2013-02.csv", "2013-03.csv"]
    january = context.assigned[0][1]
    assert january.event_time_lower_bound() == 1356998400 * 1_000_000


def test_event_times_of_paths():
    bound = PathTime(regex=r"\d{8}", format="%Y%m%d", time_zone="America/New_York")
    assert bound("/a/20130101.csv") == datetime(2013, 1, 1, 5, tzinfo=UTC)
    assert bound("/a/none.csv") is None
    with pytest.raises(InvalidOptionError, match="contains no event time"):
        bound("/a/99999999.csv")
    with pytest.raises(InvalidOptionError, match="not a regular expression"):
        PathTime(regex="(", format="%Y")
    with pytest.raises(InvalidOptionError, match="time zone is unknown"):
        PathTime(regex="a", format="%Y", time_zone="Mars/Olympus")


def test_large_files_are_split_and_compressed_files_are_not(tmp_path):
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


def test_new_files_are_found_even_with_equal_times(tmp_path):
    write(tmp_path / "b.csv", 1000)
    source, context = monitored(tmp_path), Context()
    enumerator = started(source, context)
    assert take_all(enumerator, context) == ["b.csv"]
    write(tmp_path / "a.csv", 1000)  # the same time, a lower name
    write(tmp_path / "c.csv", 1000)
    write(tmp_path / "d.csv", 990)  # older, but only visible now
    context.run_calls()
    assert context.names[1:] == ["d.csv"]  # the waiting reader already has one
    assert take_all(enumerator, context) == ["a.csv", "c.csv"]
    context.run_calls()
    assert take_all(enumerator, context) == []
    assert context.ended == []
    write(tmp_path / "b.csv", 1001, "x\n7\n")  # a replaced file is a new file
    context.run_calls()
    assert context.names[-1] == "b.csv"


def test_discovery_resumes_after_a_restart_and_finds_the_same_files(tmp_path):
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
    # A snapshot before the listing finds all files again, with the same IDs.
    before_listing.run_calls()
    take_all(early, before_listing)
    assert [split for _, split in before_listing.assigned] == [s for _, s in context.assigned]
    # A snapshot after the listing finds only new files.
    later = Context()
    again = restored(source, enumerator, later)
    write(tmp_path / "d.csv", 1000)
    later.run_calls()
    assert take_all(again, later) == ["d.csv"]


def test_pending_splits_survive_a_restart(tmp_path):
    for name in "abc":
        write(tmp_path / f"{name}.csv", 1000)
    source, context = monitored(tmp_path), Context()
    enumerator = started(source, context)
    enumerator.handle_split_request(0)
    later = Context()
    again = restored(source, enumerator, later)
    later.run_calls()
    assert take_all(again, later) == ["b.csv", "c.csv"]


def test_files_are_assigned_in_name_order(tmp_path):
    write(tmp_path / "2013-01-02.csv", 1000)
    write(tmp_path / "2013-01-01.csv", 2000)
    source, context = monitored(tmp_path, order="name"), Context()
    enumerator = started(source, context)
    assert take_all(enumerator, context) == ["2013-01-01.csv", "2013-01-02.csv"]
    later = Context()
    again = restored(source, enumerator, later)
    write(tmp_path / "2013-01-03.csv", 10)  # the order ignores its time
    later.run_calls()
    assert take_all(again, later) == ["2013-01-03.csv"]
    assert again.snapshot_state(1).last_paths == {str(tmp_path): "2013-01-03.csv"}


def test_late_files_are_reported(tmp_path, caplog):
    write(tmp_path / "b.csv", 10_000)
    for order in ("modification-time", "name"):
        source = monitored(tmp_path, order=order, late_file_window=timedelta(seconds=5))
        context = Context()
        enumerator = started(source, context)
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
    enumerator = started(source, context)
    assert take_all(enumerator, context) == ["future.csv"]
    now = datetime.now(UTC).timestamp()
    write(tmp_path / "now.csv", now)
    context.run_calls()
    assert take_all(enumerator, context) == []  # the waiting reader already has it
    assert context.names == ["future.csv", "now.csv"]


@pytest.mark.parametrize("order", list(FileOrder))
def test_state_stays_small(order):
    source = monitored("/data", order=order)
    listing, context = MadeUp(source), Context()
    window = timedelta(minutes=1)
    enumerator = FileEnumerator(
        context, listing, order=order, monitor_interval=window, late_file_window=window
    )
    enumerator.start()
    sizes = []
    serializer = source.enumerator_state_serializer()
    count = 10_000
    for number in range(count):
        listing.found.append(
            FileStatus(
                path=f"/data/{number:08d}.csv",
                size=5,
                modification_time=number * 1_000_000 + 1,
                manifest=number + 1,
            )
        )
        if number % 1000 == 999:
            context.run_calls()
            take_all(enumerator, context)
            sizes.append(len(serializer.serialize(enumerator.snapshot_state(1))))
    assert len(set(context.names)) == len(context.assigned) == count
    if order is FileOrder.ANY:
        assert sizes[-1] < 16 * count + 200
    else:  # the filter of the last listing is 32 KiB at most
        assert sizes[0] < 6_000
        assert sizes[-1] < 48_000


@pytest.mark.parametrize("order", ["modification-time", "name"])
def test_files_that_arrive_late_while_the_driver_is_down_are_reported(tmp_path, caplog, order):
    for number in range(200):
        write(tmp_path / f"m{number:03d}.csv", 10_000 - number % 100)
    source = monitored(tmp_path, order=order, late_file_window=timedelta(seconds=5))
    context = Context()
    enumerator = started(source, context)
    assert len(take_all(enumerator, context)) == 200
    (tmp_path / "m007.csv").unlink()
    for number in range(20):
        write(tmp_path / f"a{number:02d}.csv", 9_000)
    told = []
    for _ in range(2):  # the first listing of a driver reports it, and the next driver does not
        later = Context()
        enumerator = restored(source, enumerator, later)
        with caplog.at_level(logging.WARNING):
            later.run_calls()
            later.run_calls()
        assert take_all(enumerator, later) == []
        told.append((later.metric_group.counters.get("lateFiles", 0), caplog.text))
        caplog.clear()
    # The filter mistakes about one of a thousand files for a listed one.
    assert 18 <= told[0][0] <= 20
    assert str(tmp_path / "a") in told[0][1]
    assert told[1] == (0, "")


@given(
    st.sets(st.integers(0, 1 << 40), max_size=400),
    st.sets(st.integers(0, 1 << 40), max_size=400),
)
def test_a_listed_file_is_never_reported_as_late(listed_before, others):
    def status(numbers):
        return [FileStatus(path=f"/{n}", size=1, modification_time=n) for n in sorted(numbers)]

    before = ListedFiles(b"")
    before.replace(status(listed_before))
    assert before.lacking(status(listed_before | others)) == status(others - listed_before)
    after = ListedFiles(before.stored())
    assert after.stored() == before.stored()
    found = after.lacking(status(listed_before | others))
    assert {each.modification_time for each in found} <= others - listed_before


def test_the_filter_of_listed_files_has_few_false_positives():
    def status(numbers):
        return [FileStatus(path=f"/{n}", size=1, modification_time=n) for n in numbers]

    before = ListedFiles(b"")
    before.replace(status(range(16_000)))
    found = ListedFiles(before.stored()).lacking(status(range(20_000, 30_000)))
    assert len(found) > 9_950


@pytest.mark.parametrize(
    ("order", "count", "told"),
    [("modification-time", 16_384, 0), ("modification-time", 16_385, 1), ("name", 40_000, 1)],
)
def test_exceeding_the_capacity_of_the_filter_is_reported_once(caplog, order, count, told):
    source = monitored("/data", order=order)
    listing, context = MadeUp(source), Context()
    enumerator = enumerating(listing, context, FileOrder(order))
    listing.found = [FileStatus(f"/data/{n:06d}.csv", 5, 1_000_000) for n in range(count)]
    enumerator.start()
    with caplog.at_level(logging.WARNING):
        context.run_calls()
        context.run_calls()
    warnings = [each.getMessage() for each in caplog.records]
    assert len(warnings) == told
    assert all("set source.order to any" in each for each in warnings)
    share = context.metric_group.gauges["lateFilesMissedShare"]
    assert (share < 0.001, share > 0.04) == (count < 40_000, count == 40_000)
    before = ListedFiles(enumerator.snapshot_state(1).listed)
    others = [FileStatus(f"/data/{n:06d}x.csv", 5, 1_000_000) for n in range(5_000)]
    assert 1 - len(before.lacking(others)) / len(others) == pytest.approx(share, abs=0.02)


def test_a_failed_listing_is_retried(tmp_path):
    source = monitored("/data")
    listing, context = MadeUp(source), Context()
    enumerator = enumerating(listing, context, FileOrder.NAME)
    enumerator.start()

    def fail(**_):
        raise RetryableError("the store is busy")

    working, listing.listing = listing.listing, fail
    for _ in range(4):
        context.run_calls()
    assert context.metric_group.counters["failedListings"] == 4
    listing.listing = working
    context.run_calls()
    listing.listing = fail
    for _ in range(4):
        context.run_calls()
    with pytest.raises(RetryableError):
        context.run_calls()


def test_available_now_lists_once_more_and_ends(tmp_path):
    write(tmp_path / "a.csv", 1000)
    source, context = monitored(tmp_path), Context()
    enumerator = started(source, context)
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
    # The next run resumes from that point.
    later = Context()
    again = restored(source, enumerator, later)
    again.freeze_end()
    later.run_calls()
    assert take_all(again, later) == ["c.csv"]
    assert later.ended == [0]
