# SPDX-License-Identifier: Apache-2.0
"""Tests the suites of formats: each broken format fails the case that must detect it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from file_suites import FileSinkFormatSuite, FileSourceFormatSuite

from connectors_core.testing import FaultPoint, LocalSpark
from connectors_core.testing.format_trial import SinkFormatTrial, SourceFormatTrial

pytest.importorskip("pyspark.sql.datasource")
pytestmark = pytest.mark.line("4.3")

FORMAT = "broken_formats"
SOURCE, SINK = FileSourceFormatSuite(), FileSinkFormatSuite()


@pytest.fixture
def register(spark: Any) -> Callable[..., None]:
    """Return a function that gives the format to a broken source or sink."""
    from connectors_core.native import NativeFormat

    def register(**part: str) -> None:
        parts = {"package": FORMAT, "source": "FileSource", "sink": "FileSink", **part}
        spark.dataSource.register(type("DefaultSource", (NativeFormat,), parts))

    return register


@pytest.mark.parametrize(
    ("broken", "case", "seen"),
    [
        ("SourceDropsRows", SOURCE.test_a_batch_has_all_rows, "rows are missing"),
        pytest.param(
            "SourceLosesSelectedColumns",
            SOURCE.test_a_schema_selects_some_columns,
            "text=None",
            marks=pytest.mark.slow,
        ),
        (
            "SourceForgetsWhatIsRead",
            SOURCE.test_a_stream_reads_new_splits,
            "arrived more than once",
        ),
        pytest.param(
            "SourceListsOnce",
            SOURCE.test_a_stream_reads_new_splits,
            "rows are missing",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "SourceReadsOnce",
            SOURCE.test_a_worker_that_is_killed_is_replaced,
            "rows are missing",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_broken_source_fails_the_intended_case(
    broken: str,
    case: Callable[[SourceFormatTrial], None],
    seen: str,
    register: Callable[..., None],
    spark_environment: LocalSpark,
    tmp_path: Path,
) -> None:
    register(source=broken)
    (tmp_path / "in").mkdir()
    context = SOURCE.external_context(tmp_path / "in")
    trial = SourceFormatTrial(spark_environment, context, tmp_path, SOURCE.seed, True)
    trial.name = FORMAT
    with pytest.raises(AssertionError, match=seen):
        case(trial)


def at_a_point(trial: SinkFormatTrial) -> None:
    SINK.test_a_driver_that_fails_is_restarted_exactly(trial, FaultPoint.AFTER_DECISION)


@pytest.mark.parametrize(
    ("broken", "case", "seen"),
    [
        pytest.param(
            "SinkDropsRows",
            SINK.test_a_batch_writes_all_rows,
            "rows are missing",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "SinkKeepsTheLastEpoch",
            SINK.test_a_stream_writes_all_rows,
            "rows are missing",
            marks=pytest.mark.slow,
        ),
        (
            "SinkShowsUncommittedRows",
            SINK.test_a_worker_that_is_killed_is_replaced,
            "arrived more than once",
        ),
        pytest.param(
            "SinkRemovesOtherAttempts",
            at_a_point,
            "cannot commit FileCommittable",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_broken_sink_fails_the_intended_case(
    broken: str,
    case: Callable[[SinkFormatTrial], None],
    seen: str,
    register: Callable[..., None],
    spark_environment: LocalSpark,
    tmp_path: Path,
) -> None:
    register(sink=broken)
    trial = SinkFormatTrial(
        spark_environment, lambda _: SINK.external_context(tmp_path), tmp_path, SINK.seed, True
    )
    trial.name = FORMAT
    with pytest.raises(Exception, match=seen):
        case(trial)
