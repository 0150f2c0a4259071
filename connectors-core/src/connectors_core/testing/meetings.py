# SPDX-License-Identifier: Apache-2.0
"""The pairs of a frozen driver and its successor: all in process, and some of them on Spark.

A pair takes about a second in process, but much longer on Spark. So each Spark line runs only
enough pairs there for each point, and for each step of a successor with each kind of point.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, cycle, islice, product
from typing import Any, Final

import pytest

from connectors_core.testing.cases import COVERED_ON_SPARK
from connectors_core.testing.faults import SUCCESSORS, FaultPoint

Meeting = tuple[FaultPoint, str]
"""The point at which a driver froze, and the step of its successor."""

_STEPS: Final = tuple(SUCCESSORS)


def meetings(*kinds: Sequence[FaultPoint], always: Collection[Meeting]) -> list[Any]:
    """Parameters of a case with two drivers: where one froze, and the step of the other.

    Args:
        *kinds: The points at which the first driver may have frozen, one sequence for each kind.
        always: The pairs that every run tests. The others are slow.
    """
    on_spark = set(meetings_on_spark(*kinds, always=always, turn=turn_of_spark()))
    unless_in = ((pytest.mark.slow, always), (getattr(pytest.mark, COVERED_ON_SPARK), on_spark))
    return [
        pytest.param(*pair, marks=[mark for mark, pairs in unless_in if pair not in pairs])
        for pair in product(chain(*kinds), _STEPS)
    ]


def meetings_on_spark(
    *kinds: Sequence[FaultPoint], always: Collection[Meeting], turn: int
) -> list[Meeting]:
    """Return enough pairs for each point, and for each step with each kind of point.

    Args:
        *kinds: The points, one sequence for each kind.
        always: The pairs to include.
        turn: By how many steps the steps are shifted against the points. Another turn gives other
            pairs.
    """
    return [pair for kind in kinds for pair in _of_kind(kind, always, turn)]


def turn_of_spark() -> int:
    """Return the minor version of the installed Spark as the turn, or 0 without Spark."""
    try:
        return int(version("pyspark").split(".")[1])
    except PackageNotFoundError:
        return 0


def _of_kind(
    kind: Sequence[FaultPoint], always: Collection[Meeting], turn: int
) -> Iterator[Meeting]:
    given = [pair for pair in product(kind, _STEPS) if pair in always]
    yield from given
    points = [point for point in kind if point not in {met for met, _ in given}]
    steps = _turned([step for step in _STEPS if step not in {met for _, met in given}], turn)
    # Each pair has a new point or a new step, so no pair occurs twice.
    pairs = zip(
        chain(points, cycle(kind)), chain(steps, cycle(_turned(_STEPS, turn))), strict=False
    )
    yield from islice(pairs, max(len(points), len(steps)))


def _turned(steps: Sequence[str], turn: int) -> Sequence[str]:
    start = turn % (len(steps) or 1)
    return [*steps[start:], *steps[:start]]
