# SPDX-License-Identifier: Apache-2.0
"""Batch runs: the same readers, writers, and committers, with one epoch per run. Driver."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from typing import Final, Generic, Self, TypeVar, cast

from connectors_core.engine.coordinator.enumeration import (
    Enumeration,
    batch_entries,
    digest_of,
    number_of_tasks,
    resumed_splits,
)
from connectors_core.engine.coordinator.epoch_committer import GIVE_UP_HINT
from connectors_core.engine.coordinator.identity import PipelineIdentity
from connectors_core.engine.coordinator.plan_log import (
    is_done,
    is_given_up,
    mark_decided,
    newest_decision,
    read_decision,
)
from connectors_core.engine.coordinator.source_observation import SourceObservation, count_report
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.execution.reader_task import ReaderTask
from connectors_core.engine.protocol import (
    REPORTS,
    RUNS,
    RUNS_FOLDER,
    Decision,
    Entry,
    Report,
    RunRecord,
    Versioned,
    report_path,
    run_path,
    run_record_path,
)
from connectors_core.engine.query.status import (
    PipelineState,
    QueryStatus,
    SourceStatus,
    error_text,
    source_status,
)
from connectors_core.engine.query.wiring import Query, wire_epochs
from connectors_core.engine.state import StateStore
from connectors_core.errors import ConnectorError, DataLossError, RetryableError
from connectors_core.metrics import Meter, MetricGroup

BatchT = TypeVar("BatchT")
REPORTS_LISTED_EVERY_SECONDS = 2.0
SPARK: Final = ""
"""No uid: the key of the digest of Spark's own inputs."""
_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class BatchInput:
    """A source of a batch run with its entries.

    Attributes:
        settings: The source.
        reader: Reads an entry.
        entries: The entries to read.
        tasks: The number of tasks that read them.
        enumeration: The enumeration of its splits; None when finishing an earlier driver's run.
        state: The state of its enumerator, if a later driver may resume the run.
        digest: A digest of its input, or None if the input has no version.
    """

    settings: SourceSettings
    reader: ReaderTask
    entries: tuple[Entry, ...]
    tasks: int
    enumeration: Enumeration | None = None
    state: Versioned | None = None
    digest: str | None = None

    def in_run(self, run: RunRecord) -> Self:
        """Return the source as an earlier run read it."""
        entries = tuple(entry for entry in run.entries if entry.source == self.settings.uid)
        if not entries:  # that run did not read it
            return self
        tasks = run.tasks.get(self.settings.uid, len(entries))
        return dataclasses.replace(self, entries=entries, tasks=tasks, enumeration=None)

    def tasks_text(self) -> str:
        """Return the number of tasks and what they read."""
        splits = sum(len(entry.splits) for entry in self.entries)
        return f"{self.tasks} for {splits} {'split' if splits == 1 else 'splits'}"

    def close(self) -> None:
        """Close the enumerator."""
        if self.enumeration is not None:
            self.enumeration.close()


def planned_input(
    settings: SourceSettings,
    reader: ReaderTask,
    pipeline_id: str,
    run_id: str,
    resumed: RunRecord | None = None,
) -> BatchInput:
    """Plan the splits of a source.

    The splits come from the enumerator, or from the record of a resumed run if the input is still
    the same. If the reader keeps its rows, each split has its own entry, so that it is never read
    again.

    Raises:
        UnsupportedError: The reader keeps its rows, but the enumerator cannot resume a run.
    """
    recorded = () if resumed is None else resumed.entries
    entries = [entry for entry in recorded if entry.source == settings.uid]
    is_compared = resumed is not None and settings.uid in resumed.inputs
    enumeration = None if entries and not is_compared else Enumeration(settings)
    digest = None
    if enumeration is not None:
        digest = digest_of(settings, enumeration.source_splits)
    if resumed is not None and entries and digest == resumed.inputs.get(settings.uid, digest):
        if enumeration is not None:
            enumeration.close()
        stored = resumed.enumerators[settings.uid]
        enumeration = Enumeration(settings, resumed_splits(settings, entries, stored))
        tasks = resumed.tasks.get(settings.uid, len(entries))
    else:
        assert enumeration is not None
        if entries:
            _LOGGER.warning(
                "source %r reads other input than the interrupted run of %s, whose rows of it are "
                "discarded",
                settings.uid,
                cast(RunRecord, resumed).started,
            )
            run_id = new_run_id()  # so that nothing is mistaken for the rows of that run
        splits = enumeration.splits
        tasks = number_of_tasks(settings, enumeration.source_splits)
        entries = batch_entries(
            settings,
            splits,
            max(len(splits), 1) if reader.keeps else tasks,
            pipeline_id=pipeline_id,
            run_id=run_id,
            source_splits=enumeration.source_splits,
            events=enumeration.events,
        )
    return BatchInput(
        settings=settings,
        reader=reader,
        entries=tuple(entries),
        tasks=tasks,
        enumeration=enumeration,
        state=enumeration.snapshot() if reader.keeps else None,
        digest=digest,
    )


