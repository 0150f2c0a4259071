# SPDX-License-Identifier: Apache-2.0
"""The shared tools of a source's unit suites: written rows, splits, and reads."""

from __future__ import annotations

import contextlib
import itertools
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa
import pytest

from connectors_core.metrics import MetricGroup
from connectors_core.records import BadRecord, RecordErrorHandler, RecordPolicy
from connectors_core.source import Boundedness, InputStatus, SourceEvent, SourceReader
from connectors_core.source.source import AnySource
from connectors_core.testing.capabilities import Capabilities, Capability
from connectors_core.testing.context import ROWS, SourceExternalContext
from connectors_core.testing.data import assert_exactly, assert_in_order, make_rows
from connectors_core.testing.enumeration import all_splits
from connectors_core.testing.pace import Deadline
from connectors_core.testing.trial import PipelineSuite

Batches = list[tuple[str, pa.RecordBatch]]
"""Batches with the ids of their splits."""

ROWS_PER_SPLIT: Final = 40
_LARGE_ROWS: Final = 6_000
_LARGE_TEXT: Final = 8_000
_PATIENCE: Final = 0.02


class SourceUnitSuite(PipelineSuite):
    """A suite that tests the parts of a source, without a pipeline.

    Attributes:
        deadline: The timeout in seconds within which a reader must return available rows.
    """

    deadline: ClassVar[float] = 20.0

    @abstractmethod
    def external_context(self, folder: Path) -> SourceExternalContext:
        """Return a new external system for one case. ``folder`` belongs to the case."""

    @pytest.fixture
    def trial(self, tmp_path: Path) -> Iterator[SourceUnitTrial]:
        """Return the external system of a case."""
        folder = tmp_path / "external"
        folder.mkdir()
        print(f"seed: {self.seed}")
        with contextlib.closing(self.external_context(folder)) as context:
            yield SourceUnitTrial(context, self.capabilities, self.seed, self.deadline)


class SourceUnitTrial:
    """A case in progress: its external system, and the written rows.

    Attributes:
        context: The external system.
        seed: The seed of the test data.
        deadline: The timeout in seconds within which a reader must return available rows.
        written: The written rows, split by split.
        boundednesses: The supported kinds of sources, bounded first.
    """

    def __init__(
        self, context: SourceExternalContext, capabilities: Capabilities, seed: int, deadline: float
    ) -> None:
        self.context = context
        self.seed = seed
        self.deadline = deadline
        self.written: list[pa.Table] = []
        self.boundednesses = [
            boundedness
            for boundedness, needed in (
                (Boundedness.BOUNDED, Capability.BOUNDED),
                (Boundedness.CONTINUOUS_UNBOUNDED, Capability.UNBOUNDED),
            )
            if needed in capabilities.can
        ]
        self._splits = 0

    def write_splits(
        self, count: int = 1, *, rows_each: int = ROWS_PER_SPLIT, poison: bool = False
    ) -> None:
        """Write new splits."""
        for _ in range(count):
            rows = make_rows(self._splits, 0, rows_each, self.seed)
            with contextlib.closing(self.context.create_split()) as writer:
                writer.write(rows)
                if poison:
                    writer.write_poison()
            self.written.append(rows)
            self._splits += 1

    def write_large_split(self) -> int:
        """Write a new split with long texts, and return the bytes of these."""
        same = pa.repeat(pa.scalar(0), _LARGE_ROWS)
        texts = pa.repeat(pa.scalar("x" * _LARGE_TEXT), _LARGE_ROWS)
        rows = make_rows(self._splits, 0, 1, self.seed).take(same)
        rows = rows.set_column(3, ROWS.field("text"), texts)
        with contextlib.closing(self.context.create_split()) as writer:
            writer.write(rows)
        self.written.append(rows)
        self._splits += 1
        return _LARGE_ROWS * _LARGE_TEXT

    def write_split_with_poison(self, *counts: int) -> None:
        """Write a new split: groups of rows of these sizes, separated by bad records."""
        rows = make_rows(self._splits, 0, sum(counts), self.seed)
        starts = itertools.accumulate(counts, initial=0)
        parts = [rows.slice(start, count) for start, count in zip(starts, counts, strict=False)]
        with contextlib.closing(self.context.create_split()) as writer:
            writer.write_around_poison(*parts)
        self.written.append(rows)
        self._splits += 1

    def source(self, boundedness: Boundedness | None = None) -> AnySource:
        """Return a source of all written rows, bounded if possible."""
        return self.context.create_source(boundedness or self.boundednesses[0])

    def read(self, source: AnySource, splits: Sequence[Any]) -> Batches:
        """Return all batches of some splits."""
        with Reading(source, self.deadline) as reading:
            reading.add(splits)
            reading.read(self.rows_written)
            return reading.batches

    @property
    def rows_written(self) -> int:
        """Return the number of written rows."""
        return sum(table.num_rows for table in self.written)

    def assert_complete(self, source: AnySource, read: Batches) -> None:
        """Check that these are all written rows, once each, in order within each split.

        One written split may be several splits of the source, which have no order.
        """
        assert_exactly(self.context.to_rows(table_of(source, read)), self.written)
        for split_id in {split_id for split_id, _ in read}:
            assert_in_order(self.context.to_rows(table_of(source, read, split_id)))


