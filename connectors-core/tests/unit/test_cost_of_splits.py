# SPDX-License-Identifier: Apache-2.0
"""Tests that count steps: the cost of a split does not depend on the number of splits."""

from __future__ import annotations

import pyarrow as pa
from toy_source import (
    MONOTONOUS,
    SCHEMA,
    ToyReader,
    ToySource,
    ToySplit,
    entry_of,
    fresh_store,
    planned,
    read,
    reader_task,
    report_of,
)

from connectors_core.engine.execution.joined_batches import joined
from connectors_core.engine.execution.reader_task import HEARTBEAT_COLUMN, without_heartbeat
from connectors_core.source import SplitTraits
from connectors_core.source.base import (
    RecordEmitter,
    RecordsBySplits,
    SingleThreadSequentialFetcherManager,
    SourceReaderBase,
    SplitReader,
)
from connectors_core.source.split import SplitState

ORDERED = SplitTraits(ordered=True)


class CountedState(SplitState):
    """Counts how often the runtime asks for a position."""

    asked = 0

    def __init__(self, split):
        self.split = split

    def to_split(self):
        CountedState.asked += 1
        return self.split


class OneRowSplits(SplitReader):
    def __init__(self):
        self.waiting = []

    def fetch(self):
        split = self.waiting.pop()
        rows = pa.record_batch([[split.split_id], [0], [0]], schema=SCHEMA)
        return RecordsBySplits([(split.split_id, rows)], frozenset([split.split_id]))

    def handle_splits_changes(self, change):
        self.waiting.extend(change.splits)

    def wake_up(self):
        pass

    def close(self):
        pass


class Emitter(RecordEmitter):
    def emit_record(self, element, output, split_state):
        output.collect(element)


class CountedReader(SourceReaderBase):
    def __init__(self, context):
        super().__init__(context, SingleThreadSequentialFetcherManager(OneRowSplits), Emitter())

    def initialized_state(self, split):
        return CountedState(split)


class OwnSnapshot(CountedReader):
    """A reader of an earlier release that adds to what the base class returns."""

    def snapshot_state(self):
        return super().snapshot_state()


def positions_asked(splits, reader=CountedReader):
    rows = {f"s{at}": [0] for at in range(splits)}
    source = ToySource(rows, traits=ORDERED)
    source.create_reader = reader
    entry = entry_of([planned(ToySplit(name)) for name in rows])
    task = reader_task(source, fresh_store())
    CountedState.asked = 0
    assert len(read(task, entry)) == splits
    assert all(split.finished for split in report_of(task, entry).splits)
    return CountedState.asked


def test_positions_are_asked_for_as_often_per_split_for_many_splits_as_for_few():
    assert positions_asked(400) <= 2 * 400
    assert positions_asked(40) <= 2 * 40


def test_a_reader_with_positions_of_its_own_is_asked_for_all_of_them():
    assert positions_asked(40, OwnSnapshot) > 40 * 40 / 2


def test_splits_that_stop_at_the_allowed_watermark_cost_the_same_for_many_splits_as_for_few():
    def added(splits):
        counts = []

        class Counted(ToyReader):
            def add_splits(self, given):
                counts.append(len(given))
                super().add_splits(given)

        source = ToySource({f"s{at}": [10, 90] for at in range(splits)}, traits=ORDERED)
        source.create_reader = lambda context: Counted(source, context)
        task = reader_task(source, fresh_store(), strategy=MONOTONOUS)
        entry = entry_of([planned(source.split(name)) for name in source.rows], max_watermark=50)
        assert len(read(task, entry)) == splits
        assert all(split.head == 89 for split in report_of(task, entry).splits)
        return sum(counts)

    assert added(400) / 400 < 1.5 * added(100) / 100


def test_rows_after_a_portion_of_splits_are_read_too():
    stops = {f"s{at}": [10, 90] for at in range(3)}
    ends = {f"t{at}": [10] for at in range(200)}
    source = ToySource(stops | ends, traits=ORDERED)
    task = reader_task(source, fresh_store(), strategy=MONOTONOUS)
    entry = entry_of([planned(source.split(name)) for name in source.rows], max_watermark=50)
    assert len(read(task, entry)) == 203
    finished = [split.split_id for split in report_of(task, entry).splits if split.finished]
    assert finished == list(ends)


def test_small_batches_reach_spark_as_one():
    batches = [pa.record_batch({"n": [at]}) for at in range(20_000)]
    found = list(joined(batches))
    assert pa.Table.from_batches(found) == pa.Table.from_batches(batches)
    assert len(found) == 3


def test_large_batches_are_not_copied():
    large = pa.record_batch({"n": list(range(10_000))})
    small = pa.record_batch({"n": [1]})
    found = list(joined([small, large, large, small]))
    assert [each.num_rows for each in found] == [1, 10_000, 10_000, 1]
    assert found[1] is large


def test_a_heartbeat_joined_with_rows_is_left_out_alone():
    rows = pa.record_batch({"n": [None, 1, 2], HEARTBEAT_COLUMN: [True, False, False]})
    heartbeat, data = rows.slice(0, 1), rows.slice(1)
    for batches in ([rows], [heartbeat, data], [heartbeat, rows.slice(1, 1), rows.slice(2)]):
        found = pa.Table.from_batches(without_heartbeat(batches))
        assert found.to_pydict() == {"n": [1, 2]}