def new_run_id() -> str:
    """Return a new run id."""
    return uuid.uuid4().hex


def unfinished_run(root: StateStore, identity: PipelineIdentity) -> RunRecord | None:
    """Return the decided run of an earlier driver that did not end and was not given up.

    A run removes its record at its end.

    Args:
        root: The state location of the pipeline.
        identity: A pipeline of batch runs.
    """
    decision = _last_decision(root, identity)
    if decision is None:
        return None
    store, run_id = root.child(identity.queries[0].folder), decision.spark_query_id
    if any(is_given_up(store, decision.epoch, uid) for uid in decision.sinks):
        return None
    record = RUNS.read(root, run_record_path(run_id))
    done = all(is_done(store, decision.epoch, uid) for uid in decision.sinks)
    if record is not None or done:
        return record
    # Early releases did not always create a record.
    return RunRecord(pipeline_id=identity.pipeline_id, run_id=run_id, entries=())


def resumable_run(root: StateStore, identity: PipelineIdentity) -> RunRecord | None:
    """Return the undecided run of an earlier driver whose rows are kept.

    Args:
        root: The state location of the pipeline.
        identity: A pipeline of batch runs.
    """
    decision = _last_decision(root, identity)
    decided = None if decision is None else decision.spark_query_id
    names = root.list(RUNS_FOLDER, recursive=True)
    for run_id in sorted({name.partition("/")[0] for name in names} - {decided}):
        record = RUNS.read(root, run_record_path(run_id))
        if record is not None and record.enumerators:
            return record
    return None


def _last_decision(root: StateStore, identity: PipelineIdentity) -> Decision | None:
    store = root.child(identity.queries[0].folder)
    last = newest_decision(store)
    return None if last < 0 else read_decision(store, last)