class RecordedErrors(RecordErrorHandler):
    """Drops bad records and keeps them for the test."""

    def __init__(self) -> None:
        super().__init__(RecordPolicy.skip())
        self.records: list[BadRecord] = []

    def handle(self, record: BadRecord, *, cause: BaseException | None = None) -> None:
        """Keep a record."""
        super().handle(record, cause=cause)
        self.records.append(record)


class _Context:
    """The context of a reader in a test."""

    index_of_subtask = 0
    current_parallelism = 1

    def __init__(self) -> None:
        self.metric_group = MetricGroup()
        self.record_errors = RecordedErrors()
        self.requests = 0
        self.events: list[SourceEvent] = []

    def send_split_request(self) -> None:
        self.requests += 1

    def send_source_event_to_coordinator(self, event: SourceEvent) -> None:
        self.events.append(event)


class _Output:
    def __init__(self) -> None:
        self.batches: list[tuple[str, pa.RecordBatch]] = []
        self.passed_over = 0

    def create_output_for_split(self, split_id: str) -> _SplitOutput:
        return _SplitOutput(split_id, self)


class _SplitOutput:
    def __init__(self, split_id: str, output: _Output) -> None:
        self._split_id = split_id
        self._output = output

    def collect(self, batch: pa.RecordBatch) -> None:
        self._output.batches.append((self._split_id, batch))

    def pass_over(self, rows: int) -> None:
        self._output.passed_over += rows


