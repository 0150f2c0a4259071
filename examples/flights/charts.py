# SPDX-License-Identifier: Apache-2.0
"""Line charts and bar charts as SVG."""

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


def _short(name: str, width: float) -> str:
    room = int(width / CHARACTER)
    return name if len(name) <= room else f"{name[: room - 1]}…"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(parts: Sequence[str], height: int) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'
