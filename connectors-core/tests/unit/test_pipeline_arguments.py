# SPDX-License-Identifier: Apache-2.0
"""Tests that arguments of the wrong type are rejected before their use."""

from __future__ import annotations

import pytest

from connectors_core.errors import InvalidOptionError
from connectors_core.records import RecordPolicy
from connectors_core.source.split import ReadLimits
from connectors_core.spark.arguments import check_limits, check_type


def test_an_argument_of_the_wrong_type_is_named_without_its_value():
    with pytest.raises(InvalidOptionError) as refused:
        check_type("record_policy", "hunter2", RecordPolicy, example="RecordPolicy.skip()")
    assert refused.value.option == "record_policy"
    assert "RecordPolicy, such as RecordPolicy.skip()" in str(refused.value)
    assert "found: str" in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("value", [None, RecordPolicy.skip()])
def test_the_right_type_and_the_default_are_accepted(value):
    check_type("record_policy", value, RecordPolicy, example="RecordPolicy.skip()")


@pytest.mark.parametrize(
    "limits",
    [
        ReadLimits(rows=0),
        ReadLimits(bytes=-1),
        ReadLimits(splits=True),
        ReadLimits(rows=1.5),
        ReadLimits(rows="100"),
        ReadLimits(seconds="1 s"),
        100,
    ],
)
def test_limits_that_are_not_positive_numbers_are_refused(limits):
    with pytest.raises(InvalidOptionError, match="limits"):
        check_limits(limits)


@pytest.mark.parametrize("limits", [None, ReadLimits(), ReadLimits(rows=1, seconds=0.5)])
def test_positive_limits_are_accepted(limits):
    check_limits(limits)
