# SPDX-License-Identifier: Apache-2.0
"""Tests sources that leave out rows without counting them, such as by a query to a server."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_source import (
    MONOTONOUS,
    ToyReader,
    ToySource,
    entry_of,
    fresh_store,
    planned,
    read,
    reader_task,
    report_of,
)

from connectors_core.engine.execution.pushed_reader import SourceNeeds, pushed_reader
from connectors_core.engine.execution.reader_task import read_whole
from connectors_core.errors import FatalError
from connectors_core.source import (
    Comparison,
    InputStatus,
    ReadLimits,
    SplitTraits,
    SupportsFilterPushDown,
)

TIMES = {"s0": list(range(10, 22)), "s1": list(range(10, 19))}
ALL = frozenset([("split",), ("n",), ("t",)])
LATE = Comparison(("n",), ">=", 7)
EARLY = Comparison(("n",), "<", 3)


class QueriedSource(ToySource, SupportsFilterPushDown):
    """A source whose server returns only the rows of a query."""

    filters = ()
    counts = True
    stops_early = False

    def _with(self, **changes):
        made = type(self)(self.rows, traits=self.traits, behaviour=self.behaviour)
        made.__dict__.update(self.__dict__, **changes)
        return made

    def apply_filters(self, filters):
        return self._with(filters=tuple(filters)), filters

    def without_counts(self):
        return self._with(counts=False)

    def create_reader(self, context):
        return ToyReader(self, context) if self.counts else QueryingReader(self, context)


class QueryingReader(ToyReader):
    def poll_next(self, output):
        if self.source.stops_early:
            return InputStatus.END_OF_INPUT
        return super().poll_next(_Querying(output, self.source.filters))


class _Querying:
    def __init__(self, output, filters):
        self.output, self.filters = output, filters

    def create_output_for_split(self, split_id):
        return _QueryingSplit(self.output.create_output_for_split(split_id), self.filters)


class _QueryingSplit:
    def __init__(self, output, filters):
        self.output, self.filters = output, filters

    def collect(self, batch):
        for each in self.filters:
            batch = batch.filter(each.mask(batch))
        self.output.collect(batch)


def whole(source, **fields):
    return entry_of([planned(source.split(name)) for name in TIMES], **fields)


def task_of(source, *filters, **fields):
    task = reader_task(source, fresh_store(), **fields)
    return pushed_reader(task, SourceNeeds(fields=ALL, filters=filters)).reader


def rows_with(condition):
    return [
        (name, n)
        for name, times in TIMES.items()
        for n in range(len(times))
        if condition is None or (n >= 7 if condition is LATE else n < 3)
    ]


def test_a_whole_read_states_its_end_instead_of_a_count():
    source = QueriedSource(TIMES, traits=SplitTraits(ordered=True))
    task = task_of(source, LATE)
    assert read(task, whole(source)) == rows_with(LATE)
    report = report_of(task, whole(source))
    assert report.rows == len(rows_with(LATE))  # the server sent no others
    assert [(each.rows, each.finished) for each in report.splits] == [(0, True)] * 2
    assert {each.skip for each in report.splits} == {0}


@given(st.permutations([None, LATE, EARLY]))
def test_every_query_gets_its_rows_whichever_query_wrote_the_report(order):
    source = QueriedSource(TIMES, traits=SplitTraits(ordered=True))
    store = fresh_store()
    for condition in order:
        filters = () if condition is None else (condition,)
        task = replace(task_of(source, *filters), store=store)
        assert read(task, whole(source)) == rows_with(condition)


@pytest.mark.parametrize(
    "fields",
    [{"limits": ReadLimits(rows=5)}, {"limits": ReadLimits(bytes=1)}, {"claim": True}],
)
def test_a_read_that_may_stop_within_a_split_counts_all_rows(fields):
    source = QueriedSource(TIMES, traits=SplitTraits(ordered=True))
    task = task_of(source, LATE)
    read(task, whole(source, **fields))
    assert sum(each.rows for each in report_of(task, whole(source)).splits) >= 5


def test_a_read_from_the_middle_of_a_batch_counts_all_rows():
    source = QueriedSource(TIMES)
    task = task_of(source, LATE)
    entry = entry_of([replace(planned(source.split("s0")), skip=8)])
    assert read(task, entry) == [("s0", n) for n in (8, 9, 10, 11)]
    assert report_of(task, entry).splits[0].rows == 4


def test_event_times_come_from_all_rows():
    source = QueriedSource(TIMES, traits=SplitTraits(ordered=True))
    task = task_of(source, EARLY, strategy=MONOTONOUS)
    assert read(task, whole(source)) == rows_with(EARLY)
    assert [each.rows for each in report_of(task, whole(source)).splits] == [12, 9]


def test_a_restart_with_event_times_reads_what_was_not_counted():
    source = QueriedSource(TIMES, traits=SplitTraits(ordered=True))
    task = task_of(source, LATE)
    read(task, whole(source))
    timed = replace(task, source=source, filters=(), strategy=MONOTONOUS)
    assert read(timed, whole(source)) == rows_with(None)


def test_a_read_without_conditions_counts_all_rows():
    source = QueriedSource(TIMES)
    task = task_of(source)
    read(task, whole(source))
    assert sorted(each.rows for each in report_of(task, whole(source)).splits) == [9, 12]


def test_a_reader_that_stops_before_the_end_of_a_split_is_an_error():
    source = QueriedSource(TIMES)._with(stops_early=True)
    with pytest.raises(FatalError, match="s1"):
        read(task_of(source, LATE), whole(source))


def test_a_read_without_a_report_needs_no_counts():
    source = QueriedSource(TIMES, traits=SplitTraits(ordered=True))
    rows = [row for batch in read_whole(task_of(source, LATE), whole(source)) for row in batch["n"]]
    assert len(rows) == len(rows_with(LATE))
