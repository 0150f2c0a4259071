# SPDX-License-Identifier: Apache-2.0
"""Tests readers that are narrowed to a query: positions and reports do not depend on it."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_source import (
    MONOTONOUS,
    Behaviour,
    ToyReader,
    ToySource,
    entry_of,
    fresh_store,
    planned,
    reader_task,
    report_of,
)

from connectors_core.engine.execution.pushed_reader import SourceNeeds, pushed_reader
from connectors_core.engine.execution.reader_task import HEARTBEAT_COLUMN, read_entry
from connectors_core.records import RecordPolicy
from connectors_core.source import (
    Comparison,
    ReadLimits,
    RecordEvaluator,
    SplitTraits,
    SupportsFilterPushDown,
    SupportsLimitPushDown,
    SupportsPartitionPushDown,
    SupportsProjectionPushDown,
)

ALL = frozenset([("split",), ("n",), ("t",)])
N = frozenset([("n",)])
ORDERED = SplitTraits(ordered=True)
LATE = Comparison(("t",), ">=", 15)

conditions = st.builds(
    Comparison,
    st.just(("n",)),
    st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
    st.integers(-1, 21),
)


class Abilities(
    ToySource,
    SupportsProjectionPushDown,
    SupportsFilterPushDown,
    SupportsLimitPushDown,
    SupportsPartitionPushDown,
):
    """A source that leaves out columns, whole blocks of rows, and splits."""

    names = ("split", "n", "t")
    filters = ()
    limit = None

    def _with(self, **changes):
        source = type(self)(
            self.rows, traits=self.traits, bounded=self.bounded, behaviour=self.behaviour
        )
        source.__dict__.update(self.__dict__)
        source.__dict__.update(changes)
        return source

    def schema(self):
        full = super().schema()
        return pa.schema([full.field(name) for name in self.names])

    def apply_projection(self, fields):
        return self._with(names=tuple(name for (name,) in fields))

    def apply_filters(self, filters):
        return self._with(filters=tuple(filters)), filters

    def apply_limit(self, limit):
        return self._with(limit=limit)

    def partition_of(self, split):
        return {"split": split.split_id}

    def create_reader(self, context):
        return AbleReader(self, context)


class AbleReader(ToyReader):
    def poll_next(self, output):
        return super().poll_next(_Narrowing(output, self.source))


class _Narrowing:
    def __init__(self, output, source):
        self.output, self.source = output, source

    def create_output_for_split(self, split_id):
        return _NarrowingSplit(self.output.create_output_for_split(split_id), self.source)


class _NarrowingSplit:
    def __init__(self, output, source):
        self.output, self.source = output, source

    def collect(self, batch):
        masks = [each.mask(batch) for each in self.source.filters]
        if batch.num_rows and any(not pc.any(mask).as_py() for mask in masks):
            self.output.pass_over(batch.num_rows)
        else:
            self.output.collect(batch.select(list(self.source.names)))


def source_of(*sizes, able=True, traits=ORDERED, **behaviour):
    rows = {f"s{at}": list(range(10, 10 + size)) for at, size in enumerate(sizes)}
    kind = Abilities if able else ToySource
    return kind(rows, traits=traits, behaviour=Behaviour(**behaviour))


def whole(source, **fields):
    return entry_of([planned(source.split(split_id)) for split_id in source.rows], **fields)


def read_rows(task, entry):
    return [row for batch in read_entry(task, entry) for row in batch.to_pylist()]


def without_time(report):
    return replace(report, seconds=0, bytes=0, nonce="")


@given(st.lists(conditions, max_size=2), st.integers(0, 2**16), st.integers(1, 30), st.booleans())
def test_a_narrowed_reader_writes_the_same_report(filters, seed, limit, able):
    limits = ReadLimits(rows=limit)
    plain = source_of(12, 9, seed=seed)
    task = reader_task(plain, fresh_store())
    expected = read_rows(task, whole(plain, limits=limits))
    report = report_of(task, whole(plain, limits=limits))

    source = source_of(12, 9, able=able, seed=seed)
    pushed = pushed_reader(
        reader_task(source, fresh_store()), SourceNeeds(fields=N, filters=tuple(filters))
    )
    rows = read_rows(pushed.reader, whole(source, limits=limits))
    assert without_time(report_of(pushed.reader, whole(source, limits=limits))) == (
        without_time(report)
    )
    kept = [row for row in expected if all(_holds(each, row) for each in filters)]
    assert rows == [{"n": row["n"]} for row in kept]


def _holds(condition, row):
    return condition.mask(pa.RecordBatch.from_pylist([row])).to_pylist() == [True]


@given(st.lists(conditions, max_size=2), st.lists(conditions, max_size=2), st.integers(1, 21))
def test_another_query_after_a_crash_reads_the_rows_of_the_first_report(first, second, limit):
    source = source_of(12, 9)
    entry = whole(source, limits=ReadLimits(rows=limit))
    task = reader_task(source, fresh_store())
    read_rows(pushed_reader(task, SourceNeeds(fields=N, filters=tuple(first))).reader, entry)
    pinned = report_of(task, entry)
    assert pinned.rows == limit

    again = pushed_reader(task, SourceNeeds(fields=ALL, filters=tuple(second))).reader
    rows = read_rows(again, entry)
    taken = read_rows(task, entry)
    assert len(taken) == limit
    assert rows == [row for row in taken if all(_holds(each, row) for each in second)]
    assert report_of(task, entry) == pinned


def test_a_split_whose_constants_exclude_it_is_finished_without_a_read():
    source = source_of(5, 5)
    task = reader_task(source, fresh_store())
    only_second = SourceNeeds(fields=ALL, filters=(Comparison(("split",), "=", "s1"),))
    rows = read_rows(pushed_reader(task, only_second).reader, whole(source))
    assert [row["split"] for row in rows] == ["s1"] * 5
    first, second = report_of(task, whole(source)).splits
    assert (first.rows, first.finished, second.rows, second.finished) == (0, True, 5, True)


def test_a_replay_without_the_condition_reads_the_split_that_it_excluded():
    source = source_of(5, 5)
    task = reader_task(source, fresh_store())
    only_second = SourceNeeds(fields=ALL, filters=(Comparison(("split",), "=", "s1"),))
    read_rows(pushed_reader(task, only_second).reader, whole(source))
    assert [row["split"] for row in read_rows(task, whole(source))] == ["s0"] * 5 + ["s1"] * 5


def test_a_limit_ends_each_split_after_its_rows():
    source = source_of(12, 9)
    pushed = pushed_reader(
        reader_task(source, fresh_store()), SourceNeeds(fields=N, limit=3)
    ).reader
    assert pushed.source.limit == 3
    assert read_rows(pushed, whole(source)) == [{"n": 0}, {"n": 1}, {"n": 2}] * 2


@pytest.mark.parametrize("mode", ["skip", "dead_letter"])
def test_a_policy_that_counts_bad_records_reads_all_columns(mode, tmp_path):
    policy = RecordPolicy.skip() if mode == "skip" else RecordPolicy.dead_letter(tmp_path)
    source = source_of(5)
    task = replace(reader_task(source, fresh_store()), policy=policy)
    pushed = pushed_reader(task, SourceNeeds(fields=N, filters=(LATE,)))
    assert pushed.reader == task
    assert "reads all columns" in pushed.reason


def test_event_times_and_evaluators_see_all_rows():
    source = source_of(12)
    task = reader_task(source, fresh_store(), strategy=MONOTONOUS)
    needs = SourceNeeds(fields=N, filters=(Comparison(("n",), ">", 100),), limit=2)
    pushed = pushed_reader(task, needs).reader
    assert pushed.source.filters == ()
    assert pushed.source.names == ("n", "t")  # the event time comes from t
    assert pushed.row_limit is None
    assert read_rows(pushed, whole(source)) == []
    assert report_of(task, whole(source)).splits[0].watermark == 20  # of the last row
    assert HEARTBEAT_COLUMN not in pushed.output_schema().names

    evaluator = RecordEvaluator.column_equals("n", 3)
    task = replace(reader_task(source, fresh_store()), evaluator=evaluator)
    pushed = pushed_reader(task, SourceNeeds(fields=frozenset([("t",)]))).reader
    assert pushed.source.names == ("split", "n", "t")
    assert read_rows(pushed, whole(source)) == [{"t": t} for t in range(10, 14)]


def test_a_query_that_only_counts_still_gets_rows():
    source = source_of(7)
    pushed = pushed_reader(reader_task(source, fresh_store()), SourceNeeds(fields=frozenset()))
    assert len(pushed.reader.output_schema()) == 1
    assert len(read_rows(pushed.reader, whole(source))) == 7
