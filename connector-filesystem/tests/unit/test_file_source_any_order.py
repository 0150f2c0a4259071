# SPDX-License-Identifier: Apache-2.0
"""Tests the order `any`, and how it forgets removed files."""

from __future__ import annotations

import itertools
from datetime import timedelta

import orjson
import pytest
from file_discovery import (
    Context,
    MadeUp,
    enumerating,
    monitored,
    restored,
    started,
    take_all,
    write,
)

from connector_filesystem import FileOrder, FileSource
from connector_filesystem.filesystem import FileStatus
from connector_filesystem.source.memory import EachVersion
from connectors_core.errors import (
    StateCorruptedError,
)


def test_in_any_order_each_file_is_read_once_however_late_it_arrives(tmp_path):
    write(tmp_path / "m.csv", 10_000)
    source = monitored(tmp_path, order="any", late_file_window=timedelta(0))
    context = Context()
    enumerator = started(source, context)
    assert take_all(enumerator, context) == ["m.csv"]
    write(tmp_path / "a.csv", 5)
    context.run_calls()
    assert take_all(enumerator, context) == []  # the waiting reader already has it
    assert context.names == ["m.csv", "a.csv"]
    later = Context()
    again = restored(source, enumerator, later)
    write(tmp_path / "b.csv", 1)
    write(tmp_path / "m.csv", 9_999)  # a replaced file is a new file
    later.run_calls()
    later.run_calls()
    assert take_all(again, later) == ["b.csv", "m.csv"]
    assert "lateFiles" not in later.metric_group.counters
    state = again.snapshot_state(1)
    assert len(state.read) == 3 * 12
    assert [len(group.files) for group in state.gone] == [12]  # the replaced file


ORDERS_OF_LISTINGS = [str(each) for each in FileOrder if each is not FileOrder.MANIFEST]


@pytest.mark.parametrize(("former", "order"), list(itertools.permutations(ORDERS_OF_LISTINGS, 2)))
def test_a_change_of_order_rereads_no_file(tmp_path, former, order):
    for number in range(3):
        write(tmp_path / f"{number}.csv", 1000 + number)
    context = Context()
    enumerator = monitored(tmp_path, order=former).create_enumerator(context)
    enumerator.start()
    context.run_calls()
    assert take_all(enumerator, context) == ["0.csv", "1.csv", "2.csv"]
    later = Context()
    again = restored(monitored(tmp_path, order=order), enumerator, later)
    # A snapshot before the first listing also keeps the whole state.
    again = restored(monitored(tmp_path, order=order), again, later)
    write(tmp_path / "3.csv", 1003)
    later.calls = later.calls[1:]
    later.run_calls()
    assert take_all(again, later) == ["3.csv"]
    for back in (order, former):
        last = Context()
        again = restored(monitored(tmp_path, order=back), again, last)
        last.run_calls()
        assert take_all(again, last) == []
        assert "lateFiles" not in last.metric_group.counters


def test_removed_files_are_forgotten_unless_all_files_are_gone():
    now = [0.0]
    memory = EachVersion(60.0, b"", clock=lambda: now[0])
    a, b = (FileStatus(path=f"/data/{name}", size=1, modification_time=1) for name in "ab")
    memory.take([a, b], complete=True)
    for moment, files, complete, known in (
        (100, [], False, True),  # the disk is not mounted
        (300, [b], True, True),
        (350, [b], True, True),
        (361, [b], True, False),
    ):
        now[0] = moment
        memory.take(files, complete=complete)
        assert memory.sort_out([a, b])[0] == ([] if known else [a])
    memory.take([a, b], complete=True)
    assert EachVersion(60.0, memory.fields()["read"]).sort_out([a, b]) == ([], [])
    with pytest.raises(StateCorruptedError):
        EachVersion(60.0, b"short")


