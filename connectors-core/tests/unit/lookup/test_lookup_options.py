# SPDX-License-Identifier: Apache-2.0
"""Tests lookup options: the resulting provider, and options without effect."""

from __future__ import annotations

from datetime import time, timedelta

import pyarrow as pa
import pytest

from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.lookup import (
    LOOKUP_OPTIONS,
    AsyncLookupFunction,
    AsyncLookupFunctionProvider,
    DefaultLookupCache,
    FullCachingLookupProvider,
    LookupCacheType,
    LookupFunction,
    LookupFunctionProvider,
    LookupOptions,
    LookupRequestConfiguration,
    PartialCachingLookupProvider,
    PeriodicCacheReloadTrigger,
    ScheduleMode,
    TimedCacheReloadTrigger,
    lookup_provider,
)
from connectors_core.options import OptionSet
from connectors_core.source import DataGeneratorSource, NumberSequenceSource

OPTIONS = OptionSet(*LOOKUP_OPTIONS, scope="table")


class Function(LookupFunction):
    def lookup(self, keys):
        return pa.table({})


class AsyncFunction(AsyncLookupFunction):
    async def async_lookup(self, keys):
        return pa.table({})


ALL = {
    "function": Function,
    "async_function": AsyncFunction,
    "source": lambda: NumberSequenceSource(0, 9),
}


def provider(offered=ALL, **given):
    return lookup_provider(
        OPTIONS.parse({key.replace("__", ".").replace("_", "-"): v for key, v in given.items()}),
        **offered,
    )


def test_nothing_is_cached_by_default():
    made = provider()
    assert isinstance(made, LookupFunctionProvider)
    assert made.requests == LookupRequestConfiguration(max_retries=3)


def test_an_asynchronous_function_is_used_on_request():
    made = provider(lookup__async="true", lookup__max_retries="7")
    assert isinstance(made, AsyncLookupFunctionProvider)
    assert made.requests.max_retries == 7


@pytest.mark.parametrize("is_async", [False, True])
def test_a_partial_cache_takes_its_limits_from_options(is_async):
    made = provider(
        lookup__cache="partial",
        lookup__async=str(is_async),
        lookup__partial_cache__max_rows="5",
        lookup__partial_cache__expire_after_write="1 min",
        lookup__partial_cache__expire_after_access="2 s",
        lookup__partial_cache__cache_missing_key="false",
    )
    assert isinstance(made, PartialCachingLookupProvider)
    assert isinstance(made.function, AsyncFunction if is_async else Function)
    assert made.cache.max_rows == 5
    assert made.cache.expire_after_write == timedelta(minutes=1)
    assert made.cache.expire_after_access == timedelta(seconds=2)
    assert not made.cache.cache_missing_keys


def test_a_full_cache_without_reload_options_is_read_once():
    made = provider(lookup__cache="FULL")
    assert isinstance(made, FullCachingLookupProvider)
    assert made.reload_trigger is None


def test_a_full_cache_can_be_reloaded_at_an_interval():
    made = provider(
        lookup__cache="FULL",
        lookup__full_cache__periodic_reload__interval="10 min",
        lookup__full_cache__periodic_reload__schedule_mode="FIXED_RATE",
    )
    assert isinstance(made.reload_trigger, PeriodicCacheReloadTrigger)
    assert made.reload_trigger.reload_interval == timedelta(minutes=10)
    assert made.reload_trigger.schedule_mode is ScheduleMode.FIXED_RATE


def test_a_full_cache_can_be_reloaded_at_a_time_of_day():
    made = provider(
        lookup__cache="FULL",
        lookup__full_cache__reload_strategy="TIMED",
        lookup__full_cache__timed_reload__iso_time="03:30Z",
        lookup__full_cache__timed_reload__interval_in_days="2",
    )
    assert isinstance(made.reload_trigger, TimedCacheReloadTrigger)
    assert made.reload_trigger.reload_time.replace(tzinfo=None) == time(3, 30)
    assert made.reload_trigger.reload_interval_in_days == 2


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"lookup__partial_cache__max_rows": 5}, "lookup.partial-cache.max-rows"),
        ({"lookup__cache": "FULL", "lookup__async": True}, "lookup.async"),
        (
            {"lookup__cache": "FULL", "lookup__full_cache__timed_reload__iso_time": "03:30"},
            "lookup.full-cache.timed-reload.iso-time",
        ),
        (
            {
                "lookup__cache": "FULL",
                "lookup__full_cache__periodic_reload__schedule_mode": "FIXED_RATE",
            },
            "lookup.full-cache.periodic-reload.schedule-mode",
        ),
        (
            {"lookup__cache": "FULL", "lookup__full_cache__reload_strategy": "TIMED"},
            "lookup.full-cache.timed-reload.iso-time",
        ),
    ],
    ids=str,
)
def test_an_option_that_is_missing_or_without_effect_is_named(given, option):
    with pytest.raises(ConfigurationError) as refused:
        provider(**given)
    assert refused.value.option == option


