# SPDX-License-Identifier: Apache-2.0
"""How the bound of what is on its way moves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.errors import ConfigurationError
from connectors_core.sink import (
    AIMDScalingStrategy,
    CongestionControlRateLimitingStrategy,
    FixedRateLimitingStrategy,
    RequestInfo,
    ResultInfo,
)


@given(
    results=st.lists(st.tuples(st.integers(1, 50), st.booleans()), max_size=60),
    requests=st.integers(1, 5),
    size=st.integers(1, 50),
)
def test_the_bound_stays_between_one_entry_and_all_that_requests_can_hold(
    results: list[tuple[int, bool]], requests: int, size: int
) -> None:
    strategy = CongestionControlRateLimitingStrategy(
        max_in_flight_requests=requests, max_batch_size=size
    )
    for wanted, fails in results:
        batch = min(wanted, strategy.max_batch_size)
        assert not strategy.should_block(RequestInfo(batch))  # nothing is on its way
        strategy.register_in_flight_request(RequestInfo(batch))
        strategy.register_completed_request(ResultInfo(batch if fails else 0, batch))
        assert 1 <= strategy.max_batch_size <= size


def test_a_failure_halves_what_may_be_on_its_way_and_successes_bring_it_back() -> None:
    strategy = CongestionControlRateLimitingStrategy(
        max_in_flight_requests=2,
        max_batch_size=100,
        scaling=AIMDScalingStrategy(rate_threshold=200, increase_rate=10),
        initial_max_in_flight_messages=200,
    )

    def answered(failed: int) -> int:
        strategy.register_in_flight_request(RequestInfo(10))
        strategy.register_completed_request(ResultInfo(failed, 10))
        return strategy.max_batch_size

    assert [answered(1), answered(1), answered(0), answered(0)] == [100, 50, 60, 70]


def test_as_many_entries_as_the_bound_allows_are_on_their_way() -> None:
    strategy = CongestionControlRateLimitingStrategy(
        max_in_flight_requests=3, max_batch_size=10, initial_max_in_flight_messages=15
    )
    strategy.register_in_flight_request(RequestInfo(10))
    assert not strategy.should_block(RequestInfo(5))
    assert strategy.should_block(RequestInfo(6))


def test_as_many_requests_as_are_allowed_are_on_their_way() -> None:
    for strategy in (
        FixedRateLimitingStrategy(max_in_flight_requests=2, max_batch_size=10),
        CongestionControlRateLimitingStrategy(
            max_in_flight_requests=2, max_batch_size=10, initial_max_in_flight_messages=20
        ),
    ):
        for _ in range(2):
            assert not strategy.should_block(RequestInfo(1))
            strategy.register_in_flight_request(RequestInfo(1))
        assert strategy.should_block(RequestInfo(1))
        strategy.register_completed_request(ResultInfo(0, 1))
        assert not strategy.should_block(RequestInfo(1))


def test_numbers_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="max_batch_size"):
        FixedRateLimitingStrategy(max_in_flight_requests=1, max_batch_size=0)
    with pytest.raises(ConfigurationError, match="rate_threshold"):
        AIMDScalingStrategy(rate_threshold=0)
    with pytest.raises(ConfigurationError) as caught:
        AIMDScalingStrategy(rate_threshold=1, decrease_factor=1)
    assert caught.value.option == "decrease_factor"
