# SPDX-License-Identifier: Apache-2.0
"""The bounded queue between fetcher threads and the task's thread."""

from __future__ import annotations

import operator
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic

from connectors_core.errors import ConfigurationError, FatalError
from connectors_core.source.base.split_reader import E

DEFAULT_MAX_ELEMENTS: Final = 4
DEFAULT_MAX_BYTES: Final = 64 * 1024 * 1024

#: Bytes of an element that tells them itself, such as a record batch.
nbytes_of: Final[Callable[[Any], int]] = operator.attrgetter("nbytes")


class FetchError(FatalError):
    """A fetcher thread failed; the cause is what its split reader raised."""

    code = "FETCH"


@dataclass(frozen=True)
class FetchedElement(Generic[E]):
    """One entry of the queue.

    Attributes:
        split_id: The split it belongs to.
        element: What was fetched; None only tells that the split is finished.
        finished: Whether the split ends with this entry.
    """

    split_id: str
    element: E | None
    finished: bool = False


class ElementQueue(Generic[E]):
    """A queue that blocks its producers once it holds enough elements or enough bytes.

    A slow task thus stops its fetchers, and memory stays bounded whatever the size of a batch. An
    empty queue takes any element, however large. Plays the part of Flink's
    ``FutureCompletingBlockingQueue`` (FLIP-27). Executor; any number of producers, one consumer.

    Args:
        size_of: Gives the bytes of an element.
        max_elements: Most elements that wait at a time.
        max_bytes: Most bytes that wait at a time.

    Raises:
        ConfigurationError: A bound is below one.
    """

    def __init__(
        self,
        size_of: Callable[[E], int] = nbytes_of,
        *,
        max_elements: int = DEFAULT_MAX_ELEMENTS,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        if max_elements < 1 or max_bytes < 1:
            raise ConfigurationError(
                "the limits of an element queue are too low",
                expected="at least one element and one byte",
                found=f"{max_elements} elements, {max_bytes} bytes",
            )
        self._size_of = size_of
        self._max_elements = max_elements
        self._max_bytes = max_bytes
        self._changed = threading.Condition()
        self._entries: deque[tuple[FetchedElement[E], int]] = deque()
        self._elements = 0
        self._bytes = 0
        self._closed = False
        self._error: BaseException | None = None

    def put(self, entry: FetchedElement[E]) -> bool:
        """Append an entry; blocks while the queue is full, but never for a mere end of split.

        Returns:
            Whether the entry was taken; False once the queue is closed, at the latest when
            :meth:`close` wakes this call.
        """
        size = 0 if entry.element is None else self._size_of(entry.element)
        count = 0 if entry.element is None else 1
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._fits(count, size))
            if self._closed:
                return False
            self._entries.append((entry, size))
            self._elements += count
            self._bytes += size
            self._changed.notify_all()
            return True

    def poll(self) -> FetchedElement[E] | None:
        """Take the first entry, or None where there is none; never blocks.

        Raises:
            BaseException: The error the queue was closed with, behind the entries put before it:
                a task that stops reading earlier is not disturbed by what was fetched ahead. It
                is raised once; a later poll raises a plain `FetchError`.
        """
        with self._changed:
            if self._entries:
                entry, size = self._entries.popleft()
                self._elements -= entry.element is not None
                self._bytes -= size
                self._changed.notify_all()
                return entry
            if self._error is None:
                return None
            error = self._error
            self._error = FetchError(
                "the reader was polled again after a failure",
                hint="close it; the first error has the cause",
            )
        raise error

    def wait_available(self, timeout: float) -> bool:
        """Block until a poll gives an entry or an error, for ``timeout`` seconds at most."""
        with self._changed:
            return self._changed.wait_for(
                lambda: bool(self._entries) or self._error is not None, timeout
            )

    def close(self, error: BaseException | None = None) -> None:
        """Take no further entries and wake every blocked put; what is queued can still be polled.

        Args:
            error: What the consumer is to be told. The first one wins.
        """
        with self._changed:
            if not self._closed:
                self._closed = True
                self._error = error
                self._changed.notify_all()

    def clear(self) -> None:
        """Drop all entries."""
        with self._changed:
            self._entries.clear()
            self._elements = self._bytes = 0
            self._changed.notify_all()

    def __len__(self) -> int:
        with self._changed:
            return len(self._entries)

    @property
    def nbytes(self) -> int:
        """Bytes that wait in the queue."""
        with self._changed:
            return self._bytes

    def _fits(self, count: int, size: int) -> bool:
        return (
            not self._elements
            or not count
            or (self._elements < self._max_elements and self._bytes + size <= self._max_bytes)
        )
