# SPDX-License-Identifier: Apache-2.0
"""Which fault comes when: the same for the same seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

# Faults of a target begin about so many seconds after the end of the former one. Each kind has a
# weight, and its least and most seconds.
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
# The last faults are over so long before the end.
_QUIET: Final = 20.0


@dataclass(frozen=True, order=True)
class Fault:
    """Something that happens to a target.

    Attributes:
        at: Seconds from the begin.
        target: To whom.
        kind: What.
        seconds: How long it stays so.
        choice: From 0 to 1, which of several is meant.
    """

    at: float
    target: str
    kind: str
    seconds: float
    choice: float


def schedule(seed: int, seconds: float, targets: tuple[str, ...] = TARGETS) -> list[Fault]:
    """The faults of a play. Targets have their own random numbers, so none changes another's."""
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
