# SPDX-License-Identifier: Apache-2.0
"""Tests versions of tables with a full cache: reloads, pins, retention, and removal."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.engine.coordinator import lookup_versions
from connectors_core.engine.coordinator.lookup_versions import FullCache, LookupPinning
from connectors_core.engine.execution import lookup_snapshots
from connectors_core.engine.execution.lookup_snapshots import (
    SnapshotLookup,
    local_folder,
    remove_local_copies,
    write_snapshot,
)
from connectors_core.engine.state import StateStore
from connectors_core.errors import (
    LeaseError,
    RetryableError,
    StateCorruptedError,
    StateLocationError,
)
from connectors_core.lookup import CacheReloadTrigger, FunctionContext
from connectors_core.lookup.hash_index import HashIndex
from connectors_core.metrics import LookupMetric

SCHEMA = pa.schema([("key", pa.int64()), ("value", pa.string())])


class ByHand(CacheReloadTrigger):
    context = None

    def open(self, context):
        self.context = context

    def close(self):
        assert self.context is not None, "it is closed and was not opened"
        self.context = None


class Place:
    """A state location, an in-memory table, and its drivers, one after another."""

    def __init__(self, folder: Path) -> None:
        self.table = StateStore(str(folder / "state/lookup/table"))
        self.query = StateStore(str(folder / "state/query-0"))
        self.value = "1"
        self.error = None
        self.gate = threading.Event()
        self.gate.set()
        self.loads = 0
        self.running = []
        self.began = threading.Event()
        self.heeds = True
        self.given_up = 0
        self.taken_over = False

    def load(self):
        self.began.set()
        self.gate.wait(10)
        self.loads += 1
        if self.error is not None:
            raise self.error
        rows = pa.record_batch([pa.array([7]), pa.array([self.value])], SCHEMA)
        return write_snapshot(self.table, SCHEMA, [rows])

    def give_up(self):
        self.given_up += 1
        if self.heeds:
            self.error = RetryableError("given up")
            self.gate.set()

    def confirm(self):
        if self.taken_over:
            raise LeaseError("another driver has taken over")

    def driver(self, trigger=None):
        """Return the cache and the pins of a new driver."""
        cache = FullCache(
            "table",
            pipeline_id="p",
            store=self.table,
            confirm=self.confirm,
            load=self.load,
            give_up=self.give_up,
            trigger=trigger,
        )
        pinning = LookupPinning([cache], store=self.query, pipeline_id="p", query="query-0")
        self.running.append(cache)
        cache.start((query, number) for _, query, number in pinning.pinned_last())
        return cache, pinning

    def files(self):
        return [name for name in self.table.list() if name.endswith(".arrow")]

    def seen(self, version):
        """Return the value that the tasks of a batch see."""
        function = SnapshotLookup(self.table, version, SCHEMA, 1)
        function.open(FunctionContext(uid="table"))
        try:
            return function.lookup(pa.record_batch([pa.array([7])], ["key"]))["value"].to_pylist()
        finally:
            function.close()


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'local'},{tmp_path / 'other'}")
    place = Place(tmp_path)
    yield place
    for cache in place.running:
        cache.close()


def reload(cache, place, value):
    place.value = value
    cache.trigger_reload().result(10)


def test_a_batch_sees_the_newest_version_and_keeps_it_when_it_runs_again(place):
    cache, pinning = place.driver()
    first = pinning.pin("0")["table"]
    reload(cache, place, "2")
    second = pinning.pin("1")["table"]
    assert place.seen(first) == ["1"]
    assert place.seen(second) == ["2"]
    assert pinning.pin("0")["table"] == first


@pytest.mark.parametrize("starts", [1, 5])
def test_a_batch_sees_the_same_version_under_a_later_driver(place, starts):
    cache, pinning = place.driver()
    pinned = pinning.pin("0")["table"]
    for number in range(starts):
        place.value = f"later {number}"
        cache, pinning = place.driver()
        reload(cache, place, "and later")
    assert pinning.pin("0")["table"] == pinned
    assert place.seen(pinned) == ["1"]
    assert place.seen(pinning.pin("1")["table"]) == ["and later"]


def test_old_versions_are_removed_when_no_batch_can_request_them(place):
    cache, pinning = place.driver()
    for number in range(9):
        reload(cache, place, str(number))
        pinning.pin(str(number))
    assert len(place.files()) <= 3
    assert len(place.table.list("versions")) == len(place.files())


def test_a_leftover_file_of_a_killed_driver_is_removed(place):
    place.load()
    place.driver()
    assert len(place.files()) == 1


def test_a_missing_version_is_reported(place):
    _, pinning = place.driver()
    reload(place.running[0], place, "2")
    pinning.pin("0")
    for name in place.table.list("versions"):
        place.table.delete(f"versions/{name}")
    _, later = place.driver()
    with pytest.raises(StateCorruptedError, match="version 2 of lookup 'table' is missing"):
        later.pin("0")


def test_a_version_of_a_later_driver_is_not_overwritten(place):
    cache, _ = place.driver()
    place.driver()
    place.taken_over = True
    with pytest.raises(LeaseError):
        reload(cache, place, "2")


def test_a_resumed_driver_and_its_successor_use_different_version_numbers(place):
    former, _ = place.driver()
    cache, pinning = place.driver()  # reads version 2
    reload(former, place, "3")
    reload(cache, place, "4")
    version = pinning.pin("0")["table"]
    assert (version.number, place.seen(version)) == (4, ["4"])


def test_a_driver_that_was_taken_over_removes_no_files(place):
    cache, _ = place.driver()
    place.load()  # by its successor, whose version is not recorded yet
    place.taken_over = True
    with pytest.raises(LeaseError):
        reload(cache, place, "2")
    assert len(place.files()) == 3


def test_pins_of_finished_batches_are_removed(place):
    _, pinning = place.driver()
    for number in range(5):
        pinning.pin(f"{number:04d}")
    pinning.purge(before="0003")
    assert place.query.list("lookup-pins") == ["0003.json", "0004.json"]


def test_a_failed_reload_keeps_the_version_and_reports_the_error(place, caplog):
    cache, pinning = place.driver()
    place.error = RetryableError("the table is away")
    with caplog.at_level(logging.WARNING), pytest.raises(RetryableError):
        cache.trigger_reload().result(10)
    assert "keeps version 1" in caplog.text
    assert "the table is away" in caplog.text
    assert cache.error is place.error
    assert cache.metrics.counters[LookupMetric.NUM_LOAD_FAILURE] == 1
    assert place.seen(pinning.pin("0")["table"]) == ["1"]
    place.error = None
    reload(cache, place, "2")
    assert cache.error is None
    assert cache.metrics.counters[LookupMetric.LOAD_COUNT] == 2


def test_the_first_read_must_succeed_but_a_read_at_a_later_start_may_fail(place):
    place.error = RetryableError("the table is away")
    with pytest.raises(RetryableError):
        place.driver()
    place.error = None
    place.driver()
    place.error = RetryableError("the table is away")
    cache, pinning = place.driver()
    assert cache.error is place.error
    assert place.seen(pinning.pin("0")["table"]) == ["1"]


def test_reloads_that_are_requested_while_one_is_waiting_become_one(place):
    trigger = ByHand()
    place.driver(trigger)
    place.gate.clear()
    running = trigger.context.trigger_reload()
    deadline = time.monotonic() + 10
    while not running.running():
        assert time.monotonic() < deadline
    waiting = [trigger.context.trigger_reload() for _ in range(5)]
    place.gate.set()
    running.result(10)
    for each in waiting:
        each.result(10)
    assert len({id(each) for each in waiting}) == 1
    assert place.loads == 3


def test_a_trigger_that_was_not_opened_is_not_closed(place):
    place.error = RetryableError("the table is away")
    with pytest.raises(RetryableError):
        place.driver(ByHand())


def test_no_reload_starts_after_close(place):
    trigger = ByHand()
    cache, _ = place.driver(trigger)
    context = trigger.context
    cache.close()
    assert trigger.context is None
    assert context.trigger_reload().cancelled()
    assert place.loads == 1


@pytest.mark.parametrize("heeds", [True, False], ids=["that sees it", "that does not"])
def test_close_abandons_a_running_reload(place, monkeypatch, caplog, heeds):
    """A reload that ignores the cancellation ends later and does not become a version."""
    monkeypatch.setattr(lookup_versions, "_GIVE_UP_SECONDS", 0.5)
    place.heeds = heeds
    cache, _ = place.driver()
    place.gate.clear()
    place.began.clear()
    running = cache.trigger_reload()
    assert place.began.wait(10)
    waiting = cache.trigger_reload()
    threads = {each for each in threading.enumerate() if each.name.startswith("lookup-table")}
    assert threads
    cache.close()
    assert waiting.cancelled()
    assert running.done() == heeds
    assert ("is still running" in caplog.text) != heeds
    assert place.given_up >= 1
    place.gate.set()
    assert running.exception(10) is not None
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert cache.newest.number == 1
    assert cache.error is None
    assert LookupMetric.NUM_LOAD_FAILURE not in cache.metrics.counters
    assert place.files() == [cache.newest.file]
    assert len(place.table.list("versions")) == 1


# --- Copies on a host ----------------------------------------------------------------------------


def test_a_host_copies_a_version_once_and_keeps_two_versions(place, monkeypatch):
    copies = []
    write = HashIndex.write
    monkeypatch.setattr(
        HashIndex, "write", staticmethod(lambda *given: (copies.append(1), write(*given)))
    )
    cache, pinning = place.driver()
    for number in range(4):
        version = pinning.pin(str(number))["table"]
        threads = [threading.Thread(target=place.seen, args=(version,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        reload(cache, place, str(number))
    assert len(copies) == 4
    kept = [path for path in (local_folder() / "p/table").iterdir() if path.name[0] != "."]
    assert len(kept) == 2
    remove_local_copies("p")
    assert not local_folder().exists()


@pytest.mark.parametrize("busy", [False, True], ids=["alone", "while another copy is opened"])
def test_copies_that_are_no_longer_opened_are_removed_with_the_next_copy(place, busy):
    """They belong, for example, to pipelines that ended. A copy that was opened meanwhile stays."""
    cache, pinning = place.driver()
    place.seen(pinning.pin("0")["table"])
    ended, used = (local_folder() / "ended" / name for name in ("old", "new"))
    for folder in (ended, used):
        (folder / "0000000001-a").mkdir(parents=True)
    os.utime(ended, (0, 0))
    reload(cache, place, "2")
    with lookup_snapshots._in_use(used) if busy else nullcontext():
        place.seen(pinning.pin("1")["table"])
    assert ended.exists() == busy
    assert used.exists()
    reload(cache, place, "3")
    os.utime(used, (0, 0))
    place.seen(pinning.pin("2")["table"])
    assert not ended.parent.exists()
    assert len(list((local_folder() / "p/table").glob("0*"))) == 2


def test_opening_a_table_again_marks_it_as_in_use(place):
    _, pinning = place.driver()
    version = pinning.pin("0")["table"]
    place.seen(version)
    folder = local_folder() / "p/table"
    os.utime(folder, (0, 0))
    place.seen(version)
    assert folder.stat().st_mtime > 0


def test_a_copy_can_be_made_while_other_pipelines_end(place):
    """These pipelines remove the shared folder of copies when it is empty."""
    ended, folder = threading.Event(), local_folder() / "p/table"

    def end_others():
        while not ended.is_set():
            remove_local_copies("other")

    others = threading.Thread(target=end_others)
    others.start()
    try:
        for _ in range(500):
            with lookup_snapshots._in_use(folder):
                assert folder.is_dir()
            shutil.rmtree(folder.parent)
    finally:
        ended.set()
        others.join()


def test_a_partial_copy_of_a_killed_process_is_removed(place):
    _, pinning = place.driver()
    left = local_folder() / "p/table/.half.tmp"
    left.mkdir(parents=True)
    place.seen(pinning.pin("0")["table"])
    assert not left.exists()


def test_a_memory_mapped_copy_stays_readable_after_its_removal(place):
    _, pinning = place.driver()
    function = SnapshotLookup(place.table, pinning.pin("0")["table"], SCHEMA, 1)
    function.open(FunctionContext(uid="table"))
    remove_local_copies("p")
    keys = pa.record_batch([pa.array([7])], ["key"])
    assert function.lookup(keys)["value"].to_pylist() == ["1"]


def test_a_folder_of_another_user_is_refused(place, monkeypatch):
    _, pinning = place.driver()
    version = pinning.pin("0")["table"]
    own = lookup_snapshots.os.getuid()
    local_folder().mkdir(parents=True)
    local_folder().rename(local_folder().with_name(f"connectors-lookup-{own + 1}"))
    monkeypatch.setattr(lookup_snapshots.os, "getuid", lambda: own + 1)
    with pytest.raises(StateLocationError, match="another user"):
        place.seen(version)


def test_missing_files_and_changed_columns_are_reported(place):
    _, pinning = place.driver()
    version = pinning.pin("0")["table"]
    other = SnapshotLookup(place.table, version, SCHEMA.remove(1), 1)
    with pytest.raises(StateCorruptedError, match="the columns of a fully cached table changed"):
        other.open(FunctionContext(uid="table"))
    gone = SnapshotLookup(place.table, replace(version, file="none.arrow"), SCHEMA, 1)
    with pytest.raises(StateCorruptedError, match="is missing"):
        gone.open(FunctionContext(uid="table"))


KEYS = st.lists(st.tuples(st.integers(-3, 3), st.sampled_from(["", "a", "é"])), max_size=20)


@given(rows=KEYS, asked=KEYS, same_hashes=st.booleans())
def test_an_index_finds_all_rows_of_the_requested_keys(tmp_path_factory, rows, asked, same_hashes):
    """Also test many keys with the same hash."""
    schema = pa.schema([("x", pa.int64()), ("y", pa.string()), ("n", pa.int64())])
    table = pa.Table.from_pylist(
        [{"x": x, "y": y, "n": n} for n, (x, y) in enumerate(rows)], schema=schema
    )
    asked = sorted(set(asked))
    keys = pa.RecordBatch.from_pylist([{"x": x, "y": y} for x, y in asked], schema=schema.remove(2))
    folder = tmp_path_factory.mktemp("index")
    with pytest.MonkeyPatch.context() as patch:
        if same_hashes:
            patch.setattr(
                "connectors_core.lookup.hash_index._hashes_of",
                lambda columns: np.zeros(len(columns[0]), np.uint64),
            )
        HashIndex.write(table, ["x", "y"], folder)
        found = HashIndex.open(folder, ["x", "y"]).find(keys).to_pylist()
    wanted = [row for row in table.to_pylist() if (row["x"], row["y"]) in asked]
    assert sorted(found, key=lambda row: row["n"]) == wanted
