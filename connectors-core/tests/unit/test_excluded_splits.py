# SPDX-License-Identifier: Apache-2.0
"""Tests splits that are finished unread, because the values of their columns are known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toy_source import ToySource, entry_of, fresh_store, planned, read, reader_task, report_of

from connectors_core.source import Comparison, SupportsPartitionPushDown, ValueRange

TIMES = {"low": list(range(5)), "high": list(range(9))}


class RangedSource(ToySource, SupportsPartitionPushDown):
    """A source that knows the range of the column `n` in each split."""

    def partition_of(self, split):
        return {
            "split": split.split_id,
            "n": ValueRange(low=split.position, high=len(self.rows[split.split_id]) - 1),
        }


def read_with(condition, *, skip=0):
    source = RangedSource(TIMES)
    task = replace(reader_task(source, fresh_store()), filters=(condition,))
    splits = [replace(planned(source.split(name)), skip=skip) for name in TIMES]
    entry = entry_of(splits)
    rows = read(task, entry)
    return rows, {split.split_id: split for split in report_of(task, entry).splits}


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        (Comparison(("n",), ">", 4), [("high", n) for n in (5, 6, 7, 8)]),
        (Comparison(("split",), "=", "high"), [("high", n) for n in range(9)]),
    ],
)
def test_a_split_whose_known_values_exclude_all_rows_is_finished_unread(condition, rows):
    found, reports = read_with(condition)
    assert found == rows
    assert (reports["low"].rows, reports["low"].finished) == (0, True)
    assert (reports["high"].rows, reports["high"].finished) == (9, True)


def test_rows_to_drop_before_the_end_of_an_unread_split_are_not_dropped_after_it():
    _, reports = read_with(Comparison(("n",), ">", 4), skip=3)
    assert {name: report.skip for name, report in reports.items()} == {"low": 0, "high": 0}
