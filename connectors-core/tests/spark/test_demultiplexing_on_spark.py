# SPDX-License-Identifier: Apache-2.0
"""Tests that Spark's tasks create the sinks of routes, and that a restart continues them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pipeline_support import new_pipeline, travel_with_closures
from pyspark.sql import functions as F

from connectors_core.errors import ConnectorError
from connectors_core.sink import ColumnRouter, DemultiplexingSink
from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.testing.compacting_sink import CompactingDirectorySink
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.faults import Fault, FaultAction, FaultPoint, injected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

travel_with_closures(__name__)

ROWS = 120


def folder_of(root: Path, files: int, route: str) -> DirectorySink:
    """Create the sink of a route, which may merge a number of files."""
    folder = root / route
    return CompactingDirectorySink(folder, files=files) if files > 1 else DirectorySink(folder)


@pytest.mark.parametrize("files", [1, 2])
def test_each_row_arrives_once_in_the_sink_of_its_route(
    spark: SparkSession, tmp_path: Path, files: int
) -> None:
    router = ColumnRouter("kind", partial(folder_of, tmp_path, files))
    sink = DemultiplexingSink(router, parallelism=2)

    def run() -> None:
        with new_pipeline(spark, tmp_path) as pipeline:
            source = NumberSequenceSource(0, ROWS - 1, split_rows=20, batch_rows=5)
            rows = pipeline.from_source(source, uid="numbers", limits=ReadLimits(rows=40))
            kind = F.concat(F.lit("kind-"), (F.col("value") % 5).cast("string"))
            pipeline.sink_to(rows.withColumn("kind", kind), sink, uid="out")
            pipeline.run()

    fault = Fault(
        FaultPoint.AFTER_DECISION, action=FaultAction.RAISE, nth=2, once=tmp_path / "failed"
    )
    with injected(fault), pytest.raises(ConnectorError, match="fault injected"):
        run()
    run()
    for kind in range(5):
        folder = DirectorySink(tmp_path / f"kind-{kind}")
        assert sorted(folder.read()["value"].to_pylist()) == list(range(kind, ROWS, 5))
        assert not folder.staged()
        if files > 1:
            assert len(list(folder.path.glob("*.arrow"))) == 2  # of three epochs
            continue
        epochs = [path.name.partition("-")[0] for path in folder.path.glob("*.arrow")]
        assert len(epochs) == len(set(epochs)), "two writers had rows of one route"