@dataclass(eq=False, repr=False)
class BatchRun(Generic[BatchT]):
    """One run of a batch pipeline.

    After a crash, the next call finishes a decided run, and rolls back an undecided one. Then it
    reads its own input, unless this is the input of the decided run. If it is ``resumable``, it
    repeats only the reads that were not complete.

    Args:
        query: Its query.
        run_id: The run.
        unfinished: The decided run of an earlier driver that did not end.
        sources: The sources that it reads.
        rows: Returns a context with the rows of an earlier run, or of this one for None.
        failure: Converts an error and the name of the failed run to the error of the pipeline.
        engine_inputs: The digest of the inputs that Spark reads itself, by `SPARK`, or no entry
            without such inputs.
        cancel_tasks: Cancels its tasks.
        close: Called at its end.
        resumable: Whether a later driver can resume it.
    """

    query: Query[BatchT]
    _: KW_ONLY
    run_id: str
    unfinished: RunRecord | None
    sources: Sequence[BatchInput]
    rows: Callable[[RunRecord | None], AbstractContextManager[BatchT]]
    failure: Callable[[Exception, str], BaseException]
    engine_inputs: Mapping[str, str | None] = field(default_factory=dict)
    cancel_tasks: Callable[[], None] = lambda: None
    close: Callable[[], None] = lambda: None
    resumable: bool = False

    def __post_init__(self) -> None:
        self._root, self._lease = self.query.root, self.query.lease
        self._run_folder = run_path(self.run_id)
        self._progress = {
            source.settings.uid: _SourceProgress(source, self._root) for source in self.sources
        }
        digests = {source.settings.uid: source.digest for source in self.sources}
        self._inputs = digests | dict(self.engine_inputs)
        self._state = PipelineState.RUNNING
        self._cancelled = False
        self.ended = threading.Event()
        self._error: BaseException | None = None
        self._last_status: QueryStatus | None = None
        store = self.query.store
        self.epochs = wire_epochs(
            self.query,
            decided=lambda epoch: mark_decided(store, epoch),
            reader_stores={
                source.settings.uid: self._root.child(source.entries[0].query)
                for source in self.sources
            },
        )

    def run(self) -> bool:
        """Run; return False if it was canceled, or if it only finished an earlier run."""
        try:
            done = self._run()
        except Exception as error:
            if self._cancelled:
                self._state = PipelineState.STOPPED
                return False
            self._error, self._state = self._failure(error), PipelineState.FAILED
            raise self._error from self._error.__cause__
        except BaseException as error:
            self._error, self._state = error, PipelineState.FAILED
            raise
        finally:
            self.ended.set()
        self._state = PipelineState.FINISHED
        return done

    def cancel(self) -> bool:
        """Cancel it from another thread; the next run commits what it has decided.

        Returns:
            Whether it was running.
        """
        if self._state is not PipelineState.RUNNING:
            return False
        self._cancelled = True
        self.cancel_tasks()
        self.epochs.committer.give_up_waiting()
        return True

    def _run(self) -> bool:
        try:
            former = self.unfinished
            replayed = self.run_id if former is None else former.run_id
            finished = self.epochs.recover(1, replayed=(replayed, 0))
            if self.epochs.last_decided >= 0:  # a crash may have prevented the mark
                mark_decided(self.query.store, self.epochs.last_decided)
            if former is not None and self.epochs.has_lost_rows:
                self._write_lost(former)
            self._remove_former_runs()
            finished = finished or former is not None or self.epochs.holds
            self._drain()
            if finished and not self._reads_new_input(former):
                return False
            RUNS.create(self._root, run_record_path(self.run_id), self._record())
            with self.rows(None) as rows:
                self.epochs.run_batch(rows, self.run_id, self._complete_reports)
            self._drain()
            for progress in self._progress.values():
                progress.close()
            for folder in self._folders():
                self._root.delete_tree(folder)
            return True
        finally:
            self.epochs.close()
            self.close()

    def _write_lost(self, former: RunRecord) -> None:
        """Write the rows of an earlier run that a sink has lost.

        Raises:
            DataLossError: Its input is gone.
        """
        spark = former.inputs.get(SPARK)
        if spark is not None and spark != self._inputs.get(SPARK):
            raise DataLossError(
                f"the batch run {_named(former)} cannot be finished: a sink needs its rows again, "
                "and Spark reads other files now",
                expected="the files that this run has read",
                hint=f"run the pipeline once more with these files; {GIVE_UP_HINT}",
            )
        try:
            with self.rows(former) as rows:
                self.epochs.write_lost(rows)
        except ConnectorError as error:
            error.add_note(f"while the batch run {_named(former)} was finished")
            raise

    def _reads_new_input(self, former: RunRecord | None) -> bool:
        """Return whether the sources have other input than the run that this one has finished."""
        inputs = {} if former is None else former.inputs
        known = [uid for uid, digest in self._inputs.items() if digest and uid in inputs]
        name = _named(former)
        if any(self._inputs[uid] != inputs[uid] for uid in known):
            _LOGGER.warning(
                "the batch run %s was interrupted after its decision. It is "
                "committed now, and this run reads its own input",
                name,
            )
            return True
        if len(known) < len(self._inputs):
            _LOGGER.warning(
                "this run has only committed the batch run %s, which was interrupted. Whether the "
                "input of %s is still the same is unknown. If it is new, run the pipeline again",
                name,
                ", ".join(uid or "Spark" for uid in self._inputs if uid not in known),
            )
        else:
            _LOGGER.info("the batch run %s of the same input is committed now", name)
        return False

    def _folders(self) -> set[str]:
        """The folders of the run, and of its sources that a resumed run read differently."""
        return {self._run_folder, *(source.entries[0].query for source in self.sources)}

    def _record(self) -> RunRecord:
        """Return the state with which a later driver finishes or resumes the run."""
        again = self.resumable or self.epochs.committer.rewrites
        return RunRecord(
            pipeline_id=self.query.pipeline_id,
            run_id=self.run_id,
            entries=tuple(entry for source in self.sources for entry in source.entries if again),
            tasks={source.settings.uid: source.tasks for source in self.sources},
            enumerators={
                source.settings.uid: source.state
                for source in self.sources
                if source.state is not None
            },
            started=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
            inputs={uid: digest for uid, digest in self._inputs.items() if digest is not None},
        )

    def _drain(self) -> None:
        """Commit everything that is held, since no later epoch follows."""
        if not self.epochs.drain():
            raise RetryableError("the run was canceled before its compactions were committed")

    def _complete_reports(self) -> list[Report]:
        """Return all reports of the run, after the enumerators have handled their events."""
        reports = []
        for source in self.sources:
            for entry in source.entries:
                report = REPORTS.read(self._root.child(entry.query), _path_of(entry))
                if report is None:
                    continue  # a downstream limit left it unread
                if source.enumeration is not None:
                    source.enumeration.hear(report)
                reports.append(report)
        return reports

    def _failure(self, cause: Exception) -> BaseException:
        sources = ", ".join(source.settings.uid for source in self.sources)
        sinks = ", ".join(sink.uid for sink in self.query.sinks)
        return self.failure(cause, f"the batch run {self.query.folder} ({sources} -> {sinks})")

    def _remove_former_runs(self) -> None:
        """Remove the files of runs that a crash interrupted and this one does not resume."""
        names = self._root.list(RUNS_FOLDER, recursive=True)
        self._lease.confirm()  # so none of them belongs to a later driver
        former = {run_path(name.partition("/")[0]) for name in names}
        for folder in former - self._folders() if self.resumable else former:
            self._root.delete_tree(folder)

    def status(self) -> QueryStatus:
        """Return the status of the run. From any thread."""
        if self._last_status is not None:
            return self._last_status
        state, epoch = self._state, self.epochs.last_decided
        status = QueryStatus(
            name=self.query.folder,
            state=state,
            epoch=epoch if epoch >= 0 else None,
            sources=tuple(progress.status() for progress in self._progress.values()),
            sinks=self.epochs.sink_statuses(),
            error=None if self._error is None else error_text(self._error),
        )
        if state is not PipelineState.RUNNING:
            self._last_status = status
        return status


