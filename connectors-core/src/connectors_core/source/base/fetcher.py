# SPDX-License-Identifier: Apache-2.0
"""The threads that run split readers, and their managers (Flink's FLIP-27)."""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final, Generic

from connectors_core.errors import ConfigurationError, ConnectorError
from connectors_core.source.base.element_queue import (
    DEFAULT_MAX_BYTES,
    DEFAULT_MAX_ELEMENTS,
    ElementQueue,
    FetchedElement,
    FetchError,
    nbytes_of,
)
from connectors_core.source.base.split_reader import (
    E,
    RecordsBySplits,
    SplitReader,
    SplitsAddition,
)
from connectors_core.source.split import SplitT

_logger = logging.getLogger(__name__)

DEFAULT_CLOSE_TIMEOUT: Final = 30.0


class _Board(Generic[SplitT]):
    """The shared state of a manager and its fetchers; every access holds ``changed``."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.waiting: deque[SplitT] = deque()
        self.paused: frozenset[str] = frozenset()
        self.stopping = False


class SplitFetcher(Generic[E, SplitT]):
    """A daemon thread that runs one split reader; created by a :class:`SplitFetcherManager`.

    Between fetches, it takes as many waiting splits as it may read at once, and passes on pauses. A
    pause reaches the split reader only if it concerns some of its splits; if all are paused, the
    thread does not fetch. It closes the split reader and ends when nothing is left to read.
    """

    def __init__(
        self,
        name: str,
        split_reader: SplitReader[E, SplitT],
        queue: ElementQueue[E],
        board: _Board[SplitT],
        *,
        splits_at_once: int | None,
        on_error: Callable[[SplitFetcher[E, SplitT], BaseException], None],
    ) -> None:
        self.name = name
        self._reader = split_reader
        self._queue = queue
        self._board = board
        self._splits_at_once = splits_at_once
        self._on_error = on_error
        self._splits: set[str] = set()  # passed to the split reader, not finished
        self._paused: set[str] = set()  # of these, the ones that the split reader leaves out
        self._fetching = False
        self._has_fetched = False  # since it took its newest splits
        self._woken = False  # during the running fetch
        self._ended = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def is_alive(self) -> bool:
        """Return whether the thread still runs."""
        return self._thread.is_alive()

    def join(self, timeout: float) -> bool:
        """Wait for the thread to end, for at most ``timeout`` seconds; return whether it ended."""
        self._thread.join(timeout)
        return not self.is_alive()

    def stack(self) -> str:
        """Return the stack of the thread as text."""
        frame = sys._current_frames().get(self._thread.ident or -1)
        return "".join(traceback.format_stack(frame)) if frame else "(ended)\n"

    @property
    def takes_splits(self) -> bool:
        """Return whether it may still take waiting splits. Requires the board's lock."""
        return not self._ended

    @property
    def is_free(self) -> bool:
        """Return whether it is about to take a waiting split. Requires the board's lock."""
        return not self._ended and not self._splits

    @property
    def has_fetched(self) -> bool:
        """Return whether its splits could have returned elements. Requires the board's lock."""
        return self._ended or self._has_fetched or bool(self._splits <= self._board.paused)

    def can_pause(self, paused: frozenset[str]) -> bool:
        """Return whether exactly these of its splits can be left out. Requires the board's lock."""
        overridden = type(self._reader).pause_or_resume_splits is not (
            SplitReader.pause_or_resume_splits
        )
        if self._splits_at_once == 1 or overridden:
            return True
        own = self._splits | {split.split_id for split in self._board.waiting}
        return not own & paused or own <= paused

    def wake_up(self) -> None:
        """Make a running fetch return; the thread then checks the board again."""
        with self._board.changed:
            fetching = self._woken = self._fetching
        if fetching:
            self._reader.wake_up()

    def _run(self) -> None:
        error: BaseException | None = None
        for step in (self._fetch_until_stopped, self._reader.close):
            try:
                step()
            except BaseException as failure:
                if error is None:
                    error = failure
                else:
                    _logger.warning("closing a split reader in %s failed", self.name, exc_info=True)
        if error is not None:
            self._on_error(self, error)

    def _fetch_until_stopped(self) -> None:
        while True:
            with self._board.changed:
                self._board.changed.wait_for(self._has_something_to_do)
                if self._board.stopping or self._is_idle():
                    self._ended = True
                    return
                added = self._take_waiting()
                active = self._splits - self._board.paused
                pause = sorted((self._splits & self._board.paused) - self._paused) if active else ()
                resume = sorted(self._paused - self._board.paused)
                self._paused = (self._paused | set(pause)) - set(resume)
                # Set here, under the lock: from now on, any change of the board wakes the fetch.
                self._fetching = bool(active)
                self._has_fetched &= not added
                self._woken = False
            if added:
                self._reader.handle_splits_changes(SplitsAddition(added))
            if pause or resume:
                self._reader.pause_or_resume_splits(pause, resume)
            if not active:
                continue
            if not all(map(self._queue.put, self._accept(self._reader.fetch()))):
                return  # the queue was closed
            with self._board.changed:
                self._has_fetched |= not self._woken

    def _has_something_to_do(self) -> bool:
        return (
            self._board.stopping
            or self._is_idle()
            or bool(self._board.waiting and self._room() != 0)
            or bool(self._splits - self._board.paused)
        )

    def _is_idle(self) -> bool:
        return not self._splits and not self._board.waiting

    def _room(self) -> int | None:
        if self._splits_at_once is None:
            return None
        return self._splits_at_once - len(self._splits)

    def _take_waiting(self) -> tuple[SplitT, ...]:
        waiting, room = self._board.waiting, self._room()
        count = len(waiting) if room is None else min(room, len(waiting))
        taken = tuple(waiting.popleft() for _ in range(count))
        self._splits.update(split.split_id for split in taken)
        return taken

    def _accept(self, fetched: RecordsBySplits[E]) -> Iterator[FetchedElement[E]]:
        """Convert a fetch to entries of the queue; a split ends with its last element."""
        finished = fetched.finished_splits
        last = {split_id: at for at, (split_id, _) in enumerate(fetched.records)}
        with self._board.changed:
            self._fetching = False
            strangers = (last.keys() | finished) - self._splits
            self._splits -= finished
            self._paused -= finished
        if strangers:
            raise FetchError(
                f"{type(self._reader).__name__} returned splits that it does not read",
                expected="splits that were added and not reported as finished",
                found=sorted(strangers),
            )
        for at, (split_id, element) in enumerate(fetched.records):
            ends = split_id in finished and last[split_id] == at
            yield FetchedElement(split_id, element, finished=ends)
        for split_id in sorted(finished - last.keys()):
            yield FetchedElement(split_id, None, finished=True)


