# SPDX-License-Identifier: Apache-2.0
"""The schedule of faults, which depends only on the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

# A fault of a target starts about this number of seconds after the previous one. Each kind has a
# weight, and a minimum and maximum duration in seconds.
_PLAY: Final = {
    "driver": (
        75,
        {
            "kill all its processes": (2, 0, 0),
            "kill its Python": (1, 0, 0),
            "kill its JVM": (1, 0, 0),
            "freeze all its processes": (2, 2, 12),
            "freeze its Python": (1, 2, 12),
            "freeze its JVM": (1, 2, 12),
            # The successor takes over after 30 s without a heartbeat, or is about to.
            "freeze all and start another": (2, 35, 80),
        },
    ),
    "worker": (40, {"kill": (2, 0, 0), "freeze": (1, 1, 10)}),
    "broker": (100, {"kill": (1, 0, 8), "freeze": (1, 2, 20)}),
    "Elasticsearch": (100, {"kill": (1, 0, 8), "freeze": (1, 2, 20)}),
    "disk": (150, {"fill": (1, 5, 20)}),
}
TARGETS: Final = tuple(_PLAY)
# The last faults end this long before the end.
_QUIET: Final = 20.0


@dataclass(frozen=True, order=True)
class Fault:
    """A fault of a target.

    Attributes:
        at: The time in seconds from the start.
        target: The target.
        kind: The kind of fault.
        seconds: The duration in seconds.
        choice: A number from 0 to 1 that selects one of several objects.
    """

    at: float
    target: str
    kind: str
    seconds: float
    choice: float


def schedule(seed: int, seconds: float, targets: tuple[str, ...] = TARGETS) -> list[Fault]:
    """Return the faults of a run.

    Each target has its own random numbers, so targets do not affect each other.
    """
    found = []
    for target in targets:
        pause, kinds = _PLAY[target]
        dice = random.Random(f"{seed} {target}")
        moment = 0.0
        while True:
            moment += dice.uniform(0.5, 1.5) * pause
            kind = dice.choices(list(kinds), [weight for weight, *_ in kinds.values()])[0]
            _, least, most = kinds[kind]
            fault = Fault(moment, target, kind, dice.uniform(least, most), dice.random())
            moment += fault.seconds
            if moment > seconds - _QUIET:
                break
            found.append(fault)
    return sorted(found)
