# SPDX-License-Identifier: Apache-2.0
"""Lines and bars as SVG."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 260, 90, 20, 26, 34
COLOURS = ("#1f5fa8", "#d1582b", "#2c8a57", "#7b4ea3", "#b8860b")

Point = tuple[float, float]


def line_chart(
    lines: Mapping[str, Sequence[Point]],
    *,
    label: Callable[[float], str],
    events: Mapping[str, Sequence[float]] | None = None,
) -> str:
    """Steps over time in seconds; events are vertical lines.

    Args:
        lines: Points of each line, in order.
        label: Text of a value at the axis.
        events: Times by name.
    """
    points = [point for line in lines.values() for point in line] or [(0.0, 0.0)]
    end = max(1.0, *(x for x, _ in points))
    low, high = min(y for _, y in points), max(y for _, y in points)
    high = high if high > low else low + 1

    def x_of(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * x / end

    def y_of(y: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (y - low) / (high - low)

    parts = []
    for step in range(5):
        value, second = low + (high - low) * step / 4, end * step / 4
        parts += [
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y_of(value):.1f}"'
            f' y2="{y_of(value):.1f}"/>',
            _text(LEFT - 8, y_of(value) + 4, label(value), "end"),
            _text(x_of(second), HEIGHT - BOTTOM + 18, f"{second:.0f} s", "middle"),
        ]
    for name, times in (events or {}).items():
        for time in times:
            parts += [
                f'<line class="event" x1="{x_of(time):.1f}" x2="{x_of(time):.1f}" y1="{TOP}"'
                f' y2="{HEIGHT - BOTTOM}"/>',
                _text(x_of(time) + 4, TOP + 10, name, "start"),
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
        parts += [
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{drawn}"/>',
            f'<rect x="{LEFT + 130 * number}" y="4" width="12" height="12" fill="{colour}"/>',
            _text(LEFT + 130 * number + 18, 14, name, "start"),
        ]
    return _svg(parts, HEIGHT)


def bar_chart(bars: Sequence[tuple[str, float]], *, label: Callable[[float], str]) -> str:
    """One bar below the other, with names at the left."""
    left, row = 190, 22
    high = max((abs(value) for _, value in bars), default=1) or 1
    parts = []
    for number, (name, value) in enumerate(bars):
        width = (WIDTH - left - 70) * max(value, 0) / high
        parts += [
            _text(left - 8, number * row + 15, name, "end"),
            f'<rect x="{left}" y="{number * row + 3}" width="{width:.1f}" height="{row - 6}"'
            f' fill="{COLOURS[0]}"/>',
            _text(left + width + 6, number * row + 15, label(value), "start"),
        ]
    return _svg(parts, len(bars) * row + 6)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(parts: Sequence[str], height: int) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(parts)}</svg>'
