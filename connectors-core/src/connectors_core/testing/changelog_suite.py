# SPDX-License-Identifier: Apache-2.0
"""The suite for sources and sinks of changelogs. Subclass it and supply an external context."""

from __future__ import annotations

import functools
import random
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from connectors_core.engine.query.status import PipelineState
from connectors_core.schema import ROW_KIND_COLUMN, RowKind
from connectors_core.sink import Sink
from connectors_core.source import DataGeneratorSource, ReadLimits
from connectors_core.source.source import AnySource
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.driver import DriverJob
from connectors_core.testing.environment import TestEnvironment
from connectors_core.testing.faults import WRITING_POINTS, Fault, FaultAction, FaultPoint, injected
from connectors_core.testing.trial import (
    PipelineSuite,
    Trial,
    in_full_on_spark,
    open_contexts,
    time_for,
)

_SINCE: Final = "1.4"

CHANGES: Final = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("version", pa.int64()),
        pa.field(ROW_KIND_COLUMN, pa.string()),
    ]
)
"""Schema of the changes: a row, which ``id`` identifies, and the kind of the change.

``version`` increases with each change of a row. A previous version has the number of its own
change.
"""

Row = tuple[int, str | None, int]
Change = tuple[str, int, str | None, int]
_KEYS: Final = 6
_PLANS: Final = 4


class ChangelogExternalContext:
    """The external system of a changelog in one case, initially empty and not shared."""

    def create_sink(self) -> Sink:
        """Return a sink for rows of :data:`CHANGES`, which it applies by ``id``.

        Raises:
            NotImplementedError: The connector lacks the capability `CHANGELOG_SINK`.
        """
        raise NotImplementedError

    def read_back(self) -> pa.Table:
        """Return the current rows of the system, with all columns that it has.

        Raises:
            NotImplementedError: The connector lacks the capability `CHANGELOG_SINK`.
        """
        raise NotImplementedError

    def create_source(self, changes: pa.Table) -> AnySource:
        """Write changes to the system, in its form, and return a bounded source of them.

        Args:
            changes: Rows of :data:`CHANGES`. The previous version of an update comes right before
                the new one.

        Raises:
            NotImplementedError: The connector lacks the capability `CHANGELOG_SOURCE`.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Remove the remaining data of the case from the external system."""


