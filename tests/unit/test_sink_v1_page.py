# SPDX-License-Identifier: Apache-2.0
"""Tests that both sinks of docs/migrate/sink-v1.md give the same result, and pass the suite."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest
from page_modules import modules_of

from connectors_core.sink import Sink
from connectors_core.sink.v1 import SinkV1Adapter
from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.testing import (
    ROWS,
    Capabilities,
    Capability,
    Fault,
    FaultAction,
    FaultInjected,
    FaultPoint,
    LocalPipeline,
    SinkExternalContext,
    SinkTestSuite,
    injected,
)

pytestmark = pytest.mark.filterwarnings("ignore::connectors_core.ConnectorDeprecationWarning")

modules = modules_of("migrate/sink-v1.md")
NUMBERS = 60


def before(folder: Path) -> Sink:
    """Return the sink before the migration."""
    return SinkV1Adapter.wrap(modules["part_sink_v1"].PartSink(folder), parallelism=2)


def after(folder: Path) -> Sink:
    """Return the sink after the migration."""
    return modules["part_sink"].PartSink(folder)


def rows_of(folder: Path, schema: pa.Schema) -> pa.Table:
    files = [str(path) for path in folder.glob("*.parquet")]
    return pyarrow.dataset.dataset(files, schema=schema, format="parquet").to_table()


def manifest_of(folder: Path) -> list[str]:
    manifest = folder / "_manifest"
    return manifest.read_text().split() if manifest.exists() else []


def run(root: Path, sink: Sink, *faults: Fault) -> None:
    """Run a pipeline into a sink, which resumes after the previous one."""
    with injected(*faults), LocalPipeline("p", checkpoint_location=root / "state") as pipeline:
        source = NumberSequenceSource(0, NUMBERS - 1, split_rows=10, batch_rows=5)
        rows = pipeline.from_source(source, uid="numbers", limits=ReadLimits(rows=20))
        pipeline.sink_to(rows, sink, uid="parts")
        assert pipeline.run(timeout=30)


def result(folder: Path) -> tuple[list[int], list[str]]:
    """Return the rows, and the numbers of the files of each writer; check the manifest."""
    names = sorted(path.name for path in folder.glob("*.parquet"))
    assert manifest_of(folder) == names
    schema = pa.schema([("value", pa.int64())])
    numbers = [name.partition("-")[2] for name in names]
    return sorted(rows_of(folder, schema)["value"].to_pylist()), sorted(numbers)


def test_both_sinks_give_the_same_result(tmp_path: Path) -> None:
    for name, create in (("before", before), ("after", after)):
        folder = tmp_path / name / "parts"
        folder.mkdir(parents=True)
        run(tmp_path / name, create(folder))
    found = result(tmp_path / "before/parts")
    assert found == result(tmp_path / "after/parts")
    assert found[0] == list(range(NUMBERS))


@pytest.mark.parametrize("point", [FaultPoint.AFTER_DECISION, FaultPoint.AFTER_DONE])
def test_the_sink_of_v2_finishes_and_continues_what_that_of_v1_began(
    tmp_path: Path, point: FaultPoint
) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    fault = Fault(point, action=FaultAction.RAISE, nth=2, once=tmp_path / "failed")
    with pytest.raises(FaultInjected):
        run(tmp_path, before(folder), fault)
    assert manifest_of(folder)
    first_writers = {name.partition("-")[0] for name in manifest_of(folder)}
    run(tmp_path, after(folder))
    rows, numbers = result(folder)
    assert rows == list(range(NUMBERS))
    writers = {name.partition("-")[0] for name in manifest_of(folder)}
    assert writers == first_writers  # they continue with the names in the stored states
    assert len(numbers) > len(writers)


class Parts(SinkExternalContext):
    def __init__(self, folder: Path, sink: Sink) -> None:
        self.folder, self.sink = folder, sink

    def create_sink(self) -> Sink:
        return self.sink

    def read_back(self, schema: pa.Schema = ROWS) -> pa.Table:
        return rows_of(self.folder, schema)

    def assert_states(self, states: Any, rows: int) -> None:
        files = Counter(path.name.split("-")[0] for path in self.folder.glob("*.parquet"))
        assert {state.name: state.next_file for state in states} == files

    def assert_post_committed(self, committables: Any) -> None:
        assert manifest_of(self.folder) == sorted(part.name for part in committables)


class SweptParts(Parts):
    """Sink V2 removes what failed attempts have staged."""

    def leftovers(self) -> list[str]:
        return [path.name for path in self.folder.glob("_staged/*/*/*")]


class PartSuite(SinkTestSuite):
    __test__ = False
    capabilities = Capabilities(
        can=frozenset({Capability.EXACTLY_ONCE, Capability.WRITER_STATE, Capability.TOPOLOGIES}),
        cannot={
            Capability.COMMITTED_EPOCHS: "Sink V1 has no such method",
            Capability.LEASES: "every attempt stages a file of its own",
            Capability.REWRITING: "a staged file stays until it is committed",
            Capability.DATA_TYPES: "the types are those of Parquet",
            Capability.SCHEMA_CHANGE: "the reader of the test has the columns",
            Capability.SECRETS: "a local folder needs none",  # pragma: allowlist secret
            Capability.OUTAGES: "a local folder is always there",
        },
    )


@pytest.mark.slow  # every run tests a similar sink in connectors-core
class TestSinkBefore(PartSuite):
    __test__ = True

    def external_context(self, folder: Path) -> Parts:
        return Parts(folder, before(folder))


class TestSinkAfter(PartSuite):
    __test__ = True

    def external_context(self, folder: Path) -> Parts:
        return SweptParts(folder, after(folder))
