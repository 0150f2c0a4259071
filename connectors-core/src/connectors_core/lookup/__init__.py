# SPDX-License-Identifier: Apache-2.0
"""Lookup joins (Flink's FLIP-221), and vector searches (FLIP-540).

Functions fetch rows by key or by similarity. The core adds caches, reloads, and retries.
"""

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
from connectors_core.lookup.vector_search import (
    AsyncVectorSearchFunction,
    VectorMatches,
    VectorSearchFunction,
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
    "AsyncVectorSearchFunction",
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
    "VectorMatches",
    "VectorSearchFunction",
    "lookup_provider",
    "reload_trigger",
]
