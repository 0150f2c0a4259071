# SPDX-License-Identifier: Apache-2.0
"""Detects growth: compares the first fifth of a run with its last."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

_AGE_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Limit:
    """The allowed growth up to the last fifth.

    Attributes:
        ratio: The allowed ratio to the first fifth.
        slack: The amount added to that.
        why: Why the value may differ without growth.
    """

    ratio: float
    slack: float
    why: str


LIMITS: Final = {
    "time per epoch (ms)": Limit(1.25, 20, "other work on the machine"),
    "driver, Python (MB)": Limit(1.1, 15, "the allocator keeps what was freed"),
    "driver, JVM (MB)": Limit(1.2, 60, "the JVM collects garbage when it wants to"),
    "driver, JVM's live objects (MB)": Limit(
        1.15, 15, "Spark keeps its last 1,000 jobs and executions"
    ),
    "Python worker (MB)": Limit(1.15, 15, "workers have different ages"),
    "state files": Limit(1.2, 60, "removed every 20 epochs"),
    "files of Spark's state stores": Limit(
        1.3, 60, "Spark leaves temporary files if a kill interrupts a write"
    ),
    "driver, threads of Python": Limit(1.1, 3, "Py4J has a thread for each call from the JVM"),
    "driver, threads of the JVM": Limit(
        1.2, 40, "two of Spark's pools of 100 threads fill and empty"
    ),
    "driver, handles of Python": Limit(1.1, 5, "connections to the JVM and to servers"),
    "driver, handles of the JVM": Limit(1.1, 30, "connections to workers open and close"),
}


class Point(NamedTuple):
    """A measured value.

    Attributes:
        at: The time of the measurement, in seconds or epochs.
        value: The value.
        age: The age of the driver at that time in seconds, if it matters.
    """

    at: float
    value: float
    age: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """The verdict of a measure.

    Attributes:
        measure: A key of `LIMITS`.
        first: The typical value in the first fifth, or None if the fifths cannot be compared.
        last: The typical value in the last fifth, or None.
    """

    measure: str
    first: float | None
    last: float | None

    @property
    def allowed(self) -> float | None:
        """The maximum of the last fifth."""
        limit = LIMITS[self.measure]
        return None if self.first is None else self.first * limit.ratio + limit.slack

    @property
    def flat(self) -> bool:
        """Whether the measure could be compared and did not grow."""
        return self.last is not None and self.allowed is not None and self.last <= self.allowed


def judge(measure: str, points: Iterable[Point], begin: float, end: float) -> Verdict:
    """Compare the fifths of a run. Drivers are compared only at the same age.

    A new driver uses less than one that has run for minutes. Therefore, each half minute of age
    contributes its median, if both fifths have it.

    Args:
        measure: The measure, a key of `LIMITS`.
        points: The values.
        begin: The time from which values count.
        end: The end of the run.
    """
    first: dict[int, list[float]] = {}
    last: dict[int, list[float]] = {}
    for point in points:
        part = 5 * (point.at - begin) / (end - begin) if begin < end else -1
        fifth = first if 0 <= part < 1 else last if 4 <= part < 5 else None
        if fifth is not None:
            fifth.setdefault(int(point.age // _AGE_SECONDS), []).append(point.value)
    ages = first.keys() & last.keys()
    if not ages:
        return Verdict(measure, None, None)
    return Verdict(measure, *(_typical(fifth, ages) for fifth in (first, last)))


def _typical(fifth: dict[int, list[float]], ages: set[int]) -> float:
    return statistics.mean(statistics.median(fifth[age]) for age in ages)
