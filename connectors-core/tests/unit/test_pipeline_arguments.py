# SPDX-License-Identifier: Apache-2.0
"""Tests that arguments of the wrong type are rejected before their use."""

from __future__ import annotations

import pickle

import pytest

from connectors_core import Pipeline
from connectors_core.engine.coordinator.registrations import Registrations
from connectors_core.errors import InvalidOptionError
from connectors_core.records import RecordPolicy
from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.table import LookupTableSource, VectorSearchTableSource
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.local_pipeline import LocalPipeline


@pytest.fixture
def pipeline(tmp_path):
    return LocalPipeline("p", checkpoint_location=str(tmp_path / "checkpoint"))


def read(pipeline, **changes):
    """Register a source, with some arguments replaced."""
    arguments = {"source": NumberSequenceSource(0, 9), "uid": "numbers"} | changes
    return pipeline.from_source(arguments.pop("source"), **arguments)


def test_an_argument_of_the_wrong_type_is_named_without_its_value(pipeline):
    with pytest.raises(InvalidOptionError) as refused:
        read(pipeline, record_policy="hunter2")
    assert refused.value.option == "record_policy"
    assert "RecordPolicy, such as RecordPolicy.skip()" in str(refused.value)
    assert "found: str" in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("value", [None, RecordPolicy.skip()])
def test_the_right_type_and_the_default_are_accepted(pipeline, tmp_path, value):
    rows = read(pipeline, record_policy=value, watermark_strategy=None, limits=None)
    pipeline.sink_to(rows, DirectorySink(tmp_path / "out"), uid="out", record_policy=value)


@pytest.mark.parametrize("argument", ["source", "watermark_strategy", "record_policy", "limits"])
def test_every_argument_of_a_source_is_checked(pipeline, argument):
    with pytest.raises(InvalidOptionError) as refused:
        read(pipeline, **{argument: "hunter2"})
    assert refused.value.option == argument
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("argument", ["sink", "record_policy"])
def test_every_argument_of_a_sink_is_checked(pipeline, tmp_path, argument):
    arguments = {"sink": DirectorySink(tmp_path / "out"), "record_policy": None}
    rows = read(pipeline)
    with pytest.raises(InvalidOptionError) as refused:
        pipeline.sink_to(rows, uid="out", **(arguments | {argument: "hunter2"}))
    assert refused.value.option == argument
    pipeline.sink_to(rows, uid="out", **arguments)


@pytest.mark.parametrize("value", [0, -1, 1.5, "hunter2"])
def test_a_parallelism_that_is_not_positive_is_refused(pipeline, tmp_path, value):
    rows, sink = read(pipeline), DirectorySink(tmp_path / "out")
    for call in (
        lambda: read(pipeline, uid="more", parallelism=value),
        lambda: pipeline.sink_to(rows, sink, uid="out", parallelism=value),
        lambda: Pipeline(None, "p", checkpoint_location=tmp_path, parallelism=value),
    ):
        with pytest.raises(InvalidOptionError) as refused:
            call()
        assert refused.value.option == "parallelism"
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("kind", [LookupTableSource, VectorSearchTableSource])
def test_a_table_is_checked(kind):
    registrations = Registrations("p", connection_timeout=None)
    with pytest.raises(InvalidOptionError) as refused:
        registrations.check_table("a method", NumberSequenceSource(0, 9), kind, "t")
    assert refused.value.option == "table"


def test_a_required_argument_may_not_be_none(pipeline):
    with pytest.raises(InvalidOptionError, match="'source'"):
        read(pipeline, source=None)
    with pytest.raises(InvalidOptionError, match="'sink'"):
        pipeline.sink_to(read(pipeline), None, uid="out")


def test_a_refused_source_leaves_its_uid_free(pipeline):
    with pytest.raises(InvalidOptionError):
        read(pipeline, limits=100)
    read(pipeline)


@pytest.mark.parametrize(
    "limits",
    [
        {"rows": 0},
        {"seconds": 0.0},
        {"bytes": -1},
        {"splits": True},
        {"rows": 1.5},
        {"rows": "100"},
        {"seconds": "1 s"},
        {"seconds": float("nan")},
    ],
)
def test_limits_that_are_not_positive_numbers_are_refused(pipeline, limits):
    with pytest.raises(InvalidOptionError, match="limits") as refused:
        read(pipeline, limits=ReadLimits(**limits))
    [name] = limits
    assert refused.value.option == f"limits.{name}"
    assert "above 0, or None for no limit" in refused.value.expected


@pytest.mark.parametrize("limits", [None, ReadLimits(), ReadLimits(rows=1, seconds=0.5)])
def test_positive_limits_are_accepted(pipeline, limits):
    read(pipeline, limits=limits)


@pytest.mark.parametrize("limit", [-1, "1", True, 0.5])
def test_limits_refuse_an_invalid_number_where_it_is_written(limit):
    with pytest.raises(InvalidOptionError) as refused:
        ReadLimits(rows=limit)
    assert refused.value.option == "limits.rows"


def test_a_limit_of_zero_pauses_a_reader():
    paused = ReadLimits(rows=0)
    assert pickle.loads(pickle.dumps(paused)) == paused
    assert ReadLimits(rows=1).per_reader(1, 2) == paused
    assert ReadLimits(rows=5).tightened_by(paused) == paused


@pytest.mark.parametrize("argument", ["on_changed_query", "progress"])
def test_a_pipeline_refuses_a_value_that_is_none_of_its_choices(tmp_path, argument):
    with pytest.raises(InvalidOptionError, match=f"the value of '{argument}' is invalid"):
        Pipeline(None, "choices", checkpoint_location=tmp_path, **{argument: "refused"})
