# SPDX-License-Identifier: Apache-2.0
"""Tests sinks with topologies on Spark: next to a plain one, in the suite, and broken ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from broken_connectors import results
from pipeline_support import CANNOT_IN_A_FOLDER, FolderContext, new_pipeline

from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.testing import (
    Capabilities,
    Capability,
    SinkTestSuite,
)
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.merging_sink import SortingDirectorySink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ["pytester"]


def test_a_sink_with_topologies_works_next_to_a_plain_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    plain, sorting = DirectorySink(tmp_path / "plain"), SortingDirectorySink(tmp_path / "sorting")
    source = NumberSequenceSource(0, 99, split_rows=25, batch_rows=10)
    with new_pipeline(spark, tmp_path) as pipeline:
        rows = pipeline.from_source(source, uid="numbers", limits=ReadLimits(rows=50))
        pipeline.sink_to(rows, plain, uid="plain")
        pipeline.sink_to(rows, sorting, uid="sorting")
        pipeline.run()
    for sink in (plain, sorting):
        assert sorted(sink.read()["value"].to_pylist()) == list(range(100))
        assert not sink.staged()
    files = sorted(path.name for path in sorting.path.glob("*.arrow"))
    assert len({name.split("-")[0] for name in files}) == len(files)  # one file per epoch
    assert sorting.index() == files
    with pytest.raises(AssertionError):
        sorting.assert_indexed([])


class Sorted(FolderContext):
    def assert_post_committed(self, committables):
        self.sink.assert_indexed(committables)


class SortingSuite(SinkTestSuite):
    on_spark = True
    kind = SortingDirectorySink
    __test__ = False
    capabilities = Capabilities(
        can=frozenset({Capability.EXACTLY_ONCE, Capability.TOPOLOGIES}),
        cannot=CANNOT_IN_A_FOLDER | {Capability.WRITER_STATE: "every file stands by itself"},
    )

    def external_context(self, folder: Path) -> Sorted:
        return Sorted(self.kind(folder))


@pytest.mark.slow
class TestSortingSink(SortingSuite):
    __test__ = True


BROKEN = """
sys.path.append({tests!r})
from connectors_core.testing.merging_sink import SortingDirectorySink
from pyspark import cloudpickle
from test_topologies_on_spark import SortingSuite

cloudpickle.register_pickle_by_value(sys.modules[__name__])

class Loses(SortingDirectorySink):
    def add_pre_write_topology(self, df):
        return df.limit(20)

class Doubles(SortingDirectorySink):
    def add_pre_write_topology(self, df):
        return df.union(df)

class TestLoses(SortingSuite):
    __test__ = True
    kind = Loses

class TestDoubles(SortingSuite):
    __test__ = True
    kind = Doubles

class TestInProcess(SortingSuite):
    __test__ = True
    on_spark = False
"""


@pytest.mark.slow
def test_a_pre_write_topology_that_changes_rows_is_reported(pytester: pytest.Pytester) -> None:
    module = BROKEN.format(tests=str(Path(__file__).parent))
    found = results(pytester, module, pytester.runpytest_subprocess)
    for suite in ("TestLoses", "TestDoubles", "TestInProcess"):
        failed = [each for each in found if each["suite"] == suite and each["outcome"] == "failed"]
        assert [each["case"] for each in failed] == ["test_rows_pass_the_pre_write_topology_once"]
    (refused,) = [each["reason"] for each in failed]
    assert "pre-write topology" in refused
