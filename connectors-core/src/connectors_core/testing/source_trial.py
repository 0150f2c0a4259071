# SPDX-License-Identifier: Apache-2.0
"""The tools of one source case."""

from __future__ import annotations

import contextlib
import itertools
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.engine.coordinator.plan_log import decisions_since, read_plan
from connectors_core.errors import (
    BadRecordError,
    ConfigurationError,
    DataLossError,
    SplitChangedError,
)
from connectors_core.records import RecordPolicy
from connectors_core.source import (
    Boundedness,
    ReadLimits,
)
from connectors_core.source.source import AnySource
from connectors_core.source.watermarks import micros
from connectors_core.testing.context import ROWS, SourceExternalContext, SplitDataWriter
from connectors_core.testing.data import (
    assert_at_least,
    assert_exactly,
    assert_in_order,
    assert_same_values,
    make_rows,
)
from connectors_core.testing.data_types import MISFIT_COLUMN, MISFIT_TEXT
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.driver import DriverJob
from connectors_core.testing.environment import TestEnvironment
from connectors_core.testing.faults import Fault, FaultAction, injected
from connectors_core.testing.pace import Deadline
from connectors_core.testing.trial import (
    Trial,
)

ROWS_PER_SPLIT: Final = 60
# With this number, some splits are assigned but unread and some wait, wherever a pipeline stops.
MANY_SPLITS: Final = 12
LARGE_TEXT: Final = 1_000
_PATIENCE: Final = 0.5


