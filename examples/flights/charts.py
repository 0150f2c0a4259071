# SPDX-License-Identifier: Apache-2.0
"""Line charts, bar charts, and graphs as SVG."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

WIDTH, LEFT, RIGHT, BOTTOM = 720, 100, 20, 34
PLOT, ROW = 200, 18
"""The height of the plot, and of a row of text."""
CHARACTER = 7.0
"""The maximum width of a character, so that texts do not overlap."""
COLOURS = (
    *("#1f5fa8", "#d1582b", "#2c8a57", "#7b4ea3", "#b8860b"),
    *("#0e7c86", "#b83280", "#5b6b7b", "#7a4a1f", "#4a5fd9"),
)

Point = tuple[float, float]


def line_chart(
    lines: Mapping[str, Sequence[Point]],
    *,
    label: Callable[[float], str],
    events: Mapping[str, Sequence[float]] | None = None,
) -> str:
    """Draw steps over time in seconds, and events as vertical lines.

    Args:
        lines: The points of each line, in order.
        label: Returns the axis label of a value.
        events: The times of the events by name.
    """
    points = [point for line in lines.values() for point in line] or [(0.0, 0.0)]
    end = max(1.0, *(x for x, _ in points))
    low, high = min(y for _, y in points), max(y for _, y in points)
    high = high if high > low else low + 1
    legend, rows = _rows({name: 30.0 + CHARACTER * len(name) for name in lines}, {}, LEFT)
    places = {
        f"{name}\0{time}": (LEFT + (WIDTH - LEFT - RIGHT) * time / end + 4, name)
        for name, times in (events or {}).items()
        for time in times
    }
    notes, levels = _rows(
        {key: 10.0 + CHARACTER * len(name) for key, (_, name) in places.items()},
        {key: min(x, WIDTH - CHARACTER * len(name)) for key, (x, name) in places.items()},
    )
    top = ROW * (rows + levels) + 8
    bottom = top + PLOT

    def x_of(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * x / end

    def y_of(y: float) -> float:
        return bottom - PLOT * (y - low) / (high - low)

    parts = []
    for step in range(5):
        value, second = low + (high - low) * step / 4, end * step / 4
        parts += [
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_of(value):.1f}"'
            f' y2="{y_of(value):.1f}"/>',
            _text(LEFT - 8, y_of(value) + 4, label(value), "end"),
            _text(x_of(second), bottom + 18, f"{second:.0f} s", "middle"),
        ]
    for key, (x, name) in places.items():
        place, level = notes[key]
        y = ROW * (rows + level) + 14
        parts += [
            f'<line class="event" x1="{x - 4:.1f}" x2="{x - 4:.1f}" y1="{y}" y2="{bottom}"/>',
            _text(place, y, name, "start"),
        ]
    for number, (name, line) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        path: list[Point] = []
        last: float | None = None
        for x, y in line:
            path += [(x, last)] if last is not None else []
            path.append((x, y))
            last = y
        drawn = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in path)
        place, level = legend[name]
        parts += [
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{drawn}"/>',
            f'<rect x="{place:.1f}" y="{ROW * level + 4}" width="12" height="12" fill="{colour}"/>',
            _text(place + 18, ROW * level + 14, name, "start"),
        ]
    return _svg(parts, bottom + BOTTOM)


def _rows(
    widths: Mapping[str, float], wanted: Mapping[str, float], begin: float = 0
) -> tuple[dict[str, tuple[float, int]], int]:
    """Distribute texts over rows so that they do not overlap.

    Args:
        widths: The widths of the texts.
        wanted: The start positions of the texts. Without them, the texts follow each other.
        begin: The start position of the first text.

    Returns:
        The start position and the row of each text, and the number of rows.
    """
    ends: list[float] = []
    found = {}
    for name in sorted(widths, key=lambda each: wanted.get(each, 0.0)):
        width = widths[name]
        for row in range(len(ends) + 1):
            if row == len(ends):
                ends.append(begin)
            place = wanted.get(name, ends[row])
            fits = place >= ends[row] and (place + width <= WIDTH or ends[row] == begin)
            if fits:
                ends[row] = place + width
                found[name] = (place, row)
                break
    return found, len(ends)


def bar_chart(bars: Sequence[tuple[str, float]], *, label: Callable[[float], str]) -> str:
    """Draw horizontal bars below each other, with names at the left."""
    left, row = 190, 22
    high = max((abs(value) for _, value in bars), default=1) or 1
    parts = []
    for number, (name, value) in enumerate(bars):
        width = (WIDTH - left - 70) * max(value, 0) / high
        parts += [
            _text(left - 8, number * row + 15, _short(name, left), "end"),
            f'<rect x="{left}" y="{number * row + 3}" width="{width:.1f}" height="{row - 6}"'
            f' fill="{COLOURS[0]}"/>',
            _text(left + width + 6, number * row + 15, label(value), "start"),
        ]
    return _svg(parts, len(bars) * row + 6)


def layered_graph(
    layers: Sequence[Mapping[str, Sequence[str]]], edges: Sequence[tuple[str, str]]
) -> str:
    """Draw boxes in columns, and curves between them from the left to the right.

    Args:
        layers: The lines of text of each box, by column and name. The first line is the title.
        edges: Pairs of names: from a box to one in the next column.
    """
    gap, apart, line, margin = 120.0, 14.0, 16.0, 1.0
    width = (WIDTH - 2 * margin - gap * (len(layers) - 1)) / len(layers)
    heights = {name: line * len(texts) + 10 for layer in layers for name, texts in layer.items()}
    height = max(sum(heights[name] + apart for name in layer) for layer in layers)
    places: dict[str, Point] = {}
    for column, layer in enumerate(layers):
        y = (height - sum(heights[name] + apart for name in layer)) / 2
        for name in layer:
            places[name] = (margin + column * (width + gap), y + apart / 2)
            y += heights[name] + apart
    colours = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(places)}
    order = {name: at for at, name in enumerate(places)}

    def port(name: str, edge: tuple[str, str], side: int) -> Point:
        """Return where an edge meets a box; the edges of a box do not meet."""
        same = sorted(
            (each for each in edges if each[side] == name), key=lambda each: order[each[1 - side]]
        )
        x, y = places[name]
        share = (same.index(edge) + 1) / (len(same) + 1)
        return (x if side else x + width), y + heights[name] * share

    parts = []
    for edge in edges:
        source, target = edge
        (x, y), (end, at) = port(source, edge, 0), port(target, edge, 1)
        middle = (x + end) / 2
        parts.append(
            f'<path fill="none" stroke="{colours[source]}" stroke-width="1.5" d="M{x:.1f} {y:.1f}'
            f' C{middle:.1f} {y:.1f} {middle:.1f} {at:.1f} {end:.1f} {at:.1f}"/>'
        )
    for layer in layers:
        for name, texts in layer.items():
            x, y = places[name]
            parts.append(
                f'<rect class="box" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}"'
                f' height="{heights[name]:.1f}" rx="4"/>'
            )
            for number, text in enumerate(texts):
                kind = "detail" if number else "title"
                short = escape(_short(text, width - 16))
                parts.append(
                    f'<text class="{kind}" x="{x + 8:.1f}" y="{y + line * (number + 1):.1f}">'
                    f"<title>{escape(text)}</title>{short}</text>"
                )
    return _svg(parts, round(height))


def _short(name: str, width: float) -> str:
    room = int(width / CHARACTER)
    return name if len(name) <= room else f"{name[: room - 1]}…"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(parts: Sequence[str], height: int) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'