class ChangelogTrial(Trial):
    """A case in progress: its external system and its pipelines."""

    def __init__(
        self,
        environment: TestEnvironment,
        context: ChangelogExternalContext,
        root: Path,
        seed: int,
    ) -> None:
        super().__init__(environment, root, seed)
        self.context = context
        self.folder = DirectorySink(root / "read")

    def random_changes(self, *, first: int = 0, count: int = 60) -> list[Change]:
        """Return valid changes of some rows: each is inserted, updated, deleted, or comes back.

        Args:
            first: The first id.
            count: The number of changes; an update is one.
        """
        chosen = random.Random(f"{self._seed}/{first}")
        versions: dict[int, int] = dict.fromkeys(range(first, first + _KEYS), 0)
        texts: dict[int, str | None] = {}
        changes: list[Change] = []
        for _ in range(count):
            key = chosen.choice(list(versions))
            text = chosen.choice(["a", "ä漢\"'", "", None, "x" * chosen.randrange(30)])
            old = (key, texts.get(key), versions[key])
            versions[key] += 1
            new = (key, text, versions[key])
            if key not in texts:
                changes.append((RowKind.INSERT.value, *new))
            elif chosen.random() < 0.3:
                changes.append((RowKind.DELETE.value, *old))
                del texts[key]
                continue
            else:
                changes.append((RowKind.UPDATE_BEFORE.value, *old))
                changes.append((RowKind.UPDATE_AFTER.value, *new))
            texts[key] = text
        return changes

    def job(
        self,
        changes: Iterable[Change],
        *,
        plans: int = 1,
        kinds: bool = True,
        splits: int = 1,
    ) -> DriverJob:
        """Return a pipeline that applies changes.

        Args:
            changes: The changes.
            plans: The number of epochs.
            kinds: Whether the rows have a kind.
            splits: The number of splits, which are read in parallel.
        """
        rows = changes_table(changes)
        if not kinds:
            rows = rows.drop_columns([ROW_KIND_COLUMN])
        source = DataGeneratorSource(
            functools.partial(_taken, rows),
            rows.num_rows,
            rows.schema,
            split_rows=-(-rows.num_rows // splits),
            batch_rows=7,
        )
        limits = ReadLimits(rows=-(-rows.num_rows // plans))
        return self._job(source, self.context.create_sink(), limits, splits)

    def apply(self, changes: Iterable[Change], **settings: Any) -> None:
        """Run a pipeline of changes to its end. A later call is another pipeline."""
        job = self.job(changes, **settings)
        with job.build(self.environment) as pipeline:
            self.run_to_end(pipeline)
        self.location = self.location.with_name(self.location.name + "-next")

    def assert_rows(self, *changes: Iterable[Change]) -> None:
        """Check that the system has the rows that all changes leave."""
        found = self.context.read_back()
        assert ROW_KIND_COLUMN not in found.schema.names, "the kind of the change is written"
        rows = {row[0]: row for row in _rows_of(found)}
        assert len(rows) == found.num_rows, "an id has several rows"
        expected = table_after(change for each in changes for change in each)
        left = sorted(rows.keys() - expected.keys())
        missing = sorted(expected.keys() - rows.keys())
        assert not left, f"deleted rows remain: {left[:5]}"
        assert not missing, f"rows are missing: {missing[:5]}"
        old = [(rows[key], expected[key]) for key in rows if rows[key] != expected[key]]
        assert not old, f"rows are not the newest, found and expected: {old[:5]}"

    def read(self, source: AnySource, *, rows: int | None = None) -> DriverJob:
        """Return a pipeline that copies the changes of a source.

        Args:
            source: The source.
            rows: The number of rows of an epoch.
        """
        return self._job(source, self.folder, ReadLimits(rows=rows), 1)

    def changes_read(self) -> list[Change]:
        """Return the copied changes in their order."""
        found = self.folder.read()
        if not found.num_columns:
            return []
        kinds = found.column(ROW_KIND_COLUMN).to_pylist()
        return [(kind, *row) for kind, row in zip(kinds, _rows_of(found), strict=True)]

    def _job(
        self, source: AnySource, sink: Sink, limits: ReadLimits, parallelism: int
    ) -> DriverJob:
        return DriverJob(
            location=str(self.location),
            source=source,
            sinks={"out": sink},
            settings={"limits": limits},
            parallelism=parallelism,
            spark=self.environment.session,
        )


class ChangelogTestSuite(PipelineSuite):
    """Cases for a source or a sink of changelogs.

    Derive from this class, declare the capabilities, and supply a context.
    """

    @abstractmethod
    def external_context(self, folder: Path) -> ChangelogExternalContext:
        """Return a new external system for one case. ``folder`` belongs to the case."""

    @pytest.fixture
    def trial(self, environment: TestEnvironment, tmp_path: Path) -> Iterator[ChangelogTrial]:
        """Return the external system and the pipelines of a case."""
        with open_contexts(self.external_context, tmp_path) as new_context:
            trial = ChangelogTrial(environment, new_context("external"), tmp_path, self.seed)
            trial.system = self.system_class()
            yield trial

    # --- Sinks ----------------------------------------------------------------------------------

    @case(Capability.CHANGELOG_SINK, since=_SINCE)
    @pytest.mark.parametrize("plans", [1, in_full_on_spark(_PLANS)])
    def test_changes_become_their_table(self, trial: ChangelogTrial, plans: int) -> None:
        changes = trial.random_changes()
        trial.apply(changes, plans=plans)
        trial.assert_rows(changes)

    @case(Capability.CHANGELOG_SINK, since=_SINCE, after="test_changes_become_their_table")
    def test_writers_in_parallel_apply_the_changes_of_their_rows(
        self, trial: ChangelogTrial
    ) -> None:
        one, other = (trial.random_changes(first=first) for first in (0, 100))
        size = max(len(one), len(other))
        # Splits have equal sizes, so inserts of further rows fill the shorter one.
        for each, first in ((one, 200), (other, 300)):
            added = range(first, first + size - len(each))
            each += [(RowKind.INSERT.value, key, "filler", 1) for key in added]
        trial.apply([*one, *other], plans=2, splits=2)
        trial.assert_rows(one, other)

    @case(Capability.CHANGELOG_SINK, since=_SINCE, after="test_changes_become_their_table")
    def test_the_last_change_of_a_row_counts(self, trial: ChangelogTrial) -> None:
        """Many changes of a row can be in one batch, and a deleted row can come back."""
        changes = [
            *_changes("+I 1 1", "-U 1 1", "+U 1 2", "-D 1 2", "+I 1 3", "-U 1 3", "+U 1 4"),
            *_changes("+I 2 1", "-D 2 1", "+I 2 2", "-D 2 2"),
            *_changes("+I 3 1", "+I 4 1", "-D 3 1", "-U 4 1", "+U 4 2"),
        ]
        trial.apply(changes)
        trial.assert_rows(changes)

    @case(Capability.CHANGELOG_SINK, since=_SINCE, after="test_the_last_change_of_a_row_counts")
    def test_later_runs_change_the_rows_of_earlier_ones(self, trial: ChangelogTrial) -> None:
        runs = [
            _changes("+I 1 1", "+I 2 1", "+I 3 1"),
            _changes("-U 1 1", "+U 1 2", "-D 2 1"),
            _changes("+I 2 2", "-D 3 1"),
        ]
        for number, each in enumerate(runs):
            trial.apply(each)
            trial.assert_rows(*runs[: number + 1])

    @case(Capability.CHANGELOG_SINK, since=_SINCE, after="test_changes_become_their_table")
    def test_the_deletion_of_an_absent_row_changes_nothing(self, trial: ChangelogTrial) -> None:
        """A changelog can begin after the row was inserted."""
        changes = _changes("-D 9 1", "+I 1 1", "-D 8 5", "+U 2 7")
        trial.apply(changes)
        trial.assert_rows(changes)

    @case(Capability.CHANGELOG_SINK, since=_SINCE, after="test_changes_become_their_table")
    def test_a_previous_version_alone_is_a_deletion(self, trial: ChangelogTrial) -> None:
        """A condition can keep the previous version of a row and remove the new one."""
        changes = _changes("+I 1 1", "+I 2 1", "-U 1 1", "-U 2 1", "+U 2 2")
        trial.apply(changes)
        trial.assert_rows(changes)

    @case(Capability.CHANGELOG_SINK, since=_SINCE, after="test_changes_become_their_table")
    def test_an_update_of_the_key_moves_the_row(self, trial: ChangelogTrial) -> None:
        changes = _changes("+I 1 1", "+I 2 1", "-U 1 1", "+U 5 2", "-U 2 1", "+U 1 2")
        trial.apply(changes)
        trial.assert_rows(changes)

    @case(Capability.CHANGELOG_SINK, since=_SINCE, after="test_changes_become_their_table")
    def test_rows_without_a_kind_replace_each_other(self, trial: ChangelogTrial) -> None:
        changes = _changes("+I 1 1", "+I 2 1", "+I 1 2")
        trial.apply(changes, kinds=False)
        trial.assert_rows(changes)

    @case(Capability.CHANGELOG_SINK, since=_SINCE, after="test_changes_become_their_table")
    @pytest.mark.parametrize("kind", ["X", in_full_on_spark("+i")])
    def test_an_unknown_kind_is_refused(self, trial: ChangelogTrial, kind: str) -> None:
        job = trial.job([(kind, 1, "a", 1)])
        with job.build(trial.environment) as pipeline:
            error: BaseException | None = trial.run_to_failure(pipeline)
        told = []
        while error is not None:
            told.append(str(error))
            error = error.__cause__
        assert any(ROW_KIND_COLUMN in each for each in told), (
            f"the error does not name the column {ROW_KIND_COLUMN}: {told[0]}"
        )
        trial.assert_rows([])

    @case(Capability.CHANGELOG_SINK, since=_SINCE, after="test_changes_become_their_table")
    @pytest.mark.parametrize(
        "point",
        [
            FaultPoint.BEFORE_DECISION,
            in_full_on_spark(FaultPoint.AFTER_DECISION),
            in_full_on_spark(FaultPoint.BEFORE_SPARK_COMMIT),
        ],
    )
    def test_a_driver_that_fails_repeats_changes_without_harm(
        self, trial: ChangelogTrial, point: FaultPoint
    ) -> None:
        changes = trial.random_changes()
        job = trial.job(changes, plans=_PLANS)
        trial.fail_at(job, point)
        with job.build(trial.environment) as pipeline:
            trial.run_to_end(pipeline)
        trial.assert_rows(changes)

    @case(
        Capability.CHANGELOG_SINK,
        since=_SINCE,
        after="test_a_driver_that_fails_repeats_changes_without_harm",
    )
    @pytest.mark.slow
    @pytest.mark.separate_drivers
    @time_for(len(WRITING_POINTS) + 1)
    def test_drivers_killed_at_point_after_point_leave_the_table(
        self, trial: ChangelogTrial
    ) -> None:
        """Real processes, SIGKILL."""
        changes = trial.random_changes(count=120)
        job = trial.job(changes, plans=len(WRITING_POINTS) + 2)
        trial.kill_at_each(job, WRITING_POINTS, lambda: trial.assert_rows(changes))

    # --- Sources --------------------------------------------------------------------------------

    @case(Capability.CHANGELOG_SOURCE, since=_SINCE)
    def test_changes_are_read_as_they_were_written(self, trial: ChangelogTrial) -> None:
        changes = trial.random_changes()
        source = trial.context.create_source(changes_table(changes))
        with trial.read(source).build(trial.environment) as pipeline:
            trial.run_to_end(pipeline)
        _assert_emitted(trial.changes_read(), changes)

    @case(
        Capability.CHANGELOG_SOURCE,
        since=_SINCE,
        after="test_changes_are_read_as_they_were_written",
    )
    def test_a_restart_reads_each_change_once(self, trial: ChangelogTrial) -> None:
        """A record can have several changes, and a restart can come between them."""
        changes = trial.random_changes()
        source = trial.context.create_source(changes_table(changes))
        job = trial.read(source, rows=7)
        fault = Fault(
            FaultPoint.BEFORE_DECISION,
            action=FaultAction.RAISE,
            nth=2,
            once=trial.root / "failed",
        )
        with injected(fault), job.build(trial.environment) as pipeline:
            trial.run_to_failure(pipeline)
        assert fault.fired
        with job.build(trial.environment) as pipeline:
            trial.run_to_end(pipeline)
            assert pipeline.status().state is PipelineState.FINISHED
        _assert_emitted(trial.changes_read(), changes)

    @case(
        Capability.CHANGELOG_SOURCE,
        since=_SINCE,
        after="test_changes_are_read_as_they_were_written",
    )
    def test_a_row_with_another_key_leaves_its_former_one(self, trial: ChangelogTrial) -> None:
        """An update of the key is a deletion for those who keep rows by key."""
        changes = _changes("+I 1 1", "+I 2 1", "-U 1 1", "+U 5 2", "-D 2 1")
        source = trial.context.create_source(changes_table(changes))
        with trial.read(source).build(trial.environment) as pipeline:
            trial.run_to_end(pipeline)
        assert table_after(trial.changes_read()) == table_after(changes)


def changes_table(changes: Iterable[Change]) -> pa.Table:
    """Return changes as rows of :data:`CHANGES`."""
    names = [ROW_KIND_COLUMN, "id", "text", "version"]
    rows = [dict(zip(names, change, strict=True)) for change in changes]
    return pa.Table.from_pylist(rows, CHANGES)


def table_after(changes: Iterable[Change]) -> dict[int, Row]:
    """Return the rows by id that changes leave, if they are applied one after another."""
    rows: dict[int, Row] = {}
    for kind, key, text, version in changes:
        if kind in (RowKind.DELETE, RowKind.UPDATE_BEFORE):
            rows.pop(key, None)
        else:
            rows[key] = (key, text, version)
    return rows


def _assert_emitted(found: Sequence[Change], changes: Sequence[Change]) -> None:
    """Check the changes of a source, which may emit no previous versions, as an upsert source."""
    assert table_after(found) == table_after(changes), "the changes leave another table"
    if any(kind == RowKind.UPDATE_BEFORE for kind, *_ in found):
        assert found == changes, "changes are lost, doubled, changed, or in disorder"
        return
    assert _upserts(found) == _upserts(changes), "changes are lost, doubled, or in disorder"


def _upserts(changes: Iterable[Change]) -> list[tuple[object, ...]]:
    """Return changes without previous versions, and deletions by key alone."""
    return [
        (kind, key) if kind == RowKind.DELETE else (RowKind.UPDATE_AFTER.value, key, *others)
        for kind, key, *others in changes
        if kind != RowKind.UPDATE_BEFORE
    ]


def _changes(*texts: str) -> list[Change]:
    """Return changes from texts such as `+I 1 2`: a kind, an id, and a version."""
    found: list[Change] = []
    for text in texts:
        kind, key, version = text.split()
        found.append((kind, int(key), f"text {version}", int(version)))
    return found


def _rows_of(table: pa.Table) -> list[Row]:
    if not table.num_rows:
        return []
    columns: Callable[[str], list[Any]] = lambda name: table.column(name).to_pylist()  # noqa: E731
    return list(zip(columns("id"), columns("text"), columns("version"), strict=True))


def _taken(rows: pa.Table, numbers: pa.Array) -> pa.RecordBatch:
    (batch,) = rows.take(numbers).combine_chunks().to_batches()
    return batch