def test_removed_files_are_forgotten_even_if_the_driver_restarts_often():
    source = monitored("/data", order="any")
    serializer = source.enumerator_state_serializer()
    a, b = (FileStatus(path=f"/data/{name}.csv", size=1, modification_time=1) for name in "ab")

    def life(files, state, clock):
        """Run a driver for 40 seconds, and return the names it read and its stored state."""
        now = [clock]
        listing, context = MadeUp(source), Context()
        listing.found = files
        enumerator = enumerating(
            listing,
            context,
            FileOrder.ANY,
            seconds=40,
            forget_after=timedelta(seconds=60),
            state=None if state is None else serializer.deserialize(2, state),
            clock=lambda: now[0],
        )
        enumerator.start()
        context.run_calls()
        now[0] += 40
        context.run_calls()
        return take_all(enumerator, context), serializer.serialize(enumerator.snapshot_state(1))

    read, first = life([a, b], None, 5e6)
    assert read == ["a.csv", "b.csv"]
    _, second = life([b], first, 1e6)  # each machine's clock has a different origin
    assert life([a, b], second, 0.0)[0] == []  # gone for 40 seconds
    _, third = life([b], second, 3e6)
    assert life([a, b], third, 0.0)[0] == ["a.csv"]  # gone for 80 seconds
    assert len(third) < len(second)

    older = orjson.loads(first)
    del older["gone"]  # an older state lacks this field
    assert life([a, b], orjson.dumps(older), 0.0)[0] == []


@pytest.mark.parametrize(("forget_after", "again"), [("0 s", ["a.csv"]), ("7 d", [])])
def test_forget_after_sets_how_long_a_removed_file_counts_as_read(tmp_path, forget_after, again):
    for name in ("a.csv", "b.csv"):
        write(tmp_path / name, 100)
    source = FileSource.from_options(
        {
            "path": str(tmp_path),
            "schema": "x INT",
            "source.monitor-interval": "1 s",
            "source.order": "any",
            "source.forget-after": forget_after,
        }
    )
    context = Context()
    enumerator = started(source, context)
    assert take_all(enumerator, context) == ["a.csv", "b.csv"]
    (tmp_path / "a.csv").unlink()
    context.run_calls()
    context.run_calls()
    write(tmp_path / "a.csv", 100)
    context.run_calls()
    assert context.names[2:] + take_all(enumerator, context) == again


def test_an_object_rewritten_with_the_same_content_is_read_once():
    memory = EachVersion(60.0, b"")
    memory.take([FileStatus("/a", 1, 1, '"tag"')], complete=True)
    other = FileStatus("/a", 1, 1, '"other"')
    assert memory.sort_out([FileStatus("/a", 1, 2, "tag"), other]) == ([other], [])


def test_by_default_a_file_is_read_however_late_it_appears(tmp_path):
    context = Context()
    source = monitored(tmp_path)
    write(tmp_path / "new.csv", 2_000_000)
    enumerator = started(source, context)
    assert take_all(enumerator, context) == ["new.csv"]
    write(tmp_path / "old.csv", 1_000)
    later = Context()
    restored(source, enumerator, later).handle_split_request(0)
    later.run_calls()
    assert later.names == ["old.csv"]
    assert "lateFiles" not in later.metric_group.counters


def test_a_pipeline_of_the_former_default_reads_no_file_again(tmp_path):
    context = Context()
    former = monitored(tmp_path, order="modification-time")
    write(tmp_path / "old.csv", 1_000)
    write(tmp_path / "new.csv", 2_000_000)
    enumerator = started(former, context)
    assert sorted(take_all(enumerator, context)) == ["new.csv", "old.csv"]
    later = Context()
    again = restored(monitored(tmp_path), enumerator, later)
    write(tmp_path / "next.csv", 3_000_000)
    later.run_calls()
    assert take_all(again, later) == ["next.csv"]
    write(tmp_path / "late.csv", 2_000)
    later.run_calls()
    assert later.names == ["next.csv", "late.csv"]
