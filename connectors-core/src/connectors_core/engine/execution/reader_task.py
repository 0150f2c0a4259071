# SPDX-License-Identifier: Apache-2.0
"""Reads one plan entry: emits its rows and creates its report. Executor.

A report fixes where an entry ends. Every later read of the entry (a retry, a speculative copy, a
second branch of the query, a replay after a crash) finds the report and takes exactly as many rows
of every split. If plan and data do not determine the end of a read, the reader spools the rows and
creates the report before it emits the first row ("claim before emit").
"""

from __future__ import annotations

import functools
import itertools
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.engine._faults import fault_point
from connectors_core.engine.execution.closing import closed_after
from connectors_core.engine.execution.dead_letter_spools import spool_factory
from connectors_core.engine.execution.entry_reports import (
    assert_same_stops,
    fewer_rows,
    report_of,
    winner,
)
from connectors_core.engine.execution.kept_rows import KEPT_ROWS, keep_rows, kept_rows
from connectors_core.engine.execution.reader_context import (
    PollErrors,
    PollOutput,
    ReaderContext,
    Rows,
)
from connectors_core.engine.execution.split_reading import SplitReading, moved_splits
from connectors_core.engine.protocol import (
    REPORTS,
    Entry,
    PlannedSplit,
    Report,
    SplitReport,
    Versioned,
    decode_entry,
    report_path,
)
from connectors_core.engine.state import StateStore
from connectors_core.errors import FatalError, StateCorruptedError
from connectors_core.records import (
    BadRecord,
    RecordPolicy,
)
from connectors_core.secrets import mask_text
from connectors_core.source.evaluator import RecordEvaluator
from connectors_core.source.event_codec import decode_event, encode_event
from connectors_core.source.predicates import FieldPath, Predicate, ValueRange
from connectors_core.source.pushdown import SupportsFilterPushDown, SupportsPartitionPushDown
from connectors_core.source.reader import InputStatus, SourceReader
from connectors_core.source.source import AnySource
from connectors_core.source.split import ReadLimits, SourceSplit
from connectors_core.source.watermarks import WatermarkStrategy

HEARTBEAT_COLUMN = "_heartbeat"
SPOOL_MEMORY_BYTES = 64 << 20
AVAILABILITY_POLL_SECONDS = 0.05
SPLITS_AFTER_STOP = 64  # given to the reader that follows an ordered one with a stopped split


@dataclass(frozen=True, kw_only=True)
class ReaderTask:
    """Everything that a task needs to read entries of one source; sent to executors.

    Attributes:
        source: The source.
        uid: Its uid.
        store: The state location of the pipeline, which receives the reports.
        strategy: Assigns event times to rows and watermarks to splits.
        evaluator: Ends a split after a row it names.
        policy: Handles records that cannot be read.
        schema: Schema of the source's batches.
        columns: The columns to emit, or None for all.
        filters: Conditions without which no row is emitted; they change no position and no count.
        keeps: Whether it keeps the rows of each entry in the state location for later drivers.
        row_limit: Number of rows of each split after which a batch run needs no more.
        idle_seconds: Time to wait for rows of a split without an end after the first fetch.
        first_fetch_seconds: Time to wait for the first fetch of a reader.
        replay_seconds: Time to wait for rows of such a split if they were read before.
        attempt: Returns the attempt number of the current task, for its reports.
    """

    source: AnySource
    uid: str
    store: StateStore
    schema: pa.Schema
    strategy: WatermarkStrategy | None = None
    evaluator: RecordEvaluator | None = None
    policy: RecordPolicy = field(default_factory=RecordPolicy.fail)
    columns: tuple[str, ...] | None = None
    filters: tuple[Predicate, ...] = ()
    keeps: bool = False
    row_limit: int | None = None
    idle_seconds: float = 0.2
    first_fetch_seconds: float = 30.0
    replay_seconds: float = 120.0
    attempt: Callable[[], int] = int

    def output_schema(self) -> pa.Schema:
        """Return the schema of the batches that :func:`read_entry` emits."""
        schema = self.schema
        if self.strategy is not None:
            schema = self.strategy.output_schema(schema)
            schema = schema.append(pa.field(HEARTBEAT_COLUMN, pa.bool_()))
        if self.columns is None:
            return schema
        return pa.schema([schema.field(name) for name in self.columns])

    def shape(self) -> str:
        """Return a text that differs for readers that emit other rows of the same splits."""
        return repr((self.output_schema(), self.filters))

    def store_of(self, entry: Entry) -> StateStore:
        """Return the state location of the query of an entry."""
        return self.store.child(entry.query)

    def __call__(self, entry: str) -> Iterator[pa.RecordBatch]:
        """Read an entry that the carrier delivered."""
        return read_entry(self, decode_entry(entry), self.attempt())


