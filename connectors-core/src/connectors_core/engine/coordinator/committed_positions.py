# SPDX-License-Identifier: Apache-2.0
"""The positions that plans reached, until their epochs are committed. Driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic

from connectors_core.engine.coordinator.planned_stops import position_after
from connectors_core.engine.protocol import Report, SourcePlan, Versioned
from connectors_core.serialization import VersionedSerializer
from connectors_core.source.enumerator import SupportsCommittedPositions
from connectors_core.source.split import SplitT


@dataclass
class _Reached(Generic[SplitT]):
    """The effect of plans on the splits that they read."""

    left: dict[str, SplitT] = field(default_factory=dict)
    finished: dict[str, SplitT] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class CommittedPositions(Generic[SplitT]):
    """Reports committed positions to an enumerator. One thread.

    Plans and reports determine its state, so a restart restores it.

    Args:
        enumerator: The enumerator.
        serializer: Serializer of its splits.
    """

    enumerator: SupportsCommittedPositions[SplitT]
    serializer: VersionedSerializer[SplitT]
    _plans: dict[int, _Reached[SplitT]] = field(default_factory=dict, init=False)

    def reported(self, plan: SourcePlan, reports: Sequence[Report]) -> None:
        """Record the positions in the reports of a plan."""
        planned = plan.planned_splits()
        reached = self._plans[plan.number] = _Reached[SplitT]()
        for report in (split for each in reports for split in each.splits):
            before = planned[report.split_id]
            after = position_after(before, report)
            if after is not None:
                reached.left[report.split_id] = self._split(after.state)
            elif report.ended:  # somewhere before its stop
                reached.left[report.split_id] = self._split(report.state)
            else:
                reached.finished[report.split_id] = self._split(before.state)

    def committed(self, plan: int) -> None:
        """Report the positions of plans up to this one; later plans wait for their own epochs."""
        told: _Reached[SplitT] = _Reached()
        for number in sorted(number for number in self._plans if number <= plan):
            reached = self._plans.pop(number)
            told.left |= reached.left
            told.finished |= reached.finished
        left = [split for split_id, split in told.left.items() if split_id not in told.finished]
        if left or told.finished:
            self.enumerator.positions_committed(plan, left, list(told.finished.values()))

    def _split(self, state: Versioned) -> SplitT:
        return self.serializer.deserialize(state.version, state.data)
