# SPDX-License-Identifier: Apache-2.0
"""The suites for a connector as a format of Spark. Subclass them and supply an external context."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Final

import pytest

from connectors_core.source import Boundedness
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import Case, case
from connectors_core.testing.context import SinkExternalContext, SourceExternalContext
from connectors_core.testing.environment import TestEnvironment
from connectors_core.testing.faults import FaultPoint, injected
from connectors_core.testing.format_trial import SinkFormatTrial, SourceFormatTrial
from connectors_core.testing.trial import PipelineSuite, in_full_on_spark, open_contexts, time_for

_SINCE: Final = "1.4"
_READING_POINTS: Final = (FaultPoint.AFTER_PLAN, FaultPoint.READER_FETCHED, FaultPoint.AFTER_PLAN)
_WRITING_POINTS: Final = (
    FaultPoint.WRITER_WROTE,
    FaultPoint.BEFORE_PREPARE,
    FaultPoint.AFTER_PREPARE,
)
_COMMITTING_POINTS: Final = (
    FaultPoint.BEFORE_DECISION,
    FaultPoint.AFTER_DECISION,
    FaultPoint.BEFORE_COMMIT,
    FaultPoint.AFTER_COMMIT,
)


class FormatSuite(PipelineSuite, part=True):
    """A suite whose cases run on a Spark with formats in Python.

    Attributes:
        format: The name of the format, which is the import name of the connector.
    """

    on_spark = True
    format: ClassVar[str]

    @classmethod
    def reason_against(cls, found: Case, parameters: Mapping[str, object]) -> str | None:
        """Return why a case does not apply. No case applies on a Spark without such formats."""
        if find_spec("pyspark.sql.datasource") is None:
            return "this Spark has no formats in Python"
        return super().reason_against(found, parameters)


class SourceFormatTestSuite(FormatSuite):
    """Cases for a connector as a format that is read, in batch and in streams.

    Derive from this class, declare the capabilities of the source, name the format, and supply a
    context with `format_options`.
    """

    @abstractmethod
    def external_context(self, folder: Path) -> SourceExternalContext:
        """Return a new external system for one case. ``folder`` belongs to the case."""

    @pytest.fixture
    def trial(self, environment: TestEnvironment, tmp_path: Path) -> Iterator[SourceFormatTrial]:
        """Return the external system, the session, and the rows of a case."""
        with open_contexts(self.external_context, tmp_path) as new_context:
            trial = SourceFormatTrial(
                environment, new_context("external"), tmp_path, self.seed, True
            )
            trial.name = self.format
            trial.system = self.system_class()
            yield trial

    @case(Capability.BOUNDED, since=_SINCE)
    def test_a_batch_has_all_rows(self, trial: SourceFormatTrial) -> None:
        trial.write_split(2)
        trial.assert_read(trial.batch())

    @case(Capability.BOUNDED, since=_SINCE, after="test_a_batch_has_all_rows")
    def test_a_schema_selects_some_columns(self, trial: SourceFormatTrial) -> None:
        """They can be in another order than in the source."""
        from pyspark.sql.types import StructType

        trial.write_split()
        everything = trial.batch()
        some = StructType(everything.schema.fields[:0:-1])
        found, expected = trial.batch(some), everything.select(*some.names)
        assert found.schema.names == some.names
        assert sorted(found.collect()) == sorted(expected.collect())

    @case(
        Capability.BOUNDED, Capability.REPLAYABLE, since=_SINCE, after="test_a_batch_has_all_rows"
    )
    def test_a_stream_resumes_after_what_it_has_read(self, trial: SourceFormatTrial) -> None:
        trial.write_split(3)
        job = trial.copies(Boundedness.BOUNDED)
        for _ in range(2):
            job.run(trial.spark)
            trial.assert_copied()

    @case(Capability.UNBOUNDED, Capability.DISCOVERY, Capability.REPLAYABLE, since=_SINCE)
    def test_a_stream_reads_new_splits(self, trial: SourceFormatTrial) -> None:
        """If splits have no end, Spark cannot plan what to read, and the format refuses them."""
        job = trial.copies(Boundedness.CONTINUOUS_UNBOUNDED)
        source = trial.context.create_source(Boundedness.CONTINUOUS_UNBOUNDED)
        if not source.split_traits().end:
            with pytest.raises(Exception, match=r"read it with Pipeline\.from_source"):
                job.run(trial.spark)
            return
        for _ in range(2):
            trial.write_split(2)
            job.run(trial.spark)
            trial.assert_copied()

    @case(
        Capability.BOUNDED,
        Capability.WORKERS_CAN_DIE,
        since=_SINCE,
        after="test_a_batch_has_all_rows",
    )
    def test_a_worker_that_is_killed_is_replaced(self, trial: SourceFormatTrial) -> None:
        trial.write_split(2)
        fault = trial.death_of_a_worker(FaultPoint.READER_FETCHED)
        with injected(fault):
            trial.assert_read(trial.batch())
        assert fault.fired

    @case(
        Capability.BOUNDED,
        Capability.REPLAYABLE,
        since=_SINCE,
        after="test_a_stream_resumes_after_what_it_has_read",
    )
    def test_a_driver_that_fails_is_restarted_exactly(self, trial: SourceFormatTrial) -> None:
        trial.write_split(3)
        trial.fail_then_run(trial.copies(Boundedness.BOUNDED), FaultPoint.AFTER_PLAN)
        trial.assert_copied()

    @case(
        Capability.BOUNDED,
        Capability.REPLAYABLE,
        since=_SINCE,
        after="test_a_driver_that_fails_is_restarted_exactly",
    )
    @pytest.mark.slow
    @time_for(len(_READING_POINTS) + 1)
    def test_drivers_killed_at_point_after_point_lose_and_double_nothing(
        self, trial: SourceFormatTrial
    ) -> None:
        """Real processes, SIGKILL: the crash matrix as a chain."""
        trial.write_split(6)
        job = trial.copies(Boundedness.BOUNDED)
        trial.kill_at_each(job, _READING_POINTS, trial.assert_copied, fenced=False)


class SinkFormatTestSuite(FormatSuite):
    """Cases for a connector as a format that is written, in batch and in streams.

    Derive from this class, declare the capabilities of the format, name it, and supply a context
    with `format_options`. A sink whose committer leases resources is at-least-once as a format.
    """

    judged_by = frozenset({Capability.EXACTLY_ONCE})

    @abstractmethod
    def external_context(self, folder: Path) -> SinkExternalContext:
        """Return a new external system for one case. ``folder`` belongs to the case."""

    @pytest.fixture
    def trial(self, environment: TestEnvironment, tmp_path: Path) -> Iterator[SinkFormatTrial]:
        """Return the external system, the session, and the rows of a case."""
        exactly_once = Capability.EXACTLY_ONCE in self.capabilities.can
        with open_contexts(self.external_context, tmp_path) as new_context:
            trial = SinkFormatTrial(environment, new_context, tmp_path, self.seed, exactly_once)
            trial.name = self.format
            trial.system = self.system_class()
            yield trial

    @case(since=_SINCE)
    def test_a_batch_writes_all_rows(self, trial: SinkFormatTrial) -> None:
        trial.write_batch()
        trial.assert_complete()

    @case(since=_SINCE, after="test_a_batch_writes_all_rows")
    def test_a_stream_writes_all_rows(self, trial: SinkFormatTrial) -> None:
        job = trial.stream(batches=3)
        for _ in range(2):
            job.run(trial.spark)
            trial.assert_complete()

    @case(Capability.WORKERS_CAN_DIE, since=_SINCE, after="test_a_stream_writes_all_rows")
    def test_a_worker_that_is_killed_is_replaced(self, trial: SinkFormatTrial) -> None:
        fault = trial.death_of_a_worker(FaultPoint.WRITER_WROTE)
        with injected(fault):
            trial.stream(batches=2).run(trial.spark)
        assert fault.fired
        trial.assert_complete()

    @case(Capability.EXACTLY_ONCE, since=_SINCE, after="test_a_stream_writes_all_rows")
    @pytest.mark.parametrize(
        "point",
        [
            in_full_on_spark(FaultPoint.BEFORE_DECISION),
            FaultPoint.AFTER_DECISION,
            in_full_on_spark(FaultPoint.AFTER_COMMIT),
        ],
    )
    def test_a_driver_that_fails_is_restarted_exactly(
        self, trial: SinkFormatTrial, point: FaultPoint
    ) -> None:
        trial.fail_then_run(trial.stream(batches=3), point)
        trial.assert_complete()

    @case(since=_SINCE, after="test_a_worker_that_is_killed_is_replaced")
    @pytest.mark.slow
    @time_for(len(_WRITING_POINTS) + len(_COMMITTING_POINTS) + 1)
    def test_drivers_killed_at_point_after_point_lose_nothing(self, trial: SinkFormatTrial) -> None:
        """Real processes, SIGKILL. With an exactly-once sink, they double nothing either."""
        exactly_once = Capability.EXACTLY_ONCE in self.capabilities.can
        points = _WRITING_POINTS + (_COMMITTING_POINTS if exactly_once else ())
        job = trial.stream(batches=len(points) + 2)
        trial.kill_at_each(job, points, trial.assert_complete, fenced=False)