def read_entry(task: ReaderTask, entry: Entry, attempt: int = 0) -> Iterator[pa.RecordBatch]:
    """Emit the rows of an entry and create its report.

    Args:
        task: The source and its settings.
        entry: The entry to read.
        attempt: Spark's attempt number, for information only.

    Yields:
        Batches of ``task.output_schema()``. The heartbeat row comes first, if the entry has one.

    Raises:
        DataLossError: The entry returned more rows on its first read.
        BadRecordError: A record cannot be read, and the policy is to fail.
    """
    if entry.source != task.uid:
        raise StateCorruptedError(
            "the reader received a plan entry of another source",
            expected=task.uid,
            found=entry.source,
        )
    schema = task.output_schema()
    if entry.heartbeat is not None:
        yield _heartbeat_row(schema, cast(WatermarkStrategy, task.strategy), entry.heartbeat)

    fault_point("reader_started", plan=entry.plan, source=entry.source, subtask=entry.subtask)
    store = task.store_of(entry)
    path = report_path(entry.plan, entry.source, entry.subtask)
    pinned = report_of(entry, REPORTS.read(store, path), path)
    if pinned is not None and (kept := kept_rows(store, pinned.kept, task.shape())) is not None:
        yield from kept
        return
    skips = task.source.split_traits().skips_unreadable
    if pinned is None and (entry.claim or task.keeps or skips):
        with tempfile.SpooledTemporaryFile(max_size=SPOOL_MEMORY_BYTES) as file:
            reading = _EntryReading(task, entry, None)
            _spool(cast(BinaryIO, file), schema, _fetched(entry, reading.batches()), task.keeps)
            report = reading.report(attempt)
            if task.keeps:
                report = replace(report, kept=keep_rows(store, entry, task.shape(), file))
            fault_point(
                "before_report", plan=entry.plan, source=entry.source, subtask=entry.subtask
            )
            if REPORTS.create(store, path, report):
                fault_point("after_report", plan=entry.plan, subtask=entry.subtask)
                file.seek(0)
                yield from _unspool(cast(BinaryIO, file))
                return
        pinned = winner(store, entry, report, path)

    reading = _EntryReading(task, entry, pinned)
    yield from _fetched(entry, reading.batches())
    if pinned is not None:
        return
    report = reading.report(attempt)
    fault_point("before_report", plan=entry.plan, source=entry.source, subtask=entry.subtask)
    if not REPORTS.create(store, path, report):
        assert_same_stops(report, winner(store, entry, report, path))
    fault_point("after_report", plan=entry.plan, subtask=entry.subtask)


def read_whole(task: ReaderTask, entry: Entry) -> Iterator[pa.RecordBatch]:
    """Emit all rows of an entry whose splits end, without a report.

    The plan alone determines the rows, so every attempt emits the same ones.

    Args:
        task: The source and its settings, without a watermark strategy.
        entry: The entry to read, without limits.

    Yields:
        Batches of ``task.output_schema()``.

    Raises:
        FatalError: The reader stopped before the end of a split.
        BadRecordError: A record cannot be read, and the policy is to fail.
    """
    reading = _EntryReading(task, entry, None)
    yield from _fetched(entry, reading.batches())
    reading.check_finished()


def _fetched(
    entry: Entry, batches: Generator[pa.RecordBatch, None, None]
) -> Iterator[pa.RecordBatch]:
    with closing(batches):
        for batch in batches:
            yield batch
            fault_point(
                "reader_fetched", plan=entry.plan, source=entry.source, subtask=entry.subtask
            )


