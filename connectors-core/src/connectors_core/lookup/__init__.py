# SPDX-License-Identifier: Apache-2.0
"""Lookup joins: functions that fetch rows by key, caches, and reloads (Flink's FLIP-221)."""

from connectors_core.lookup.cache import CachedRows, DefaultLookupCache, LookupCache
from connectors_core.lookup.function import (
    AsyncLookupFunction,
    FunctionContext,
    LookupFunction,
)
from connectors_core.lookup.options import (
    FULL_CACHE_OPTIONS,
    LOOKUP_CACHE,
    LOOKUP_OPTIONS,
    LOOKUP_TABLE_OPTIONS,
    PARTIAL_CACHE_OPTIONS,
    REQUEST_OPTIONS,
    LookupCacheType,
    LookupOptions,
    ReloadStrategy,
    lookup_provider,
    reload_trigger,
)
from connectors_core.lookup.provider import (
    AsyncLookupFunctionProvider,
    FullCachingLookupProvider,
    LookupFunctionProvider,
    LookupRequestConfiguration,
    PartialCachingLookupProvider,
)
from connectors_core.lookup.reload import (
    CacheReloadContext,
    CacheReloadTrigger,
    PeriodicCacheReloadTrigger,
    ScheduleMode,
    TimedCacheReloadTrigger,
)

__all__ = [
    "FULL_CACHE_OPTIONS",
    "LOOKUP_CACHE",
    "LOOKUP_OPTIONS",
    "LOOKUP_TABLE_OPTIONS",
    "PARTIAL_CACHE_OPTIONS",
    "REQUEST_OPTIONS",
    "AsyncLookupFunction",
    "AsyncLookupFunctionProvider",
    "CacheReloadContext",
    "CacheReloadTrigger",
    "CachedRows",
    "DefaultLookupCache",
    "FullCachingLookupProvider",
    "FunctionContext",
    "LookupCache",
    "LookupCacheType",
    "LookupFunction",
    "LookupFunctionProvider",
    "LookupOptions",
    "LookupRequestConfiguration",
    "PartialCachingLookupProvider",
    "PeriodicCacheReloadTrigger",
    "ReloadStrategy",
    "ScheduleMode",
    "TimedCacheReloadTrigger",
    "lookup_provider",
    "reload_trigger",
]
