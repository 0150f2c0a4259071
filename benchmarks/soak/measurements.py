# SPDX-License-Identifier: Apache-2.0
"""The measurements during a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.soak.processes import Process, Usage, jvm, workers
from benchmarks.soak.verdict import LIMITS, Point, Verdict, judge

_OF_STATE_STORES = (".delta", ".snapshot")


@dataclass
class Measurements:
    """The values of all measures during a run.

    Attributes:
        points: The values by measure.
        problems: The problems.
        begin: The time from which values count.
    """

    points: dict[str, list[Point]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    begin: float = 0.0

    def add(self, measure: str, at: float, value: float, age: float = 0.0) -> None:
        """Add a value."""
        self.points.setdefault(measure, []).append(Point(at, value, age))

    def count(self, at: float, folder: Path) -> None:
        """Count the files of a pipeline's state."""
        for measure, files in count_files(folder).items():
            self.add(measure, at, files)

    def take(self, at: float, driver: Sequence[Process], age: float = 0.0) -> None:
        """Measure the processes of a driver: its Python first, then its descendants."""
        if not driver:
            return
        spark = jvm(driver)
        python, java = (Usage.of(each.pid) if each else None for each in (driver[0], spark))
        if not (python and java):
            return  # it is starting or ending
        for name, usage in (("Python", python), ("the JVM", java)):
            self.add(f"driver, {name.removeprefix('the ')} (MB)", at, usage.memory, age)
            self.add(f"driver, threads of {name}", at, usage.threads, age)
            self.add(f"driver, handles of {name}", at, usage.handles, age)
        own = [found.memory for each in workers(driver) if (found := Usage.of(each.pid))]
        if own:
            self.add("Python worker (MB)", at, max(own), age)

    def newest(self) -> str:
        """Return the last values of some measures as text."""
        told = ("driver, Python (MB)", "driver, JVM (MB)", "state files")
        values = [(name, self.points[name][-1].value) for name in told if name in self.points]
        return ", ".join(f"{name} {value:,.0f}" for name, value in values)

    def verdicts(self, end: float) -> list[Verdict]:
        """Return the verdict of each measure so far."""
        names = (name for name in LIMITS if name in self.points)
        return [judge(name, self.points[name], self.begin, end) for name in names]


def count_files(folder: Path) -> dict[str, int]:
    """Return the numbers of files below a folder: those of Spark's state stores, and all others."""
    names = [name for _, _, files in os.walk(folder) for name in files]
    of_stores = sum(any(kind in name for kind in _OF_STATE_STORES) for name in names)
    return {
        "state files": len(names) - of_stores,
        "files of Spark's state stores": of_stores,
    }
