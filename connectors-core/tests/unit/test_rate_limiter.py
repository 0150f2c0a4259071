# SPDX-License-Identifier: Apache-2.0
"""Tests rate limits, plan by plan, with the test's clock."""

import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.errors import ConfigurationError
from connectors_core.source.rate_limiter import RateLimiterStrategy

rates = st.floats(0.01, 1e6)
bursts = st.integers(1, 1_000_000)
# The seconds before a plan, the share of its permits that is read, and its number of reports.
plans = st.lists(
    st.tuples(st.floats(0, 100), st.floats(0, 1), st.integers(1, 4)), min_size=1, max_size=40
)


def read(limiter, now, share, reports=1):
    rows = math.floor(limiter.permits(now) * share)
    for report in range(reports):
        limiter.consumed(rows // reports + (report < rows % reports))
    return rows


def close_to(bound):
    return bound * (1 + 1e-9) + 1e-6


@given(rates, bursts, plans)
def test_over_every_span_of_plans_reads_stay_within_rate_times_time_plus_burst(rate, burst, plans):
    limiter = RateLimiterStrategy.per_second(rate, burst).create()
    now, reads = 0.0, []
    for seconds, share, reports in plans:
        now += seconds
        reads.append((now, read(limiter, now, share, reports)))
    for first in range(len(reads)):
        total = 0
        for at, rows in reads[first:]:
            total += rows
            assert total <= close_to(rate * (at - reads[first][0]) + burst)


@given(rates, bursts, plans)
def test_a_limited_source_never_starves(rate, burst, plans):
    limiter = RateLimiterStrategy.per_second(rate, burst).create()
    now = 0.0
    for seconds, share, _ in plans:
        now += seconds
        read(limiter, now, share)
        wait = limiter.delay(now)
        assert wait <= close_to(1 / rate)
        now += wait * (1 + 1e-9) + 1e-6
        assert limiter.permits(now) >= 1


@given(rates, plans)
def test_a_source_with_enough_rows_reads_the_full_rate(rate, plans):
    limiter = RateLimiterStrategy.per_second(rate, 100_000_000_000).create()
    limiter.consumed(100_000_000_000)
    now, total = 0.0, read(limiter, 0.0, 1.0)
    for seconds, _, _ in plans:
        now += seconds
        total += read(limiter, now, 1.0)
    assert total == pytest.approx(rate * now, rel=1e-3, abs=1.1)


@given(rates, bursts, st.floats(0, 1e9))
def test_an_idle_period_saves_up_no_more_than_the_burst(rate, burst, idle):
    limiter = RateLimiterStrategy.per_second(rate, burst).create()
    limiter.permits(0.0)
    assert limiter.permits(idle) == burst


def test_requesting_permits_without_reading_costs_nothing():
    limiter = RateLimiterStrategy.per_second(10).create()
    assert [limiter.permits(0.0) for _ in range(3)] == [10, 10, 10]


def test_a_restarted_limiter_accounts_for_the_plan_before_the_restart():
    limiter = RateLimiterStrategy.per_second(10, burst=20).create()
    limiter.consumed(50)
    assert limiter.permits(0.0) == 0
    assert limiter.delay(0.0) == pytest.approx(3.1)
    assert limiter.permits(2.9) == 0
    assert limiter.permits(4.0) == 10


def test_a_clock_that_goes_back_grants_no_permits():
    limiter = RateLimiterStrategy.per_second(10).create()
    read(limiter, 100.0, 1.0)
    assert limiter.permits(50.0) == 0
    assert limiter.permits(100.0) == 0
    assert limiter.permits(100.5) == 5


def test_the_default_burst_is_one_second_and_at_least_one_row():
    assert RateLimiterStrategy.per_second(12.5).create().permits(0.0) == 13
    assert RateLimiterStrategy.per_second(0.001).create().permits(0.0) == 1


def test_a_limit_per_checkpoint_is_the_same_for_each_plan():
    limiter = RateLimiterStrategy.per_checkpoint(7).create()
    for now in (0.0, 0.0, 9.0):
        assert limiter.permits(now) == 7
        limiter.consumed(7)
    assert limiter.delay(9.0) == 0


def test_no_limit_grants_unlimited_permits():
    assert RateLimiterStrategy.none().create().permits(0.0) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: RateLimiterStrategy.per_second(0),
        lambda: RateLimiterStrategy.per_second(math.inf),
        lambda: RateLimiterStrategy.per_second(math.nan),
        lambda: RateLimiterStrategy.per_second(5, burst=0),
        lambda: RateLimiterStrategy.per_checkpoint(0),
    ],
)
def test_a_rate_that_would_stop_the_source_forever_is_refused(make):
    with pytest.raises(ConfigurationError):
        make()


def test_a_strategy_compares_by_value_and_can_be_pickled():
    strategy = RateLimiterStrategy.per_second(5)
    assert pickle.loads(pickle.dumps(strategy)) == strategy


@pytest.mark.parametrize(
    "values",
    [
        {"rows_per_second": 5},
        {"burst": 5},
        {"rows_per_second": 5, "burst": 5, "rows_per_checkpoint": 5},
        {"rows_per_second": -5, "burst": 5},
        {"rows_per_checkpoint": 0},
    ],
)
def test_a_rate_limit_whose_values_would_be_ignored_is_refused(values):
    with pytest.raises(ConfigurationError):
        RateLimiterStrategy(**values)
