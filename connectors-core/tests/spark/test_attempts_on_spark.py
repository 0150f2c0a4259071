# SPDX-License-Identifier: Apache-2.0
"""Tests how often a task runs: once if it would fail again, or else as often as Spark allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pipeline_support import (
    LogSource,
    PickySink,
    counts,
    new_pipeline,
    once,
    travel_with_closures,
)

from connectors_core.errors import ConnectorError
from connectors_core.testing.directory_sink import DirectorySink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

travel_with_closures(__name__)


def failed(
    spark: SparkSession,
    root: Path,
    log: LogSource,
    *,
    streaming: bool,
    change: Callable[[DataFrame], DataFrame] = lambda df: df,
    sink: Callable[[Path], Any] = DirectorySink,
) -> ConnectorError:
    with new_pipeline(spark, root, streaming=streaming) as pipeline:
        df = pipeline.from_source(log, uid="log")
        pipeline.sink_to(change(df), sink(root / "out"), uid="out")
        with pytest.raises(ConnectorError) as failure:
            pipeline.run(timeout=60)
    return failure.value


def attempts(folder: Path) -> int:
    return len(list(folder.iterdir()))


class Noted:
    """User code that records each of its runs and raises an error."""

    def __init__(self, folder: Path, error: Exception, *, times: int = 99) -> None:
        folder.mkdir()
        self.folder, self.error, self.times = folder, error, times

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import uuid

        for batch in batches:
            if batch.num_rows:
                (self.folder / uuid.uuid4().hex).touch()
                if attempts(self.folder) <= self.times:
                    raise self.error
            yield batch


def test_a_row_that_a_sink_refuses_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    log = LogSource(tmp_path / "log")
    log.write("a", [3])
    error = failed(spark, tmp_path, log, streaming=False, sink=PickySink)
    assert "unlucky" in str(error)
    assert log.reads == 1


@pytest.mark.parametrize(
    ("error", "tried"),
    [(ZeroDivisionError("division by zero"), 1), (RuntimeError("no plane"), 2)],
    ids=["of-the-program", "unspecific"],
)
def test_user_code_that_would_fail_again_is_not_retried_to_the_limit(
    spark: SparkSession, tmp_path: Path, error: Exception, tried: int
) -> None:
    log = LogSource(tmp_path / "log")
    log.write("a", range(4))
    noted = Noted(tmp_path / "tries", error)
    change = lambda df: df.mapInArrow(noted, df.schema)  # noqa: E731
    raised = failed(spark, tmp_path, log, streaming=True, change=change)
    assert raised.found == f"{type(error).__name__}: {error}"
    assert attempts(noted.folder) == tried


def test_a_temporary_error_gets_more_attempts(spark: SparkSession, tmp_path: Path) -> None:
    log = LogSource(tmp_path / "log")
    log.write("a", range(4))
    # Of its four attempts, Spark can lose one to a Python worker that it is just ending.
    noted = Noted(tmp_path / "tries", ConnectionResetError("away"), times=2)
    with new_pipeline(spark, tmp_path, streaming=False) as pipeline:
        df = pipeline.from_source(log, uid="log")
        out = DirectorySink(tmp_path / "out")
        pipeline.sink_to(df.mapInArrow(noted, df.schema), out, uid="out")
        assert pipeline.run(timeout=60)
    assert attempts(noted.folder) == 3
    assert counts(out) == once(range(4))