@pytest.mark.parametrize(
    ("missing", "given"),
    [
        ("function", {}),
        ("async_function", {"lookup__async": True}),
        ("source", {"lookup__cache": "FULL"}),
    ],
)
def test_a_kind_of_lookup_that_a_table_does_not_support_is_refused(missing, given):
    offered = {key: value for key, value in ALL.items() if key != missing}
    with pytest.raises(ConfigurationError, match="does not support this kind"):
        provider(offered, **given)


def test_a_full_cache_needs_a_bounded_source():
    with pytest.raises(ConfigurationError, match="bounded"):
        FullCachingLookupProvider(DataGeneratorSource(lambda numbers: numbers, None, pa.schema([])))


@pytest.mark.parametrize(
    ("keywords", "keys"),
    [
        ({}, {}),
        (
            {"asynchronous": True, "requests": LookupRequestConfiguration(max_retries=7)},
            {"lookup.async": "true", "lookup.max-retries": "7"},
        ),
        ({"cache": "partial"}, {"lookup.cache": "PARTIAL"}),
        (
            {"cache": DefaultLookupCache(max_rows=5, expire_after_write="1 min")},
            {
                "lookup.cache": "partial",
                "lookup.partial-cache.max-rows": "5",
                "lookup.partial-cache.expire-after-write": "1 min",
            },
        ),
        ({"cache": LookupCacheType.FULL}, {"lookup.cache": "FULL"}),
        (
            {"cache": "full", "reload_trigger": PeriodicCacheReloadTrigger("10 min")},
            {"lookup.cache": "full", "lookup.full-cache.periodic-reload.interval": "10 min"},
        ),
    ],
    ids=str,
)
def test_keywords_and_keys_select_the_same_lookup(keywords, keys):
    by_keyword, by_key = LookupOptions(**keywords), LookupOptions.from_options(keys)
    for name in ("cache", "requests", "asynchronous"):
        assert getattr(by_keyword, name) == getattr(by_key, name)
    assert type(by_keyword.reload_trigger) is type(by_key.reload_trigger)
    found = [type(made.lookup_provider(**ALL)) for made in (by_keyword, by_key)]
    assert found[0] is found[1]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"cache": "full", "asynchronous": True}, "asynchronous"),
        (
            {"cache": "partial", "reload_trigger": PeriodicCacheReloadTrigger("1 s")},
            "reload_trigger",
        ),
        ({"reload_trigger": PeriodicCacheReloadTrigger("1 s")}, "reload_trigger"),
        ({"cache": "some"}, "cache"),
    ],
    ids=str,
)
def test_an_error_names_the_keyword_of_a_lookup(given, named):
    with pytest.raises(InvalidOptionError) as refused:
        LookupOptions(**given)
    assert refused.value.keyword == named


def test_a_custom_cache_is_used_as_it_is():
    cache = DefaultLookupCache()
    made = LookupOptions(cache=cache, asynchronous=True).lookup_provider(**ALL)
    assert made.cache is cache
    assert isinstance(made.function, AsyncFunction)


def test_every_option_has_a_name_in_python():
    assert LookupOptions.OPTIONS.keywords == {
        "lookup.cache": "cache",
        "lookup.partial-cache.max-rows": "cache.max_rows",
        "lookup.partial-cache.expire-after-write": "cache.expire_after_write",
        "lookup.partial-cache.expire-after-access": "cache.expire_after_access",
        "lookup.partial-cache.cache-missing-key": "cache.cache_missing_keys",
        "lookup.max-retries": "requests.max_retries",
        "lookup.async": "asynchronous",
        "lookup.full-cache.reload-strategy": "reload_trigger",
        "lookup.full-cache.periodic-reload.interval": "reload_trigger.reload_interval",
        "lookup.full-cache.periodic-reload.schedule-mode": "reload_trigger.schedule_mode",
        "lookup.full-cache.timed-reload.iso-time": "reload_trigger.reload_time",
        "lookup.full-cache.timed-reload.interval-in-days": (
            "reload_trigger.reload_interval_in_days"
        ),
    }


def test_limits_of_requests_are_durations_or_their_texts():
    made = LookupRequestConfiguration(timeout="5 s", initial_backoff="10 ms", max_backoff="1 min")
    assert made.timeout == timedelta(seconds=5)
    assert (made.initial_backoff, made.max_backoff) == (
        timedelta(milliseconds=10),
        timedelta(minutes=1),
    )


@pytest.mark.parametrize(
    "bound",
    [
        {"max_retries": -1},
        {"timeout": timedelta(0)},
        {"max_concurrent_requests": 0},
        {"max_backoff": timedelta(milliseconds=1)},
    ],
)
def test_request_limits_are_validated(bound):
    with pytest.raises(ConfigurationError) as refused:
        LookupRequestConfiguration(**bound)
    assert (refused.value.keyword or refused.value.option) in bound
