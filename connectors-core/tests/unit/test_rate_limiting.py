# SPDX-License-Identifier: Apache-2.0
"""Tests how the limit of in-flight requests changes."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

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
    ScalingStrategy,
)

NO_PAUSE = timedelta(0)


@given(
    results=st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), max_size=60),
    requests=st.integers(1, 5),
    size=st.integers(1, 50),
)
def test_the_limit_stays_between_one_entry_and_the_capacity_of_all_requests(
    results: list[tuple[int, int]], requests: int, size: int
) -> None:
    strategy = CongestionControlRateLimitingStrategy(
        max_in_flight_requests=requests, max_batch_size=size, pause=NO_PAUSE
    )
    for wanted, failed in results:
        batch = min(wanted, strategy.max_batch_size)
        assert not strategy.should_block(RequestInfo(batch))  # no request in flight
        strategy.register_in_flight_request(RequestInfo(batch))
        strategy.register_completed_request(ResultInfo(min(failed, batch), batch))
        assert 1 <= strategy.max_batch_size <= size
        assert strategy.max_in_flight_messages <= requests * size


def respond(
    strategy: CongestionControlRateLimitingStrategy, entries: int, failed: int, *, times: int = 1
) -> None:
    """Send requests one after another, and respond to each that these entries failed."""
    for _ in range(times):
        strategy.register_in_flight_request(RequestInfo(entries))
        strategy.register_completed_request(ResultInfo(failed, entries))


class Answers:
    """Feeds a strategy with responses to requests of a hundred entries."""

    def __init__(self, **settings: Any) -> None:
        bounds = {"max_in_flight_requests": 4, "max_batch_size": 100, "pause": NO_PAUSE} | settings
        self.strategy = CongestionControlRateLimitingStrategy(**bounds)

    def sent(self, requests: int) -> None:
        for _ in range(requests):
            self.strategy.register_in_flight_request(RequestInfo(100))

    def answered(self, failed: int) -> int:
        self.strategy.register_completed_request(ResultInfo(failed, 100))
        return self.strategy.max_in_flight_messages

    def __call__(self, *failed: int) -> list[int]:
        """Return the limit after each response to requests that are sent one after another."""
        found = []
        for each in failed:
            self.sent(1)
            found.append(self.answered(each))
        return found


def test_a_refusal_right_after_a_success_does_not_lower_the_limit() -> None:
    assert Answers()(0, 100, 0, 1, 0, 50, 0) == [400] * 7


def test_the_limit_shrinks_by_the_failed_share_and_grows_with_successes() -> None:
    assert Answers()(10, 10, 50, 100, 0, 0) == [400, 380, 285, 200, 210, 220]


def test_requests_shrink_after_several_consecutive_complete_refusals() -> None:
    assert Answers()(*[100] * 7) == [400, 200, 200, 200, 100, 50, 25]
    assert Answers()(*[100] * 4, 50, *[100] * 3) == [400, 200, 200, 200, 200, 200, 200, 200]


def test_the_limit_stays_at_two_full_requests_while_they_are_partially_accepted() -> None:
    found = Answers()(*[90] * 20)
    assert found[-1] == 200
    assert Answers()(*[100] * 20)[-1] == 1


def half_refused(strategy: CongestionControlRateLimitingStrategy) -> int:
    size = strategy.max_batch_size
    respond(strategy, size, size // 2)
    return strategy.max_in_flight_messages


def test_a_service_that_accepts_a_part_again_gets_up_to_two_full_requests() -> None:
    answers = Answers()
    assert answers(*[100] * 8)[-1] == 12
    assert [half_refused(answers.strategy) for _ in range(6)] == [24, 48, 96, 192, 200, 200]


def test_the_minimum_limit_is_a_hundredth_of_a_request() -> None:
    strategy = Answers(max_in_flight_requests=2, max_batch_size=10_000).strategy
    respond(strategy, 1, 1, times=50)
    assert strategy.max_in_flight_messages == 100


def test_small_retries_have_little_effect_on_the_limit() -> None:
    answers = Answers()
    answers(1, 1)
    before = answers.strategy.max_in_flight_messages
    respond(answers.strategy, 1, 1, times=10)
    assert before - answers.strategy.max_in_flight_messages <= 20


def test_requests_that_are_limited_by_bytes_shrink_too() -> None:
    strategy = Answers(max_in_flight_requests=2, max_batch_size=10_000).strategy
    respond(strategy, 600, 600, times=6)
    assert strategy.max_batch_size == 300


def test_concurrent_requests_count_as_a_single_refusal() -> None:
    answers = Answers(max_in_flight_requests=8)
    answers(100)  # the first refusal
    answers.sent(4)
    assert [answers.answered(100) for _ in range(4)] == [400] * 4
    assert answers(100) == [200]


def test_a_service_that_refuses_a_request_while_another_is_in_flight_keeps_two() -> None:
    answers = Answers()
    answers.sent(1)  # the service is processing this one
    for _ in range(10):
        answers(100)
    assert answers.strategy.max_in_flight_messages == 200


def test_the_first_refusal_pauses_sending_briefly() -> None:
    answers = Answers(pause=timedelta(milliseconds=30))
    answers(100)
    assert answers.strategy.should_block(RequestInfo(1))
    deadline = time.monotonic() + 10
    while answers.strategy.should_block(RequestInfo(1)):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    answers(100)  # the limit shrinks instead
    assert not answers.strategy.should_block(RequestInfo(1))


def test_the_pause_ends_when_no_other_request_is_in_flight() -> None:
    answers = Answers(pause=timedelta(hours=1))
    answers.sent(2)
    answers.answered(50)
    assert answers.strategy.should_block(RequestInfo(1))
    answers.answered(0)
    assert not answers.strategy.should_block(RequestInfo(1))


def test_a_custom_scaling_strategy_can_control_the_limit() -> None:
    class Steps(ScalingStrategy):
        def scale_up(self, current: int) -> int:
            return current + 1

        def scale_down(self, current: int, failed_share: float = 1.0) -> int:
            return current - round(10 * failed_share)

    assert Answers(scaling=Steps())(50, 50, 100, 0) == [400, 395, 385, 386]


def test_entries_in_flight_reach_the_limit_exactly() -> None:
    strategy = CongestionControlRateLimitingStrategy(
        max_in_flight_requests=3, max_batch_size=10, initial_max_in_flight_messages=15
    )
    strategy.register_in_flight_request(RequestInfo(10))
    assert not strategy.should_block(RequestInfo(5))
    assert strategy.should_block(RequestInfo(6))


def test_requests_in_flight_reach_the_limit_exactly() -> None:
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


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="max_batch_size"):
        FixedRateLimitingStrategy(max_in_flight_requests=1, max_batch_size=0)
    with pytest.raises(ConfigurationError, match="rate_threshold"):
        AIMDScalingStrategy(rate_threshold=0)
    for changes in ({"decrease_factor": 1}, {"min_rate": 2}, {"min_rate": 0}):
        with pytest.raises(ConfigurationError) as caught:
            AIMDScalingStrategy(rate_threshold=1, **changes)
        assert caught.value.option == next(iter(changes))
