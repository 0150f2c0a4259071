# SPDX-License-Identifier: Apache-2.0
"""Tests that a sink with all parts of Sink V1 keeps its guarantee on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import toy_sink_v1
from pipeline_support import CANNOT_IN_A_FOLDER, new_pipeline, travel_with_closures

from connectors_core.sink.v1 import SinkV1Adapter
from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.testing import Capabilities, Capability, SinkTestSuite
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.faults import Fault, FaultAction, FaultPoint, injected
from connectors_core.testing.merging_sink import MergingDirectorySink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore::connectors_core.ConnectorDeprecationWarning")
travel_with_closures(toy_sink_v1.__name__)
ROWS = 120


def full_sink(folder: Path) -> SinkV1Adapter:
    """Return a sink with writer state, a committer, and a global committer."""
    sink = toy_sink_v1.FolderSink(folder, stateful=True, committing=True, listing=True)
    return SinkV1Adapter.wrap(sink, parallelism=2)


def test_a_driver_that_fails_after_a_global_commit_is_restarted(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()

    def run(*faults: Fault) -> None:
        with injected(*faults), new_pipeline(spark, tmp_path) as pipeline:
            source = NumberSequenceSource(0, ROWS - 1, split_rows=10, batch_rows=5)
            rows = pipeline.from_source(source, uid="numbers", limits=ReadLimits(rows=60))
            pipeline.sink_to(rows, full_sink(folder), uid="out")
            pipeline.run()

    with pytest.raises(Exception, match="after_commit"):
        run(Fault(FaultPoint.AFTER_COMMIT, action=FaultAction.RAISE, once=tmp_path / "failed"))
    run()
    written = DirectorySink(folder).read()
    assert sorted(written["value"].to_pylist()) == list(range(ROWS))
    assert len(set(written["_chain"].to_pylist())) == 2  # both writers continue their states
    names = MergingDirectorySink(folder).index()
    assert sorted(names) == sorted(path.name for path in folder.glob("*.arrow"))


@pytest.mark.slow
class TestFullSinkOnSpark(SinkTestSuite):
    on_spark = True
    capabilities = Capabilities(
        can=frozenset({Capability.EXACTLY_ONCE, Capability.WRITER_STATE, Capability.TOPOLOGIES}),
        cannot=CANNOT_IN_A_FOLDER,
    )

    def external_context(self, folder: Path) -> toy_sink_v1.Folder:
        return toy_sink_v1.Folder(folder, full_sink)
