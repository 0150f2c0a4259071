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
def test_the_bound_stays_between_one_entry_and_all_that_requests_can_hold(
    results: list[tuple[int, int]], requests: int, size: int
) -> None:
    strategy = CongestionControlRateLimitingStrategy(
        max_in_flight_requests=requests, max_batch_size=size, pause=NO_PAUSE
    )
    for wanted, failed in results:
        batch = min(wanted, strategy.max_batch_size)
        assert not strategy.should_block(RequestInfo(batch))  # nothing is on its way
        strategy.register_in_flight_request(RequestInfo(batch))
        strategy.register_completed_request(ResultInfo(min(failed, batch), batch))
        assert 1 <= strategy.max_batch_size <= size
        assert strategy.max_in_flight_messages <= requests * size


class Answers:
    """What a strategy makes of answers to requests of a hundred entries."""

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
        """The bounds behind answers to requests that are sent one after the other."""
        found = []
        for each in failed:
            self.sent(1)
            found.append(self.answered(each))
        return found


def test_a_refusal_after_a_success_shrinks_nothing() -> None:
    assert Answers()(0, 100, 0, 1, 0, 50, 0) == [400] * 7


def test_the_bound_shrinks_by_the_part_that_failed_and_grows_with_successes() -> None:
    assert Answers()(10, 10, 50, 100, 0, 0) == [400, 380, 285, 200, 210, 220]


def test_requests_become_smaller_when_several_in_a_row_are_refused_as_a_whole() -> None:
    assert Answers()(*[100] * 7) == [400, 200, 200, 200, 100, 50, 25]
    assert Answers()(*[100] * 4, 50, *[100] * 3) == [400, 200, 200, 200, 200, 200, 200, 200]


def test_two_whole_requests_stay_while_a_part_of_them_is_taken() -> None:
    found = Answers()(*[90] * 20)
    assert found[-1] == 200
    assert Answers()(*[100] * 20)[-1] == 1


def half_refused(strategy: CongestionControlRateLimitingStrategy) -> int:
    size = strategy.max_batch_size
    strategy.register_in_flight_request(RequestInfo(size))
    strategy.register_completed_request(ResultInfo(size // 2, size))
    return strategy.max_in_flight_messages


def test_a_service_that_takes_a_part_again_gets_more_up_to_two_whole_requests() -> None:
    answers = Answers()
    assert answers(*[100] * 8)[-1] == 12
    assert [half_refused(answers.strategy) for _ in range(6)] == [24, 48, 96, 192, 200, 200]


def test_the_floor_is_a_hundredth_of_a_request() -> None:
    strategy = CongestionControlRateLimitingStrategy(
        max_in_flight_requests=2, max_batch_size=10_000, pause=NO_PAUSE
    )
    for _ in range(50):
        strategy.register_in_flight_request(RequestInfo(1))
        strategy.register_completed_request(ResultInfo(1, 1))
    assert strategy.max_in_flight_messages == 100


def test_what_is_sent_again_by_itself_counts_for_little() -> None:
    answers = Answers()
    answers(1, 1)
    before = answers.strategy.max_in_flight_messages
    for _ in range(10):
        answers.strategy.register_in_flight_request(RequestInfo(1))
        answers.strategy.register_completed_request(ResultInfo(1, 1))
    assert before - answers.strategy.max_in_flight_messages <= 20


def test_requests_that_are_bounded_by_their_bytes_become_smaller_too() -> None:
    strategy = CongestionControlRateLimitingStrategy(
        max_in_flight_requests=2, max_batch_size=10_000, pause=NO_PAUSE
    )
    for _ in range(6):
        strategy.register_in_flight_request(RequestInfo(600))
        strategy.register_completed_request(ResultInfo(600, 600))
    assert strategy.max_batch_size == 300


def test_requests_that_were_on_their_way_together_count_once() -> None:
    answers = Answers(max_in_flight_requests=8)
    answers(100)  # the first refusal
    answers.sent(4)
    assert [answers.answered(100) for _ in range(4)] == [400] * 4
    assert answers(100) == [200]


def test_a_service_that_refuses_a_request_beside_another_one_keeps_two() -> None:
    answers = Answers()
    answers.sent(1)  # it is at work on this one
    for _ in range(10):
        answers(100)
    assert answers.strategy.max_in_flight_messages == 200


def test_nothing_is_sent_for_a_moment_when_something_is_refused_for_the_first_time() -> None:
    answers = Answers(pause=timedelta(milliseconds=30))
    answers(100)
    assert answers.strategy.should_block(RequestInfo(1))
    deadline = time.monotonic() + 10
    while answers.strategy.should_block(RequestInfo(1)):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    answers(100)  # the bound shrinks instead
    assert not answers.strategy.should_block(RequestInfo(1))


def test_a_service_that_takes_a_part_gets_more_when_it_has_nothing_else() -> None:
    answers = Answers(pause=timedelta(hours=1))
    answers.sent(2)
    answers.answered(50)
    assert answers.strategy.should_block(RequestInfo(1))
    answers.answered(0)
    assert not answers.strategy.should_block(RequestInfo(1))


def test_how_the_bound_moves_can_be_ones_own() -> None:
    class Steps(ScalingStrategy):
        def scale_up(self, current: int) -> int:
            return current + 1

        def scale_down(self, current: int, failed_share: float = 1.0) -> int:
            return current - round(10 * failed_share)

    assert Answers(scaling=Steps())(50, 50, 100, 0) == [400, 395, 385, 386]


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
    for changes in ({"decrease_factor": 1}, {"min_rate": 2}, {"min_rate": 0}):
        with pytest.raises(ConfigurationError) as caught:
            AIMDScalingStrategy(rate_threshold=1, **changes)
        assert caught.value.option == next(iter(changes))
