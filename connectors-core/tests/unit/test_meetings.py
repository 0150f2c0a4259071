# SPDX-License-Identifier: Apache-2.0
"""Tests that suites run each pair of drivers in process, and each point and step on Spark."""

from __future__ import annotations

from itertools import chain, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.testing import SinkTestSuite, SourceTestSuite
from connectors_core.testing.faults import (
    DECIDED_FREEZES,
    PLAN_FREEZES,
    READER_FREEZES,
    SUCCESSORS,
    UNDECIDED_FREEZES,
)
from connectors_core.testing.meetings import meetings_on_spark
from connectors_core.testing.sink_failure_cases import WRITING_MEETINGS
from connectors_core.testing.source_failure_cases import READING_MEETINGS

READING = (PLAN_FREEZES, READER_FREEZES)
WRITING = (UNDECIDED_FREEZES, DECIDED_FREEZES)
TURNS = {"3.5": 5, "4.3": 3}


def pairs_of(*kinds):
    return set(product(chain(*kinds), SUCCESSORS))


def assert_covered(kinds, pairs):
    for kind in kinds:
        met = [pair for pair in pairs if pair[0] in kind]
        assert {point for point, _ in met} == set(kind)
        assert {step for _, step in met} == set(SUCCESSORS)


@given(
    kinds=st.sampled_from([READING, WRITING, (*READING, *WRITING)]),
    always=st.sets(st.sampled_from(sorted(pairs_of(*READING, *WRITING)))),
    turn=st.integers(0, 20),
)
def test_each_kind_of_point_meets_each_step(kinds, always, turn):
    pairs = meetings_on_spark(*kinds, always=always, turn=turn)
    assert_covered(kinds, pairs)
    assert len(pairs) == len(set(pairs))
    assert always & pairs_of(*kinds) <= set(pairs) <= pairs_of(*kinds)


@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)
@pytest.mark.parametrize(
    ("kinds", "always"), [(READING, READING_MEETINGS), (WRITING, WRITING_MEETINGS)]
)
def test_no_smaller_set_of_pairs_would_do(kinds, always, turn):
    pairs = meetings_on_spark(*kinds, always=always, turn=turn)
    assert len(pairs) == sum(max(len(kind), len(SUCCESSORS)) for kind in kinds)


@pytest.mark.parametrize(
    ("kinds", "always"), [(READING, READING_MEETINGS), (WRITING, WRITING_MEETINGS)]
)
def test_spark_lines_run_different_pairs(kinds, always):
    one, other = (
        set(meetings_on_spark(*kinds, always=always, turn=turn)) for turn in TURNS.values()
    )
    assert one & other == always


@pytest.mark.parametrize(
    ("suite", "kinds", "always"),
    [(SourceTestSuite, READING, READING_MEETINGS), (SinkTestSuite, WRITING, WRITING_MEETINGS)],
)
def test_a_suite_has_each_pair_in_process_and_covers_them_on_spark(suite, kinds, always):
    marks = suite.test_a_driver_that_was_frozen_resumes_beside_its_successor.pytestmark
    (parameters,) = (mark.args[1] for mark in marks if mark.name == "parametrize")
    named = {each.values: {mark.name for mark in each.marks} for each in parameters}
    assert set(named) == pairs_of(*kinds)
    assert len(parameters) == len(named)
    assert {pair for pair, names in named.items() if "slow" not in names} == always
    on_spark = {pair for pair, names in named.items() if "covered_on_spark" not in names}
    assert_covered(kinds, on_spark)
    assert always <= on_spark
