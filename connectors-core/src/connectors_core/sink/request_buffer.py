# SPDX-License-Identifier: Apache-2.0
"""The entries an `AsyncSinkWriter` holds, and what of them may be sent next."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

EntryT = TypeVar("EntryT")


@dataclass(eq=False, slots=True)
class Held(Generic[EntryT]):
    """An entry from when it is taken until it is accepted or rejected.

    Attributes:
        entry: What is sent.
        size: Its bytes.
        key: Entries with the same key are sent one after the other; None: in any order.
        since: When it was taken.
        attempts: How often it was sent.
        failing_since: When it was to be sent again for the first time; infinity before.
    """

    entry: EntryT
    size: int
    key: Hashable | None
    since: float
    attempts: int = 0
    failing_since: float = math.inf


@dataclass
class RequestBuffer(Generic[EntryT]):
    """Entries in the order in which they are to be sent. One thread; knows no clock.

    Of the entries with one key only the first is ready or on its way, however often it must be
    sent again; the others wait behind it.

    Args:
        max_batch_bytes: Bytes of a request.
        max_seconds: How long an entry waits for its request to fill.
    """

    max_batch_bytes: int
    max_seconds: float
    count: int = 0
    _ready: deque[Held[EntryT]] = field(default_factory=deque)
    _ready_bytes: int = 0
    _behind: dict[Hashable, deque[Held[EntryT]] | None] = field(default_factory=dict)
    _later: list[tuple[float, int, Held[EntryT]]] = field(default_factory=list)
    _numbers: int = 0

    @property
    def ready(self) -> int:
        """Entries that may be sent."""
        return len(self._ready)

    def add(self, held: Held[EntryT]) -> None:
        """Take an entry."""
        self.count += 1
        if held.key is not None:
            if held.key in self._behind:
                behind = self._behind[held.key]
                if behind is None:  # most keys come once: they need no queue
                    behind = self._behind[held.key] = deque()
                behind.append(held)
                return
            self._behind[held.key] = None
        self._make_ready(held)

    def is_full(self, max_batch_size: int) -> bool:
        """Whether there is enough for a whole request."""
        return len(self._ready) >= max_batch_size or self._ready_bytes >= self.max_batch_bytes

    def next_moment(self) -> float:
        """When something will have waited long enough; infinity where nothing waits."""
        moments = [self._ready[0].since + self.max_seconds] if self._ready else []
        if self._later:
            moments.append(self._later[0][0])
        return min(moments, default=math.inf)

    def wake(self, now: float) -> None:
        """Make ready what was to wait until now."""
        due = []
        while self._later and self._later[0][0] <= now:
            due.append(heapq.heappop(self._later)[2])
        for held in reversed(due):
            self._make_ready(held, first=True)

    def is_overdue(self, now: float) -> bool:
        """Whether the first entry has waited long enough for its request to fill."""
        return bool(self._ready) and self._ready[0].since + self.max_seconds <= now

    def take(self, max_batch_size: int) -> list[Held[EntryT]]:
        """The entries of the next request, at least one where one is ready."""
        taken: list[Held[EntryT]] = []
        size = 0
        while self._ready and len(taken) < max_batch_size:
            if taken and size + self._ready[0].size > self.max_batch_bytes:
                break
            held = self._ready.popleft()
            size += held.size
            taken.append(held)
        self._ready_bytes -= size
        return taken

    def done(self, entries: Iterable[Held[EntryT]]) -> None:
        """Forget entries; what waited behind them is ready."""
        for held in entries:
            self.count -= 1
            if held.key is None:
                continue
            behind = self._behind[held.key]
            if behind:
                self._make_ready(behind.popleft(), first=True)  # it has waited for longer
            else:
                del self._behind[held.key]

    def put_back(self, entries: Iterable[Held[EntryT]], moment: float) -> None:
        """Send entries again, before all others, but not before a moment."""
        for held in entries:
            self._numbers += 1
            heapq.heappush(self._later, (moment, self._numbers, held))

    def _make_ready(self, held: Held[EntryT], *, first: bool = False) -> None:
        self._ready_bytes += held.size
        if first:
            self._ready.appendleft(held)
        else:
            self._ready.append(held)