class SplitFetcherManager(ABC, Generic[E, SplitT]):
    """Starts, feeds, and stops the fetchers of one source reader. Executor only.

    All methods are called on the task's thread. No thread runs before the first splits arrive, so
    that a fork never copies a running thread. The first error of any fetcher stops all of them, and
    the queue's poll raises it: errors of the core unchanged, others as the cause of a `FetchError`.

    Args:
        split_reader_factory: Creates a split reader; called on the task's thread.
        size_of: Returns the bytes of a fetched element; by default its ``nbytes``.
        max_queued_elements: Maximum number of elements that are fetched ahead. In addition,
            each fetcher holds the result of one fetch.
        max_queued_bytes: Maximum number of bytes that are fetched ahead.
        close_timeout: Seconds that :meth:`close` waits for the threads.
        name: Prefix of the threads' names.
    """

    ordered: ClassVar[bool] = False
    """Whether splits are read, and their elements queued, one split after another as given."""

    def __init__(
        self,
        split_reader_factory: Callable[[], SplitReader[E, SplitT]],
        *,
        size_of: Callable[[E], int] = nbytes_of,
        max_queued_elements: int = DEFAULT_MAX_ELEMENTS,
        max_queued_bytes: int = DEFAULT_MAX_BYTES,
        close_timeout: float = DEFAULT_CLOSE_TIMEOUT,
        name: str = "split-fetcher",
    ) -> None:
        self._split_reader_factory = split_reader_factory
        self._close_timeout = close_timeout
        self._name = name
        self._queue: ElementQueue[E] = ElementQueue(
            size_of, max_elements=max_queued_elements, max_bytes=max_queued_bytes
        )
        self._board: _Board[SplitT] = _Board()
        self._fetchers: list[SplitFetcher[E, SplitT]] = []
        self._started = 0

    @property
    @abstractmethod
    def max_fetchers(self) -> int | None:
        """Maximum number of threads; ``None`` is one for every waiting split."""

    @property
    @abstractmethod
    def splits_at_once(self) -> int | None:
        """Maximum number of splits that one thread reads at the same time; ``None`` is all."""

    @property
    def queue(self) -> ElementQueue[E]:
        """The queue of fetched elements."""
        return self._queue

    @property
    def live_fetchers(self) -> int:
        """Number of running threads."""
        return sum(fetcher.is_alive() for fetcher in self._fetchers)

    @property
    def has_fetched(self) -> bool:
        """Whether every split that a thread reads could have returned elements by now."""
        with self._board.changed:
            return all(fetcher.has_fetched for fetcher in self._fetchers)

    def add_splits(self, splits: Sequence[SplitT]) -> None:
        """Add splits to read; starts threads as needed."""
        with self._board.changed:
            self._board.waiting.extend(splits)
            self._board.changed.notify_all()
        self._fetchers = [fetcher for fetcher in self._fetchers if fetcher.is_alive()]
        for _ in range(self._fetchers_wanted()):
            self._start_fetcher()
        if self.splits_at_once is None:  # the others check again when their split is finished
            for fetcher in self._fetchers:
                fetcher.wake_up()

    def pause_or_resume_splits(self, pause: Sequence[str], resume: Sequence[str]) -> None:
        """Pause or resume fetching these splits (ids). Their queued elements stay queued.

        Raises:
            NotImplementedError: The split reader reads several splits at once and cannot
                leave out single ones. Nothing has changed then.
        """
        with self._board.changed:
            paused = (self._board.paused | frozenset(pause)) - frozenset(resume)
            if not all(fetcher.can_pause(paused) for fetcher in self._fetchers):
                raise NotImplementedError("the split reader cannot pause single splits")
            self._board.paused = paused
            self._board.changed.notify_all()
        for fetcher in self._fetchers:
            fetcher.wake_up()

    def close(self, timeout: float | None = None) -> None:
        """Stop all threads and drop the queue. A second call has no effect.

        A thread that does not end in time is a daemon, so it cannot block the process from exiting.
        It is logged as an error with its name and stack.

        Args:
            timeout: Seconds to wait for all threads together; by default ``close_timeout``.
        """
        deadline = time.monotonic() + (self._close_timeout if timeout is None else timeout)
        self._stop()
        self._queue.close()
        self._queue.clear()
        fetchers, self._fetchers = self._fetchers, []
        for fetcher in fetchers:
            if not fetcher.join(max(0.0, deadline - time.monotonic())):
                _logger.error(
                    "%s did not stop in time and was abandoned; it is at\n%s",
                    fetcher.name,
                    fetcher.stack(),
                )

    def _fetchers_wanted(self) -> int:
        with self._board.changed:
            if self._board.stopping:
                return 0
            free = sum(fetcher.is_free for fetcher in self._fetchers)
            taking = sum(fetcher.takes_splits for fetcher in self._fetchers)
            wanted = len(self._board.waiting) - free
            return wanted if self.max_fetchers is None else min(wanted, self.max_fetchers - taking)

    def _start_fetcher(self) -> None:
        fetcher = SplitFetcher(
            f"{self._name}-{self._started}",
            self._split_reader_factory(),
            self._queue,
            self._board,
            splits_at_once=self.splits_at_once,
            on_error=self._fetcher_failed,
        )
        self._started += 1
        self._fetchers.append(fetcher)
        fetcher.start()

    def _fetcher_failed(self, fetcher: SplitFetcher[E, SplitT], error: BaseException) -> None:
        """Pass the first error to the consumer and stop the others; on the fetcher's thread."""
        if not self._stop():
            _logger.warning("%s failed while it was stopped", fetcher.name, exc_info=error)
        elif isinstance(error, ConnectorError):
            error.add_note(f"raised in the thread {fetcher.name}")
            self._queue.close(error)
        else:
            failure = FetchError(f"{fetcher.name} failed: {type(error).__name__}: {error}")
            failure.__cause__ = error
            self._queue.close(failure)

    def _stop(self) -> bool:
        """Tell all fetchers to stop; return whether this call was the first."""
        with self._board.changed:
            first = not self._board.stopping
            self._board.stopping = True
            self._board.changed.notify_all()
            fetchers = tuple(self._fetchers)
        for fetcher in fetchers:
            try:
                fetcher.wake_up()
            except Exception:
                _logger.warning("waking %s up failed", fetcher.name, exc_info=True)
        return first


