# SPDX-License-Identifier: Apache-2.0
"""Tests the rows that a reader keeps for later drivers, which then read no source again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toy_source import (
    ToySource,
    ToySplit,
    entry_of,
    fresh_store,
    planned,
    reader_task,
    report_of,
)
from toy_source import read as read_in_any_order

from connectors_core.engine.execution.pushed_reader import SourceNeeds, pushed_reader
from connectors_core.engine.execution.reader_task import read_entry
from connectors_core.source import Comparison

ROWS = {"a": [10, 11, 12], "b": [20, 21]}
ALL = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
ENTRY = entry_of([planned(ToySplit("a")), planned(ToySplit("b"))])


class Unreadable(ToySource):
    def create_reader(self, context):
        raise AssertionError("the source is read again")


def read(task, entry):
    return sorted(read_in_any_order(task, entry))


def keeping(source=None, store=None):
    return reader_task(source or ToySource(ROWS), store or fresh_store(), keeps=True)


def unreadable(task):
    return replace(task, source=Unreadable(ROWS))


def test_a_later_driver_emits_the_kept_rows_without_reading():
    task = keeping()
    assert read(task, ENTRY) == ALL
    assert read(unreadable(task), ENTRY) == ALL


def test_a_reader_that_keeps_nothing_reads_again():
    task = replace(keeping(), keeps=False)
    assert read(task, ENTRY) == ALL
    assert report_of(task, ENTRY).kept is None
    with pytest.raises(AssertionError, match="read again"):
        read(unreadable(task), ENTRY)


def test_rows_are_durable_before_the_report_that_names_them(monkeypatch):
    task = keeping()
    store = task.store_of(ENTRY)
    seen = []
    monkeypatch.setattr(
        "connectors_core.engine.execution.reader_task.fault_point",
        lambda name, **_: seen.append((name, store.list("kept", recursive=True))),
    )
    read(task, ENTRY)
    (files,) = (files for name, files in seen if name == "before_report")
    assert [f"kept/{name}" for name in files] == [report_of(task, ENTRY).kept.path]


def test_a_query_that_needs_other_columns_or_rows_reads_them_again():
    task = keeping()
    read(task, ENTRY)
    needs = SourceNeeds(fields=frozenset({("split",), ("n",)}), filters=(Comparison("n", ">", 0),))
    narrowed = pushed_reader(task, needs).reader
    later = [("a", 1), ("a", 2), ("b", 1)]
    assert read(narrowed, ENTRY) == later
    with pytest.raises(AssertionError, match="read again"):
        read(unreadable(narrowed), ENTRY)


def test_a_limit_of_the_query_leaves_no_row_of_an_entry_out():
    needs = SourceNeeds(fields=frozenset({("split",), ("n",)}), limit=1)
    narrowed = pushed_reader(keeping(), needs).reader
    next(iter(read_entry(narrowed, ENTRY)))
    assert sum(split.rows for split in report_of(narrowed, ENTRY).splits) == len(ALL)


def test_rows_that_are_gone_are_read_again():
    task = keeping()
    read(task, ENTRY)
    task.store_of(ENTRY).delete(report_of(task, ENTRY).kept.path)
    assert read(task, ENTRY) == ALL


def test_of_two_simultaneous_reads_only_the_rows_of_the_first_report_are_kept():
    task = keeping()

    class Overtaken(ToySource):
        def create_reader(self, context):
            read(task, ENTRY)  # another attempt completes first
            return super().create_reader(context)

    assert read(replace(task, source=Overtaken(ROWS)), ENTRY) == ALL
    (kept,) = task.store_of(ENTRY).list("kept", recursive=True)
    assert f"kept/{kept}" == report_of(task, ENTRY).kept.path
