# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors_core.errors import ConfigurationError
from connectors_core.source.alignment import (
    LOWEST,
    NO_LIMIT,
    AlignmentGroup,
    CoordinatorStore,
    IdlenessClock,
    MaxWatermark,
    SplitProgress,
    alignment_minimum,
    source_watermark,
)
from connectors_core.source.watermarks import (
    END_OF_TIME,
    MAX_WATERMARK,
    MIN_WATERMARK,
    WatermarkAlignment,
    WatermarkStrategy,
)

US = timedelta(microseconds=1)
DRIFT = WatermarkAlignment("g", 10 * US)


def split(name="a", **fields):
    return SplitProgress(split_id=name, **fields)


def read(watermark=None, **fields):
    return split(watermark=watermark, read=True, **fields)


def mark(previous, *splits, highest_finished=None, finished=False, discovered=True):
    return source_watermark(
        previous, splits, highest_finished, finished=finished, discovered=discovered
    )


# --- the watermark of a source -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (mark(None, read(5), read(3)), 3),
        (mark(4, read(5), read(3)), 4),  # never falls
        (mark(None, read(5), split(lower_bound=4)), 3),  # rows at the bound are still expected
        (mark(None, read(5), split(lower_bound=9)), 5),
        (mark(None, read(5, lower_bound=9)), 8),  # no rows below the bound remain
        (mark(2, read(5), split()), 2),  # unread: no known times
        (mark(2, read(5), read()), 2),  # read: no event time so far
        (mark(None, read(5), split()), None),
        (mark(None, read(5), read(3, idle=True)), 5),
        (mark(None, read(5), read(3, head=30, idle=True)), 3),  # held: not idle
        (mark(None, read(5), split(idle=True)), None),  # unread: not idle
        (mark(3, read(5, idle=True), read(7, idle=True)), 7),
        (mark(3, read(5, idle=True), highest_finished=9), 9),
        (mark(3, read(idle=True)), 3),
        (mark(3, highest_finished=9), 9),  # all read, more may be discovered
        (mark(12, highest_finished=9), 12),
        (mark(None), None),
        (mark(3, read(5), highest_finished=9), 5),
        (mark(3, read(5), discovered=False), 3),
        (mark(None, highest_finished=9, discovered=False), None),
        (mark(3, read(5), finished=True), END_OF_TIME),
        (mark(None, finished=True, discovered=False), END_OF_TIME),
    ],
)
def test_the_watermark_of_a_source_follows_its_splits(actual, expected):
    assert actual == expected


def test_the_order_in_which_splits_become_idle_does_not_matter():
    slow, fast = read(3), read(7)
    slow_idle, fast_idle = read(3, idle=True), read(7, idle=True)
    one = mark(mark(mark(None, slow, fast), slow_idle, fast), slow_idle, fast_idle)
    other = mark(mark(mark(None, slow, fast), slow, fast_idle), slow_idle, fast_idle)
    assert one == other == 7


def test_a_split_that_becomes_active_again_does_not_lower_the_watermark():
    watermark = mark(None, read(50), read(20, idle=True))
    assert watermark == 50
    watermark = mark(watermark, read(60), read(25))
    assert watermark == 50  # its rows up to 50 are late; the watermark does not fall
    assert mark(watermark, read(60), read(55)) == 55


# --- groups --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("splits", "expected"),
    [
        ([], MAX_WATERMARK),
        ([read(5), read(3)], 3),
        ([read(5), read(3, head=8)], 5),
        ([read(5), split(lower_bound=4)], 3),
        ([read(5), split()], MIN_WATERMARK),
        ([read(5), read()], MIN_WATERMARK),
        ([read(5), read(idle=True)], 5),
        ([read(idle=True), read(3, idle=True)], MAX_WATERMARK),
        ([read(3, head=30, idle=True)], 30),
    ],
)
def test_the_minimum_of_a_source(splits, expected):
    assert alignment_minimum(splits, finished=False, discovered=True) == expected
    assert alignment_minimum(splits, finished=False, discovered=False) == MIN_WATERMARK
    assert alignment_minimum(splits, finished=True, discovered=False) == MAX_WATERMARK


