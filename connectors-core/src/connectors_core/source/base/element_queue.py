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

# Bytes of an element that knows its size, such as a record batch.
nbytes_of: Final[Callable[[Any], int]] = operator.attrgetter("nbytes")


class FetchError(FatalError):
    """A fetcher thread failed; the cause is the exception of its split reader."""

    code = "FETCH"


@dataclass(frozen=True)
class FetchedElement(Generic[E]):
    """One entry of the queue.

    Attributes:
        split_id: The split of the entry.
        element: The fetched element; None only signals that the split is finished.
        finished: Whether the split ends with this entry.
    """

    split_id: str
    element: E | None
    finished: bool = False


class ElementQueue(Generic[E]):
    """A queue that blocks its producers when it holds enough elements or bytes.

    A slow task thus stops its fetchers, and memory is bounded regardless of the batch size. An
    empty queue accepts any element, however large. Corresponds to Flink's
    ``FutureCompletingBlockingQueue`` (FLIP-27). Executor; any number of producers, one consumer.

    Args:
        size_of: Returns the bytes of an element.
        max_elements: Maximum number of queued elements.
        max_bytes: Maximum number of queued bytes.

    Raises:
        ConfigurationError: A limit is below one.
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
        """Append an entry; blocks while the queue is full, except for the end of a split.

        Returns:
            Whether the entry was accepted; False after the queue is closed. :meth:`close` wakes a
            blocked call.
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
        """Return the first entry, or None if there is none; never blocks.

        Raises:
            BaseException: The error that closed the queue, after the earlier entries: a
                task that stops reading earlier is not affected by entries fetched ahead. Raised
                once; a later poll raises a plain `FetchError`.
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
        """Block until a poll returns an entry or an error, for at most ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(
                lambda: bool(self._entries) or self._error is not None, timeout
            )

    def close(self, error: BaseException | None = None) -> None:
        """Reject further entries and wake every blocked put; queued entries can still be polled.

        Args:
            error: The error for the consumer. The first one wins.
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
        """Bytes in the queue."""
        with self._changed:
            return self._bytes

    def _fits(self, count: int, size: int) -> bool:
        return (
            not self._elements
            or not count
            or (self._elements < self._max_elements and self._bytes + size <= self._max_bytes)
        )