class SourceTrial(Trial):
    """A case in progress: its external system, its pipelines, and its written and read rows."""

    def __init__(
        self,
        environment: TestEnvironment,
        context: SourceExternalContext,
        root: Path,
        seed: int,
        replayable: bool,
    ) -> None:
        super().__init__(environment, root, seed)
        self.context = context
        self.sink = DirectorySink(root / "out")
        self._replayable = replayable
        self._writers: list[SplitDataWriter] = []
        self._next: list[int] = []
        self.written: list[pa.Table] = []

    def close(self) -> None:
        """Close the writers of all splits."""
        with contextlib.ExitStack() as stack:
            for writer in self._writers:
                stack.callback(writer.close)

    def write_split(
        self, count: int = 1, *, poison: bool = False, further_column: bool = False
    ) -> None:
        """Write new splits."""
        for _ in range(count):
            split = self.open_split()
            self.grow_split(split, further_column=further_column)
            if poison:
                self._writers[split].write_poison()

    def write_split_with_poison(self, *counts: int) -> None:
        """Write a new split: groups of rows of these sizes, separated by bad records."""
        split = self.open_split()
        rows = make_rows(split, 0, sum(counts), self._seed)
        starts = itertools.accumulate(counts, initial=0)
        parts = [rows.slice(start, count) for start, count in zip(starts, counts, strict=False)]
        self._writers[split].write_around_poison(*parts)
        self._next[split] = rows.num_rows
        self.written.append(rows)

    def open_split(self, *, first: int = 0) -> int:
        """Create a split without rows, and return its number.

        Its first row will have the given number.
        """
        self._writers.append(self.context.create_split())
        self._next.append(first)
        return len(self._writers) - 1

    def grow_splits(self) -> None:
        """Write more rows to every split."""
        for split in range(len(self._writers)):
            self.grow_split(split)

    def grow_split(self, split: int, *, further_column: bool = False) -> None:
        """Write more rows to a split."""
        rows = self._next_rows(split)
        if further_column:
            rows = rows.append_column("extra", rows["text"])
        self._writers[split].write(rows)

    @contextlib.contextmanager
    def late_rows(self, split: int) -> Iterator[None]:
        """Add more rows to a split, which become visible at the end of the context."""
        with self._writers[split].late(self._next_rows(split)):
            yield

    def _next_rows(self, split: int) -> pa.Table:
        rows = make_rows(split, self._next[split], ROWS_PER_SPLIT, self._seed)
        self._next[split] += ROWS_PER_SPLIT
        self.written.append(rows)
        return rows

    def replace_split(self, split: int) -> None:
        """Replace the rows of a split with others of the same size."""
        rows = make_rows(split, 0, self._next[split], self._seed)
        rows = rows.set_column(3, ROWS.field("text"), rows["text"][::-1])
        self.written = [each for each in self.written if each["split"][0].as_py() != split]
        self.written.append(rows)
        self._writers[split].replace(rows)

    def cut_split(self, split: int, rows: int) -> None:
        """Make a split lose all but its first rows."""
        self._writers[split].cut(rows)

    def spoil_split(self, split: int) -> None:
        """Make a split unreadable for good. Its rows need not arrive."""
        self._writers[split].spoil()
        self.written = [each for each in self.written if each["split"][0].as_py() != split]

    def skipping(self, **settings: Any) -> Any:
        """Return a pipeline from a bounded source that skips what it cannot read."""
        source = self.context.create_skipping_source(Boundedness.BOUNDED)
        assert source.split_traits().skips_unreadable, "its split traits do not say that it skips"
        return self.job_of(source, **settings).build(self.environment)

    def assert_others_complete(self, spoiled: int) -> None:
        """Check that all rows arrived but those of a spoiled split, of which none came twice."""
        rows = self.context.to_rows(self.sink.read())
        of_split = pc.equal(rows["split"], spoiled)
        assert_exactly(rows.filter(pc.invert(of_split)), self.written)
        numbers = rows.filter(of_split)["seq"].to_pylist()
        assert len(numbers) == len(set(numbers)), "rows of the spoiled split came twice"

    def pipeline(self, boundedness: Boundedness, *, parallelism: int = 2, **settings: Any) -> Any:
        """Return a pipeline from the source to a folder.

        Each pipeline resumes after the previous one.
        """
        return self.job(boundedness, parallelism=parallelism, **settings).build(self.environment)

    def read_all(self, **settings: Any) -> None:
        """Run a bounded pipeline to its end."""
        with self.pipeline(Boundedness.BOUNDED, **settings) as pipeline:
            self.run_to_end(pipeline)

    def follow(self, **settings: Any) -> None:
        """Run an unbounded pipeline until all written rows have arrived, and stop it."""
        with self.pipeline(Boundedness.CONTINUOUS_UNBOUNDED, **settings) as pipeline:
            pipeline.start()
            self.wait_for_all(pipeline)

    def crash_in_batch_run(self, point: str) -> list[pa.Table]:
        """Crash in a batch run at a point, and return the rows that it reads."""
        fault = Fault(point, action=FaultAction.RAISE, once=self.root / "failed")
        with injected(fault), self._batch_run() as pipeline:
            self.run_to_failure(pipeline)
        assert fault.fired
        return list(self.written)

    def run_batch(self) -> bool:
        """Start a batch run, and return whether it has read its own input."""
        with self._batch_run() as pipeline:
            return bool(pipeline.run())

    def _batch_run(self) -> Any:
        return self.job(Boundedness.BOUNDED).build(self.environment, streaming=False)

    def assert_read_by_batch_runs(self, *runs: Sequence[pa.Table]) -> None:
        """Check that there are as many epochs with rows as runs, each with the rows of its run."""
        epochs = [epoch for epoch in self.epochs() if self.sink.read(epoch).num_rows]
        assert len(epochs) == len(runs), f"{len(epochs)} epochs have rows, expected {len(runs)}"
        for epoch, expected in zip(epochs, runs, strict=True):
            assert_exactly(self.context.to_rows(self.sink.read(epoch)), expected)
        assert self.sink.staged() == []

    def run_to_loss(self, boundedness: Boundedness) -> None:
        """Run a pipeline to its end, if necessary up to the available rows. It must name a loss."""
        available_now = boundedness is Boundedness.CONTINUOUS_UNBOUNDED
        with self.pipeline(boundedness) as pipeline:
            failure = self.run_to_failure(pipeline, available_now=available_now)
        codes = (DataLossError.code, SplitChangedError.code)
        assert any(code in str(failure) for code in codes), f"the error names no loss: {failure}"

    def assert_second_is_bad(self, source: AnySource, parts: Sequence[pa.Table]) -> None:
        """Read a source with each record policy. Of its parts, only the second one does not fit."""
        with self.job_of(source).build(self.environment) as pipeline:
            failure = self.run_to_failure(pipeline)
        for named in (BadRecordError.code, MISFIT_COLUMN):
            assert named in str(failure), f"the error does not name {named}: {failure}"
        shown = "".join(traceback.format_exception(failure))
        assert MISFIT_TEXT not in shown, f"the error shows the value: {shown}"
        letters = DirectorySink(self.root / "letters")
        for policy in (RecordPolicy.skip(), RecordPolicy.dead_letter(letters)):
            sink = DirectorySink(self.root / f"out-{policy.mode}")
            job = replace(
                self.job_of(source, record_policy=policy),
                location=str(self.root / f"at-{policy.mode}"),
                sinks={"out": sink},
            )
            with job.build(self.environment) as pipeline:
                self.run_to_end(pipeline)
                (status,) = pipeline.status().sources
            assert_same_values(sink.read(), pa.concat_tables([parts[0], *parts[2:]]))
            assert status.skipped + status.dead_letters == 1, "the bad record is not counted"
        reasons = letters.read()["reason"].to_pylist()
        assert len(reasons) == 1, "the bad record is no dead letter"
        assert MISFIT_TEXT not in reasons[0], f"the dead letter shows the value: {reasons[0]}"

    def restart_with(self, name: str, source: AnySource, first: Boundedness) -> None:
        """Read all rows, write more, and restart with another source on the stored state.

        The restart must read all rows once, or be refused with a hint. Then the original source
        must be able to continue.
        """
        sink = DirectorySink(self.root / f"out-{name}")
        location = str(self.root / f"at-{name}")
        job = replace(self.job(first), location=location, sinks={"out": sink})
        at_first = list(self.written)
        self._read(job, sink, at_first)
        self.write_split()
        stays_bounded = first is source.boundedness() is Boundedness.BOUNDED
        expected = at_first if stays_bounded else self.written
        if refusals := self._refused(replace(job, source=source), sink, expected):
            assert refusals[0].hint, f"the refusal names no remedy: {refusals[0]}"
            expected = at_first if first is Boundedness.BOUNDED else self.written
            self._read(job, sink, expected)
        assert_exactly(self.context.to_rows(sink.read()), expected)

    def _refused(
        self, job: DriverJob, sink: DirectorySink, expected: list[pa.Table]
    ) -> list[ConfigurationError]:
        """Run a pipeline; return its refusal, if it is refused."""
        try:
            self._read(job, sink, expected)
        except ConfigurationError as refusal:
            return [refusal]
        return []

    def _read(self, job: DriverJob, sink: DirectorySink, expected: list[pa.Table]) -> None:
        """Run a pipeline to its end, or until it has read as many rows as expected."""
        rows = sum(table.num_rows for table in expected)
        with job.build(self.environment) as pipeline:
            if job.source.boundedness() is Boundedness.BOUNDED:
                self.run_to_end(pipeline)
                return
            pipeline.start()
            self.wait(lambda: sink.read().num_rows >= rows, f"{rows} rows", pipeline)

    def job(self, boundedness: Boundedness, *, parallelism: int = 2, **settings: Any) -> DriverJob:
        """Return the same pipeline for a separate process."""
        source = self.context.create_source(boundedness)
        return self.job_of(source, parallelism=parallelism, **settings)

    def job_of(self, source: AnySource, *, parallelism: int = 2, **settings: Any) -> DriverJob:
        """Return a pipeline from this source to the folder."""
        return DriverJob(
            location=str(self.location),
            source=source,
            sinks={"out": self.sink},
            settings=settings,
            parallelism=parallelism,
            spark=self.environment.session,
        )

    def job_of_few_rows(self) -> DriverJob:
        """Return a bounded pipeline of new splits.

        Some are started and some wait, wherever it ends.
        """
        self.write_split(MANY_SPLITS // 2)
        few = ReadLimits(rows=ROWS_PER_SPLIT * 2 // 3, splits=3)
        return self.job(Boundedness.BOUNDED, limits=few)

    def run_again(self, job: DriverJob) -> None:
        """Run a pipeline to its end, in as few plans as possible.

        An attempt of a failed driver can stage data after this run has swept its epoch. The start
        of the next run sweeps it.
        """
        for _ in range(2):
            with replace(job, settings={}).build(self.environment) as pipeline:
                self.run_to_end(pipeline)
            if not self.sink.staged():
                return

    def peak_memory(self, name: str, rows: int, limits: ReadLimits) -> int:
        """Return the peak memory in bytes of a driver that reads this number of long rows."""
        texts = pa.repeat(pa.scalar("x" * LARGE_TEXT), rows)
        written = make_rows(0, 0, 1, self._seed).take(pa.repeat(pa.scalar(0), rows))
        with contextlib.closing(self.context.create_split()) as writer:
            writer.write(written.set_column(3, "text", texts))
        job = replace(
            self.job(Boundedness.BOUNDED, parallelism=1, limits=limits),
            location=str(self.root / name),
            sinks={"out": DirectorySink(self.root / f"{name}-out")},
            peak=str(self.root / f"{name}-peak"),
        )
        self.run_driver(job)
        return int((self.root / f"{name}-peak").read_text())

    def watermarks_and_times(self) -> Iterator[tuple[int | None, list[int]]]:
        """Return, for every plan with rows, its watermark and the event times of its rows."""
        for epoch, decision in sorted(decisions_since(self._store, 0).items()):
            (source,) = read_plan(self._store, decision.plan).sources.values()
            rows = self.sink.read(epoch)
            if rows.num_rows:
                yield source.watermark, rows["at"].cast(pa.int64()).to_pylist()

    def assert_limited(self, rows: int) -> None:
        """Check that no plan has more rows than this."""
        for epoch in self.epochs():
            found = self.sink.read(epoch).num_rows
            assert found <= rows, f"epoch {epoch} has {found} rows, more than the limit of {rows}"

    def assert_nothing_late(self) -> None:
        """Check that no row arrived after the watermark had passed it."""
        for watermark, times in self.watermarks_and_times():
            assert watermark is None or min(times) >= watermark, (
                "rows arrived after the watermark had passed them"
            )

    def assert_aligned(self, drift: timedelta) -> None:
        """Check that no plan has a row further ahead than this of the next row of any split."""
        waiting = {
            table["split"][0].as_py(): table["at"].cast(pa.int64()).to_pylist()
            for table in self.written
        }
        for epoch in self.epochs():
            read = self.sink.read(epoch)
            if not read.num_rows:
                continue
            rows = self.context.to_rows(read)
            lowest = min(times[0] for times in waiting.values() if times)
            ahead = max(rows["at"].cast(pa.int64()).to_pylist()) - lowest
            assert ahead <= micros(drift), f"a split is {ahead / 1e6} s ahead of another"
            for split in rows["split"].to_pylist():
                waiting[split].pop(0)

    def wait_for_watermark(self, pipeline: Any, split: int, rows: int) -> None:
        """Wait until the watermark is that of this number of rows in a split."""
        last = make_rows(split, rows - 1, 1, self._seed)["at"].cast(pa.int64())[0].as_py()

        def there() -> bool:
            (source,) = pipeline.status().sources
            return source.watermark is not None and source.watermark >= last - 1

        self.wait(there, f"the watermark of row {rows} of split {split}", pipeline)

    def wait_for_all(self, pipeline: Any) -> None:
        """Wait until all written rows have arrived."""
        expected = sum(table.num_rows for table in self.written)
        self.wait(lambda: self.sink.read().num_rows >= expected, f"{expected} rows", pipeline)

    def read_what_is_visible(self, pipeline: Any) -> None:
        """Wait until all rows but the late ones have arrived, as long as a source needs for that.

        A source can also hold them until the late rows are visible.
        """
        expected = sum(table.num_rows for table in self.written) - ROWS_PER_SPLIT
        patience = Deadline(_PATIENCE)
        while self.sink.read().num_rows < expected and not patience.passed:
            pipeline.await_termination(_PATIENCE / 10)

    def assert_complete(self) -> None:
        """Check that all written rows arrived, with the rows of each split in order.

        Each row must arrive once, unless the source cannot be read again.
        """
        found = self.assert_arrived()
        if self._replayable:
            assert_in_order(found)

    def assert_arrived(self) -> pa.Table:
        """Check that all written rows arrived, in any order, and return them."""
        read = self.sink.read()
        found = self.context.to_rows(read) if read.num_columns else read
        assert_at_least(found, self.written, doubled_allowed=not self._replayable)
        assert self.sink.staged() == []
        return found
