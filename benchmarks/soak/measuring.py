# SPDX-License-Identifier: Apache-2.0
"""What is measured while it runs."""

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
    """Values of all measures over a run.

    Attributes:
        points: By measure.
        problems: What went wrong.
        begin: What was before does not count.
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
        """Look at the processes of a driver: its Python first, then what descends from it."""
        if not driver:
            return
        spark = jvm(driver)
        python, java = (Usage.of(each.pid) if each else None for each in (driver[0], spark))
        if not (python and java):
            return  # it starts or ends
        for name, usage in (("Python", python), ("the JVM", java)):
            self.add(f"driver, {name.removeprefix('the ')} (MB)", at, usage.memory, age)
            self.add(f"driver, threads of {name}", at, usage.threads, age)
            self.add(f"driver, handles of {name}", at, usage.handles, age)
        own = [found.memory for each in workers(driver) if (found := Usage.of(each.pid))]
        if own:
            self.add("Python worker (MB)", at, max(own), age)

    def newest(self) -> str:
        """The last values of some measures, for people."""
        told = ("driver, Python (MB)", "driver, JVM (MB)", "state files")
        values = [(name, self.points[name][-1].value) for name in told if name in self.points]
        return ", ".join(f"{name} {value:,.0f}" for name, value in values)

    def verdicts(self, end: float) -> list[Verdict]:
        """What became of each measure, up to this moment."""
        names = (name for name in LIMITS if name in self.points)
        return [judge(name, self.points[name], self.begin, end) for name in names]


def count_files(folder: Path) -> dict[str, int]:
    """Files below a folder, however deep: those of Spark's state stores, and all others."""
    names = [name for _, _, files in os.walk(folder) for name in files]
    of_stores = sum(any(kind in name for kind in _OF_STATE_STORES) for name in names)
    return {
        "state files": len(names) - of_stores,
        "files of Spark's state stores": of_stores,
    }
