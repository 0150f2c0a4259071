# SPDX-License-Identifier: Apache-2.0
"""Tests that charts of the flights report show their whole legend, and that no labels overlap."""

from __future__ import annotations

import re

from examples.flights.charts import CHARACTER, WIDTH, bar_chart, line_chart

TEXT = re.compile(r'<text x="([\d.]+)" y="([\d.]+)" text-anchor="start">([^<]+)</text>')


def test_labels_are_complete_and_do_not_overlap() -> None:
    lines = {f"a source or sink {number}": [(0.0, 0.0), (100.0, 9.0)] for number in range(9)}
    events = {"the driver is killed": [50.0], "the broker is killed": [51.0, 100.0]}
    chart = line_chart(lines, label=lambda rows: f"{rows:.0f} rows", events=events)
    found = [(float(x), float(y), text) for x, y, text in TEXT.findall(chart)]
    assert {text for _, _, text in found} == {*lines, *events}
    assert len(found) == 12
    for x, y, text in found:
        assert x + 0.8 * CHARACTER * len(text) <= WIDTH
        for other_x, other_y, _ in found:
            apart = other_y != y or other_x <= x or x + CHARACTER * len(text) <= other_x
            assert apart, text
    assert ">9 rows</text>" in chart


def test_a_long_bar_label_is_shortened() -> None:
    name = "an airline with a very long name, incorporated"
    assert f">{name[:26]}…</text>" in bar_chart([(name, 2.0)], label=str)
