# SPDX-License-Identifier: Apache-2.0
"""Tests that a location rejects a different pipeline without losing data."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pipeline_support import (
    EVENTS,
    counts,
    event_rows,
    new_pipeline,
    once,
    travel_with_closures,
    wait_until,
)

from connectors_core.errors import IdentityError
from connectors_core.source import DataGeneratorSource, ReadLimits
from connectors_core.testing.directory_sink import DirectorySink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from connectors_core import Pipeline

travel_with_closures(__name__)

ROWS = {"a": 240, "b": 160}
EXPECTED = once([*range(ROWS["a"]), *range(-ROWS["b"], 0)])


@dataclass(frozen=True)
class Shape:
    """The parts of a pipeline. The default is the pipeline of the first start."""

    name: str = "p"
    sources: tuple[str, ...] = ("a", "b")
    sinks: tuple[str, ...] = ("out", "copy")


def build(spark: SparkSession, root: Path, shape: Shape, rows: int | None = None) -> Pipeline:
    """Build a union of two sources, with the second one negated, into one or more sinks."""
    pipeline = new_pipeline(spark, root, shape.name, state_location=str(root / "state"))
    frames = []
    for uid in shape.sources:
        source = DataGeneratorSource(event_rows, ROWS[uid], EVENTS, split_rows=30, batch_rows=10)
        df = pipeline.from_source(source, uid=uid, limits=ReadLimits(rows=rows))
        frames.append(df.selectExpr("n" if uid == "a" else "-1 - n AS n"))
    union = frames[0]
    for frame in frames[1:]:
        union = union.union(frame)
    for uid in shape.sinks:
        pipeline.sink_to(union, DirectorySink(root / uid), uid=uid)
    return pipeline


@pytest.fixture(scope="module")
def stopped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create the state of a pipeline that was stopped before its end."""
    root = tmp_path_factory.mktemp("stopped")
    with build(spark, root, Shape(), rows=20) as pipeline:
        pipeline.start()
        sink = DirectorySink(root / "out")
        wait_until(lambda: sink.read().num_rows >= 40, "some rows", pipeline)
    assert sink.read().num_rows < len(EXPECTED)
    return root


def nothing(root: Path) -> None:
    """Change no files."""


def wipe(*folders: str) -> Callable[[Path], None]:
    def wiped(root: Path) -> None:
        for folder in folders:
            assert (root / folder).exists()
            shutil.rmtree(root / folder)

    return wiped


@pytest.mark.parametrize(
    ("damage", "shape", "message", "way_out"),
    [
        pytest.param(wipe("checkpoint"), Shape(), "is missing", "restore", id="checkpoint"),
        pytest.param(
            wipe("state"), Shape(), "plans of the pipeline are missing", "restore", id="state"
        ),
        pytest.param(
            wipe("state/query-0"),
            Shape(),
            "plans of the pipeline are missing",
            "restore",
            id="plans",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            nothing, Shape(sources=("b", "a")), "another order", "recorded order", id="order"
        ),
        pytest.param(
            nothing,
            Shape(sinks=("out",)),
            "in another order",
            "uids",
            id="sink less",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            nothing,
            Shape(sinks=("out", "copy", "more")),
            "in another order",
            "another checkpoint location",
            id="sink more",
            marks=pytest.mark.line("3.5"),
        ),
        pytest.param(
            nothing,
            Shape(name="q"),
            "another pipeline",
            "its own checkpoint location",
            id="name",
            marks=pytest.mark.line("3.5"),
        ),
    ],
)
def test_a_changed_pipeline_is_refused_and_the_original_one_resumes(
    spark: SparkSession,
    stopped: Path,
    tmp_path: Path,
    damage: Callable[[Path], None],
    shape: Shape,
    message: str,
    way_out: str,
) -> None:
    root = tmp_path / "root"
    shutil.copytree(stopped, root)
    before = {uid: counts(DirectorySink(root / uid)) for uid in Shape().sinks}
    damage(root)
    for _ in range(2):  # a retry does not help
        with build(spark, root, shape) as pipeline, pytest.raises(IdentityError) as refusal:
            pipeline.start()
        assert message in str(refusal.value)
        assert any(way_out in way for way in refusal.value.ways_out)
        assert all(way in str(refusal.value) for way in refusal.value.ways_out)
    assert {uid: counts(DirectorySink(root / uid)) for uid in Shape().sinks} == before

    for folder in ("checkpoint", "state"):  # the first option: restore the files
        if damage is not nothing:
            shutil.copytree(stopped / folder, root / folder, dirs_exist_ok=True)
    with build(spark, root, Shape()) as pipeline:
        assert pipeline.run()
    assert counts(DirectorySink(root / "out")) == EXPECTED
    assert counts(DirectorySink(root / "copy")) == EXPECTED
