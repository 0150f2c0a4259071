# SPDX-License-Identifier: Apache-2.0
"""Tests that file sinks with compaction and manifests can be the sinks of routes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from staged_files import staged, visible

from connector_filesystem import FileCompactStrategy, FileSink, manifest_files
from connectors_core.sink import ColumnRouter, DemultiplexingSink
from connectors_core.source import DataGeneratorSource, ReadLimits
from connectors_core.testing import (
    COMPACTING_POINTS,
    Fault,
    FaultAction,
    FaultInjected,
    FaultPoint,
    LocalPipeline,
    injected,
)

ROWS = 120
EPOCHS = 12
SECONDS = 60
SCHEMA = pa.schema([("value", pa.int64()), ("route", pa.string())])
ROUTES = ("merged", "listed", "both", "plain")


def rows_of(numbers: pa.Array) -> pa.RecordBatch:
    routes = pa.array([ROUTES[number % len(ROUTES)] for number in numbers.to_pylist()])
    return pa.RecordBatch.from_arrays([numbers, routes], schema=SCHEMA)


def sink_of(root: Path, route: str) -> FileSink:
    """Create the sink of a route."""
    sink = FileSink(root / route, format="json", manifests=route in {"listed", "both"})
    merges = route in {"merged", "both"}
    return sink.enable_compact(FileCompactStrategy(epochs=4)) if merges else sink


def run(root: Path, *faults: Fault) -> None:
    pipeline = LocalPipeline("p", checkpoint_location=str(root / "state"), parallelism=2)
    source = DataGeneratorSource(rows_of, ROWS, SCHEMA, split_rows=ROWS)
    rows = pipeline.from_source(source, uid="rows", limits=ReadLimits(rows=ROWS // EPOCHS))
    router = ColumnRouter("route", partial(sink_of, root))
    pipeline.sink_to(rows, DemultiplexingSink(router), uid="out")
    with injected(*faults), pipeline:
        assert pipeline.run(timeout=SECONDS)


def values_of(files: Iterable[str | Path]) -> list[int]:
    lines = [line for file in files for line in Path(file).read_text().splitlines()]
    return sorted(json.loads(line)["value"] for line in lines)


def assert_complete(root: Path) -> None:
    for at, route in enumerate(ROUTES):
        expected = list(range(at, ROWS, len(ROUTES)))
        assert values_of(visible(root / route)) == expected, route
        assert staged(root / route) == [], route
        if route in {"listed", "both"}:
            assert values_of(manifest_files(root / route)) == expected, route


def test_each_route_merges_and_lists_its_own_files(tmp_path: Path) -> None:
    run(tmp_path)
    assert_complete(tmp_path)
    assert len(visible(tmp_path / "plain")) == len(visible(tmp_path / "listed")) == EPOCHS
    assert len(visible(tmp_path / "merged")) == len(visible(tmp_path / "both")) == EPOCHS // 4
    assert not (tmp_path / "plain" / "_manifests").exists()


@pytest.mark.parametrize("point", COMPACTING_POINTS)
def test_a_crash_at_any_step_loses_doubles_and_leaves_nothing(
    tmp_path: Path, point: FaultPoint
) -> None:
    fault = Fault(point, action=FaultAction.RAISE, once=tmp_path / "failed", nth=2)
    with contextlib.suppress(FaultInjected):
        run(tmp_path, fault)
    assert fault.fired
    run(tmp_path)
    assert_complete(tmp_path)