class SingleThreadMultiplexFetcherManager(SplitFetcherManager[E, SplitT]):
    """One thread and one split reader for all splits at once, such as one Kafka consumer."""

    @property
    def max_fetchers(self) -> int | None:
        """One."""
        return 1

    @property
    def splits_at_once(self) -> int | None:
        """All."""
        return None


class SingleThreadSequentialFetcherManager(SplitFetcherManager[E, SplitT]):
    """One thread and one split reader, which reads one split after another.

    The output keeps the order of the splits. The next split is opened while the last elements of
    the previous one are still queued. A paused split blocks later ones. Suitable for files.
    """

    ordered: ClassVar[bool] = True

    @property
    def max_fetchers(self) -> int | None:
        """One."""
        return 1

    @property
    def splits_at_once(self) -> int | None:
        """One."""
        return 1


class ThreadPerSplitFetcherManager(SplitFetcherManager[E, SplitT]):
    """One thread and one split reader for each split, which end with it.

    Args:
        split_reader_factory: Creates a split reader; called on the task's thread.
        max_threads: Maximum number of threads; further splits wait for a thread that has
            finished its split. By default there is no limit.
        size_of: Returns the bytes of a fetched element; by default its ``nbytes``.
        max_queued_elements: Maximum number of elements that are fetched ahead, over all
            threads.
        max_queued_bytes: Maximum number of bytes that are fetched ahead, over all threads.
        close_timeout: Seconds that ``close`` waits for the threads.
        name: Prefix of the threads' names.

    Raises:
        ConfigurationError: ``max_threads`` is below one.
    """

    def __init__(
        self,
        split_reader_factory: Callable[[], SplitReader[E, SplitT]],
        *,
        max_threads: int | None = None,
        size_of: Callable[[E], int] = nbytes_of,
        max_queued_elements: int = DEFAULT_MAX_ELEMENTS,
        max_queued_bytes: int = DEFAULT_MAX_BYTES,
        close_timeout: float = DEFAULT_CLOSE_TIMEOUT,
        name: str = "split-fetcher",
    ) -> None:
        if max_threads is not None and max_threads < 1:
            raise ConfigurationError(
                "a source reader needs a thread", expected="at least 1", found=max_threads
            )
        super().__init__(
            split_reader_factory,
            size_of=size_of,
            max_queued_elements=max_queued_elements,
            max_queued_bytes=max_queued_bytes,
            close_timeout=close_timeout,
            name=name,
        )
        self._max_threads = max_threads

    @property
    def max_fetchers(self) -> int | None:
        """The configured maximum."""
        return self._max_threads

    @property
    def splits_at_once(self) -> int | None:
        """One."""
        return 1