def _named(run: RunRecord | None) -> str:
    return f"of {run.started}" if run is not None and run.started else "of an earlier driver"


def _path_of(entry: Entry) -> str:
    return report_path(entry.plan, entry.source, entry.subtask)


class _SourceProgress:
    """Counts the reports of one source of a batch run as they appear. Thread-safe.

    The counts are added to those of its enumerator.
    """

    def __init__(self, source: BatchInput, root: StateStore) -> None:
        self._uid = source.settings.uid
        self._replayable = source.settings.source.split_traits().replayable
        self._splits = sum(len(entry.splits) for entry in source.entries)
        self._tasks = source.tasks
        self._store = root.child(source.entries[0].query)
        self._open = {_path_of(entry): len(entry.splits) for entry in source.entries}
        self._finished = 0
        self._metrics = MetricGroup() if source.enumeration is None else source.enumeration.metrics
        self._rows = Meter()
        self._last_rows_at = time.monotonic()
        self._list_at = 0.0
        self._lock = threading.Lock()

    def status(self) -> SourceStatus:
        """Return the status of the source, at most a few seconds old."""
        with self._lock:
            if self._open and time.monotonic() >= self._list_at:
                with contextlib.suppress(OSError):
                    self._read()
                self._list_at = time.monotonic() + REPORTS_LISTED_EVERY_SECONDS
            return self._status()

    def close(self) -> None:
        """Count the remaining reports, which are removed after this."""
        with self._lock:
            self._read()
            self._open.clear()

    def _read(self) -> None:
        folder = report_path(0, self._uid, 0).rpartition("/")[0]
        for name in self._store.list(folder):
            path = f"{folder}/{name}"
            if path in self._open and (report := REPORTS.read(self._store, path)) is not None:
                count_report(self._metrics, report)
                self._finished += self._open.pop(path)
                if report.rows:
                    self._rows.mark(report.rows)
                    self._last_rows_at = time.monotonic()

    def _status(self) -> SourceStatus:
        seen = SourceObservation(
            splits=(),
            splits_finished=self._finished,
            watermark=None,
            finished=not self._open,
            rows_per_second=self._rows.rate(),
            idle_seconds=time.monotonic() - self._last_rows_at,
            metrics=self._metrics.copy(),
            reader_gauges={},
            replayable=self._replayable,
        )
        return dataclasses.replace(
            source_status(self._uid, seen),
            splits_assigned=self._splits - self._finished,
            splits_unassigned=0,
            tasks=self._tasks,
        )
