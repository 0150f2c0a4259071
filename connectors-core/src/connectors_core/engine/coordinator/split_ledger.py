# SPDX-License-Identifier: Apache-2.0
"""The splits of one source: their readers and positions. Driver.

A snapshot, the later plans, and their reports determine all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from connectors_core.engine.coordinator.found_splits import FoundSplits
from connectors_core.engine.coordinator.planned_stops import position_after
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.protocol import (
    AssignedSplit,
    PlannedSplit,
    Report,
    SourcePlan,
    SourceSnapshot,
    SplitRecord,
    SplitReport,
    Versioned,
)
from connectors_core.serialization import VersionedSerializer
from connectors_core.source.alignment import IdlenessClock, SplitProgress
from connectors_core.source.split import SourceSplit


@dataclass
class TrackedSplit:
    """An assigned, unfinished split; ``served`` is the turn of its last read."""

    split: SourceSplit
    planned: PlannedSplit
    subtask: int
    order: int
    read: bool = False
    watermark: int | None = None
    head: int | None = None
    found_at: int | None = None
    rows: int = 0
    served: int = 0


class SplitLedger:
    """The assigned, unfinished splits of a source with their positions. One thread.

    Attributes:
        splits: These splits by id, in the order of assignment.
        found: The source's progress when each split was found.
        idleness: Time since each split last had rows.
        no_more: Readers that get no more splits of the current source.
        highest_finished: Highest watermark of a finished split.
        turn: Number of plans that this driver has created.
        snapshot_bytes: Size of the last snapshot.
        delta_bytes: Size of the plans since.

    Args:
        settings: The source.
        clock: Monotonic seconds.
    """

    def __init__(self, settings: SourceSettings, *, clock: Callable[[], float]) -> None:
        strategy = settings.strategy
        self.serializer: VersionedSerializer[Any] = settings.source.split_serializer()
        self.splits: dict[str, TrackedSplit] = {}
        self.found = FoundSplits()
        self.idleness = IdlenessClock(strategy.idleness if strategy is not None else None, clock)
        self.no_more: set[int] = set()
        self.highest_finished: int | None = None
        self.turn = 0
        self.snapshot_bytes = 0
        self.delta_bytes = 0
        self._parallelism = settings.parallelism
        self._queues: dict[int, dict[str, TrackedSplit]] = {}
        self._suppressed: set[str] = set()
        self._assigned: list[AssignedSplit] = []
        self._planned_ids: set[str] = set()
        self._orders = 0

    @property
    def no_more_to_come(self) -> bool:
        """Whether all readers know that the current source has no more splits."""
        return len(self.no_more) == self._parallelism

    def of_reader(self, subtask: int) -> Collection[TrackedSplit]:
        """Return the splits of a reader, in the order of assignment."""
        return self._queues.get(subtask, {}).values()

    # --- restart --------------------------------------------------------------------------------

    def restore(
        self,
        snapshot: SourceSnapshot,
        history: Sequence[tuple[SourcePlan, Sequence[Report] | None]],
    ) -> None:
        """Take over a snapshot, and its plan and all later ones with their reports."""
        self._restore_assigned(snapshot, [plan for plan, _ in history[1:]])
        self.found.restore(snapshot, [plan for plan, _ in history])

    def _restore_assigned(self, snapshot: SourceSnapshot, later: Sequence[SourcePlan]) -> None:
        for record in snapshot.splits:
            self._add(record)
        self._suppressed.update(snapshot.suppressed)
        self.no_more.update(snapshot.no_more_splits)
        self.highest_finished = snapshot.highest_finished
        for plan in later:
            for assigned in plan.assigned:
                self._add(
                    SplitRecord(
                        split=assigned.split, subtask=assigned.subtask, found_at=assigned.found_at
                    )
                )
                self._suppressed.add(assigned.split.split_id)
            self.no_more.update(plan.no_more_splits)

    def give_back_of_missing_readers(self) -> Iterator[tuple[int, list[SourceSplit]]]:
        """After a restart with fewer readers, return unread splits and move the others.

        A split that was assigned after the enumerator's state was taken moves too. The enumerator
        has it already or finds it again, so a returned split would be a duplicate.

        Yields:
            A removed reader, and its splits that return to the enumerator.
        """
        parallelism = self._parallelism
        self.no_more = {subtask for subtask in self.no_more if subtask < parallelism}
        orphans: dict[int, list[TrackedSplit]] = {}
        for split in self.splits.values():
            if split.subtask >= parallelism and split.planned.split_id not in self._planned_ids:
                orphans.setdefault(split.subtask, []).append(split)
        for subtask, splits in sorted(orphans.items()):
            untouched = [
                split
                for split in splits
                if not split.read and split.planned.split_id not in self._suppressed
            ]
            for split in untouched:
                self._remove(split.planned.split_id)
                self.found.given_back(split.planned.split_id, split.found_at)
            if untouched:
                self.no_more.clear()
                yield subtask, [split.split for split in untouched]
        self._queues.clear()
        for split in self.splits.values():
            split.subtask %= parallelism
            self._enqueue(split)

    # --- assignment -----------------------------------------------------------------------------

    def was_assigned(self, split_id: str) -> bool:
        """Return whether a split was assigned, perhaps after the enumerator's state was taken."""
        return split_id in self.splits or split_id in self._suppressed

    def found_again(self, split_id: str) -> bool:
        """Return whether an assignment repeats one from before a restart; true once per split."""
        if split_id not in self._suppressed:
            return False
        self._suppressed.discard(split_id)
        return True

    def assign(self, split: Any, subtask: int) -> None:
        """Give a new split to a reader."""
        planned = PlannedSplit(
            split_id=split.split_id,
            state=Versioned(version=self.serializer.version, data=self.serializer.serialize(split)),
        )
        found_at = self.found.assigned(split.split_id)
        self._add(SplitRecord(split=planned, subtask=subtask, found_at=found_at))
        self._assigned.append(AssignedSplit(subtask=subtask, split=planned, found_at=found_at))

    def _add(self, record: SplitRecord) -> None:
        state = record.split.state
        self._orders += 1
        split = self.splits[record.split.split_id] = TrackedSplit(
            split=self.serializer.deserialize(state.version, state.data),
            planned=record.split,
            subtask=record.subtask,
            order=self._orders,
            read=record.read,
            watermark=record.watermark,
            head=record.head,
            found_at=record.found_at,
        )
        self._enqueue(split)

    def _enqueue(self, split: TrackedSplit) -> None:
        self._queues.setdefault(split.subtask, {})[split.planned.split_id] = split

    def _remove(self, split_id: str) -> None:
        del self._queues[self.splits.pop(split_id).subtask][split_id]

    def switch(self, watermark: int | None) -> None:
        """Reset the state of the previous source, since another one follows."""
        self.no_more.clear()
        self._suppressed.clear()
        self.found.switch(watermark)

    # --- plans and reports ----------------------------------------------------------------------

    def progress_of(self, split: TrackedSplit) -> SplitProgress:
        """Return the progress of a split for watermarks and alignment."""
        return SplitProgress(
            split_id=split.planned.split_id,
            watermark=split.watermark,
            head=split.head,
            lower_bound=split.split.event_time_lower_bound(),
            found_at=split.found_at,
            read=split.read,
            idle=self.idleness.idle(split.planned.split_id),
        )

    def positions(self) -> list[SplitRecord]:
        """Return the unfinished splits with their positions, in the order of assignment."""
        return [
            SplitRecord(
                split=split.planned,
                subtask=split.subtask,
                read=split.read,
                watermark=split.watermark,
                head=split.head,
                found_at=split.found_at,
            )
            for split in sorted(self.splits.values(), key=lambda split: split.order)
        ]

    def source_splits(self) -> list[SourceSplit]:
        """Return the unfinished splits as the source knows them, in the same order."""
        return [split.split for split in sorted(self.splits.values(), key=lambda each: each.order)]

    def snapshot(self, enumerator: Versioned) -> SourceSnapshot:
        """Return everything that :meth:`restore` needs besides the later plans.

        Args:
            enumerator: The state of the enumerator.
        """
        return SourceSnapshot(
            enumerator=enumerator,
            splits=tuple(self.positions()),
            suppressed=tuple(sorted(self._suppressed)),
            no_more_splits=tuple(sorted(self.no_more)),
            highest_finished=self.highest_finished,
            found=self.found.snapshot(),
        )

    @property
    def newly_assigned(self) -> tuple[AssignedSplit, ...]:
        """The splits assigned since the last plan."""
        return tuple(self._assigned)

    def planned(self, plan: SourcePlan) -> None:
        """Take over a new plan."""
        self.expect(plan)
        self._assigned = []
        self.turn += 1
        if plan.snapshot is not None:
            self.delta_bytes = 0
            self.snapshot_bytes = len(plan.snapshot.enumerator.data) + sum(
                len(record.split.state.data) for record in plan.snapshot.splits
            )
        else:
            self.delta_bytes += sum(len(a.split.state.data) for a in plan.assigned)

    def expect(self, plan: SourcePlan) -> None:
        """Mark the splits of a plan as being read."""
        self._planned_ids = set(plan.planned_splits())

    def expect_none(self) -> None:
        """Mark that no plan is being read."""
        self._planned_ids = set()

    def apply(self, plan: SourcePlan, reports: Sequence[Report]) -> None:
        """Take over the positions that the readers of a plan reached."""
        planned = plan.planned_splits()
        for report in reports:
            for split in report.splits:
                self._apply_split(planned[split.split_id], split)

    def _apply_split(self, planned: PlannedSplit, report: SplitReport) -> None:
        split = self.splits.get(report.split_id)
        if split is None:
            return
        after = position_after(planned, report)
        if after is None:
            self._remove(report.split_id)
            self.idleness.forget(report.split_id)
            if report.watermark is not None:
                highest = self.highest_finished
                self.highest_finished = (
                    report.watermark if highest is None else max(report.watermark, highest)
                )
            return
        split.planned = after
        split.split = self.serializer.deserialize(after.state.version, after.state.data)
        split.read = True
        split.served = self.turn
        split.watermark = report.watermark
        split.head = report.head
        self.idleness.observe(
            report.split_id,
            report.asked and report.head is None,
            report.rows,
        )
