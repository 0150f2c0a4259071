# SPDX-License-Identifier: Apache-2.0
"""A log of growing partitions, whose enumerator plans the stops of every read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from toy_source import ToyReader, ToySource

from connectors_core.source import (
    PlannedRead,
    SourceSplit,
    SplitEnumerator,
    SupportsAvailableNow,
    SupportsCommittedPositions,
    SupportsPlannedStops,
)


@dataclass(frozen=True)
class LogSplit(SourceSplit):
    split_id: str
    position: int = 0
    stop: int | None = None  # of this plan
    last: int | None = None  # of the whole partition

    def still_to_skip(self, rows, behind):
        return 0 if self.position < behind.position else rows


@dataclass(frozen=True)
class LogState:
    assigned: tuple[str, ...] = ()
    returned: tuple[LogSplit, ...] = ()


class LogSource(ToySource):
    """A log whose `rows` are the event times of each partition, in order. Tests can append rows."""

    last_enumerator = None
    split_type, state_type = LogSplit, LogState

    def __init__(self, rows, *, bounded=False, **fields):
        super().__init__(rows, bounded=bounded, **fields)

    def restore_enumerator(self, context, state):
        return (self.enumerator or LogEnumerator)(context, self, state)

    def create_reader(self, context):
        return LogReader(self, context)


class LogReader(ToyReader):
    def _end(self, split):
        return split.stop


class LogEnumerator(
    SplitEnumerator, SupportsPlannedStops, SupportsCommittedPositions, SupportsAvailableNow
):
    """Polls the ends of the partitions. A bounded log ends at its first known end."""

    def __init__(self, context, source, state):
        self.context, self.source = context, source
        self.assigned = set(state.assigned)
        self.returned = {split.split_id: split for split in state.returned}
        self.ends = {}
        self.frozen = None
        self.log = []
        self.committed = []
        source.last_enumerator = self

    def start(self):
        self.context.call_async(self.look, self.found, period=timedelta(milliseconds=100))

    def look(self):
        return {split_id: len(rows) for split_id, rows in self.source.rows.items()}

    def found(self, ends, error):
        if error is not None:
            raise error
        if self.frozen is not None:
            return
        self.ends = ends
        if self.source.bounded:
            self.freeze(ends)
        self.assign()

    def freeze_end(self):
        self.freeze(self.look())
        self.assign()

    def freeze(self, ends):
        self.frozen = self.ends = ends

    def assign(self):
        readers = self.context.current_parallelism
        for split_id in sorted(self.ends.keys() - self.assigned | self.returned.keys()):
            split = self.returned.pop(split_id, LogSplit(split_id))
            if self.source.bounded:
                split = replace(split, stop=self.ends[split_id], last=self.ends[split_id])
            self.assigned.add(split_id)
            self.context.assign_split(split, sum(split_id.encode()) % readers)
        if self.frozen is not None:
            for reader in range(readers):
                self.context.signal_no_more_splits(reader)

    def plan_reads(self, splits, limits):
        self.log.append("planned")
        reads = {}
        rows_left, splits_left = limits.rows, limits.splits
        for split in splits:
            last = split.last if self.frozen is None else self.frozen.get(split.split_id)
            end = self.ends.get(split.split_id, split.position) if last is None else last
            if end <= split.position and last is None:
                reads[split.split_id] = PlannedRead(split=split, then=split, empty=True)
                continue
            if 0 in (rows_left, splits_left):
                continue
            stop = max(end, split.position)
            if rows_left is not None:
                stop = min(stop, split.position + rows_left)
                rows_left -= stop - split.position
            if splits_left is not None:
                splits_left -= 1
            then = None if stop == last else replace(split, position=stop, stop=None)
            reads[split.split_id] = PlannedRead(split=replace(split, stop=stop), then=then)
        return reads

    def positions_committed(self, checkpoint_id, splits, finished):
        positions = {split.split_id: split.position for split in splits}
        positions |= {split.split_id: split.stop for split in finished}
        self.committed.append((checkpoint_id, positions))

    def notify_checkpoint_complete(self, checkpoint_id):
        self.log.append(("complete", checkpoint_id))

    def handle_split_request(self, subtask_id):
        pass

    def add_splits_back(self, splits, subtask_id):
        self.returned |= {split.split_id: split for split in splits}
        if self.ends:
            self.assign()

    def snapshot_state(self, checkpoint_id):
        return LogState(tuple(sorted(self.assigned)), tuple(self.returned.values()))

    def close(self):
        self.log.append("closed")
