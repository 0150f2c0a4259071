# SPDX-License-Identifier: Apache-2.0
"""The suite for sources. Subclass it and supply an external context."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from connectors_core.source import (
    Boundedness,
    ReadLimits,
    WatermarkStrategy,
)
from connectors_core.source.watermarks import END_OF_TIME
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.context import SourceExternalContext
from connectors_core.testing.environment import TestEnvironment
from connectors_core.testing.lineage_names import assert_named_for_lineage
from connectors_core.testing.source_batch_cases import SourceBatchCases
from connectors_core.testing.source_failure_cases import SourceFailureCases
from connectors_core.testing.source_reading_cases import SourceReadingCases
from connectors_core.testing.source_system_cases import SourceSystemCases
from connectors_core.testing.source_trial import ROWS_PER_SPLIT, SourceTrial
from connectors_core.testing.traces import nothing_left
from connectors_core.testing.trial import open_contexts

BY_TIME: Final = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("at")
_BOUNDEDNESS: Final = {
    Capability.BOUNDED: Boundedness.BOUNDED,
    Capability.UNBOUNDED: Boundedness.CONTINUOUS_UNBOUNDED,
}


class SourceTestSuite(SourceBatchCases, SourceFailureCases, SourceReadingCases, SourceSystemCases):
    """Cases for a source.

    Derive from this class, declare the capabilities, and supply a context.
    """

    judged_by = frozenset({Capability.REPLAYABLE})

    @abstractmethod
    def external_context(self, folder: Path) -> SourceExternalContext:
        """Return a new external system for one case. ``folder`` belongs to the case."""

    @pytest.fixture
    def trial(self, environment: TestEnvironment, tmp_path: Path) -> Iterator[SourceTrial]:
        """Return the external system, the pipelines, and the rows of a case."""
        replayable = Capability.REPLAYABLE in self.capabilities.can
        with open_contexts(self.external_context, tmp_path) as new_context:
            trial = SourceTrial(
                environment, new_context("external"), tmp_path, self.seed, replayable
            )
            trial.system = self.system_class()
            with closing(trial):
                yield trial

    # --- Watermarks -------------------------------------------------------------------------------

    @case(Capability.BOUNDED, after="test_a_limit_of_rows_holds_in_every_plan")
    def test_the_watermark_never_passes_a_row_that_is_still_to_come(
        self, trial: SourceTrial
    ) -> None:
        trial.write_split(3)
        few = ReadLimits(rows=ROWS_PER_SPLIT // 2)
        with trial.pipeline(
            Boundedness.BOUNDED, limits=few, watermark_strategy=BY_TIME
        ) as pipeline:
            trial.run_to_end(pipeline)
            (source,) = pipeline.status().sources
        assert source.watermark == END_OF_TIME
        found = list(trial.watermarks_and_times())
        assert any(watermark is not None for watermark, _ in found), "there is no watermark"
        trial.assert_nothing_late()
        trial.assert_complete()

    @case(Capability.BOUNDED, after="test_the_watermark_never_passes_a_row_that_is_still_to_come")
    def test_aligned_splits_stay_together(self, trial: SourceTrial) -> None:
        """Flink's FLIP-217: no split is ahead of the slowest one by more than the drift."""
        drift = timedelta(seconds=10)
        strategy = BY_TIME.with_watermark_alignment("suite", drift)
        trial.write_split(3)
        few = ReadLimits(rows=ROWS_PER_SPLIT // 2)
        trial.read_all(limits=few, watermark_strategy=strategy)
        trial.assert_aligned(drift)
        trial.assert_nothing_late()
        trial.assert_complete()

    @case(
        Capability.UNBOUNDED,
        Capability.GROWING_SPLITS,
        after=(
            "test_rows_that_are_added_to_a_split_are_read",
            "test_the_watermark_never_passes_a_row_that_is_still_to_come",
        ),
    )
    def test_a_split_without_rows_is_idle_until_it_has_some(self, trial: SourceTrial) -> None:
        """A split without rows does not hold back the watermark. Its first row is not late."""
        strategy = BY_TIME.with_idleness(timedelta(milliseconds=200))
        trial.write_split()
        trial.open_split(first=3 * ROWS_PER_SPLIT)
        with trial.pipeline(
            Boundedness.CONTINUOUS_UNBOUNDED, watermark_strategy=strategy
        ) as pipeline:
            pipeline.start()
            trial.wait_for_all(pipeline)
            trial.wait_for_watermark(pipeline, 0, ROWS_PER_SPLIT)
            trial.grow_split(1)
            trial.wait_for_all(pipeline)
            trial.wait_for_watermark(pipeline, 1, 4 * ROWS_PER_SPLIT)
        trial.assert_nothing_late()
        trial.assert_complete()

    # --- Lineage ----------------------------------------------------------------------------------

    @case(since="1.4")
    def test_datasets_are_named_for_lineage(self, trial: SourceTrial) -> None:
        """The names follow OpenLineage's naming spec, and all instances give the same names."""
        for capability, boundedness in _BOUNDEDNESS.items():
            if capability in self.capabilities.can:
                assert_named_for_lineage(
                    functools.partial(trial.context.create_source, boundedness),
                    trial.context.secrets(),
                )

    # --- Leaks and secrets ------------------------------------------------------------------------

    @case(
        Capability.BOUNDED,
        Capability.ONE_PROCESS,
        after="test_a_reader_without_a_split_does_not_keep_the_pipeline_running",
    )
    def test_no_thread_handle_or_temporary_file_is_left(self, trial: SourceTrial) -> None:
        trial.write_split(2)
        with nothing_left(trial.root / "temporary"):
            trial.read_all()
        trial.assert_complete()

    @case(
        Capability.BOUNDED,
        Capability.SECRETS,
        after="test_a_driver_that_fails_is_restarted_exactly",
    )
    def test_a_secret_is_seen_nowhere(
        self,
        trial: SourceTrial,
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        """No log, plan, report, decision, status, exception, or repr shows it."""
        trial.write_split(2)
        source = trial.context.create_source(Boundedness.BOUNDED)
        trial.look_for(trial.context.secrets(), caplog, capfd, source, lambda: trial.job_of(source))
        trial.assert_complete()
