# SPDX-License-Identifier: Apache-2.0
"""The entries in an `AsyncSinkWriter`, and which of them to send next."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.sink.entry_columns import EntryColumns

EntryT = TypeVar("EntryT")

_Numbers = npt.NDArray[np.int64]


@dataclass(eq=False, slots=True)
class Held(Generic[EntryT]):
    """Entries that were added together, until they are accepted or rejected.

    Attributes:
        entries: The entries.
        sizes: Bytes of each.
        keys: Key of each. Entries with the same key are sent one after another. Entries with a
            null key, or all if there are no keys, are sent in any order.
        since: When they were added.
        attempts: How often they were sent.
        failing_since: When they were first retried; infinity before that.
    """

    entries: Sequence[EntryT]
    sizes: _Numbers
    keys: pa.Array | None
    since: float
    attempts: int = 0
    failing_since: float = math.inf

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, at: slice) -> Held[EntryT]:
        keys = None if self.keys is None else self.keys[at]
        return replace(self, entries=self.entries[at], sizes=self.sizes[at], keys=keys)

    def select(self, numbers: _Numbers) -> Held[EntryT]:
        """Return the entries with these numbers."""
        entries: Any = self.entries
        if isinstance(entries, EntryColumns):
            entries = entries.select(numbers)
        else:
            entries = [entries[at] for at in numbers.tolist()]
        keys = None if self.keys is None else self.keys.take(pa.array(numbers))
        return replace(self, entries=entries, sizes=self.sizes[numbers], keys=keys)


@dataclass
class RequestBuffer(Generic[EntryT]):
    """Entries in the order in which to send them. One thread; does not use a clock.

    Only the first entry of a key is in flight, however often it is retried; the others wait for it.
    Most keys occur once, so keys are compared as whole columns.

    Args:
        max_batch_bytes: Bytes of a request.
        max_seconds: How long an entry waits for its request to fill.

    Attributes:
        count: Entries in the buffer.
        ready: Entries that may be sent, before their keys are checked.
    """

    max_batch_bytes: int
    max_seconds: float
    count: int = 0
    ready: int = 0
    _ready_bytes: int = 0
    _again: deque[Held[EntryT]] = field(default_factory=deque)
    _new: deque[Held[EntryT]] = field(default_factory=deque)
    _later: list[tuple[float, int, Held[EntryT]]] = field(default_factory=list)
    _numbers: int = 0
    _owners: set[Held[EntryT]] = field(default_factory=set)  # of keys, until they are accepted
    _behind: dict[Hashable, deque[tuple[Held[EntryT], int]]] = field(default_factory=dict)

    def add(self, held: Held[EntryT]) -> None:
        """Add entries."""
        self.count += len(held)
        self._new.append(held)
        self._count_ready(held, 1)

    def is_full(self, max_batch_size: int) -> bool:
        """Return whether there is enough for a whole request."""
        return self.ready >= max_batch_size or self._ready_bytes >= self.max_batch_bytes

    def next_moment(self) -> float:
        """When the next entry has waited long enough; infinity if none waits."""
        return min(self._due(), self._later[0][0] if self._later else math.inf)

    def wake(self, now: float) -> None:
        """Make ready the entries that waited until now."""
        while self._later and self._later[0][0] <= now:
            held = heapq.heappop(self._later)[2]
            self._again.append(held)
            self._count_ready(held, 1)

    def is_overdue(self, now: float) -> bool:
        """Return whether the first entry has waited long enough for its request to fill."""
        return self._due() <= now

    def take(self, max_batch_size: int) -> list[Held[EntryT]]:
        """Return the entries of the next request; none if all ready ones wait for their key.

        A request of retried entries contains no new ones. Otherwise, a service that accepts only
        part of each request might accept only new entries as long as any arrive.
        """
        request = _Request[EntryT](max_batch_size, self.max_batch_bytes)
        while part := self._cut(self._again, request):
            request.add(part)
        if request.parts:
            return request.parts
        while part := self._cut(self._new, request):
            if part.keys is not None:
                part = self._owning(part, part.keys)
            request.add(part)
        return request.parts

    def answered(
        self, parts: Iterable[Held[EntryT]], failed: Sequence[Held[EntryT]], moment: float
    ) -> None:
        """Remove sent entries, except those to retry, which go before all new ones.

        Args:
            parts: The sent entries.
            failed: The entries to retry.
            moment: The earliest time of the retry.
        """
        ended = [key for held in parts for key in self._keys_behind(held)]
        for held in parts:
            self.count -= len(held)
            self._owners.discard(held)
        for held in failed:
            self.count += len(held)
            self._own(held)
            self._numbers += 1
            heapq.heappush(self._later, (moment, self._numbers, held))
        if ended:
            kept = {key for held in failed for key in self._keys_behind(held)}
            self._release(key for key in ended if key not in kept)

    def _due(self) -> float:
        """When the first entry has waited long enough."""
        waiting = self._again or self._new
        return waiting[0].since + self.max_seconds if waiting else math.inf

    def _count_ready(self, held: Held[EntryT], sign: int) -> None:
        self.ready += sign * len(held)
        self._ready_bytes += sign * int(held.sizes.sum())

    def _cut(self, waiting: deque[Held[EntryT]], request: _Request[EntryT]) -> Held[EntryT] | None:
        """Take as many of the first waiting entries as fit in a request."""
        fitting = request.fitting(waiting[0].sizes) if waiting else 0
        if not fitting:
            return None
        held = waiting.popleft()
        part, rest = held[:fitting], held[fitting:]
        if len(rest):
            waiting.appendleft(rest)
        if held in self._owners:
            self._owners.remove(held)
            self._own(part)
            self._own(rest)
        self._count_ready(part, -1)
        return part

    # --- Keys -----------------------------------------------------------------------------------

    def _own(self, held: Held[EntryT]) -> None:
        if held.keys is not None and len(held):
            self._owners.add(held)

    def _owning(self, part: Held[EntryT], keys: pa.Array) -> Held[EntryT]:
        """Return the new entries that may be sent; the others wait for their keys."""
        owned = [held.keys for held in self._owners]
        behind = np.zeros(len(part), np.bool_)
        if owned:
            behind = np.array(pc.is_in(keys, pa.concat_arrays(owned), skip_nulls=True))
        if pc.count_distinct(keys).as_py() + keys.null_count < len(keys):
            codes = keys.dictionary_encode().indices.fill_null(-1)
            first = np.zeros(len(part), np.bool_)
            first[np.unique(codes, return_index=True)[1]] = True
            behind |= ~first & np.asarray(keys.is_valid())
        if behind.any():
            waiting = part.select(np.flatnonzero(behind))
            for number, key in enumerate(keys.filter(pa.array(behind)).to_pylist()):
                self._behind.setdefault(key, deque()).append((waiting, number))
            part = part.select(np.flatnonzero(~behind))
        self._own(part)
        return part

    def _keys_behind(self, held: Held[EntryT]) -> list[Hashable]:
        """Keys for which other entries wait."""
        if held.keys is None or not self._behind:
            return []
        return [key for key in held.keys.to_pylist() if key in self._behind]

    def _release(self, keys: Iterable[Hashable]) -> None:
        """Make ready the next entries of these keys, which have waited longer than new ones."""
        released: dict[Held[EntryT], list[int]] = {}
        for key in keys:
            queue = self._behind[key]
            waiting, number = queue.popleft()
            released.setdefault(waiting, []).append(number)
            if not queue:
                del self._behind[key]
        for waiting, numbers in released.items():
            held = waiting.select(np.array(numbers))
            self._own(held)
            self._again.append(held)
            self._count_ready(held, 1)


class _Request(Generic[EntryT]):
    """A request under construction."""

    def __init__(self, entries: int, size: int) -> None:
        self.parts: list[Held[EntryT]] = []
        self._entries = entries
        self._bytes = size

    def fitting(self, sizes: _Numbers) -> int:
        """Return how many of the first entries fit; the first one always does."""
        ends = np.cumsum(sizes[: self._entries])
        number = int(np.searchsorted(ends, self._bytes, side="right"))
        return number if self.parts else max(number, min(1, len(ends)))

    def add(self, held: Held[EntryT]) -> None:
        if not len(held):
            return
        self.parts.append(held)
        self._entries -= len(held)
        self._bytes -= int(held.sizes.sum())
