# SPDX-License-Identifier: Apache-2.0
"""Tests that outages begin, end by themselves, and end with their context."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from connectors_core.errors import FatalError, RetryableError
from connectors_core.testing import Outage, TestSystem
from connectors_core.testing.outages import assert_worth_another_attempt, passing

FOR_EVER = 1000.0


@contextmanager
def noted(seen):
    seen.append("begun")
    yield
    seen.append("over")


def test_an_outage_begins_before_its_context_and_ends_with_it():
    seen = []
    with passing(noted(seen), FOR_EVER) as over:
        assert seen == ["begun"]
        assert not over.is_set()
    assert seen == ["begun", "over"]
    assert over.is_set()


def test_an_outage_ends_for_a_caller_that_waits_for_its_end():
    seen = []
    with passing(noted(seen), 0.01) as over:
        assert over.wait(60)
        assert seen == ["begun", "over"]


def test_an_outage_ends_if_its_context_fails():
    seen = []
    with pytest.raises(KeyError), passing(noted(seen), FOR_EVER):
        raise KeyError
    assert seen == ["begun", "over"]


def test_an_outage_that_cannot_begin_raises_its_error():
    @contextmanager
    def broken():
        raise ValueError("no such switch")
        yield

    with pytest.raises(ValueError, match="no such switch"), passing(broken(), FOR_EVER):
        pass


def test_a_system_without_outages_raises_an_error():
    class Rock(TestSystem):
        name, variable = "rock", "ROCK"

        def embedded(self):
            raise AssertionError

    with pytest.raises(NotImplementedError, match="Rock has no outages"):
        Rock().outage("", Outage.STOPPED)
    with pytest.raises(NotImplementedError, match="Rock cannot lose a response"):
        Rock().lost_response("", 1)


def test_only_a_retryable_error_justifies_another_attempt():
    assert_worth_another_attempt(RetryableError("later"))
    for error in (FatalError("never"), ConnectionResetError("raw")):
        with pytest.raises(AssertionError, match=type(error).__name__):
            assert_worth_another_attempt(error)
