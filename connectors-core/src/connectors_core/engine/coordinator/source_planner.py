# SPDX-License-Identifier: Apache-2.0
"""Plans the next reads of one source: splits, their order, and limits. Driver."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from connectors_core.engine.coordinator.enumerator_context import EnumeratorContext
from connectors_core.engine.coordinator.planned_stops import plan_reads, planned_split, to_be_read
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.coordinator.split_ledger import SplitLedger, TrackedSplit
from connectors_core.engine.coordinator.watermark_tracker import WatermarkTracker
from connectors_core.engine.protocol import Entry, PlannedSplit
from connectors_core.source.enumerator import PlannedRead, SupportsPlannedStops
from connectors_core.source.split import ReadLimits
from connectors_core.source.watermarks import MIN_WATERMARK

QUEUE_SPLITS = 256


@dataclass(eq=False, repr=False)
class SourcePlanner:
    """Chooses what the readers of one source read next. One thread.

    Args:
        settings: The source.
        context: Its enumerator.
        ledger: Its splits.
        watermark: Its watermark and alignment.
        clock: Monotonic seconds.
    """

    settings: SourceSettings
    _: KW_ONLY
    context: EnumeratorContext
    ledger: SplitLedger
    watermark: WatermarkTracker
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._traits = self.settings.source.split_traits()
        self._rate_limiter = self.settings.rate_limiter.create()

    def consumed(self, rows: int) -> None:
        """Charge rows that were read to the rate limit."""
        self._rate_limiter.consumed(rows)

    # --- demand of a reader ---------------------------------------------------------------------

    def wants_split(self, subtask: int) -> bool:
        """Return whether a reader should get another split.

        A reader gets one split more than it reads; the lower bound of that split holds the
        watermark. Splits that alignment holds back do not count, because the slowest split may not
        be assigned yet. But if a new split is too far ahead, so are all that follow.
        """
        limits = self._limits_of(subtask)
        allowed = self.watermark.max_allowed()
        queue: list[TrackedSplit] = []
        holds_unread = False
        for split in self.ledger.of_reader(subtask):
            if allowed is None or allowed.admits(self.watermark.mark(split)):
                queue.append(split)
            else:
                holds_unread |= not split.read
        if (
            allowed is not None
            and holds_unread
            and not any(allowed.admits(split.mark) for split in self.watermark.waiting())
        ):
            return False
        if len(queue) < 2 or self._splits_stay:
            return True  # a split without an end never makes room for another
        if self.settings.strategy is not None and all(split.read for split in queue):
            return True  # only an unread split represents the ones that follow
        if len(queue) > (QUEUE_SPLITS if limits.splits is None else limits.splits):
            return False
        return limits.bytes is None or sum(s.split.weight() for s in queue[:-1]) < limits.bytes

    def _limits_of(self, subtask: int) -> ReadLimits:
        limits = self.settings.limits.per_reader(subtask, self.settings.parallelism)
        return limits.tightened_by(self.context.reader_limits.get(subtask))

    # --- stops ----------------------------------------------------------------------------------

    @property
    def _stops(self) -> SupportsPlannedStops[Any] | None:
        """The enumerator, if it plans a stop for its splits in every plan."""
        enumerator = self.context.enumerator
        if isinstance(enumerator, SupportsPlannedStops) and enumerator.plans_stops:
            return enumerator
        return None

    @property
    def plans_stops(self) -> bool:
        """Whether the enumerator plans a stop for its splits in every plan."""
        return self._stops is not None

    @property
    def _splits_stay(self) -> bool:
        """Whether splits have no end."""
        return not self._traits.end or self.plans_stops

    def _reads(
        self,
        enumerator: SupportsPlannedStops[Any],
        splits: Sequence[TrackedSplit],
        limits: ReadLimits,
    ) -> Mapping[str, PlannedRead[Any]]:
        """Return the reads of these splits in the next plan, including empty ones."""
        if not _allows(limits):
            return {}
        return plan_reads(enumerator, [split.split for split in splits], limits)

    def note_empty_splits(self) -> None:
        """Treat a split that is known to be empty as read without rows, without a read."""
        enumerator, limits = self._stops, self._total()
        if enumerator is None:
            return
        idleness = self.ledger.idleness
        splits = self._readable() if _allows(limits) else []
        reads = self._reads(enumerator, splits, limits)
        for split in splits:
            split_id = split.planned.split_id
            read = reads.get(split_id)
            if read is None or to_be_read(read):
                idleness.forget(split_id)
            else:
                split.read = True
                idleness.observe(split_id, True, 0)
        for split_id in self.ledger.splits.keys() - {split.planned.split_id for split in splits}:
            idleness.observe(split_id, False, 0)  # not read: its idle time does not grow

    # --- queues ---------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether a plan would now read rows or deliver an event."""
        return bool(self._queues() or self.context.events)

    def _readable(self) -> list[TrackedSplit]:
        """Return the splits that alignment and reader limits allow, in reading order."""
        allowed = self.watermark.max_allowed()
        return [
            split
            for split in sorted(self.ledger.splits.values(), key=self._reading_order)
            if (allowed is None or allowed.admits(self.watermark.mark(split)))
            and _allows(self.context.reader_limits.get(split.subtask))
        ]

    def _reading_order(self, split: TrackedSplit) -> tuple[int, bool, int]:
        """Return the sort key: by event time with a strategy, started splits first.

        Splits without an end take turns. Otherwise a limit would starve the later ones.
        """
        if self._splits_stay:
            return (split.served, False, split.order)
        mark = self.watermark.mark(split) if self.settings.strategy is not None else None
        return (MIN_WATERMARK if mark is None else mark, not split.read, split.order)

    def _total(self) -> ReadLimits:
        """Return the limits of the next plan."""
        permits = self._rate_limiter.permits(self.clock())
        rows = None if permits is None else max(0, permits)  # a custom limiter may be in debt
        return self.settings.limits.tightened_by(ReadLimits(rows=rows))

    def _queues(self) -> dict[int, tuple[list[PlannedSplit], ReadLimits]]:
        """Return the splits and limits of each reader in the next plan."""
        splits, total = self._readable(), self._total()
        enumerator = self._stops
        reads = None if enumerator is None else self._reads(enumerator, splits, total)
        queues: dict[int, list[PlannedSplit]] = {}
        for split in splits:
            planned = split.planned
            if reads is not None:
                read = reads.get(planned.split_id)
                if read is None or not to_be_read(read):
                    continue
                planned = planned_split(planned, split.split, read, self.ledger.serializer)
            queues.setdefault(split.subtask, []).append(planned)
        kept = total if reads is None else _without_planned(total)
        readers = sorted(queues)
        result = {}
        for index, subtask in enumerate(readers):
            # In turns, because a limit below the number of readers leaves some without a share.
            share = kept.per_reader((index + self.ledger.turn) % len(readers), len(readers))
            limits = share.tightened_by(self.context.reader_limits.get(subtask))
            if reads is not None:
                limits = _without_planned(limits)
            if _allows(limits):
                result[subtask] = (queues[subtask][: limits.splits], limits)
        return result

    # --- entries --------------------------------------------------------------------------------

    def entries(self, number: int, nonce: str, pipeline_id: str, query: str) -> tuple[Entry, ...]:
        """Return the entries of plan ``number``, at least one."""
        queues, events = self._queues(), self.context.events
        max_watermark = self.watermark.max_allowed()
        limit = max_watermark.micros if max_watermark is not None else None
        heartbeat = self.watermark.heartbeat()
        entries = []
        for subtask in sorted({0} | queues.keys() | events.keys()):
            queue, limits = queues.get(subtask, ([], ReadLimits()))
            entries.append(
                Entry(
                    pipeline_id=pipeline_id,
                    query=query,
                    plan=number,
                    nonce=nonce,
                    source=self.settings.uid,
                    subtask=subtask,
                    parallelism=self.settings.parallelism,
                    splits=tuple(queue),
                    events=tuple(events.get(subtask, ())),
                    limits=limits,
                    heartbeat=heartbeat if subtask == 0 else None,
                    max_watermark=limit,
                    claim=self._must_claim(limits) and bool(queue),
                )
            )
        return tuple(entries)

    def _must_claim(self, limits: ReadLimits) -> bool:
        """Return whether plan and data do not determine the end of a read."""
        if not self._traits.end or limits.seconds is not None:
            return True
        strategy = self.settings.strategy
        if strategy is not None and strategy.alignment is not None and not strategy.per_record:
            return True  # alignment holds whole batches, and the reader chooses their size
        return not self._traits.ordered and (limits.rows is not None or limits.bytes is not None)


def _allows(limits: ReadLimits | None) -> bool:
    """Return whether these limits allow any read."""
    return limits is None or 0 not in (limits.rows, limits.bytes, limits.splits)


def _without_planned(limits: ReadLimits) -> ReadLimits:
    """Return the limits that readers must still apply if the enumerator plans their stops."""
    return dataclasses.replace(limits, rows=None, splits=None)
