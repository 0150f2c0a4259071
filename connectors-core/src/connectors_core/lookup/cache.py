# SPDX-License-Identifier: Apache-2.0
"""Caches of lookup results (Flink's FLIP-221), for a batch of keys at a time."""

from __future__ import annotations

import itertools
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NamedTuple

import cachetools
import numpy as np
import pyarrow as pa

from connectors_core.lookup.join import positions_among
from connectors_core.metrics import LookupMetric, MetricGroup
from connectors_core.options import Configured, Setting, option, part, positive
from connectors_core.schema.python_values import python_values

__all__ = ["CachedRows", "DefaultLookupCache", "LookupCache"]

_LEAST_SPARE_ROWS: Final = 1_024


class CachedRows(NamedTuple):
    """The cached rows of some keys.

    Attributes:
        present: Whether the cache has each key. A cached key may have no rows.
        rows: The rows of the cached keys, in any order; None if there are no rows.
    """

    present: pa.BooleanArray
    rows: pa.Table | None


class LookupCache(ABC):
    """Caches rows by key. One per worker process, used by one thread at a time.

    A cache is picklable. Its contents stay in the process, so a copy starts empty.
    """

    def open(self, metric_group: MetricGroup) -> None:
        """Prepare the cache. Executor, before the first use.

        Args:
            metric_group: Receives the metrics of the cache; see `LookupMetric`.
        """

    @abstractmethod
    def get_if_present(self, keys: pa.RecordBatch) -> CachedRows:
        """Return the cached rows of some keys.

        Args:
            keys: Distinct keys without nulls.
        """

    @abstractmethod
    def put(self, keys: pa.RecordBatch, rows: pa.Table) -> None:
        """Cache fetched rows.

        Args:
            keys: The requested keys, distinct and without nulls.
            rows: All rows of these keys, including the key columns. A key may have no rows.
        """

    @abstractmethod
    def invalidate(self, keys: pa.RecordBatch) -> None:
        """Remove keys from the cache."""

    @abstractmethod
    def size(self) -> int:
        """Return the number of cached keys."""

    def close(self) -> None:
        """Remove all keys."""


@dataclass(slots=True)
class _Entry:
    """The rows of one key: a slice of the fetched table."""

    fetched: pa.Table
    first: int
    rows: int
    written: float