def test_a_group_exists_from_its_first_source_to_its_last():
    group = AlignmentGroup(DRIFT)
    assert group.max_allowed_watermark() == NO_LIMIT
    group.join("slow")
    group.update("fast", [read(100)], finished=False, discovered=True)
    assert group.max_allowed_watermark() == LOWEST  # "slow" has not discovered anything yet
    group.update("slow", [], finished=False, discovered=False)
    assert group.max_allowed_watermark() == LOWEST
    group.update("slow", [], finished=False, discovered=True)
    assert group.max_allowed_watermark() == MaxWatermark(110)  # discovery answered: no splits
    group.update("slow", [split("b")], finished=False, discovered=True)
    assert group.max_allowed_watermark() == LOWEST
    group.update("slow", [read(40)], finished=False, discovered=True)
    assert group.max_allowed_watermark() == MaxWatermark(50)
    group.join("slow")  # repeated: changes nothing
    assert group.minimum == 40
    group.update("slow", [read(40, idle=True)], finished=False, discovered=True)
    assert group.max_allowed_watermark() == MaxWatermark(110)
    group.update("fast", [read(100, idle=True)], finished=False, discovered=True)
    assert group.max_allowed_watermark() == NO_LIMIT
    group.update("fast", [read(100)], finished=False, discovered=True)
    group.update("slow", [], finished=True, discovered=True)
    assert group.max_allowed_watermark() == MaxWatermark(110)
    group.update("slow", [read(1)], finished=False, discovered=True)
    group.leave("slow")
    group.leave("slow")
    assert group.max_allowed_watermark() == MaxWatermark(110)


def test_removing_a_held_split_frees_the_group():
    group = AlignmentGroup(DRIFT)
    held, slow = split("a", watermark=9, head=300, read=True), split("b", watermark=5, read=True)
    group.update("s", [held, slow], finished=False, discovered=True)
    assert group.max_allowed_watermark() == MaxWatermark(15)
    assert not group.max_allowed_watermark().admits(held.mark)
    group.update("s", [held], finished=False, discovered=True)  # "b" was removed
    assert group.max_allowed_watermark().admits(held.mark)
    group.update("s", [], finished=False, discovered=True)
    assert group.max_allowed_watermark() == NO_LIMIT


def test_no_limit_and_the_lowest_watermark_survive_arithmetic():
    assert LOWEST < MaxWatermark(0) < NO_LIMIT
    assert LOWEST.admits(None)  # unknown: must be read
    assert LOWEST.admits(MIN_WATERMARK)
    assert not LOWEST.admits(0)
    assert NO_LIMIT.admits(END_OF_TIME)
    group = AlignmentGroup(WatermarkAlignment("g", timedelta(days=30_000)))
    group.update("s", [split()], finished=False, discovered=True)
    assert group.max_allowed_watermark() == LOWEST
    group.update("s", [], finished=False, discovered=True)
    assert group.max_allowed_watermark() == NO_LIMIT


def test_the_update_interval_delays_only_increases():
    now = 0.0
    store = CoordinatorStore(clock=lambda: now)
    group = store.group(WatermarkAlignment("g", 10 * US, timedelta(seconds=2)))

    def step(at, watermark):
        nonlocal now
        now = at
        group.update("s", [read(watermark)], finished=False, discovered=True)
        return group.max_allowed_watermark().micros

    assert step(0, 5) == 15
    assert step(1, 9) == 15
    assert step(2, 9) == 19
    assert step(2.5, 3) == 13
    assert step(3, 9) == 13
    assert step(4.5, 9) == 19
    assert group.max_allowed_watermark(now=100).micros == 19


def test_a_group_is_shared_by_name_and_has_a_single_drift():
    store = CoordinatorStore()
    assert store.group(DRIFT) is store.group(WatermarkAlignment("g", 10 * US))
    assert store.group(WatermarkAlignment("h", 2 * US)) is not store.group(DRIFT)
    with pytest.raises(ConfigurationError) as caught:
        store.group(WatermarkAlignment("g", 11 * US))
    assert caught.value.option == "max_drift"
    with pytest.raises(ConfigurationError) as caught:
        store.group(WatermarkAlignment("g", 10 * US, timedelta(seconds=1)))
    assert caught.value.option == "update_interval"


# --- idleness ------------------------------------------------------------------------------------


def test_only_time_in_which_a_split_was_polled_without_rows_counts_as_idle():
    clock = IdlenessClock(timedelta(seconds=10))
    clock.observe("a", asked=True, rows=0, seconds=6)
    clock.observe("a", asked=False, rows=0, seconds=100)  # held, limited, or unassigned
    assert not clock.idle("a")
    clock.observe("a", asked=True, rows=0, seconds=4)
    assert clock.idle("a")
    assert not clock.idle("b")
    clock.observe("a", asked=True, rows=1, seconds=4)  # a row resets the clock
    assert not clock.idle("a")
    clock.observe("a", asked=True, rows=0, seconds=9.9)
    assert not clock.idle("a")
    clock.observe("a", asked=False, rows=2, seconds=1)  # its rows, all held back
    clock.observe("a", asked=True, rows=0, seconds=9.9)
    assert not clock.idle("a")