class Reading:
    """A reader in use, which the test polls and its context closes.

    Attributes:
        reader: The reader.
        batches: All emitted batches, as (split id, batch).
        bad_records: All reported bad records.
        kept: The emitted rows and the state of the reader after the last poll of `read_through`.
    """

    def __init__(self, source: AnySource, deadline: float, *, start: bool = True) -> None:
        self._serializer = source.split_serializer()
        self._deadline = deadline
        self._context = _Context()
        self._output = _Output()
        self._closed = False
        self.kept: tuple[Batches, dict[str, tuple[int, bytes]]] = [], {}
        self.reader: SourceReader[Any] = source.create_reader(self._context)
        if start:
            self.reader.start()

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the reader once."""
        if not self._closed:
            self._closed = True
            self.reader.close()

    @property
    def batches(self) -> Batches:
        """Return all emitted batches."""
        return self._output.batches

    @property
    def events(self) -> list[SourceEvent]:
        """Return all events for the enumerator."""
        return self._context.events

    @property
    def bad_records(self) -> list[BadRecord]:
        """Return all reported bad records."""
        return self._context.record_errors.records

    def add(self, splits: Sequence[Any]) -> None:
        """Add splits to the reader."""
        self.reader.add_splits(splits)

    def poll(self) -> InputStatus:
        """Poll once."""
        return self.reader.poll_next(self._output)

    def read_some(self) -> None:
        """Poll until there are rows, or the input ends.

        Raises:
            AssertionError: Nothing was emitted for too long.
        """
        for _ in self.steps():
            if self.batches:
                return

    def steps(self) -> Iterator[InputStatus]:
        """Poll repeatedly, and wait while no rows are available. Ends with the input.

        Raises:
            AssertionError: Nothing was emitted for too long.
        """
        quiet, emitted = Deadline(self._deadline), 0
        while True:
            status = self.poll()
            if len(self.batches) > emitted:
                emitted = len(self.batches)
                quiet.restart()
            yield status
            if status is InputStatus.END_OF_INPUT:
                return
            assert not quiet.passed, (
                f"{self.count} rows arrived, and then none for {quiet.waited:.1f} s"
            )
            if status is InputStatus.NOTHING_AVAILABLE:
                self.reader.wait_available(_PATIENCE)

    def read_through(
        self,
        outage: AbstractContextManager[threading.Event],
        splits: Sequence[Any],
        *,
        behind: int,
        rows: int,
    ) -> Exception | None:
        """Read some rows, then during an outage, and then all remaining rows.

        ``kept`` stores the result of every successful poll.

        Args:
            outage: Starts with its context and ends by itself.
            splits: The splits to read.
            behind: The number of rows to read before the outage. With 0, the splits are added
                during it.
            rows: The total number of rows.

        Returns:
            The error of a failed poll, or None.
        """
        try:
            if behind:
                self.add(splits)
                self._poll_until(lambda: self.count >= behind)
            with outage as over:
                if not behind:
                    self.add(splits)
                self.reader.notify_no_more_splits()
                self._poll_until(over.is_set)
            self._poll_until(lambda: self.count >= rows)
        except AssertionError:
            raise
        except Exception as error:
            return error
        return None

    def _poll_until(self, done: Callable[[], bool]) -> None:
        for _ in self.steps():
            self.kept = list(self.batches), self.state()
            if done():
                return

    def read(self, rows: int) -> None:
        """Poll until this number of rows, and all immediately available rows, have arrived."""
        for status in self.steps():
            if self.count >= rows and status is not InputStatus.MORE_AVAILABLE:
                return

    def read_to_end(self, splits: Sequence[Any]) -> None:
        """Add the last splits, and poll until the end of the input."""
        self.add(splits)
        self.reader.notify_no_more_splits()
        for _ in self.steps():
            pass

    @property
    def bad_places(self) -> list[tuple[str | None, str | None]]:
        """Return the splits and positions of all reported bad records."""
        return sorted((record.split_id, record.position) for record in self.bad_records)

    @property
    def count(self) -> int:
        """Return the number of emitted rows."""
        return sum(batch.num_rows for _, batch in self.batches)

    def state(self) -> dict[str, tuple[int, bytes]]:
        """Return the serialized unfinished splits by ID."""
        version = self._serializer.version
        return {
            split.split_id: (version, self._serializer.serialize(split))
            for split in self.reader.snapshot_state()
        }

    def go_on_from(self, state: dict[str, tuple[int, bytes]]) -> None:
        """Add serialized splits to the reader."""
        self.add([self._serializer.deserialize(*each) for each in state.values()])


def table_of(source: AnySource, read: Batches, split_id: str | None = None) -> pa.Table:
    """Return the batches of a source or split as a table, even if there are none."""
    found = [batch for each, batch in read if split_id in (None, each)]
    # Use their own schema, because another case checks whether it is the source's.
    return pa.Table.from_batches(found, schema=found[0].schema if found else source.schema())


def splits_of(source: AnySource) -> list[Any]:
    """Return all splits of a source, which must have some."""
    splits = all_splits(source)
    assert splits, "the enumerator discovers no split"
    return splits
