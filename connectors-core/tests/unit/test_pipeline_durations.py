# SPDX-License-Identifier: Apache-2.0
"""Tests that a pipeline and a watermark strategy take durations like the keywords of connectors."""

from __future__ import annotations

from datetime import timedelta

import pytest

from connectors_core.clients import SupportsConnectionCheck
from connectors_core.engine.coordinator import durations
from connectors_core.engine.coordinator.registrations import Registrations
from connectors_core.errors import InvalidOptionError, RetryableError
from connectors_core.options import DURATION, Configured, Setting, option, positive
from connectors_core.source import NumberSequenceSource, WatermarkStrategy
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.local_pipeline import LocalPipeline

ALL = pytest.mark.parametrize("keyword", ["trigger_interval", "lease_expiry", "connection_timeout"])


class Connector(Configured):
    """The settings of a connector."""

    lease_expiry: Setting[timedelta, timedelta | str] = option(
        "lease.expiry",
        DURATION,
        default=timedelta(seconds=1),
        validator=positive,
        doc=durations.LEASE_EXPIRY.doc,
    )


class UnreachableSink(DirectorySink, SupportsConnectionCheck):
    """Its check reports the timeout that it received."""

    def check_connection(self, timeout: float) -> None:
        """Fail."""
        raise RetryableError("unreachable", found=f"{timeout} s")


def refused(call, *arguments, **keywords):
    with pytest.raises(InvalidOptionError) as caught:
        call(*arguments, **keywords)
    return caught.value


@ALL
@pytest.mark.parametrize("value", [timedelta(seconds=90), "90 s", "1m30s"])
def test_a_duration_is_a_timedelta_or_a_text(tmp_path, keyword, value):
    LocalPipeline("p", checkpoint_location=str(tmp_path), **{keyword: value})
    declared = getattr(durations, keyword.upper())
    assert declared.accept(value) == timedelta(seconds=90)


def test_a_pipeline_uses_durations_that_are_texts(tmp_path):
    location = str(tmp_path / "checkpoint")
    given = {"trigger_interval": "1 ms", "lease_expiry": "20 s"}
    with LocalPipeline("p", checkpoint_location=location, **given) as pipeline:
        rows = pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers")
        pipeline.sink_to(rows, DirectorySink(tmp_path / "out"), uid="out")
        assert pipeline.run(timeout=30)


def test_systems_must_respond_within_a_time_that_is_a_text(tmp_path):
    with pytest.raises(RetryableError) as caught:
        Registrations("p", connection_timeout="2 s").check_connections(
            {"sink 'out'": UnreachableSink(tmp_path)}
        )
    assert "2.0 s" in caught.value.found


@ALL
@pytest.mark.parametrize("value", [5, "5", "soon", "", timedelta(seconds=-1), True])
def test_another_value_is_refused_by_name(tmp_path, keyword, value):
    error = refused(LocalPipeline, "p", checkpoint_location=str(tmp_path), **{keyword: value})
    assert error.option == keyword
    assert error.hint


@pytest.mark.parametrize("value", [5, "5", timedelta(0)])
def test_the_error_is_that_of_a_connector(tmp_path, value):
    own = refused(LocalPipeline, "p", checkpoint_location=str(tmp_path), lease_expiry=value)
    assert str(own) == str(refused(Connector, lease_expiry=value))


def test_only_the_connection_timeout_may_be_none(tmp_path):
    LocalPipeline("p", checkpoint_location=str(tmp_path), connection_timeout=None)
    for keyword in ("trigger_interval", "lease_expiry"):
        error = refused(LocalPipeline, "p", checkpoint_location=str(tmp_path), **{keyword: None})
        assert error.option == keyword


def test_the_durations_of_a_watermark_strategy_may_be_texts():
    second = timedelta(seconds=1)
    by_text = (
        WatermarkStrategy.for_bounded_out_of_orderness("5 s")
        .with_idleness("1 min")
        .with_watermark_alignment("g", "10 s", update_interval="500 ms")
    )
    assert by_text == (
        WatermarkStrategy.for_bounded_out_of_orderness(5 * second)
        .with_idleness(60 * second)
        .with_watermark_alignment("g", 10 * second, update_interval=0.5 * second)
    )


@pytest.mark.parametrize(
    ("method", "arguments", "expected"),
    [
        ("for_bounded_out_of_orderness", ("40000 d",), "at least 0 s and below 36500 d"),
        ("for_bounded_out_of_orderness", ("5",), "a duration with a unit"),
        ("with_idleness", ("0 s",), "above 0 s and below 36500 d"),
        ("with_watermark_alignment", ("g", timedelta(-1)), "at least 0 s and below 36500 d"),
    ],
)
def test_a_watermark_strategy_shows_the_durations_that_it_takes(method, arguments, expected):
    error = refused(getattr(WatermarkStrategy.for_monotonous_timestamps(), method), *arguments)
    assert expected in error.expected
