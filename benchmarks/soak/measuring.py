# SPDX-License-Identifier: Apache-2.0
"""What is measured while it runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.soak.processes import Process, Usage, jvm, workers
from benchmarks.soak.verdict import LIMITS, Point, Verdict, judge


@dataclass
class Measurements:
    """Values of all measures over a run.

    Attributes:
        points: By measure.
        problems: What went wrong.
    """

    points: dict[str, list[Point]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, measure: str, at: float, value: float, age: float = 0.0) -> None:
        """Add a value."""
        self.points.setdefault(measure, []).append(Point(at, value, age))

    def take(self, at: float, driver: Sequence[Process], age: float = 0.0) -> None:
        """Look at the processes of a driver: its Python first, then what descends from it."""
        spark = jvm(driver)
        usages = [Usage.of(each.pid) for each in (driver[0], spark) if each] if driver else []
        if len(usages) < 2 or not (usages[0] and usages[1]):
            return  # it starts or ends
        self.add("driver, Python (MB)", at, usages[0].memory, age)
        self.add("driver, JVM (MB)", at, usages[1].memory, age)
        self.add("threads", at, usages[0].threads + usages[1].threads, age)
        self.add("handles", at, usages[0].handles + usages[1].handles, age)
        own = [usage.memory for each in workers(driver) if (usage := Usage.of(each.pid))]
        if own:
            self.add("Python worker (MB)", at, max(own), age)

    def newest(self) -> str:
        """The last value of each measure, for people."""
        return ", ".join(f"{name} {points[-1].value:,.0f}" for name, points in self.points.items())

    def verdicts(self, length: float) -> list[Verdict]:
        """What became of each measure in a run of this length."""
        return [judge(name, self.points[name], length) for name in LIMITS if name in self.points]


def count_files(folder: Path) -> int:
    """Files below a folder, however deep."""
    return sum(len(files) for _, _, files in os.walk(folder))