def test_the_clock_can_measure_the_time_between_plans():
    now = 0.0
    clock = IdlenessClock(timedelta(seconds=10), clock=lambda: now)

    def observe(at, asked=True, rows=0):
        nonlocal now
        now = at
        clock.observe("a", asked, rows)
        return clock.idle("a")

    assert not observe(100)  # never polled before
    assert not observe(109)
    assert observe(110)
    assert not observe(111, rows=3)
    assert not observe(120)
    assert not observe(200, asked=False)
    assert not observe(300)  # not polled since 120
    assert observe(301)
    clock.forget("a")
    clock.forget("a")
    assert not clock.idle("a")
    assert not observe(400)


def test_without_an_idle_timeout_no_split_is_idle():
    clock = IdlenessClock(None)
    clock.observe("a", asked=True, rows=0, seconds=1e9)
    assert not clock.idle("a")


def test_a_split_without_rows_holds_the_group_until_it_is_idle():
    clock, group = IdlenessClock(timedelta(seconds=10)), AlignmentGroup(DRIFT)
    watermark = None
    for plan in range(3):
        splits = [
            split("busy", watermark=100, read=plan > 0),
            split("silent", read=plan > 0, idle=clock.idle("silent")),
        ]
        group.update("s", splits, finished=False, discovered=True)
        watermark = mark(watermark, *splits)
        allowed = group.max_allowed_watermark()
        assert (watermark, allowed) == ((None, LOWEST) if plan < 2 else (100, MaxWatermark(110)))
        clock.observe("silent", asked=allowed.admits(splits[1].mark), rows=0, seconds=5)


# --- simulation ----------------------------------------------------------------------------------


@dataclass
class SimSplit:
    """A bounded split, as it is stored between plans."""

    name: str
    times: list[int]
    knows_bound: bool
    position: int = 0
    reader: int | None = None
    was_read: bool = False
    watermark: int | None = None
    head: int | None = None
    state: dict = field(default_factory=dict)

    def progress(self):
        rest = self.times[self.position :]
        return SplitProgress(
            split_id=self.name,
            watermark=self.watermark,
            head=self.head,
            lower_bound=min((t for t in rest if t), default=None) if self.knows_bound else None,
            read=self.was_read,
        )


@dataclass
class SimSource:
    """A source with its enumerator, coordinator, and readers, as in the runtime."""

    uid: str
    bound: int
    readers: int
    rows_per_reader: int
    splits_per_reader: int
    batch_rows: int
    discovered_in: int
    tells_unassigned: bool
    splits: list[SimSplit]
    watermark: int | None = None
    highest_finished: int | None = None

    @property
    def discovered(self):
        return self.discovered_in == 0

    @property
    def finished(self):
        return self.discovered and not self.splits

    def of(self, reader):
        own = [s for s in self.splits if s.reader == reader]
        return sorted(own, key=lambda s: s.progress().mark)

    def assign(self, allowed):
        """Assign splits on request, by lower bound where it is known."""
        if not self.discovered:
            return
        for reader in range(self.readers):
            queue = self.of(reader)
            waiting = [s for s in self.splits if s.reader is None]
            all_held = not any(allowed.admits(s.progress().mark) for s in queue)
            if waiting and (len(queue) < 2 or all_held):
                min(waiting, key=lambda s: s.progress().mark).reader = reader

    def known(self):
        """Return the progress that the coordinator can know."""
        if not self.discovered:
            return []
        return [s.progress() for s in self.splits if s.reader is not None or self.tells_unassigned]

    def prepare(self, group):
        known = self.known()
        self.watermark = source_watermark(
            self.watermark,
            known,
            self.highest_finished,
            finished=self.finished,
            discovered=self.discovered,
        )
        group.update(self.uid, known, finished=self.finished, discovered=self.discovered)

    def read(self, allowed, emitted):
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(self.bound * US)
        for reader in range(self.readers):
            queue = [s for s in self.of(reader) if allowed.admits(s.progress().mark)]
            left = self.rows_per_reader
            for split in queue[: self.splits_per_reader]:
                if left == 0:
                    break
                left -= self.read_split(split, strategy, allowed, left, emitted)
        for split in [s for s in self.splits if s.position == len(s.times) and s.was_read]:
            self.splits.remove(split)
            if split.watermark is not None:
                self.highest_finished = max(split.watermark, self.highest_finished or 0)
        self.discovered_in = max(self.discovered_in - 1, 0)

    def read_split(self, split, strategy, allowed, limit, emitted):
        tracker = strategy.tracker(split.state)
        split.was_read, split.head, rows = True, None, 0
        while split.head is None and split.position < len(split.times) and rows < limit:
            end = split.position + min(self.batch_rows, limit - rows)
            batch = split.times[split.position : end]
            admission = tracker.admit(np.array(batch), allowed.micros)
            for event_time in batch[: admission.rows]:
                before = tracker.watermark
                tracker.advance(np.array([event_time]))
                emitted.append((self, event_time, before, tracker.watermark))
            split.position += admission.rows
            rows += admission.rows
            split.head = admission.head
        split.watermark, split.state = tracker.watermark, json.loads(json.dumps(tracker.state()))
        return rows

    def fingerprint(self):
        return [
            self.discovered_in,
            *((s.name, s.position, s.reader, s.was_read, s.head) for s in self.splits),
        ]


