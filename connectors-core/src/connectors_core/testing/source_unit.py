# SPDX-License-Identifier: Apache-2.0
"""The shared tools of a source's unit suites: written rows, splits, reads."""

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
from connectors_core.testing.context import SourceExternalContext
from connectors_core.testing.data import assert_exactly, assert_in_order, make_rows
from connectors_core.testing.enumeration import all_splits
from connectors_core.testing.pace import Deadline
from connectors_core.testing.trial import PipelineSuite

Batches = list[tuple[str, pa.RecordBatch]]
"""Batches with the ids of their splits."""

ROWS_PER_SPLIT: Final = 40
_PATIENCE: Final = 0.02


class SourceUnitSuite(PipelineSuite):
    """A suite that takes a source apart, without a pipeline.

    Attributes:
        deadline: Seconds within which a reader must give what it has.
    """

    deadline: ClassVar[float] = 20.0

    @abstractmethod
    def external_context(self, folder: Path) -> SourceExternalContext:
        """A new external system for one case; ``folder`` is its own."""

    @pytest.fixture
    def trial(self, tmp_path: Path) -> Iterator[SourceUnitTrial]:
        """One case's external system."""
        folder = tmp_path / "external"
        folder.mkdir()
        print(f"seed: {self.seed}")
        with contextlib.closing(self.external_context(folder)) as context:
            yield SourceUnitTrial(context, self.capabilities, self.seed, self.deadline)


class SourceUnitTrial:
    """One case at work: its external system, and what was written.

    Attributes:
        context: The external system.
        seed: Of the test data.
        deadline: Seconds within which a reader must give what it has.
        written: The rows that were written, split by split.
        boundednesses: What kinds of sources there are, bounded first.
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

    def write_split_with_poison(self, *counts: int) -> None:
        """Write a new split of so many rows, a bad record, so many more, and so on."""
        rows = make_rows(self._splits, 0, sum(counts), self.seed)
        starts = itertools.accumulate(counts, initial=0)
        parts = [rows.slice(start, count) for start, count in zip(starts, counts, strict=False)]
        with contextlib.closing(self.context.create_split()) as writer:
            writer.write_around_poison(*parts)
        self.written.append(rows)
        self._splits += 1

    def source(self, boundedness: Boundedness | None = None) -> AnySource:
        """A source of all that was written; one with an end where there is the choice."""
        return self.context.create_source(boundedness or self.boundednesses[0])

    def read(self, source: AnySource, splits: Sequence[Any]) -> Batches:
        """All batches of some splits."""
        with Reading(source, self.deadline) as reading:
            reading.add(splits)
            reading.read(self.rows_written)
            return reading.batches

    @property
    def rows_written(self) -> int:
        """How many rows there are."""
        return sum(table.num_rows for table in self.written)

    def assert_complete(self, source: AnySource, read: Batches) -> None:
        """These are all rows that were written, once, those of a split in their order.

        What was written as one split may be several of the source, which have no order.
        """
        assert_exactly(self.context.to_rows(table_of(source, read)), self.written)
        for split_id in {split_id for split_id, _ in read}:
            assert_in_order(self.context.to_rows(table_of(source, read, split_id)))


class RecordedErrors(RecordErrorHandler):
    """Leaves bad records out and keeps them."""

    def __init__(self) -> None:
        super().__init__(RecordPolicy.skip())
        self.records: list[BadRecord] = []

    def handle(self, record: BadRecord, *, cause: BaseException | None = None) -> None:
        """Keep a record."""
        super().handle(record, cause=cause)
        self.records.append(record)


class _Context:
    """The runtime as a reader sees it."""

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

    def create_output_for_split(self, split_id: str) -> _SplitOutput:
        return _SplitOutput(split_id, self.batches)


class _SplitOutput:
    def __init__(self, split_id: str, batches: list[tuple[str, pa.RecordBatch]]) -> None:
        self._split_id = split_id
        self._batches = batches

    def collect(self, batch: pa.RecordBatch) -> None:
        self._batches.append((self._split_id, batch))


class Reading:
    """One reader at work, polled by the test; closed at the end of its context.

    Attributes:
        reader: The reader.
        batches: All that it emitted, as (split id, batch).
        bad_records: All that it handed over.
        kept: What it had emitted and its state, behind the last poll of `read_through`.
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
        """Close the reader, once."""
        if not self._closed:
            self._closed = True
            self.reader.close()

    @property
    def batches(self) -> Batches:
        """All that was emitted."""
        return self._output.batches

    @property
    def events(self) -> list[SourceEvent]:
        """All that the enumerator is to hear."""
        return self._context.events

    @property
    def bad_records(self) -> list[BadRecord]:
        """All that was handed over."""
        return self._context.record_errors.records

    def add(self, splits: Sequence[Any]) -> None:
        """Give the reader splits."""
        self.reader.add_splits(splits)

    def poll(self) -> InputStatus:
        """Poll once."""
        return self.reader.poll_next(self._output)

    def steps(self) -> Iterator[InputStatus]:
        """Poll again and again, with patience while nothing is there; ends with the input.

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
            assert not quiet.passed, f"{self.count} rows came, no more for {quiet.waited:.1f} s"
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
        """Read some rows, then through an outage, then all that is left.

        What every poll but a failed one leaves behind is in ``kept``.

        Args:
            outage: Begins with its context and passes by itself.
            splits: What to read.
            behind: Rows to be read before; where there are none the splits are given in the outage.
            rows: All of them.

        Returns:
            What a poll failed with, None if none did.
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
        """Poll until so many rows came, and all that comes without waiting."""
        for status in self.steps():
            if self.count >= rows and status is not InputStatus.MORE_AVAILABLE:
                return

    @property
    def bad_places(self) -> list[tuple[str | None, str | None]]:
        """Splits and positions of all that was handed over."""
        return sorted((record.split_id, record.position) for record in self.bad_records)

    @property
    def count(self) -> int:
        """Rows emitted."""
        return sum(batch.num_rows for _, batch in self.batches)

    def state(self) -> dict[str, tuple[int, bytes]]:
        """The unfinished splits by id, as they are stored."""
        version = self._serializer.version
        return {
            split.split_id: (version, self._serializer.serialize(split))
            for split in self.reader.snapshot_state()
        }

    def go_on_from(self, state: dict[str, tuple[int, bytes]]) -> None:
        """Give the reader splits as they were stored."""
        self.add([self._serializer.deserialize(*each) for each in state.values()])


def table_of(source: AnySource, read: Batches, split_id: str | None = None) -> pa.Table:
    """Batches of a source, or those of one split, as a table; no batch is a table too."""
    found = [batch for each, batch in read if split_id in (None, each)]
    # By their own schema: whether it is that of the source is a case of its own.
    return pa.Table.from_batches(found, schema=found[0].schema if found else source.schema())


def splits_of(source: AnySource) -> list[Any]:
    """All splits of a source; there must be some."""
    splits = all_splits(source)
    assert splits, "the enumerator finds no split"
    return splits
