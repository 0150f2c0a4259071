# SPDX-License-Identifier: Apache-2.0
"""Contestants that alternate, and their results."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

OURS = "ours"


@dataclass(frozen=True)
class Result:
    """A row of the table.

    Attributes:
        what: The measured quantity, with its unit.
        ours: Our median.
        against: The name of the peer.
        peer: The peer's median.
        aim: The target of the ratio.
    """

    what: str
    ours: float
    against: str = ""
    peer: float | None = None
    aim: str = ""

    @property
    def ratio(self) -> float | None:
        """The ratio of our median to the peer's."""
        return None if self.peer is None else self.ours / self.peer


def alternating(runs: int, contestants: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """Return the medians.

    Contestants alternate, so that a busy moment hits all. Each round starts with another one, so
    that what one leaves behind, such as segments to merge, hits others too. Round one warms up.
    """
    names, rounds = list(contestants), []
    for number in range(runs + 1):
        first = number % len(names)
        rounds.append({name: contestants[name]() for name in names[first:] + names[:first]})
    return {name: statistics.median(each[name] for each in rounds[1:]) for name in names}


def compared(
    what: str,
    runs: int,
    contestants: Mapping[str, Callable[[], float]],
    aims: Mapping[str, str] | None = None,
) -> Iterator[Result]:
    """Compare our result with each of the others, or report it alone if there is no other."""
    medians = alternating(runs, contestants)
    ours = medians.pop(OURS)
    if not medians:
        yield Result(what, ours, against="no peer for this Spark")
    for name, median in medians.items():
        yield Result(what, ours, name, median, (aims or {}).get(name, ""))