# Times advance in small steps or jump over gaps much larger than any drift; 0 is no event time.
gaps = st.one_of(st.integers(0, 3), st.integers(0, 3), st.integers(20, 100_000))


@st.composite
def sim_splits(draw, name):
    start = draw(st.integers(1, 50) | st.integers(1, 1_000_000))
    times = []
    for gap in draw(st.lists(gaps, max_size=12)):
        start += gap
        times.append(0 if draw(st.integers(0, 9)) == 0 else max(start - draw(st.integers(0, 6)), 1))
    return SimSplit(name, times, knows_bound=draw(st.booleans()))


@st.composite
def sim_sources(draw, uid):
    return SimSource(
        uid=uid,
        bound=draw(st.integers(0, 8)),
        readers=draw(st.integers(1, 3)),
        rows_per_reader=draw(st.integers(1, 12)),
        splits_per_reader=draw(st.integers(1, 3)),
        batch_rows=draw(st.integers(1, 8)),
        discovered_in=draw(st.integers(0, 4)),
        tells_unassigned=draw(st.booleans()),
        splits=[draw(sim_splits(f"{uid}{i}")) for i in range(draw(st.integers(0, 6)))],
    )


@settings(max_examples=250, deadline=None)
@given(st.data(), st.integers(1, 3), st.sampled_from([0, 1, 10, 500]))
def test_no_deadlock_and_no_row_beyond_the_drift(data, count, drift):
    sources = [data.draw(sim_sources(uid)) for uid in "xyz"[:count]]
    expected = sorted((s.uid, t) for s in sources for split in s.splits for t in split.times)
    group = CoordinatorStore().group(WatermarkAlignment("g", drift * US))
    every_row, planned = [], {}
    while not all(source.finished for source in sources):
        before = [source.fingerprint() for source in sources]
        for source in sources:
            source.assign(group.max_allowed_watermark())
            last = source.watermark
            source.prepare(group)
            assert last is None or source.watermark >= last
            planned[source.uid] = source.watermark or 0
        minimum, allowed = group.minimum, group.max_allowed_watermark()
        emitted = []
        for source in sources:
            source.read(allowed, emitted)
        for source, event_time, watermark_before, watermark in emitted:
            if event_time:
                # Alignment guarantees this bound: while the minimum is unknown, no timed row
                # passes.
                assert minimum == MAX_WATERMARK or watermark <= minimum + drift
                # A row that is on time in its split is not late for the source, and so not for
                # Spark.
                if source.tells_unassigned and event_time > (watermark_before or 0):
                    assert event_time > planned[source.uid]
        every_row += ((source.uid, event_time) for source, event_time, *_ in emitted)
        assert [source.fingerprint() for source in sources] != before, "the group has locked up"
    assert sorted(every_row) == expected
    for source in sources:
        source.prepare(group)
        assert source.watermark == END_OF_TIME
    assert group.max_allowed_watermark() == NO_LIMIT


def test_a_gap_in_all_splits_blocks_no_source():
    def gap(name):
        return SimSplit(name, [5, 6, 9_000_000, 9_000_001], knows_bound=False)

    source = SimSource("x", 0, 2, 100, 2, 4, 0, True, [gap("a"), gap("b")])
    group = AlignmentGroup(DRIFT)
    plans = 0
    while source.splits:
        source.assign(group.max_allowed_watermark())
        source.prepare(group)
        source.read(group.max_allowed_watermark(), [])
        plans += 1
    # The first rows, the rows up to the gap, and the rows after it.
    assert plans == 3
