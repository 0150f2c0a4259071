# SPDX-License-Identifier: Apache-2.0
"""Tests that the charts of the flights report are complete, and that nothing in them overlaps."""

from __future__ import annotations

import re

from examples.flights.charts import CHARACTER, WIDTH, bar_chart, layered_graph, line_chart

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


BOX = re.compile(r'<rect class="box" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"')
CURVE = re.compile(r' d="M([\d.]+) ([\d.]+) C.* ([\d.]+) ([\d.]+)"/>')
LAYERS = [
    {"a": ["a", "file: in"], "b": ["b", "kafka://one: <b>", "kafka://one: c"], "c": ["c"]},
    {"x": ["x", "a dataset with a name that is longer than the box"], "y": ["y"]},
]
EDGES = [("a", "x"), ("b", "x"), ("c", "x"), ("a", "y")]


def test_a_graph_has_a_box_for_each_node_and_a_curve_for_each_edge() -> None:
    graph = layered_graph(LAYERS, EDGES)
    boxes = [tuple(map(float, found)) for found in BOX.findall(graph)]
    assert len(boxes) == 5
    for x, y, width, height in boxes:
        assert 0 <= x <= WIDTH - width
        for other_x, other_y, _, other_height in boxes:
            same = (other_x, other_y) == (x, y)
            assert same or other_x != x or other_y >= y + height or y >= other_y + other_height
    curves = [
        tuple(map(float, found)) for found in CURVE.findall(graph.replace("<path", "\n<path"))
    ]
    assert len(curves) == len(set(curves)) == len(EDGES)
    right_sides = {x + width for x, _, width, _ in boxes}
    for x, _, end, _ in curves:
        assert x in right_sides
        assert end in {left for left, *_ in boxes}
        assert x < end


def test_a_graph_shows_each_text_or_its_beginning() -> None:
    graph = layered_graph(LAYERS, EDGES)
    assert "</title>kafka://one: &lt;b&gt;</text>" in graph
    assert "<title>a dataset with a name that is longer than the box</title>a dataset with" in graph
    assert "…</text>" in graph
