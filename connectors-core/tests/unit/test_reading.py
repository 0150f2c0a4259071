# SPDX-License-Identifier: Apache-2.0
"""Tests that every row is read once and in order, however reads are cut or repeated."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_source import (
    MONOTONOUS,
    Behaviour,
    Ping,
    ToyReader,
    ToySource,
    ToySplit,
    continued,
    entry_of,
    fresh_store,
    planned,
    read,
    reader_task,
    report_of,
    rows_of,
)

from connectors_core.engine.execution import reader_task as reader_task_module
from connectors_core.engine.execution.dead_letter_spools import read_spool
from connectors_core.engine.execution.reader_task import HEARTBEAT_COLUMN, read_entry
from connectors_core.engine.protocol import REPORTS, decode_entry, encode_entry, report_path
from connectors_core.errors import (
    BadRecordError,
    BadRecordLimitError,
    ConfigurationError,
    DataLossError,
    FatalError,
    StateCorruptedError,
)
from connectors_core.records import RecordPolicy
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source import InputStatus, ReadLimits, RecordEvaluator, SplitTraits
from connectors_core.source.event_codec import encode_event
from connectors_core.source.watermarks import END_OF_TIME

LIVE = SplitTraits(end=False)
ORDERED = SplitTraits(ordered=True)
ends_at_a_multiple_of_17 = RecordEvaluator.of(
    lambda batch: pc.equal(pc.subtract(pc.multiply(pc.divide(batch["n"], 17), 17), batch["n"]), -16)
)

sizes = st.lists(st.integers(0, 25), min_size=1, max_size=3)
seeds = st.integers(0, 2**32)


def source_of(sizes, traits=None, **behaviour):
    rows = {f"s{i}": list(range(10, 10 + size)) for i, size in enumerate(sizes)}
    return ToySource(rows, traits=traits, behaviour=Behaviour(**behaviour))


def whole_entry(source, **fields):
    return entry_of([planned(source.split(split_id)) for split_id in source.rows], **fields)


def begun(source, **fields):
    """Read the first batch of a source, and return the task, its entry, and the next batches."""
    task = reader_task(source, fresh_store())
    entry = whole_entry(source, **fields)
    batches = read_entry(task, entry)
    next(batches)
    return task, entry, batches


def by_split(rows):
    found = {}
    for split, n in rows:
        found.setdefault(split, []).append(n)
    return found


# --- positions ------------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    sizes=sizes,
    seed=seeds,
    ordered=st.booleans(),
    claim=st.booleans(),
    rows=st.none() | st.integers(1, 15),
    size=st.none() | st.integers(1, 400),
    evaluated=st.booleans(),
    skew=st.none() | st.integers(0, 12),
    can_pause=st.booleans(),
)
def test_consecutive_plans_read_every_row_once_and_replays_return_the_same_rows(
    sizes, seed, ordered, claim, rows, size, evaluated, skew, can_pause
):
    # Like the coordinator, claim reads that can be cut anywhere.
    claim = claim or size is not None or (rows is not None and not ordered)
    source = source_of(sizes, SplitTraits(ordered=ordered), seed=seed, can_pause=can_pause)
    task = reader_task(
        source,
        fresh_store(),
        evaluator=ends_at_a_multiple_of_17 if evaluated else None,
        strategy=MONOTONOUS,
    )
    wanted = {
        split: list(range(min(len(times), 17) if evaluated else len(times)))
        for split, times in source.rows.items()
        if times
    }
    entry = whole_entry(source, limits=ReadLimits(rows=rows, bytes=size), claim=claim)
    emitted = []
    while entry.splits:
        assert entry.plan < 500, "no progress"
        if skew is not None:
            lowest = min(len(by_split(emitted).get(s.split_id, [])) for s in entry.splits)
            entry = replace(entry, max_watermark=9 + lowest + skew)
        first = read(task, entry)
        report = report_of(task, entry)
        assert (len(first), rows is None or len(first) <= rows) == (report.rows, True)
        # Read again with the report: a retry, a second branch, or a replay after a crash.
        assert by_split(read(task, entry)) == by_split(first)
        assert report_of(task, entry) == report
        if not claim:  # read again without it: an attempt died before its report
            other = reader_task(
                source, task.store.child("other"), evaluator=task.evaluator, strategy=task.strategy
            )
            assert by_split(read(other, entry)) == by_split(first)
            reader_task_module.assert_same_stops(report_of(other, entry), report)
        emitted += first
        entry = continued(entry, report)
    assert by_split(emitted) == wanted
    assert source.behaviour.opened == source.behaviour.closed


@settings(deadline=None)
@given(sizes=sizes, seed=seeds, rows=st.none() | st.integers(1, 15), data=st.data())
def test_a_live_source_resumes_where_it_stopped_as_rows_arrive(sizes, seed, rows, data):
    source = source_of(sizes, LIVE, seed=seed)
    task = reader_task(source, fresh_store())
    entry = whole_entry(source, claim=True, limits=ReadLimits(rows=rows))
    emitted = []
    for _ in range(4):
        source.behaviour.visible = {
            split: data.draw(st.integers(len(by_split(emitted).get(split, [])), len(times)))
            for split, times in source.rows.items()
        }
        first = read(task, entry)
        # More rows arrive before the entry is read again. They belong to the next entry.
        source.behaviour.visible = {split: len(times) for split, times in source.rows.items()}
        assert by_split(read(task, entry)) == by_split(first)
        emitted += first
        entry = continued(entry, report_of(task, entry))
    for split, numbers in by_split(emitted).items():
        assert numbers == list(range(len(numbers))), split


@settings(deadline=None)
@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=3), seed=seeds, data=st.data())
def test_two_racing_attempts_both_emit_the_rows_of_the_first_report(sizes, seed, data):
    source = source_of(sizes, LIVE, seed=seed)
    visible = {s: data.draw(st.integers(0, len(t))) for s, t in source.rows.items()}
    more = {s: data.draw(st.integers(visible[s], len(t))) for s, t in source.rows.items()}
    source.behaviour.visible = more
    task = reader_task(source, fresh_store())
    entry = whole_entry(source, claim=True)
    raced = []

    def the_other_is_faster():
        source.behaviour.between = lambda: None
        source.behaviour.visible = visible
        raced.extend(read(task, entry))
        source.behaviour.visible = more

    source.behaviour.between = the_other_is_faster
    mine = read(task, entry)
    assert by_split(mine) == by_split(raced)
    assert {s: len(n) for s, n in by_split(raced).items()} == {
        s: n for s, n in visible.items() if n
    }
    assert report_of(task, entry).rows == len(raced)


def test_no_row_is_emitted_before_the_claim_is_durable():
    source = source_of([5], LIVE)
    task, entry, _ = begun(source, claim=True)
    assert report_of(task, entry).rows == 5
    assert source.behaviour.closed == 1


def test_fewer_rows_than_in_an_earlier_read_are_data_loss():
    for traits in (LIVE, ORDERED, SplitTraits()):
        source = source_of([9, 3], traits)
        task = reader_task(source, fresh_store())
        entry = whole_entry(source, claim=True)
        read(task, entry)
        source.rows["s0"] = source.rows["s0"][:4]
        with pytest.raises(DataLossError, match="s0"):
            read(task, entry)
        assert source.behaviour.opened == source.behaviour.closed


def test_two_unclaimed_reads_with_different_ends_are_refused():
    source = source_of([9])
    task, entry, batches = begun(source)
    source.rows["s0"] = source.rows["s0"][:-1]
    read(task, entry)
    source.rows["s0"].append(0)
    source.rows["s0"].append(0)
    with pytest.raises(FatalError, match="ended at different rows"):
        list(batches)


def test_a_report_of_another_life_is_refused():
    source = source_of([3])
    task = reader_task(source, fresh_store())
    entry = whole_entry(source)
    read(task, entry)
    with pytest.raises(StateCorruptedError, match="another plan of the same number"):
        read(task, replace(entry, nonce="another"))


def test_a_report_of_another_life_that_appears_during_the_read_is_refused():
    task, entry, batches = begun(source_of([3]))
    read(task, replace(entry, nonce="another"))
    with pytest.raises(StateCorruptedError, match="another plan of the same number"):
        list(batches)


def test_an_entry_of_another_source_is_refused():
    task = reader_task(source_of([3]), fresh_store())
    with pytest.raises(StateCorruptedError, match="another source"):
        read(task, entry_of([], source="other"))


def test_an_entry_passes_through_the_carrier_as_text():
    source = source_of([4])
    task = reader_task(source, fresh_store())
    entry = whole_entry(source, heartbeat=None, limits=ReadLimits(rows=2), claim=True)
    assert decode_entry(encode_entry(entry)) == entry
    assert rows_of(task(encode_entry(entry))) == [("s0", 0), ("s0", 1)]


# --- ends and errors ------------------------------------------------------------------------------


@pytest.mark.parametrize("traits", [ORDERED, SplitTraits()])
def test_a_killed_task_closes_its_reader_and_writes_no_report(traits):
    source = source_of([20, 20], traits)
    task, entry, batches = begun(source)
    batches.close()
    assert report_of(task, entry) is None
    assert source.behaviour.log == ["open", "start", "close"]


@pytest.mark.parametrize("claim", [True, False])
def test_an_error_of_the_reader_is_raised_closes_it_and_leaves_no_files(claim):
    source = source_of([20], fail_at=("s0", 11), bad={("s0", 1)}, block=5)
    task = reader_task(source, fresh_store(), policy=RecordPolicy.dead_letter(object()))
    entry = whole_entry(source, claim=claim)
    with pytest.raises(OSError, match="connection lost"):
        read(task, entry)
    assert source.behaviour.opened == source.behaviour.closed == 1
    assert task.store.list(recursive=True) == []
    source.behaviour.fail_at = None
    assert len(read(task, entry)) == 19


def test_events_reach_the_reader_first_and_its_answers_travel_in_the_report():
    source = source_of([3])
    task = reader_task(source, fresh_store())
    entry = whole_entry(source, events=(encode_event(Ping(1)), encode_event(Ping(2))))
    read(task, entry)
    assert source.behaviour.log == ["open", "start", Ping(1), Ping(2), "close"]
    assert report_of(task, entry).events == (encode_event(Ping(101)), encode_event(Ping(102)))


def test_an_entry_may_contain_only_events():
    source = source_of([3])
    task = reader_task(source, fresh_store())
    entry = entry_of([], events=(encode_event(Ping(1)),))
    assert read(task, entry) == []
    assert report_of(task, entry).events == (encode_event(Ping(101)),)


def test_an_unknown_event_is_refused_by_name():
    source = source_of([3])
    event = replace(encode_event(Ping(1)), name="Pong")
    with pytest.raises(ConfigurationError, match="Pong"):
        read(reader_task(source, fresh_store()), whole_entry(source, events=(event,)))
    assert source.behaviour.opened == source.behaviour.closed


def test_a_heartbeat_row_comes_first_and_contains_only_its_time():
    source = source_of([2])
    task = reader_task(source, fresh_store(), strategy=MONOTONOUS)
    entry = whole_entry(source, heartbeat=END_OF_TIME + 5_000)
    first, *rest = read_entry(task, entry)
    assert first.schema.equals(task.output_schema())
    (row,) = first.to_pylist()
    assert (row["split"], row["n"], row[HEARTBEAT_COLUMN]) == (None, None, True)
    assert first.column("t").cast(pa.int64()).to_pylist() == [END_OF_TIME + 5_000]
    assert [row[HEARTBEAT_COLUMN] for batch in rest for row in batch.to_pylist()] == [False, False]
    assert report_of(task, entry).rows == 2


def test_a_split_stopped_by_alignment_does_not_block_other_splits_of_an_ordered_reader():
    for can_pause in (True, False):
        for traits in (ORDERED, SplitTraits()):
            source = ToySource(
                {"far": [10, 500, 600], "near": [11, 12], "mid": [13, 450]},
                traits=traits,
                behaviour=Behaviour(can_pause=can_pause),
            )
            task = reader_task(source, fresh_store(), strategy=MONOTONOUS)
            entry = whole_entry(source, max_watermark=100)
            rows = by_split(read(task, entry))
            assert rows == {"far": [0], "near": [0, 1], "mid": [0]}
            report = {split.split_id: split for split in report_of(task, entry).splits}
            assert (report["far"].head, report["mid"].head) == (499, 449)
            assert report["near"].finished
            assert source.behaviour.opened == source.behaviour.closed


# --- deleted rows --------------------------------------------------------------------------------


@dataclass(frozen=True)
class HoledSplit(ToySplit):
    lost: int = 0

    def still_to_skip(self, rows, behind):
        return max(0, rows - (self.lost - behind.lost))


class HoledSource(ToySource):
    """The rows before `begin` are deleted, so the reader resumes after them."""

    begin = 0

    def create_reader(self, context):
        return HoledReader(self, context)

    def split_serializer(self):
        return JsonDataclassSerializer(HoledSplit)


class HoledReader(ToyReader):
    def poll_next(self, output):
        for split_id, split in self.splits.items():
            gone = self.source.begin - split.position
            if gone > 0:
                self.splits[split_id] = replace(split, position=self.source.begin, lost=gone)
                return InputStatus.MORE_AVAILABLE
        return super().poll_next(output)


@pytest.mark.parametrize("begin", [0, 3, 6])
def test_deleted_rows_to_skip_are_not_skipped_among_later_rows(begin):
    source = HoledSource({"s0": list(range(10, 19))}, behaviour=Behaviour(block=9))
    source.begin = begin
    entry = entry_of([planned(HoledSplit("s0"), skip=5)])
    task = reader_task(source, fresh_store())
    expected = [("s0", n) for n in range(max(5, begin), 9)]
    assert read(task, entry) == expected
    assert read(task, entry) == expected  # by the report


# --- polled splits -------------------------------------------------------------------------------


def test_a_split_that_a_limit_excludes_counts_as_not_polled():
    source = source_of([9, 9], SplitTraits(end=False, ordered=True))
    task = reader_task(source, fresh_store())
    entry = whole_entry(source, claim=True, limits=ReadLimits(rows=3))
    read(task, entry)
    assert [(s.split_id, s.asked) for s in report_of(task, entry).splits] == [("s0", True)]


def test_a_split_whose_rows_were_all_skipped_counts_as_not_polled():
    source = source_of([9], LIVE, block=3)
    task = reader_task(source, fresh_store())
    entry = entry_of([planned(ToySplit("s0"), skip=4)], claim=True, limits=ReadLimits(seconds=60.0))
    polls = []

    def time_is_up():
        polls.append(1)
        if len(polls) == 2:
            raise TimeoutError

    # The time limit expires between the two polls, so the entry ends with its rows so far.
    source.behaviour.between = time_is_up
    with pytest.raises(TimeoutError):
        read(task, entry)
    reader = reader_task_module._EntryReading(task, entry, None)
    source.behaviour.between = lambda: setattr(reader, "_limits", ReadLimits(seconds=0.0))
    assert list(reader.batches()) == []
    (split,) = reader.report(0).splits
    assert (split.rows, split.asked, split.skip) == (0, False, 1)


class RespondsLate(ToyReader):
    """A reader whose first response comes after some polls, in every life."""

    polls = 0

    def has_fetched(self):
        return self.polls > 5

    def poll_next(self, output):
        self.polls += 1
        return super().poll_next(output) if self.has_fetched() else InputStatus.NOTHING_AVAILABLE


def late_source(traits=LIVE):
    source = source_of([5], traits)
    source.create_reader = lambda context: RespondsLate(source, context)
    return source


def test_a_first_response_that_is_later_than_the_idle_time_is_awaited():
    source = late_source()
    task = reader_task(source, fresh_store(), idle_seconds=0.0)
    assert len(read(task, whole_entry(source, claim=True))) == 5


def test_a_limit_in_seconds_begins_with_the_first_response():
    source = late_source(SplitTraits())
    task = reader_task(source, fresh_store())
    entry = whole_entry(source, claim=True, limits=ReadLimits(seconds=0.0, rows=3))
    assert len(read(task, entry)) > 0


def test_an_entry_without_any_response_ends_and_its_split_is_not_idle():
    source = late_source()
    task = reader_task(source, fresh_store(), first_fetch_seconds=0.0)
    entry = whole_entry(source, claim=True)
    assert read(task, entry) == []
    (split,) = report_of(task, entry).splits
    assert not split.asked


def test_another_split_is_the_first_one_in_every_plan():
    source = source_of([5, 5, 5], LIVE)
    order = []

    class NotesTheOrder(ToyReader):
        def add_splits(self, splits):
            order.append([split.split_id for split in splits])
            super().add_splits(splits)

    source.create_reader = lambda context: NotesTheOrder(source, context)
    task = reader_task(source, fresh_store())
    for plan in range(4):
        read(task, whole_entry(source, plan=plan, claim=True))
    assert [each[0] for each in order] == ["s0", "s1", "s2", "s0"]


def test_a_live_split_without_rows_counts_as_polled():
    source = source_of([9], LIVE, visible={"s0": 0})
    task = reader_task(source, fresh_store())
    entry = whole_entry(source, claim=True)
    assert read(task, entry) == []
    assert [(s.rows, s.asked) for s in report_of(task, entry).splits] == [(0, True)]


# --- bad records ----------------------------------------------------------------------------------


def dead_letters(task, *reports):
    positions = []
    for report in reports:
        if report.spool is not None:
            for batch in read_spool(task.store.child("q"), report.spool):
                positions += batch.column("position").to_pylist()
    return positions


def test_a_row_with_an_impossible_event_time_stops_the_entry_unless_the_policy_skips_it():
    source = ToySource({"a": [10, -5, 12, END_OF_TIME, None, 13]})
    task = reader_task(source, fresh_store(), strategy=MONOTONOUS)
    entry = whole_entry(source)
    with pytest.raises(BadRecordError, match="outside 1970"):
        read(task, entry)
    assert report_of(task, entry) is None
    task = replace(task, policy=RecordPolicy.skip())
    assert [n for _, n in read(task, entry)] == [0, 2, 4, 5]
    report = report_of(task, entry)
    assert (report.skipped, report.rows, report.splits[0].rows) == (2, 4, 6)
    assert [n for _, n in read(task, entry)] == [0, 2, 4, 5]


def test_exceeding_the_limit_of_bad_records_stops_an_entry():
    source = ToySource({"a": [-1, -1, -1]})
    task = reader_task(
        source, fresh_store(), strategy=MONOTONOUS, policy=RecordPolicy.skip(max_records=2)
    )
    with pytest.raises(BadRecordLimitError):
        read(task, whole_entry(source))


@pytest.mark.parametrize("claim", [True, False])
def test_dead_letters_are_named_in_the_report_and_a_replay_adds_none(claim):
    source = ToySource({"a": [10, -5, 12, -6]})
    task = reader_task(
        source, fresh_store(), strategy=MONOTONOUS, policy=RecordPolicy.dead_letter(object())
    )
    entry = whole_entry(source, claim=claim)
    read(task, entry)
    report = report_of(task, entry)
    assert report.dead_letters == 2
    assert dead_letters(task, report) == ["row 1 of the read", "row 3 of the read"]
    before = task.store.list(recursive=True)
    read(task, entry)
    assert task.store.list(recursive=True) == before


@settings(deadline=None)
@given(
    size=st.integers(1, 40),
    block=st.integers(1, 9),
    limit=st.integers(1, 7),
    skew=st.none() | st.integers(0, 5),
    live=st.booleans(),
    data=st.data(),
)
def test_a_bad_record_is_counted_once_however_its_batch_is_cut(
    size, block, limit, skew, live, data
):
    bad = data.draw(st.sets(st.integers(0, size - 1)))
    source = source_of(
        [size],
        SplitTraits(end=not live, ordered=True),
        bad={("s0", n) for n in bad},
        block=block,
    )
    task = reader_task(
        source, fresh_store(), strategy=MONOTONOUS, policy=RecordPolicy.dead_letter(object())
    )
    entry = whole_entry(source, limits=ReadLimits(rows=limit), claim=live)
    reports, emitted = [], []
    while entry.splits and len(reports) < 200:
        if skew is not None:
            good = next((n for n in range(size) if n not in bad and n not in emitted), size)
            entry = replace(entry, max_watermark=9 + good + skew)
        rows = read(task, entry)
        emitted += [n for _, n in rows]
        reports.append(report_of(task, entry))
        entry = continued(entry, reports[-1])
        if live and not rows:
            break
    assert emitted == [n for n in range(size) if n not in bad]
    assert sorted(int(p) for p in dead_letters(task, *reports)) == sorted(bad)
    assert sum(report.dead_letters for report in reports) == len(bad)


def test_a_live_split_advances_past_a_batch_of_bad_records_only():
    source = source_of([3], LIVE, bad={("s0", n) for n in range(3)}, block=3)
    task = reader_task(source, fresh_store(), policy=RecordPolicy.skip())
    entry = whole_entry(source, claim=True)
    assert read(task, entry) == []
    again = continued(entry, report_of(task, entry))
    assert read(task, again) == []
    skipped = [report_of(task, each).skipped for each in (entry, again)]
    assert skipped == [3, 0]


def test_the_dead_letters_of_an_attempt_that_lost_the_race_are_removed():
    for claim in (True, False):
        source = ToySource({"a": [10, -5, 12]})
        task = reader_task(
            source, fresh_store(), strategy=MONOTONOUS, policy=RecordPolicy.dead_letter(object())
        )
        entry = whole_entry(source, claim=claim)

        def the_other_is_faster(source=source, task=task, entry=entry):
            source.behaviour.between = lambda: None
            read(task, entry)

        source.behaviour.between = the_other_is_faster
        read(task, entry)
        spools = task.store.child("q").list("spool", recursive=True)
        assert [f"spool/{name}" for name in spools] == [report_of(task, entry).spool]


def test_a_report_that_disappeared_is_not_mistaken_for_a_lost_race(monkeypatch):
    source = source_of([3])
    task = reader_task(source, fresh_store())
    entry = whole_entry(source)
    monkeypatch.setattr(type(REPORTS), "create", lambda *_: False)
    with pytest.raises(StateCorruptedError, match=report_path(0, "s", 0)):
        read(task, entry)