def without_heartbeat(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the rows of an entry without the heartbeat that drives Spark's watermark."""
    for rows in batches:
        if HEARTBEAT_COLUMN not in rows.schema.names:
            yield rows
        elif rows.num_rows > (first := int(rows.column(HEARTBEAT_COLUMN)[0].as_py())):
            yield rows.slice(first).drop_columns([HEARTBEAT_COLUMN])


def _heartbeat_row(
    schema: pa.Schema, strategy: WatermarkStrategy, event_time: int
) -> pa.RecordBatch:
    values = {
        strategy.event_time_column: pa.array([event_time], pa.int64()).cast(
            pa.timestamp("us", tz="UTC")
        ),
        HEARTBEAT_COLUMN: pa.array([True]),
    }
    return pa.RecordBatch.from_arrays(
        [values.get(column.name, pa.nulls(1, column.type)) for column in schema], schema=schema
    )


def _spool(
    file: BinaryIO, schema: pa.Schema, batches: Iterator[pa.RecordBatch], keep: bool
) -> None:
    with pa.ipc.new_stream(file, schema, options=KEPT_ROWS if keep else None) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _unspool(file: BinaryIO) -> Iterator[pa.RecordBatch]:
    with pa.ipc.open_stream(file) as reader:
        yield from reader


class _EntryReading:
    """One read of an entry, from its start to its limits or pinned stops."""

    def __init__(self, task: ReaderTask, entry: Entry, pinned: Report | None) -> None:
        self._task = task
        self._entry = entry
        self._serializer = task.source.split_serializer()
        self._pinned = pinned is not None
        self._limits = ReadLimits() if pinned else entry.limits
        self._max_watermark = None if pinned else entry.max_watermark
        self._rows = 0
        self._bytes = 0
        self._emitted_rows = 0
        self._emitted_bytes = 0
        self._started = time.monotonic()
        self._reading_since: float | None = None  # the first response
        self._has_fetched = False
        self._idle_since: float | None = None
        self._newly_stopped: list[str] = []
        self._context = ReaderContext(
            index_of_subtask=entry.subtask,
            current_parallelism=entry.parallelism,
            record_errors=PollErrors(
                entry.source,
                task.policy,
                spool_factory(task.store_of(entry), entry.source, f"{entry.plan:010d}"),
            ),
        )
        pins = {split.split_id: split for split in pinned.splits} if pinned else None
        self._splits = {
            planned.split_id: self._split_reading(planned, pins) for planned in entry.splits
        }
        self._open = {name: split for name, split in self._splits.items() if split.open}
        self._open_marked = 0  # 1: all open splits are touched; 2: they also waited for rows
        uncounted = self._source_without_counts()
        self._counts = uncounted is None
        self._source: AnySource = task.source if uncounted is None else uncounted

    def _source_without_counts(self) -> AnySource | None:
        """Return a source that leaves out rows without counting them, if nothing needs a count.

        Every split must be read from its planned position to its end. Its report then has no rows,
        like that of a split that was finished unread.
        """
        task, entry, limits = self._task, self._entry, self._limits
        source = task.source
        if not (task.filters and isinstance(source, SupportsFilterPushDown)):
            return None
        may_stop = (
            entry.claim
            or task.row_limit is not None
            or self._max_watermark is not None
            or (limits.rows, limits.bytes, limits.seconds) != (None, None, None)
            or any(split.skip or split.quota is not None for split in self._splits.values())
        )
        if may_stop or not self._ends_are_known():
            return None
        return cast("AnySource | None", source.without_counts())

    def _split_reading(
        self, planned: PlannedSplit, pins: Mapping[str, SplitReport] | None
    ) -> SplitReading:
        split = self._serializer.deserialize(planned.state.version, planned.state.data)
        strategy = self._task.strategy
        watermarks = strategy.tracker(planned.watermark_state) if strategy else None
        given_up = planned.split_id in self._entry.given_up
        if given_up or self._excluded(split):
            return SplitReading(
                planned=planned,
                base=split,
                skip=0,  # those rows are before the end of the split
                watermarks=watermarks,
                quota=None,
                finished=True,
                ended=given_up,
                touched=True,
            )
        quota = None if pins is None else self._quota(pins.get(planned.split_id))
        return SplitReading(
            planned=planned,
            base=split,
            skip=planned.skip,
            watermarks=watermarks,
            quota=quota,
            stopped=quota == 0,
        )

    def _excluded(self, split: SourceSplit) -> bool:
        """Whether the known values of a split's columns exclude all its rows."""
        source, filters = self._task.source, self._task.filters
        if not (filters and self._finishes_unread()):
            return False
        constants = cast(SupportsPartitionPushDown, source).partition_of(split)
        ranges: dict[FieldPath, ValueRange] = {
            (name,): value if isinstance(value, ValueRange) else ValueRange.of(value)
            for name, value in constants.items()
        }
        return not all(each.may_match(ranges) for each in filters)

    def _quota(self, pin: SplitReport | None) -> int | None:
        """Return the rows that the first read of a split took; None if it may not have read it.

        A query with other conditions may have excluded the split, or read it without counts. Its
        end is known, so a split that is finished without a row is read to its end.
        """
        if pin is None:
            return 0
        source, traits = self._task.source, self._task.source.split_traits()
        uncounted = pin.finished and not pin.ended and pin.rows == 0
        able = isinstance(source, SupportsFilterPushDown | SupportsPartitionPushDown)
        ends = traits.end and not traits.skips_unreadable
        return None if uncounted and able and ends else pin.rows

    def _finishes_unread(self) -> bool:
        """Whether a split can be finished without reading it, because of its constant columns."""
        return isinstance(self._task.source, SupportsPartitionPushDown) and self._ends_are_known()

    def _ends_are_known(self) -> bool:
        """Whether the plan alone determines where a split ends, and no event time depends on it."""
        task = self._task
        traits = task.source.split_traits()
        ends: bool = traits.end and not traits.skips_unreadable
        return ends and task.strategy is None and task.evaluator is None

    def batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Read until all splits are finished or stopped, or the entry reaches a limit."""
        try:
            yield from self._read_splits()
            if not self._counts:
                self.check_finished()
            self._check_pinned()
            self._context.record_errors.settle()
        except BaseException:
            self._context.record_errors.abort()
            raise
        if self._pinned:
            self._context.record_errors.abort()  # the report names the spool of the first read
        else:
            self._context.record_errors.close()

    def _read_splits(self) -> Iterator[pa.RecordBatch]:
        events = list(self._entry.events)
        portion: int | None = None
        while (self._open or events) and not self._limit_reached():
            splits = list(itertools.islice(self._open.values(), portion))
            with closed_after(self._source.create_reader(self._context)) as reader:
                reader.start()
                for event in events:
                    reader.handle_source_events(decode_event(self._task.source, event))
                events.clear()
                reader.add_splits([split.base for split in self._in_turn(splits)])
                reader.notify_no_more_splits()
                stopped = yield from self._read(reader, splits)
            if stopped and self._task.source.split_traits().ordered:
                portion = SPLITS_AFTER_STOP  # the next one probably stops too
            elif not stopped and (portion is None or splits[-1].open):
                break

    def _in_turn(self, splits: list[SplitReading]) -> list[SplitReading]:
        """Let another split be the first one in every plan, if a plan may end before the others."""
        traits = self._task.source.split_traits()
        first = 0 if traits.end or traits.ordered else self._entry.plan % max(len(splits), 1)
        return splits[first:] + splits[:first]

    def _read(
        self, reader: SourceReader[Any], splits: list[SplitReading]
    ) -> Generator[pa.RecordBatch, None, bool]:
        """Poll one reader; return True if a new reader must continue without a stopped split.

        No step of a poll depends on the number of splits, only on those that moved.
        """
        output = PollOutput()
        ordered = self._task.source.split_traits().ordered
        began, self._has_fetched = time.monotonic(), False
        while (splits[-1].open if ordered and splits else self._open) and not self._limit_reached():
            status = reader.poll_next(output)
            self._has_fetched = self._has_fetched or reader.has_fetched()
            if self._has_fetched and self._reading_since is None:
                self._reading_since = time.monotonic()
            moved = moved_splits(reader, splits)
            collected = output.take()
            for split_id, batch in collected:
                emitted = self._take(self._splits[split_id], batch)
                if emitted is not None:
                    yield emitted
            if not collected:
                self._context.record_errors.settle()
            newly_stopped = self._move_on(moved, [split_id for split_id, _ in collected])
            if newly_stopped and self._open:
                if ordered:
                    return True  # the reader would wait for the stopped split
                try:
                    reader.pause_or_resume_splits(newly_stopped, [])
                except NotImplementedError:
                    return True
            if not collected and not self._wait(reader, status, began):
                return False
        return False

    def _wait(self, reader: SourceReader[Any], status: InputStatus, began: float) -> bool:
        """Return whether to poll again after an empty poll of a reader that began at a time."""
        if status is InputStatus.END_OF_INPUT:
            return False
        if status is InputStatus.MORE_AVAILABLE or reader.wait_available(AVAILABILITY_POLL_SECONDS):
            self._idle_since = None
            return True
        if self._task.source.split_traits().end:
            return True
        now = time.monotonic()
        self._mark_open(2 if self._has_fetched else 1)
        if not (self._has_fetched or self._pinned):
            return now - began < self._task.first_fetch_seconds
        if self._idle_since is None:
            self._idle_since = now
        patience = self._task.replay_seconds if self._pinned else self._task.idle_seconds
        return now - self._idle_since < patience

    def _mark_open(self, mark: int) -> None:
        """Note once that the open splits had no rows, and whether they could have had some."""
        if mark > self._open_marked:
            self._open_marked = mark
            for split in self._open.values():
                split.touched = True
                split.waited |= mark == 2

    def _take(self, split: SplitReading, rows: Rows) -> pa.RecordBatch | None:
        """Account for rows of a split; return those to emit."""
        errors = self._context.record_errors
        if not split.open:
            errors.settle(counted=False)
            return None
        split.touched = True
        batch = None if isinstance(rows, int) else rows
        count = rows if isinstance(rows, int) else rows.num_rows
        dropped = min(max(split.skip - split.consumed, 0), count)
        fresh = count - dropped
        keep, ends = self._within_limits(split, fresh), False
        if batch is not None:
            batch = batch.slice(dropped)
            if self._task.strategy is not None:
                batch = self._task.strategy.assign(batch)
            keep, ends = self._admit(split, batch, keep)
        errors.settle(counted=dropped == 0 and (keep > 0 or fresh == 0))
        split.consumed += dropped + keep
        split.rows += keep
        if ends:
            split.finished = split.ended = True
        elif keep < fresh or split.rows in (split.quota, self._task.row_limit):
            # Resume from the position before this batch and drop the rows that were taken.
            split.stopped = True
            split.skip = max(split.skip, split.consumed)
            self._newly_stopped.append(split.planned.split_id)
        if not split.open:
            del self._open[split.planned.split_id]
        self._rows += keep
        self._idle_since = None
        if batch is None:
            self._emitted_rows += keep
            return None
        return self._emit(split, batch.slice(0, keep)) if keep else None

    def _within_limits(self, split: SplitReading, count: int) -> int:
        """Return how many of the next rows of a split the numbers of rows allow."""
        left = [count]
        if split.quota is not None:
            left.append(split.quota - split.rows)
        if self._limits.rows is not None:
            left.append(self._limits.rows - self._rows)
        if self._task.row_limit is not None:
            left.append(self._task.row_limit - split.rows)
        return min(left)

    def _admit(self, split: SplitReading, fresh: pa.RecordBatch, keep: int) -> tuple[int, bool]:
        """Return the number of leading rows to take, and whether the split ends after them."""
        if self._max_watermark is not None and split.watermarks is not None:
            admission = split.watermarks.admit(
                self._event_times(fresh.slice(0, keep)), self._max_watermark
            )
            if admission.rows < keep:
                keep, split.head = admission.rows, admission.head
        if self._task.evaluator is not None:
            end_row = self._task.evaluator.end_row(fresh.slice(0, keep))
            if end_row is not None:
                split.head = None
                return end_row + 1, True
        return keep, False

    def _event_times(self, batch: pa.RecordBatch) -> pa.Array:
        assert self._task.strategy is not None
        return batch.column(self._task.strategy.event_time_column)

    def _emit(self, split: SplitReading, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        strategy = self._task.strategy
        if strategy is not None:
            invalid = strategy.invalid_event_times(rows)
            if invalid is not None:
                self._hand_over_invalid(split, rows, invalid)
                rows = rows.filter(pc.invert(invalid))
            if split.watermarks is not None:
                split.watermarks.advance(self._event_times(rows))
            rows = rows.append_column(
                pa.field(HEARTBEAT_COLUMN, pa.bool_()), pa.repeat(pa.scalar(False), rows.num_rows)
            )
        if rows.num_rows == 0:
            return None
        size = rows.nbytes
        self._bytes += size
        self._emitted_rows += rows.num_rows
        self._emitted_bytes += size
        return self._needed(rows)

    def _needed(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        """Return what the query needs of rows that count in positions and reports."""
        filters, columns = self._task.filters, self._task.columns
        needed = rows if columns is None else rows.select(list(columns))
        if filters:
            masks = [each.mask(rows) for each in filters]
            needed = needed.filter(functools.reduce(pc.and_kleene, masks))  # copies rows only once
        return needed if needed.num_rows else None

    def _hand_over_invalid(
        self, split: SplitReading, rows: pa.RecordBatch, invalid: pa.Array
    ) -> None:
        times = self._event_times(rows).cast(pa.string())  # Python holds no year over 9999
        first = split.rows - rows.num_rows
        for index in pc.indices_nonzero(invalid).to_pylist():
            self._context.record_errors.count(
                BadRecord(
                    code="EVENT_TIME_OUT_OF_RANGE",
                    reason="the event time is outside 1970-01-01 to 2069-12-06",
                    source_uid=self._entry.source,
                    split_id=split.planned.split_id,
                    position=f"row {first + index} of the read",
                    raw=times[index].as_py().encode(),
                )
            )

    def _move_on(
        self, moved: Mapping[str, SourceSplit | None], emitted: Iterable[str]
    ) -> list[str]:
        """Take over the positions after a poll; return the splits that stopped in it."""
        for split_id in self._open.keys() & {*emitted, *moved}:
            split = self._open[split_id]
            split.skip = max(split.skip - split.consumed, 0)
            split.consumed = 0
            position = moved.get(split_id, split.base)
            if position is None:
                split.finished = split.touched = True
                del self._open[split_id]
            else:
                # A position can also move without rows: all were bad, or none contained user data.
                split.touched |= position != split.base
                split.skip = position.still_to_skip(split.skip, split.base)
                split.base = position
        stopped, self._newly_stopped = self._newly_stopped, []
        return stopped

    def _limit_reached(self) -> bool:
        limits = self._limits
        return (
            (limits.rows is not None and self._rows >= limits.rows)
            or (limits.bytes is not None and self._bytes >= limits.bytes)
            or (
                limits.seconds is not None
                and self._reading_since is not None
                and time.monotonic() - self._reading_since >= limits.seconds
            )
        )

    def _check_pinned(self) -> None:
        skips = self._task.source.split_traits().skips_unreadable
        for split in self._splits.values():
            if split.quota is not None and split.rows != split.quota:
                fewer_rows(self._entry, split, skips)

    def check_finished(self) -> None:
        """Check that all splits were read to their ends.

        Raises:
            FatalError: The reader stopped before.
        """
        unread = [split for split in self._splits.values() if not split.finished]
        if unread:
            names = ", ".join(mask_text(split.planned.split_id) for split in unread)
            raise FatalError(
                f"the reader of source {self._entry.source!r} stopped before the end of its splits",
                expected="all rows up to the end of each split",
                found=f"no end of {names}",
                hint="this is a bug in the connector: report it",
            )

    def report(self, attempt: int) -> Report:
        """Return the report of this read, after :meth:`batches` is exhausted."""
        errors = self._context.record_errors.summary()
        metrics = self._context.metric_group
        return Report(
            pipeline_id=self._entry.pipeline_id,
            plan=self._entry.plan,
            nonce=self._entry.nonce,
            source=self._entry.source,
            subtask=self._entry.subtask,
            attempt=attempt,
            splits=tuple(self._split_report(s) for s in self._splits.values() if s.touched),
            events=tuple(encode_event(event) for event in self._context.events),
            wants_splits=self._context.wants_splits
            or all(split.finished for split in self._splits.values()),
            seconds=time.monotonic() - self._started,
            rows=self._emitted_rows,
            bytes=self._emitted_bytes,
            skipped=errors["skipped"],
            dead_letters=errors["dead_letters"],
            spool=errors["spool"],
            counters=dict(metrics.counters),
            gauges=dict(metrics.gauges),
        )

    def _split_report(self, split: SplitReading) -> SplitReport:
        watermarks = split.watermarks
        rows = split.rows if self._counts else 0
        return SplitReport(
            split_id=split.planned.split_id,
            state=Versioned(
                version=self._serializer.version, data=self._serializer.serialize(split.base)
            ),
            skip=split.skip,
            finished=split.finished,
            rows=rows,
            asked=rows > 0 or split.waited,
            watermark=watermarks.watermark if watermarks else None,
            head=split.head,
            watermark_state=watermarks.state() if watermarks else None,
            ended=split.ended,
        )
