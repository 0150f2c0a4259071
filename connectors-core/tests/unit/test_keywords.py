# SPDX-License-Identifier: Apache-2.0
"""Tests that a mistyped keyword of a pipeline gets a suggestion, like that of a connector."""

from __future__ import annotations

import inspect
import re

import pytest

from connectors_core import Pipeline
from connectors_core.source import NumberSequenceSource
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.local_pipeline import LocalPipeline


def refusal(call, *arguments, **keywords):
    with pytest.raises(TypeError) as caught:
        call(*arguments, **keywords)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("checkpoint", "checkpoint_location"),
        ("trigger_intervall", "trigger_interval"),
        ("triggerInterval", "trigger_interval"),
        ("lease-expiry", "lease_expiry"),
    ],
)
def test_a_mistyped_keyword_of_a_pipeline_gets_a_suggestion(given, meant):
    keyword = re.escape(f"Pipeline() got an unexpected keyword argument {given!r}")
    for call in (Pipeline, LocalPipeline):
        text = refusal(call, "p", **{given: "5 s"})
        assert re.search(keyword, text)
        assert text.endswith(f"; did you mean {meant!r}?")


@pytest.mark.parametrize(
    ("method", "given", "meant"),
    [
        ("from_source", "watermark_strategies", "watermark_strategy"),
        ("from_source", "rate_limit", "rate_limiter"),
        ("sink_to", "record_policies", "record_policy"),
        ("lookup_join", "column", "columns"),
    ],
)
def test_a_mistyped_keyword_of_a_method_gets_a_suggestion(method, given, meant):
    text = refusal(getattr(Pipeline, method), None, None, **{given: 1})
    assert text == (
        f"Pipeline.{method}() got an unexpected keyword argument {given!r}; did you mean {meant!r}?"
    )


def test_a_keyword_that_resembles_no_other_gets_no_suggestion(tmp_path):
    pipeline = LocalPipeline("p", checkpoint_location=str(tmp_path))
    text = refusal(pipeline.from_source, NumberSequenceSource(0, 9), uid="numbers", xyz=1)
    assert text == "LocalPipeline.from_source() got an unexpected keyword argument 'xyz'"
    rows = pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers")
    pipeline.sink_to(rows, DirectorySink(tmp_path / "out"), uid="out")


def test_a_missing_argument_is_reported_as_usual():
    assert "missing 1 required keyword-only argument: 'uid'" in refusal(
        Pipeline.from_source, None, NumberSequenceSource(0, 9)
    )


def test_the_signature_and_the_docstring_of_a_method_stay_visible():
    assert "watermark_strategy" in inspect.signature(Pipeline.from_source).parameters
    assert "checkpoint_location" in inspect.signature(Pipeline).parameters
    assert Pipeline.from_source.__doc__.startswith("Return a DataFrame")
