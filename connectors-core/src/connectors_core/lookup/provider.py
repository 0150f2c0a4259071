# SPDX-License-Identifier: Apache-2.0
"""The ways in which a table can look up its rows (Flink's FLIP-221)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.lookup.cache import LookupCache
from connectors_core.lookup.function import AsyncLookupFunction, LookupFunction
from connectors_core.lookup.lookup_table_source import LookupRuntimeProvider
from connectors_core.lookup.reload import CacheReloadTrigger
from connectors_core.options import (
    DURATION,
    Configured,
    Option,
    Setting,
    at_least,
    format_duration,
    option,
    part,
    positive,
)
from connectors_core.source.source import AnySource, Boundedness


def _limit(keyword: str, kind: Any, *, default: Any, doc: str) -> Any:
    """Declare a limit that is no option of tables, because a connector determines it."""
    declared: Option[Any] = Option(keyword, kind, validator=positive, doc=doc)
    return part(accept=declared.accept, default=default, doc=doc)


class LookupRequestConfiguration(Configured, scope="lookup requests", since="1.0.0"):
    """The limits of the requests of a lookup.

    Raises:
        InvalidOptionError: A value is out of range.
    """

    max_retries: Setting[int] = option(
        "lookup.max-retries",
        int,
        unit="retries",
        default=3,
        doc="Maximum retries of a request after a temporary failure.",
        validator=at_least(0),
    )
    timeout: Setting[timedelta, timedelta | str] = _limit(
        "timeout",
        DURATION,
        default=timedelta(minutes=1),
        doc="Timeout of an asynchronous request, which is then retried. A blocking call cannot be "
        "canceled: set a timeout in its client.",
    )
    max_concurrent_requests: Setting[int] = _limit(
        "max_concurrent_requests",
        int,
        default=8,
        doc="Maximum asynchronous requests in flight in a process.",
    )
    initial_backoff: Setting[timedelta, timedelta | str] = _limit(
        "initial_backoff",
        DURATION,
        default=timedelta(milliseconds=100),
        doc="Maximum delay before the first retry; doubles each time.",
    )
    max_backoff: Setting[timedelta, timedelta | str] = _limit(
        "max_backoff",
        DURATION,
        default=timedelta(seconds=10),
        doc="Maximum delay, unless the service asks for more.",
    )

    def __post_init__(self) -> None:
        expected = at_least(self.initial_backoff)(self.max_backoff)
        if expected is not None:
            raise InvalidOptionError(
                "the value of 'max_backoff' cannot be used",
                expected=expected,
                found=format_duration(self.max_backoff),
                option="max_backoff",
            )


@dataclass(frozen=True)
class LookupFunctionProvider(LookupRuntimeProvider):
    """Looks up every batch of keys with the function.

    Attributes:
        function: Fetches the rows.
        requests: Limits of its requests.
    """

    function: LookupFunction
    requests: LookupRequestConfiguration = field(default_factory=LookupRequestConfiguration)


@dataclass(frozen=True)
class AsyncLookupFunctionProvider(LookupRuntimeProvider):
    """Looks up every batch of keys with the function, several batches concurrently.

    Attributes:
        function: Fetches the rows.
        requests: Limits of its requests.
    """

    function: AsyncLookupFunction
    requests: LookupRequestConfiguration = field(default_factory=LookupRequestConfiguration)


@dataclass(frozen=True)
class PartialCachingLookupProvider(LookupRuntimeProvider):
    """Caches lookup results separately in each worker process.

    Attributes:
        function: Fetches the rows of keys that are not in the cache.
        cache: The cache.
        requests: Limits of the function's requests.
    """

    function: LookupFunction | AsyncLookupFunction
    cache: LookupCache
    requests: LookupRequestConfiguration = field(default_factory=LookupRequestConfiguration)


def provider_of(
    function: LookupFunction | AsyncLookupFunction,
    cache: LookupCache | None,
    requests: LookupRequestConfiguration,
) -> LookupRuntimeProvider:
    """Return the provider of a function, with or without a cache."""
    if cache is not None:
        return PartialCachingLookupProvider(function, cache, requests)
    if isinstance(function, AsyncLookupFunction):
        return AsyncLookupFunctionProvider(function, requests)
    return LookupFunctionProvider(function, requests)


@dataclass(frozen=True)
class FullCachingLookupProvider(LookupRuntimeProvider):
    """Loads the whole table before the first join, and reloads it when the trigger fires.

    Attributes:
        source: The source of all rows; its schema has the columns that the join needs.
        reload_trigger: Triggers reloads; None for none.

    Raises:
        ConfigurationError: The source has no end.
    """

    source: AnySource
    reload_trigger: CacheReloadTrigger | None = None

    def __post_init__(self) -> None:
        if self.source.boundedness() is not Boundedness.BOUNDED:
            raise ConfigurationError(
                "a fully cached table must have an end, but its source is unbounded",
                expected="a bounded source",
                found=type(self.source).__name__,
            )
