# SPDX-License-Identifier: Apache-2.0
"""Contestants in turns, and their results."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

OURS = "ours"


@dataclass(frozen=True)
class Result:
    """One line of the table.

    Attributes:
        what: What was measured, with the unit.
        ours: Our median.
        against: Who the peer is.
        peer: Its median.
        aim: What the ratio should be.
    """

    what: str
    ours: float
    against: str = ""
    peer: float | None = None
    aim: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours in relation to the peer."""
        return None if self.peer is None else self.ours / self.peer


def alternating(runs: int, contestants: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """Medians of all, run in turns so that a busy moment hits all; the first round warms up."""
    rounds = [{name: run() for name, run in contestants.items()} for _ in range(runs + 1)][1:]
    return {name: statistics.median(each[name] for each in rounds) for name in contestants}


def compared(
    what: str,
    runs: int,
    contestants: Mapping[str, Callable[[], float]],
    aims: Mapping[str, str] | None = None,
) -> Iterator[Result]:
    """Measure ours against each of the others; ours alone where there is no other."""
    medians = alternating(runs, contestants)
    ours = medians.pop(OURS)
    if not medians:
        yield Result(what, ours, against="no peer for this Spark")
    for name, median in medians.items():
        yield Result(what, ours, name, median, (aims or {}).get(name, ""))
