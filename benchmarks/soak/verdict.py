# SPDX-License-Identifier: Apache-2.0
"""Whether something grew: the first fifth of a run against its last."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

_AGE_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Limit:
    """How much more the last fifth may take.

    Attributes:
        ratio: Of the first fifth.
        slack: Added to that.
        why: What may differ without anything growing.
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
    "Python worker (MB)": Limit(1.15, 15, "workers are of various ages"),
    "state files": Limit(1.2, 60, "removed every 20 epochs"),
    "files of Spark's state stores": Limit(
        1.3, 60, "Spark leaves temporary ones where a kill cuts a write off"
    ),
    "driver, threads of Python": Limit(1.1, 3, "Py4J has a thread for each call from the JVM"),
    "driver, threads of the JVM": Limit(1.2, 40, "two pools of Spark's of 100 fill and empty"),
    "driver, handles of Python": Limit(1.1, 5, "connections to the JVM and to servers"),
    "driver, handles of the JVM": Limit(1.1, 30, "connections to workers come and go"),
}


class Point(NamedTuple):
    """A measured value.

    Attributes:
        at: When in the run, in seconds or epochs.
        value: The value.
        age: Of the driver then, in seconds, where it matters.
    """

    at: float
    value: float
    age: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """What became of a measure.

    Attributes:
        measure: A key of `LIMITS`.
        first: Typical value in the first fifth; None where the two cannot be compared.
        last: The same in the last fifth.
    """

    measure: str
    first: float | None
    last: float | None

    @property
    def allowed(self) -> float | None:
        """The most that the last fifth may take."""
        limit = LIMITS[self.measure]
        return None if self.first is None else self.first * limit.ratio + limit.slack

    @property
    def flat(self) -> bool:
        """Whether it did not grow, and that can be told."""
        return self.last is not None and self.allowed is not None and self.last <= self.allowed


def judge(measure: str, points: Iterable[Point], begin: float, end: float) -> Verdict:
    """Compare the fifths of a run, drivers only with those of the same age.

    A driver that just started takes less than one that has run for minutes, so each half minute
    of age counts by its median, where both fifths have it.

    Args:
        measure: What was measured, a key of `LIMITS`.
        points: The values.
        begin: When the run began to count; what was before does not.
        end: When it ended.
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