class DefaultLookupCache(Configured, LookupCache, scope="lookup cache", since="1.0.0"):
    """Caches rows in memory and evicts the least recently used ones first.

    A key costs one dictionary entry. Its rows stay in the fetched columns. When more than half of
    these rows are no longer needed, the cache compacts the others.

    Raises:
        InvalidOptionError: A bound is not above zero.
    """

    max_rows: Setting[int] = option(
        "lookup.partial-cache.max-rows",
        int,
        unit="rows",
        default=10_000,
        doc="Maximum rows in a partial cache, per worker process. A key without rows counts as "
        "one row.",
        validator=positive,
    )
    expire_after_write: Setting[timedelta | None, timedelta | str | None] = option(
        "lookup.partial-cache.expire-after-write",
        timedelta,
        default=None,
        doc="Time after which a key expires, from when it was fetched.",
        validator=positive,
    )
    expire_after_access: Setting[timedelta | None, timedelta | str | None] = option(
        "lookup.partial-cache.expire-after-access",
        timedelta,
        default=None,
        doc="Time after which a key expires, from its last access.",
        validator=positive,
    )
    cache_missing_keys: Setting[bool] = option(
        "lookup.partial-cache.cache-missing-key",
        bool,
        default=True,
        doc="Whether to cache that a key has no rows.",
    )
    clock: Setting[Callable[[], float]] = part(default=lambda: time.monotonic, doc="Seconds.")

    def __post_init__(self) -> None:
        self._entries = self._empty()
        self._held_rows = self._held_bytes = 0
        self._metrics = MetricGroup()

    def __getstate__(self) -> Mapping[str, Any]:
        return self._values()

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        DefaultLookupCache.__init__(self, **state)

    def open(self, metric_group: MetricGroup) -> None:
        """Count in this metric group."""
        self._metrics = metric_group

    def get_if_present(self, keys: pa.RecordBatch) -> CachedRows:
        """Return the cached rows of some keys."""
        present = np.zeros(keys.num_rows, bool)
        found = []
        for place, key in enumerate(_hashable(keys)):
            entry = self._entries.get(key)
            if entry is None:
                continue
            present[place] = True
            found.append(entry)
            if self.expire_after_access is not None:
                self._entries[key] = entry  # expires later now
        return CachedRows(pa.array(present), _rows_of(found))

    def put(self, keys: pa.RecordBatch, rows: pa.Table) -> None:
        """Cache fetched rows."""
        names = keys.schema.names
        rows = rows.combine_chunks()
        key_of = positions_among(
            [rows.column(name).combine_chunks() for name in names], keys.columns
        )
        order = np.argsort(key_of, kind="stable")
        order = order[np.count_nonzero(key_of < 0) :]
        fetched = rows.take(pa.array(order))
        counts = np.bincount(key_of[order], minlength=keys.num_rows)
        firsts = np.cumsum(counts) - counts
        now = self.clock()
        for key, first, count in zip(
            _hashable(keys), firsts.tolist(), counts.tolist(), strict=True
        ):
            if self._fits(count):
                self._entries[key] = _Entry(fetched, first, count, now)
            else:
                self._entries.pop(key, None)
        self._held_rows += fetched.num_rows
        self._held_bytes += fetched.nbytes
        if self._held_rows > 2 * max(self._entries.currsize, _LEAST_SPARE_ROWS):
            self._copy_together()
        self._observe()

    def invalidate(self, keys: pa.RecordBatch) -> None:
        """Remove keys from the cache."""
        for key in _hashable(keys):
            self._entries.pop(key, None)
        self._observe()

    def size(self) -> int:
        """Return the number of cached keys."""
        self._entries.expire()
        return len(self._entries)

    def close(self) -> None:
        """Remove all keys."""
        self._entries = self._empty()
        self._held_rows = self._held_bytes = 0
        self._observe()

    def _empty(self) -> cachetools.TLRUCache[Hashable, _Entry]:
        return cachetools.TLRUCache(
            self.max_rows, self._expires, self.clock, getsizeof=lambda entry: max(1, entry.rows)
        )

    def _expires(self, _key: Hashable, entry: _Entry, now: float) -> float:
        moments = [math.inf]
        if self.expire_after_write is not None:
            moments.append(entry.written + self.expire_after_write.total_seconds())
        if self.expire_after_access is not None:
            moments.append(now + self.expire_after_access.total_seconds())
        return min(moments)

    def _fits(self, rows: int) -> bool:
        return rows <= self.max_rows and (rows > 0 or self.cache_missing_keys)

    def _copy_together(self) -> None:
        """Release rows that are no longer needed but share a batch with others."""
        self._entries.expire()
        # Bypass the cache's own access, which would count as a use.
        live = [cachetools.Cache.__getitem__(self._entries, key) for key in self._entries]
        rows = _rows_of(live)
        self._held_rows = self._held_bytes = 0
        if rows is not None:
            rows = rows.combine_chunks()
            self._held_rows, self._held_bytes = rows.num_rows, rows.nbytes
        first = 0
        for _, entry in _by_origin(live):
            entry.fetched, entry.first = rows, first
            first += entry.rows

    def _observe(self) -> None:
        self._metrics.set(LookupMetric.NUM_CACHED_RECORD, self._entries.currsize)
        self._metrics.set(LookupMetric.NUM_CACHED_BYTES, self._held_bytes)


def _by_origin(entries: Iterable[_Entry]) -> list[tuple[int, _Entry]]:
    """Group the entries with rows by the table with which they were fetched."""
    origins: dict[int, list[_Entry]] = {}
    for entry in entries:
        if entry.rows:
            origins.setdefault(id(entry.fetched), []).append(entry)
    return [(origin, entry) for origin, own in origins.items() for entry in own]


def _rows_of(entries: Iterable[_Entry]) -> pa.Table | None:
    """Return the rows of some entries, in the order of `_by_origin`."""
    parts = []
    for _, group in itertools.groupby(_by_origin(entries), key=lambda pair: pair[0]):
        own = [entry for _, entry in group]
        firsts = np.array([entry.first for entry in own])
        counts = np.array([entry.rows for entry in own])
        nth = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        parts.append(own[0].fetched.take(pa.array(np.repeat(firsts, counts) + nth)))
    return pa.concat_tables(parts) if parts else None


def _hashable(keys: pa.RecordBatch) -> Iterable[Hashable]:
    columns = [python_values(column) for column in keys.columns]
    return columns[0] if len(columns) == 1 else zip(*columns, strict=True)
