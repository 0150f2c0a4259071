# SPDX-License-Identifier: Apache-2.0
"""The options of lookups, declared once for all tables. Keys are Flink's."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final, TypeVar

from connectors_core.errors import ConfigurationError, InvalidOptionError, MissingOptionError
from connectors_core.lookup.cache import DefaultLookupCache
from connectors_core.lookup.function import AsyncLookupFunction, LookupFunction
from connectors_core.lookup.provider import (
    AsyncLookupFunctionProvider,
    FullCachingLookupProvider,
    LookupFunctionProvider,
    LookupRequestConfiguration,
    PartialCachingLookupProvider,
)
from connectors_core.lookup.reload import (
    CacheReloadTrigger,
    PeriodicCacheReloadTrigger,
    ScheduleMode,
    TimedCacheReloadTrigger,
)
from connectors_core.options import Option, Options, OptionSet, at_least, positive
from connectors_core.source.source import AnySource
from connectors_core.table.lookup_table_source import LookupRuntimeProvider

T = TypeVar("T")


class LookupCacheType(enum.Enum):
    """What is kept of a table that is looked up."""

    NONE = "NONE"
    """Nothing."""
    PARTIAL = "PARTIAL"
    """What was asked for."""
    FULL = "FULL"
    """The whole table."""


class ReloadStrategy(enum.Enum):
    """When a table that is cached as a whole is read again."""

    PERIODIC = "PERIODIC"
    """After an interval."""
    TIMED = "TIMED"
    """At a time of day."""


LOOKUP_CACHE: Final = Option(
    "lookup.cache",
    LookupCacheType,
    default=LookupCacheType.NONE,
    doc="Which part of the table is cached.",
)
"""The option that chooses the cache of a lookup."""
MAX_RETRIES: Final = Option(
    "lookup.max-retries",
    int,
    default=3,
    doc="Maximum retries of a request after a temporary failure.",
    validator=at_least(0),
)
ASYNC: Final = Option(
    "lookup.async",
    bool,
    default=False,
    doc="Whether several batches of keys are requested at once.",
)
PARTIAL_MAX_ROWS: Final = Option(
    "lookup.partial-cache.max-rows",
    int,
    default=10_000,
    doc="Maximum rows in a partial cache, per worker process.",
    validator=positive,
)
PARTIAL_EXPIRE_AFTER_WRITE: Final = Option(
    "lookup.partial-cache.expire-after-write",
    timedelta,
    doc="Time after which a key expires, from when it was fetched.",
    validator=positive,
)
PARTIAL_EXPIRE_AFTER_ACCESS: Final = Option(
    "lookup.partial-cache.expire-after-access",
    timedelta,
    doc="Time after which a key expires, from its last access.",
    validator=positive,
)
PARTIAL_CACHE_MISSING_KEY: Final = Option(
    "lookup.partial-cache.cache-missing-key",
    bool,
    default=True,
    doc="Whether to cache that a key has no rows.",
)
RELOAD_STRATEGY: Final = Option(
    "lookup.full-cache.reload-strategy",
    ReloadStrategy,
    default=ReloadStrategy.PERIODIC,
    doc="When to reload the whole table.",
)
RELOAD_INTERVAL: Final = Option(
    "lookup.full-cache.periodic-reload.interval",
    timedelta,
    doc="Interval between reloads; without it, the table is read once per start.",
    validator=positive,
)
RELOAD_SCHEDULE_MODE: Final = Option(
    "lookup.full-cache.periodic-reload.schedule-mode",
    ScheduleMode,
    default=ScheduleMode.FIXED_DELAY,
    doc="Whether the interval starts at the end of a reload or at its scheduled time.",
)
RELOAD_ISO_TIME: Final = Option(
    "lookup.full-cache.timed-reload.iso-time",
    str,
    doc="Time of day of a reload, such as 03:30 (the driver's zone), 03:30Z or 03:30+02:00.",
)
RELOAD_INTERVAL_IN_DAYS: Final = Option(
    "lookup.full-cache.timed-reload.interval-in-days",
    int,
    default=1,
    doc="Days between reloads.",
    validator=at_least(1),
)

REQUEST_OPTIONS: Final = (MAX_RETRIES, ASYNC)
"""For tables that can be asked by key."""
PARTIAL_CACHE_OPTIONS: Final = (
    PARTIAL_MAX_ROWS,
    PARTIAL_EXPIRE_AFTER_WRITE,
    PARTIAL_EXPIRE_AFTER_ACCESS,
    PARTIAL_CACHE_MISSING_KEY,
)
"""For tables that can be asked by key."""
FULL_CACHE_OPTIONS: Final = (
    RELOAD_STRATEGY,
    RELOAD_INTERVAL,
    RELOAD_SCHEDULE_MODE,
    RELOAD_ISO_TIME,
    RELOAD_INTERVAL_IN_DAYS,
)
"""For tables that can be read as a whole."""
LOOKUP_OPTIONS: Final[tuple[Option[Any], ...]] = (
    LOOKUP_CACHE,
    *REQUEST_OPTIONS,
    *PARTIAL_CACHE_OPTIONS,
    *FULL_CACHE_OPTIONS,
)
"""For tables that can be both."""
LOOKUP_TABLE_OPTIONS: Final = OptionSet(*LOOKUP_OPTIONS, scope="lookup table")
"""The same as a set, for documents and for tables without options of their own."""

_USED_BY: Final[Mapping[LookupCacheType, set[Option[Any]]]] = {
    LookupCacheType.NONE: {*REQUEST_OPTIONS},
    LookupCacheType.PARTIAL: {*REQUEST_OPTIONS, *PARTIAL_CACHE_OPTIONS},
    LookupCacheType.FULL: {*FULL_CACHE_OPTIONS},
}
_OF_STRATEGY: Final[Mapping[ReloadStrategy, set[Option[Any]]]] = {
    ReloadStrategy.PERIODIC: {RELOAD_INTERVAL, RELOAD_SCHEDULE_MODE},
    ReloadStrategy.TIMED: {RELOAD_ISO_TIME, RELOAD_INTERVAL_IN_DAYS},
}


def lookup_provider(
    options: Options,
    *,
    function: Callable[[], LookupFunction] | None = None,
    async_function: Callable[[], AsyncLookupFunction] | None = None,
    source: Callable[[], AnySource] | None = None,
    requests: LookupRequestConfiguration | None = None,
) -> LookupRuntimeProvider:
    """The provider that the options of a table ask for. Driver.

    Args:
        options: Parsed; of those of this module, what the table does not declare has its default.
        function: Makes the table's function that blocks.
        async_function: Makes the table's function that does not.
        source: Makes the source of the whole table.
        requests: Bounds of requests, but for the repetitions, which are an option.

    Raises:
        ConfigurationError: An option is given that has no effect with the others, or the table
            cannot do what is asked.
    """
    kind = options[LOOKUP_CACHE]
    _refuse(
        options,
        {*LOOKUP_OPTIONS} - _USED_BY[kind] - {LOOKUP_CACHE},
        f"{LOOKUP_CACHE.key}={kind.value}",
    )
    if kind is LookupCacheType.FULL:
        made_source = _offered(source, f"{LOOKUP_CACHE.key}=FULL")()
        return FullCachingLookupProvider(made_source, reload_trigger(options))
    requests = dataclasses.replace(
        requests or LookupRequestConfiguration(), max_retries=options[MAX_RETRIES]
    )
    made: LookupFunction | AsyncLookupFunction
    if options[ASYNC]:
        made = _offered(async_function, f"{ASYNC.key}=true")()
    else:
        made = _offered(function, f"{LOOKUP_CACHE.key}={kind.value}, {ASYNC.key}=false")()
    if kind is LookupCacheType.PARTIAL:
        cache = DefaultLookupCache(
            max_rows=options[PARTIAL_MAX_ROWS],
            expire_after_write=options.get(PARTIAL_EXPIRE_AFTER_WRITE),
            expire_after_access=options.get(PARTIAL_EXPIRE_AFTER_ACCESS),
            cache_missing_keys=options[PARTIAL_CACHE_MISSING_KEY],
        )
        return PartialCachingLookupProvider(made, cache, requests)
    if isinstance(made, AsyncLookupFunction):
        return AsyncLookupFunctionProvider(made, requests)
    return LookupFunctionProvider(made, requests)


def reload_trigger(options: Options) -> CacheReloadTrigger | None:
    """The trigger that the options of a table ask for; None for a table that is read once.

    Args:
        options: Parsed, with `FULL_CACHE_OPTIONS`.

    Raises:
        ConfigurationError: An option is given that has no effect with the others, or is missing.
    """
    strategy = options[RELOAD_STRATEGY]
    for other, own in _OF_STRATEGY.items():
        if other is not strategy:
            _refuse(options, own, f"{RELOAD_STRATEGY.key}={strategy.value}")
    if strategy is ReloadStrategy.TIMED:
        text = options.get(RELOAD_ISO_TIME)
        if text is None:
            raise MissingOptionError(RELOAD_ISO_TIME.key, doc=RELOAD_ISO_TIME.doc)
        return TimedCacheReloadTrigger(text, options[RELOAD_INTERVAL_IN_DAYS])
    interval = options.get(RELOAD_INTERVAL)
    if interval is None:
        _refuse(options, {RELOAD_SCHEDULE_MODE}, f"no {RELOAD_INTERVAL.key}")
        return None
    return PeriodicCacheReloadTrigger(interval, options[RELOAD_SCHEDULE_MODE])


def _refuse(options: Options, without_effect: set[Option[Any]], because: str) -> None:
    for option in sorted(without_effect, key=lambda each: each.key):
        if options.is_given(option):
            raise InvalidOptionError(
                f"{option.key!r} has no effect here",
                found=because,
                option=option.key,
                hint="remove it, or change the other option",
            )


def _offered(made: Callable[[], T] | None, asked: str) -> Callable[[], T]:
    if made is None:
        raise ConfigurationError("the table does not support this kind of lookup", found=asked)
    return made
