# SPDX-License-Identifier: Apache-2.0
"""The options of lookups for all tables. Keys are Flink's."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.lookup.cache import DefaultLookupCache, LookupCache
from connectors_core.lookup.function import AsyncLookupFunction, LookupFunction
from connectors_core.lookup.lookup_table_source import LookupRuntimeProvider
from connectors_core.lookup.provider import (
    FullCachingLookupProvider,
    LookupRequestConfiguration,
    provider_of,
)
from connectors_core.lookup.reload import (
    CacheReloadTrigger,
    PeriodicCacheReloadTrigger,
    TimedCacheReloadTrigger,
)
from connectors_core.lookup.vector_search import (
    AsyncVectorSearchFunction,
    VectorSearchFunction,
    VectorSearchRuntimeProvider,
)
from connectors_core.options import Configured, Option, Options, Setting, option_like, part
from connectors_core.source.source import AnySource

T = TypeVar("T")
U = TypeVar("U")
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


_SINCE: Final = "1.0.0"
LOOKUP_CACHE: Final = Option(
    "lookup.cache",
    LookupCacheType,
    default=LookupCacheType.NONE,
    doc="Which part of the table is cached.",
    since=_SINCE,
)
"""The option that chooses the cache of a lookup."""
ASYNC: Final = Option(
    "lookup.async",
    bool,
    default=False,
    doc="Whether several batches of keys are requested at once.",
    since=_SINCE,
)
RELOAD_STRATEGY: Final = Option(
    "lookup.full-cache.reload-strategy",
    ReloadStrategy,
    default=ReloadStrategy.PERIODIC,
    doc="When to reload the whole table. Without an interval, it is read once per start.",
    since=_SINCE,
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
        option_like(each, required=False, since=each.since)
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

_USED_BY: Final[Mapping[LookupCacheType, tuple[Option[Any], ...]]] = {
    LookupCacheType.NONE: REQUEST_OPTIONS,
    LookupCacheType.PARTIAL: (*REQUEST_OPTIONS, *PARTIAL_CACHE_OPTIONS),
    LookupCacheType.FULL: FULL_CACHE_OPTIONS,
}


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


def _cache(options: Options) -> LookupCache | LookupCacheType:
    kind = options[LOOKUP_CACHE]
    without_effect = {*LOOKUP_OPTIONS} - {LOOKUP_CACHE, *_USED_BY[kind]}
    _refuse(options, without_effect, f"{LOOKUP_CACHE.key}={kind.value}")
    return DefaultLookupCache.from_parsed(options) if kind is LookupCacheType.PARTIAL else kind


def _accepted_cache(value: Any) -> LookupCache | LookupCacheType:
    if isinstance(value, LookupCache):
        return value
    kind = LOOKUP_CACHE.accept(value)
    return DefaultLookupCache() if kind is LookupCacheType.PARTIAL else kind


class LookupOptions(Configured, scope="lookup table", since=_SINCE):
    """The settings that every lookup table has. A table inherits them.

    Raises:
        InvalidOptionError: A value is invalid, or has no effect with the others.
    """

    cache: Setting[
        LookupCache | LookupCacheType,
        LookupCache | LookupCacheType | Literal["none", "partial", "full"],
    ] = part(
        DefaultLookupCache,
        LOOKUP_CACHE,
        *PARTIAL_CACHE_OPTIONS,
        build=_cache,
        accept=_accepted_cache,
        default=LookupCacheType.NONE,
        doc="Which part of the table is cached, or a cache of rows by key, such as "
        "`DefaultLookupCache(max_rows=1000)`.",
    )
    requests: Setting[LookupRequestConfiguration, LookupRequestConfiguration | None] = part(
        LookupRequestConfiguration,
        default=LookupRequestConfiguration,
        doc="Limits of requests by key.",
    )
    asynchronous: Setting[bool] = option_like(ASYNC, since=_SINCE)
    reload_trigger: Setting[CacheReloadTrigger | None] = part(
        CacheReloadTrigger,
        *FULL_CACHE_OPTIONS,
        build=reload_trigger,
        default=None,
        doc="When to reload a fully cached table. By default, it is read once per start.",
    )

    def __post_init__(self) -> None:
        is_full = self.cache is LookupCacheType.FULL
        for option, given in (
            (ASYNC, is_full and self.asynchronous),
            (RELOAD_STRATEGY, not is_full and self.reload_trigger is not None),
        ):
            if given:
                raise _without_effect(option, f"{LOOKUP_CACHE.key}={self._cache_type().value}")

    def lookup_provider(
        self,
        *,
        function: Callable[[], LookupFunction] | None = None,
        async_function: Callable[[], AsyncLookupFunction] | None = None,
        source: Callable[[], AnySource] | None = None,
    ) -> LookupRuntimeProvider:
        """Return the provider that the settings select. Driver.

        Args:
            function: Creates the table's blocking function.
            async_function: Creates the table's asynchronous function.
            source: Creates the source of the whole table.

        Raises:
            ConfigurationError: The table does not support the selected lookup.
        """
        kind = self._cache_type().value
        if self.cache is LookupCacheType.FULL:
            made_source = _offered(source, f"{LOOKUP_CACHE.key}={kind}")()
            return FullCachingLookupProvider(made_source, self.reload_trigger)
        made = self._function(function, async_function)()
        return provider_of(made, self._partial_cache, self.requests)

    def vector_search_provider(
        self,
        *,
        function: Callable[[], VectorSearchFunction] | None = None,
        async_function: Callable[[], AsyncVectorSearchFunction] | None = None,
        dimensions: int | None = None,
    ) -> VectorSearchRuntimeProvider:
        """Return the provider of a vector search that the settings select. Driver.

        Args:
            function: Creates the table's blocking function.
            async_function: Creates the table's asynchronous function.
            dimensions: The number of elements of each vector, or None if it is unknown.

        Raises:
            ConfigurationError: The table does not support the selected search.
        """
        if self.cache is LookupCacheType.FULL:
            raise InvalidOptionError(
                "a vector search cannot use a fully cached table",
                expected="none or partial",
                found=self._cache_type().value,
                option=LOOKUP_CACHE.key,
                hint="use another table for the search, without the cache",
            )
        return VectorSearchRuntimeProvider(
            self._function(function, async_function)(),
            dimensions=dimensions,
            cache=self._partial_cache,
            requests=self.requests,
        )

    def _function(
        self, function: Callable[[], T] | None, async_function: Callable[[], U] | None
    ) -> Callable[[], T | U]:
        """Return a factory of the function that the settings select."""
        if self.asynchronous:
            return _offered(async_function, f"{ASYNC.key}=true")
        kind = self._cache_type().value
        return _offered(function, f"{LOOKUP_CACHE.key}={kind}, {ASYNC.key}=false")

    @property
    def _partial_cache(self) -> LookupCache | None:
        return self.cache if isinstance(self.cache, LookupCache) else None

    def _cache_type(self) -> LookupCacheType:
        is_own = isinstance(self.cache, LookupCache)
        return LookupCacheType.PARTIAL if is_own else cast(LookupCacheType, self.cache)


LOOKUP_TABLE_OPTIONS: Final = LookupOptions.OPTIONS
"""The same as a set, for the documentation and for tables that add no options."""


def lookup_provider(
    options: Options,
    *,
    function: Callable[[], LookupFunction] | None = None,
    async_function: Callable[[], AsyncLookupFunction] | None = None,
    source: Callable[[], AnySource] | None = None,
    requests: LookupRequestConfiguration | None = None,
) -> LookupRuntimeProvider:
    """Return the provider that the options of a table select. Driver.

    A `Configured` table inherits `LookupOptions` instead.

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
    settings = LookupOptions.from_parsed(options)
    if requests is not None:
        max_retries = settings.requests.max_retries
        settings = settings.replaced(requests=requests.replaced(max_retries=max_retries))
    return settings.lookup_provider(function=function, async_function=async_function, source=source)


def _refuse(options: Options, without_effect: Iterable[Option[Any]], because: str) -> None:
    for option in sorted(without_effect, key=lambda each: each.key):
        if options.is_given(option):
            raise _without_effect(option, because)


def _without_effect(option: Option[Any], because: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"{option.key!r} has no effect here",
        found=because,
        option=option.key,
        hint="remove it, or change the other option",
    )


def _offered(made: Callable[[], T] | None, asked: str) -> Callable[[], T]:
    if made is None:
        raise ConfigurationError("the table does not support this kind of lookup", found=asked)
    return made
