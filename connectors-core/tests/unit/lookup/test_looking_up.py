# SPDX-License-Identifier: Apache-2.0
"""Tests the part of a lookup join that runs in a task: requests, order, limits, and resources."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lookup_tables import (
    TABLE,
    Asked,
    AskedLater,
    cached,
    expected,
    found,
    retryable,
    rows_of,
    task_of,
)

from connectors_core.engine.execution.lookup_task import close_lookups
from connectors_core.errors import BadRecordError, ConfigurationError, FatalError, RetryableError
from connectors_core.lookup import (
    AsyncLookupFunctionProvider,
    DefaultLookupCache,
    LookupFunctionProvider,
    LookupRequestConfiguration,
)
from connectors_core.metrics import LookupMetric

QUICK = LookupRequestConfiguration(
    initial_backoff=timedelta(milliseconds=1), max_backoff=timedelta(milliseconds=1)
)


@pytest.fixture(autouse=True)
def _nothing_open():
    yield
    close_lookups()


def run(task, *batches):
    """Return the rows and metrics of a task."""
    numbers = []
    rows = [row for batch in task.run(batches, numbers.append) for row in batch.to_pylist()]
    return rows, numbers


@pytest.mark.parametrize("how", ["left", "inner"])
def test_a_batch_of_rows_leads_to_one_request_for_its_distinct_keys(how):
    function = Asked()
    batches = [rows_of([2, None, 1, 2, -1]), rows_of([3], 5), rows_of([], 6), rows_of([None], 6)]
    rows, _ = run(task_of(function, how=how), *batches)
    assert rows == expected(batches, how)
    assert function.asked == [[2, 1, -1], [3]]


def test_a_task_without_rows_opens_no_function():
    function = Asked()
    assert run(task_of(function), rows_of([])) == ([], [])
    assert function.opened == 0


def test_the_next_task_reuses_an_open_function():
    function = Asked()
    for _ in range(3):
        run(task_of(function), rows_of([1]))
    assert (function.opened, function.closed) == (1, 0)
    close_lookups()
    assert function.closed == 1


def test_another_life_opens_the_function_again():
    old, new = Asked(), Asked()
    run(task_of(old, life="1"), rows_of([1]))
    run(task_of(new, life="2"), rows_of([1]))
    assert (old.closed, new.opened) == (1, 1)


def test_the_number_of_open_functions_is_limited():
    functions = [Asked() for _ in range(10)]
    for number, function in enumerate(functions):
        run(task_of(function, uid=str(number)), rows_of([1]))
    assert [function.closed for function in functions] == [1, 1, *[0] * 8]


def test_two_concurrent_tasks_do_not_share_a_function():
    function = Asked()
    first = task_of(function).run([rows_of([1])], lambda numbers: None)
    second = task_of(function).run([rows_of([1])], lambda numbers: None)
    next(first), next(second)
    assert function.opened == 2
    list(first), list(second)
    assert function.closed == 1


def test_a_request_that_fails_with_a_retryable_error_is_retried():
    function = Asked(failures=[retryable(), retryable(retry_after=0.001)])
    rows, [numbers] = run(task_of(LookupFunctionProvider(function, QUICK)), rows_of([1]))
    assert rows == expected([rows_of([1])])
    assert function.asked == [[1]] * 3
    assert numbers.counters[LookupMetric.NUM_LOAD_FAILURE] == 2
    assert numbers.counters[LookupMetric.LOAD_COUNT] == 1


def test_opening_that_fails_with_a_retryable_error_is_retried():
    function = Asked()
    failures = [retryable(), retryable()]

    def opened(context):
        function.opened += 1
        if failures:
            raise failures.pop()

    function.open = opened
    rows, _ = run(task_of(LookupFunctionProvider(function, QUICK)), rows_of([1]))
    assert rows == expected([rows_of([1])])
    assert function.opened == 3


def test_the_number_of_retries_is_limited():
    function = Asked(failures=[retryable() for _ in range(9)])
    task = task_of(LookupFunctionProvider(function, QUICK))
    with pytest.raises(RetryableError, match="not now"):
        run(task, rows_of([1]))
    assert len(function.asked) == 1 + QUICK.max_retries
    assert function.closed == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_a_request_that_fails_permanently_is_not_retried(is_async):
    function = AskedLater() if is_async else Asked()
    function.failures.append(ConfigurationError("no such index"))
    with pytest.raises(ConfigurationError, match="no such index"):
        run(task_of(function), rows_of([1]))
    assert len(function.asked) == 1


def test_the_hint_about_a_bad_record_leads_to_rows_without_its_key():
    function = Asked()
    function.failures.append(BadRecordError("the field 'value': it is not a number"))
    with pytest.raises(BadRecordError) as failed:
        run(task_of(function), rows_of([1, 2]))
    assert "remove the rows with its key" in failed.value.hint
    assert run(task_of(function), rows_of([2]))[0] == expected([rows_of([2])])


@pytest.mark.parametrize("is_async", [False, True])
def test_an_unknown_exception_is_fatal_and_keeps_its_cause(is_async):
    function = AskedLater() if is_async else Asked()
    function.failures.append(KeyError("secret"))
    with pytest.raises(FatalError, match="'table'") as failed:
        run(task_of(function), rows_of([1]))
    assert isinstance(failed.value.__cause__, KeyError)
    assert len(function.asked) == 1


@pytest.mark.parametrize(
    "rows",
    [
        None,
        pa.table({"key": [1]}),
        pa.table({"key": [1], "value": [1]}),
        pa.table({"key": [1], "value": ["a"], "more": [1]}),
    ],
    ids=["nothing", "a column less", "another type", "a column more"],
)
def test_the_result_of_the_function_is_checked(rows):
    function = Asked()
    function.lookup = lambda keys: rows
    with pytest.raises(FatalError, match="columns"):
        run(task_of(function), rows_of([1]))


def test_the_result_may_have_any_column_order_and_nullability():
    function = Asked()
    schema = pa.schema([TABLE.field("value").with_nullable(False), TABLE.field("key")])
    function.lookup = lambda keys: found(keys).select(["value", "key"]).cast(schema)
    rows, _ = run(task_of(function), rows_of([1, 5]))
    assert rows == expected([rows_of([1, 5])])


# --- Concurrent requests -------------------------------------------------------------------------


@given(st.lists(st.lists(st.none() | st.integers(-1, 4), max_size=6), max_size=12), st.randoms())
def test_rows_keep_their_order_regardless_of_the_order_of_responses(keys, random):
    function = AskedLater(lambda number: asyncio.sleep(random.choice([0, 0, 0.002])))
    batches = [rows_of(own, 100 * number) for number, own in enumerate(keys)]
    requests = LookupRequestConfiguration(max_concurrent_requests=3)
    try:
        rows, _ = run(task_of(AsyncLookupFunctionProvider(function, requests)), *batches)
    finally:
        close_lookups()
    assert rows == expected(batches)
    assert function.most_on_their_way <= 3


def test_requests_are_in_flight_while_rows_are_consumed():
    gate = threading.Event()

    async def wait():
        while not gate.is_set():
            await asyncio.sleep(0.001)

    function = AskedLater(lambda number: wait())
    taken = []

    def batches():
        for number in range(6):
            taken.append(number)
            if number == 4:
                deadline = time.monotonic() + 10
                while function.on_their_way < 4:
                    assert time.monotonic() < deadline
                gate.set()
            yield rows_of([number], number)

    requests = LookupRequestConfiguration(max_concurrent_requests=5)
    joined = task_of(AsyncLookupFunctionProvider(function, requests)).run(
        batches(), lambda numbers: None
    )
    next(joined)
    assert function.most_on_their_way >= 4
    assert len(taken) >= 5
    assert len(list(joined)) == 5


def test_requests_that_no_one_awaits_are_cancelled():
    async def wait(number):
        while number or function.on_their_way < 3:
            await asyncio.sleep(0.001)

    function = AskedLater(wait)
    requests = LookupRequestConfiguration(max_concurrent_requests=3)
    joined = task_of(AsyncLookupFunctionProvider(function, requests)).run(
        (rows_of([1], number) for number in range(9)), lambda numbers: None
    )
    next(joined)
    joined.close()
    deadline = time.monotonic() + 10
    while function.on_their_way:
        assert time.monotonic() < deadline
    assert sorted(function.cancelled) == [1, 2]


def test_a_request_that_exceeds_the_timeout_is_cancelled_and_retried():
    async def wait(number):
        await asyncio.sleep(0 if number else 60)

    function = AskedLater(wait)
    requests = LookupRequestConfiguration(
        timeout=timedelta(milliseconds=20), initial_backoff=timedelta(milliseconds=1)
    )
    rows, [numbers] = run(task_of(AsyncLookupFunctionProvider(function, requests)), rows_of([1]))
    assert rows == expected([rows_of([1])])
    assert function.cancelled == [0]
    assert numbers.counters[LookupMetric.NUM_LOAD_FAILURE] == 1


def test_an_error_cancels_the_other_requests_and_closes_the_function():
    async def wait(number):
        if number == 0:
            raise ConfigurationError("no")
        await asyncio.sleep(60)

    function = AskedLater(wait)
    with pytest.raises(ConfigurationError):
        run(task_of(function), *(rows_of([1], number) for number in range(5)))
    assert function.closed.is_set()


# --- With a cache --------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
def test_cached_keys_are_not_requested_again_by_this_task_or_the_next(is_async):
    function = AskedLater() if is_async else Asked()
    task = task_of(cached(function, DefaultLookupCache()))
    batches = [rows_of([1, -1, None]), rows_of([1, 2, -1], 3)]
    first, [numbers] = run(task, *batches[:1])
    again, [more] = run(task, *batches[1:])
    assert first + again == expected(batches)
    assert function.asked == [[1, -1], [2]]
    counters = [LookupMetric.HIT_COUNT, LookupMetric.MISS_COUNT, LookupMetric.LOAD_COUNT]
    assert [numbers.counters[each] for each in counters] == [0, 2, 1]
    assert [more.counters[each] for each in counters] == [2, 1, 1]
    assert more.gauges[LookupMetric.NUM_CACHED_RECORD] == 4  # keys 2, 1, and -1
    assert more.gauges[LookupMetric.NUM_CACHED_BYTES] > 0


def test_a_failed_request_is_not_cached():
    function = Asked(failures=[ConfigurationError("no")])
    task = task_of(cached(function, DefaultLookupCache()))
    with pytest.raises(ConfigurationError):
        run(task, rows_of([1]))
    assert run(task, rows_of([1]))[0] == expected([rows_of([1])])


def test_a_cache_is_closed_with_its_function():
    cache = DefaultLookupCache()
    function = Asked()
    run(task_of(cached(function, cache)), rows_of([1]))
    assert cache.size() == 1
    close_lookups()
    assert cache.size() == 0


def test_a_task_can_be_pickled():
    task = task_of(cached(Asked(), DefaultLookupCache(max_rows=7)))
    arrived = pickle.loads(pickle.dumps(task))
    assert run(arrived, rows_of([1, 2]))[0] == expected([rows_of([1, 2])])
    assert arrived.provider.cache.max_rows == 7
