# SPDX-License-Identifier: Apache-2.0
"""A source of known rows that tests can cut, delay, break, and watch."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pyarrow as pa
from fsspec.implementations.memory import MemoryFileSystem

from connectors_core.engine.execution.reader_task import HEARTBEAT_COLUMN, ReaderTask, read_entry
from connectors_core.engine.protocol import REPORTS, Entry, PlannedSplit, Versioned, report_path
from connectors_core.engine.state import StateStore
from connectors_core.records import BadRecord
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source import (
    Boundedness,
    InputStatus,
    Source,
    SourceEvent,
    SourceReader,
    SourceSplit,
    SplitAssigner,
    SplitEnumerator,
    SplitTraits,
    WatermarkStrategy,
)

SCHEMA = pa.schema([("split", pa.string()), ("n", pa.int64()), ("t", pa.int64())])
MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
    "t", epoch_unit="us"
)


def aligned(drift, group="g", update_interval=timedelta(0), lag=0):
    return (
        WatermarkStrategy.for_bounded_out_of_orderness(timedelta(microseconds=lag))
        .with_timestamp_assigner("t", epoch_unit="us")
        .with_watermark_alignment(group, timedelta(microseconds=drift), update_interval)
    )


def fresh_store(*, keep=False) -> StateStore:
    if not keep:
        MemoryFileSystem.store.clear()
        MemoryFileSystem.pseudo_dirs[:] = [""]
    return StateStore("memory:///toy")


@dataclass(frozen=True)
class ToySplit(SourceSplit):
    split_id: str
    position: int = 0
    lower: int | None = None

    def event_time_lower_bound(self):
        return self.lower


@dataclass(frozen=True)
class Ping(SourceEvent):
    number: int


@dataclass(frozen=True)
class ToyState:
    assigned: tuple[str, ...] = ()
    returned: tuple[ToySplit, ...] = ()
    pings: int = 0


@dataclass
class Behaviour:
    """Settings that a test can change during a run, shared by all readers of a source."""

    block: int | None = None  # batches end at multiples of this; None means anywhere
    seed: int = 0
    bad: set = field(default_factory=set)  # (split, n) of unreadable records
    visible: dict = field(default_factory=dict)  # available rows of a live split
    fail_at: tuple | None = None
    can_pause: bool = True
    between: Callable[[], None] = lambda: None  # runs in every poll
    log: list = field(default_factory=list)
    answer_pings: bool = True

    @property
    def opened(self):
        return self.log.count("open")

    @property
    def closed(self):
        return self.log.count("close")


class ToySource(Source):
    """A source whose `rows` are the event times of each split, in order."""

    event_types = (Ping,)
    split_type, state_type = ToySplit, ToyState

    def __init__(self, rows, *, traits=None, bounded=True, enumerator=None, behaviour=None):
        self.rows = rows
        self.traits = traits or SplitTraits()
        self.bounded = bounded
        self.complete = bounded  # no more splits will be discovered
        self.enumerator = enumerator
        self.behaviour = behaviour or Behaviour()

    def boundedness(self):
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def schema(self):
        return SCHEMA

    def create_enumerator(self, context):
        return self.restore_enumerator(context, self.state_type())

    def restore_enumerator(self, context, state):
        return (self.enumerator or OnRequest)(context, self, state)

    def create_reader(self, context):
        return ToyReader(self, context)

    def split_serializer(self):
        return JsonDataclassSerializer(self.split_type)

    def enumerator_state_serializer(self):
        return JsonDataclassSerializer(self.state_type)

    def split_traits(self):
        return self.traits

    def split(self, split_id):
        times = [t for t in self.rows[split_id] if t is not None]
        return ToySplit(split_id, lower=min(times) if times else None)


class ToyReader(SourceReader):
    def __init__(self, source, context):
        self.source, self.context, self.behaviour = source, context, source.behaviour
        self.splits, self.paused = {}, set()
        self.no_more = False
        self.random = random.Random(self.behaviour.seed)
        self.behaviour.seed += 1
        self.behaviour.log.append("open")

    def start(self):
        self.behaviour.log.append("start")

    def _end(self, split):
        total = len(self.source.rows[split.split_id])
        if self.source.traits.end:
            return total
        return min(total, self.behaviour.visible.get(split.split_id, total))

    def poll_next(self, output):
        self.behaviour.between()
        order = list(self.splits.values())
        if self.source.traits.ordered:
            order = order[:1]
        else:
            self.random.shuffle(order)
        for split in order:
            if split.split_id in self.paused:
                continue
            end = self._end(split)
            if split.position >= end:
                if self.source.traits.end:
                    del self.splits[split.split_id]
                    return InputStatus.MORE_AVAILABLE
                continue
            self._emit(output, split, end)
            return InputStatus.MORE_AVAILABLE
        if self.no_more and not self.splits:
            return InputStatus.END_OF_INPUT
        return InputStatus.NOTHING_AVAILABLE

    def _emit(self, output, split, end):
        block = self.behaviour.block
        size = self.random.randint(1, 7) if block is None else block - split.position % block
        last = min(split.position + size, end)
        numbers = []
        for n in range(split.position, last):
            if self.behaviour.fail_at == (split.split_id, n):
                raise OSError("connection lost")
            if (split.split_id, n) in self.behaviour.bad:
                record = BadRecord(reason="garbled", source_uid="s", position=str(n), raw=b"?")
                self.context.record_errors.handle(record)
            else:
                numbers.append(n)
        times = self.source.rows[split.split_id]
        batch = pa.record_batch(
            [[split.split_id] * len(numbers), numbers, [times[n] for n in numbers]], schema=SCHEMA
        )
        output.create_output_for_split(split.split_id).collect(batch)
        if last == end and self.source.traits.end:
            del self.splits[split.split_id]
        else:
            self.splits[split.split_id] = replace(split, position=last)

    def snapshot_state(self):
        return list(self.splits.values())

    def wait_available(self, timeout):
        return False

    def add_splits(self, splits):
        self.splits.update((split.split_id, split) for split in splits)

    def notify_no_more_splits(self):
        self.no_more = True

    def handle_source_events(self, event):
        self.behaviour.log.append(event)
        if self.behaviour.answer_pings:
            self.context.send_source_event_to_coordinator(Ping(event.number + 100))

    def pause_or_resume_splits(self, splits_to_pause, splits_to_resume):
        if not self.behaviour.can_pause:
            raise NotImplementedError
        self.paused |= set(splits_to_pause)

    def close(self):
        self.behaviour.log.append("close")


class OnRequest(SplitEnumerator):
    """Assigns one split per request, by lower bound if event time counts."""

    def __init__(self, context, source, state):
        self.context, self.source = context, source
        self.assigned = set(state.assigned)
        self.returned = list(state.returned)
        self.pings = state.pings
        self.log = []
        source.last_enumerator = self

    def known(self):
        ids = [i for i in self.source.rows if i not in self.assigned]
        if self.context.event_time_order:
            lower = {i: self.source.split(i).lower for i in ids}
            ids.sort(key=lambda i: (lower[i] is not None, lower[i] or 0))
        return ids

    def next_split(self):
        if self.returned:
            return self.returned.pop(0)
        for split_id in self.known():
            self.assigned.add(split_id)
            return self.source.split(split_id)
        return None

    def handle_split_request(self, subtask_id):
        split = self.next_split()
        if split is not None:
            self.context.assign_split(split, subtask_id)
        elif self.source.complete:
            self.context.signal_no_more_splits(subtask_id)

    def add_splits_back(self, splits, subtask_id):
        self.log.append(("back", subtask_id, tuple(s.split_id for s in splits)))
        self.returned += splits

    def add_reader(self, subtask_id):
        self.log.append(("reader", subtask_id))

    def handle_source_event(self, subtask_id, event):
        self.log.append(("event", subtask_id, event))

    def notify_checkpoint_complete(self, checkpoint_id):
        self.log.append(("complete", checkpoint_id))

    def snapshot_state(self, checkpoint_id):
        return ToyState(tuple(sorted(self.assigned)), tuple(self.returned), self.pings)

    def close(self):
        self.log.append("closed")


class Discovering(OnRequest):
    """Discovers splits periodically on another thread, and assigns them on request."""

    def __init__(self, context, source, state):
        super().__init__(context, source, state)
        self.found = []

    def start(self):
        self.context.call_async(
            lambda: (list(self.source.rows), self.source.complete),
            self.discovered,
            period=timedelta(seconds=1),
        )

    def discovered(self, result, error):
        if error is not None:
            raise error
        ids, self.complete = result
        self.found = ids

    complete = False

    def known(self):
        return [i for i in super().known() if i in self.found]

    def handle_split_request(self, subtask_id):
        split = self.next_split()
        if split is not None:
            self.context.assign_split(split, subtask_id)
        elif self.complete:
            self.context.signal_no_more_splits(subtask_id)


class Pushing(Discovering):
    """Assigns splits as soon as it discovers them, regardless of requests."""

    def discovered(self, result, error):
        super().discovered(result, error)
        readers = self.context.current_parallelism
        assignment = {}
        while (split := self.next_split()) is not None:
            reader = sum(split.split_id.encode()) % readers
            assignment.setdefault(reader, []).append(split)
        if assignment:
            self.context.assign_splits(assignment)
        if self.complete:
            for reader in range(readers):
                self.context.signal_no_more_splits(reader)

    def handle_split_request(self, subtask_id):
        pass


class Announcing(OnRequest):
    """Reports each split on discovery, and assigns the split with the earliest rows first."""

    def __init__(self, context, source, state):
        super().__init__(context, source, state)
        self.assigner = SplitAssigner(context.event_time_order, found=context.split_found)
        self.assigner.add(state.returned)

    def look(self):
        self.assigner.add([self.source.split(split_id) for split_id in self.known()])
        self.assigned.update(self.source.rows)

    def next_split(self):
        self.look()
        return self.assigner.next()

    def add_splits_back(self, splits, subtask_id):
        self.log.append(("back", subtask_id, tuple(s.split_id for s in splits)))
        self.assigner.add_back(splits)

    def snapshot_state(self, checkpoint_id):
        return ToyState(tuple(sorted(self.assigned)), self.assigner.pending(), self.pings)


def reader_task(source, store, **fields):
    fields = {"uid": "s", "idle_seconds": 0.0, "replay_seconds": 0.0} | fields
    return ReaderTask(source=source, store=store, schema=SCHEMA, **fields)


def planned(split, **fields):
    serializer = JsonDataclassSerializer(type(split))
    state = Versioned(version=serializer.version, data=serializer.serialize(split))
    return PlannedSplit(split_id=split.split_id, state=state, **fields)


def entry_of(splits, *, plan=0, **fields):
    fields = {"nonce": f"nonce-{plan}", "source": "s", "subtask": 0, "parallelism": 1} | fields
    return Entry(pipeline_id="p", query="q", plan=plan, splits=tuple(splits), **fields)


def report_of(task, entry):
    path = report_path(entry.plan, entry.source, entry.subtask)
    return REPORTS.read(task.store_of(entry), path)


def rows_of(batches):
    """Return the emitted rows as (split, n), without heartbeats."""
    rows = []
    for batch in batches:
        for row in batch.to_pylist():
            if not row.get(HEARTBEAT_COLUMN):
                rows.append((row["split"], row["n"]))
    return rows


def read(task, entry):
    return rows_of(read_entry(task, entry))


def continued(entry, report, **fields):
    """Return the next entry: the unfinished splits of the report, at their positions."""
    reported = {split.split_id: split for split in report.splits}
    splits = []
    for split in entry.splits:
        now = reported.get(split.split_id)
        if now is None:
            splits.append(split)
        elif not now.finished:
            splits.append(
                PlannedSplit(
                    split_id=now.split_id,
                    state=now.state,
                    skip=now.skip,
                    watermark_state=now.watermark_state,
                )
            )
    number = entry.plan + 1
    return replace(entry, plan=number, nonce=f"nonce-{number}", splits=tuple(splits), **fields)
