# SPDX-License-Identifier: Apache-2.0
"""The options of lookups for all tables. Keys are Flink's."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from connectors_core.errors import ConfigurationError, InvalidOptionError
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
    TimedCacheReloadTrigger,
)
from connectors_core.options import Option, Options, OptionSet
from connectors_core.source.source import AnySource
from connectors_core.table.lookup_table_source import LookupRuntimeProvider

T = TypeVar("T")
_TriggerType: TypeAlias = type[PeriodicCacheReloadTrigger] | type[TimedCacheReloadTrigger]


class LookupCacheType(enum.Enum):
    """The part of a lookup table that is cached."""

    NONE = "NONE"
    """Nothing."""
    PARTIAL = "PARTIAL"
    """The rows of requested keys."""
    FULL = "FULL"
    """The whole table."""


class ReloadStrategy(enum.Enum):
    """The schedule on which a fully cached table is reloaded."""

    PERIODIC = "PERIODIC"
    """At an interval."""
    TIMED = "TIMED"
    """At a time of day."""


LOOKUP_CACHE: Final = Option(
    "lookup.cache",
    LookupCacheType,
    default=LookupCacheType.NONE,
    doc="Which part of the table is cached.",
)
"""The option that chooses the cache of a lookup."""
ASYNC: Final = Option(
    "lookup.async",
    bool,
    default=False,
    doc="Whether several batches of keys are requested at once.",
)
RELOAD_STRATEGY: Final = Option(
    "lookup.full-cache.reload-strategy",
    ReloadStrategy,
    default=ReloadStrategy.PERIODIC,
    doc="When to reload the whole table. Without an interval, it is read once per start.",
)
_TRIGGERS: Final[Mapping[ReloadStrategy, _TriggerType]] = {
    ReloadStrategy.PERIODIC: PeriodicCacheReloadTrigger,
    ReloadStrategy.TIMED: TimedCacheReloadTrigger,
}

REQUEST_OPTIONS: Final = (*LookupRequestConfiguration.OPTIONS, ASYNC)
"""For tables that can be queried by key."""
PARTIAL_CACHE_OPTIONS: Final = tuple(DefaultLookupCache.OPTIONS)
"""For tables that can be queried by key."""
FULL_CACHE_OPTIONS: Final = (
    RELOAD_STRATEGY,
    *(
        dataclasses.replace(each, required=False)
        for kind in _TRIGGERS.values()
        for each in kind.OPTIONS
    ),
)
"""Options of tables that can be read as a whole."""
LOOKUP_OPTIONS: Final[tuple[Option[Any], ...]] = (
    LOOKUP_CACHE,
    *REQUEST_OPTIONS,
    *PARTIAL_CACHE_OPTIONS,
    *FULL_CACHE_OPTIONS,
)
"""For tables that support both."""
LOOKUP_TABLE_OPTIONS: Final = OptionSet(
    *LOOKUP_OPTIONS,
    scope="lookup table",
    keywords={
        key: f"{kind.__name__}.{keyword}"
        for kind in (LookupRequestConfiguration, DefaultLookupCache, *_TRIGGERS.values())
        for key, keyword in kind.keywords_by_key().items()
    },
)
"""The same as a set, for the documentation and for tables that add no options."""

_USED_BY: Final[Mapping[LookupCacheType, tuple[Option[Any], ...]]] = {
    LookupCacheType.NONE: REQUEST_OPTIONS,
    LookupCacheType.PARTIAL: (*REQUEST_OPTIONS, *PARTIAL_CACHE_OPTIONS),
    LookupCacheType.FULL: FULL_CACHE_OPTIONS,
}


def lookup_provider(
    options: Options,
    *,
    function: Callable[[], LookupFunction] | None = None,
    async_function: Callable[[], AsyncLookupFunction] | None = None,
    source: Callable[[], AnySource] | None = None,
    requests: LookupRequestConfiguration | None = None,
) -> LookupRuntimeProvider:
    """Return the provider that the options of a table select. Driver.

    Args:
        options: Parsed options. An option of this module that the table does not declare has its
            default.
        function: Creates the table's blocking function.
        async_function: Creates the table's asynchronous function.
        source: Creates the source of the whole table.
        requests: Limits of requests, except for the retries, which are an option.

    Raises:
        ConfigurationError: An option has no effect with the others, or the table does not support
            the selected lookup.
    """
    kind = options[LOOKUP_CACHE]
    _refuse(
        options,
        {*LOOKUP_OPTIONS} - {LOOKUP_CACHE, *_USED_BY[kind]},
        f"{LOOKUP_CACHE.key}={kind.value}",
    )
    if kind is LookupCacheType.FULL:
        made_source = _offered(source, f"{LOOKUP_CACHE.key}=FULL")()
        return FullCachingLookupProvider(made_source, reload_trigger(options))
    max_retries = LookupRequestConfiguration.from_parsed(options).max_retries
    requests = (requests or LookupRequestConfiguration()).replaced(max_retries=max_retries)
    made: LookupFunction | AsyncLookupFunction
    if options[ASYNC]:
        made = _offered(async_function, f"{ASYNC.key}=true")()
    else:
        made = _offered(function, f"{LOOKUP_CACHE.key}={kind.value}, {ASYNC.key}=false")()
    if kind is LookupCacheType.PARTIAL:
        cache = DefaultLookupCache.from_parsed(options)
        return PartialCachingLookupProvider(made, cache, requests)
    if isinstance(made, AsyncLookupFunction):
        return AsyncLookupFunctionProvider(made, requests)
    return LookupFunctionProvider(made, requests)


def reload_trigger(options: Options) -> CacheReloadTrigger | None:
    """Return the reload trigger that the options select; None for a table that is loaded once.

    Args:
        options: Parsed options, with `FULL_CACHE_OPTIONS`.

    Raises:
        ConfigurationError: An option is missing or has no effect with the others.
    """
    strategy = options[RELOAD_STRATEGY]
    for other, kind in _TRIGGERS.items():
        if other is not strategy:
            _refuse(options, kind.OPTIONS, f"{RELOAD_STRATEGY.key}={strategy.value}")
    (interval,) = PeriodicCacheReloadTrigger.reload_interval.options
    if strategy is ReloadStrategy.PERIODIC and not options.is_given(interval):
        _refuse(options, PeriodicCacheReloadTrigger.OPTIONS, f"no {interval.key}")
        return None
    return _TRIGGERS[strategy].from_parsed(options)


def _refuse(options: Options, without_effect: Iterable[Option[Any]], because: str) -> None:
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
