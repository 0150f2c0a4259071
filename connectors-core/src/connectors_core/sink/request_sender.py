# SPDX-License-Identifier: Apache-2.0
"""Sends the entries of an `AsyncSinkWriter`: when, how much, and retries."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from connectors_core.clients.event_loop import contained, event_loop
from connectors_core.clients.retries import RetryLog, RetryPolicy
from connectors_core.errors import (
    ConnectorError,
    FatalError,
    RetryableError,
    UnexpectedError,
)
from connectors_core.metrics import SinkMetric
from connectors_core.sink.async_configuration import AsyncSinkWriterConfiguration
from connectors_core.sink.entry_columns import EntryColumns
from connectors_core.sink.rate_limits import (
    RateLimitingStrategy,
    RequestInfo,
    ResultInfo,
)
from connectors_core.sink.request_buffer import Held, RequestBuffer
from connectors_core.sink.sink import WriterInitContext

EntryT = TypeVar("EntryT")
T = TypeVar("T")

# How often to poll a blocking strategy.
_BLOCKED_SECONDS: Final = 0.05
# How long a canceled request may take to end.
_CANCEL_SECONDS: Final = 1.0


@dataclass(eq=False, repr=False)
class RequestSender(Generic[EntryT]):
    """Sends entries in requests. All methods except the constructor run on the event loop's thread.

    Args:
        submit_entries: Sends one request and returns the entries to retry.
        configuration: The limits.
        strategy: Decides when to send the next request.
        context: The context of the writer.
    """

    submit_entries: Callable[[Sequence[EntryT]], Coroutine[Any, Any, Sequence[EntryT]]]
    configuration: AsyncSinkWriterConfiguration
    strategy: RateLimitingStrategy
    context: WriterInitContext

    def __post_init__(self) -> None:
        self._buffer = RequestBuffer[EntryT](
            max_batch_bytes=self.configuration.max_batch_size_in_bytes,
            max_seconds=self.configuration.max_time_in_buffer.total_seconds(),
        )
        self._loop = event_loop()
        self._requests: set[asyncio.Task[None]] = set()
        self._draining = False
        self._blocked = False
        self._error: BaseException | None = None
        self._retries = RetryPolicy(
            initial_backoff=self.configuration.initial_backoff.total_seconds(),
            max_backoff=self.configuration.max_backoff.total_seconds(),
            timeout=self.configuration.retry_timeout.total_seconds(),
        )
        self._retry_reason: str | None = None
        # Temporary rejections are how a service signals its capacity.
        self._retry_log = RetryLog(f"sending to sink {self.context.sink_uid!r}", after=1.0)
        self._changed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    async def add(self, held: Held[EntryT]) -> None:
        """Add entries as room becomes available."""
        taken = 0
        while taken < len(held):
            if self._error is not None or self._buffer.count >= self._limit:
                await self._until(lambda: self._buffer.count < self._limit)
            room = self._limit - self._buffer.count
            self._buffer.add(held[taken : taken + room])
            taken += room
            self._send()

    async def drain(self) -> None:
        """Send everything, and wait for the responses."""
        self._draining = True
        try:
            self._send()
            await self._until(lambda: self._buffer.count == 0 and not self._requests)
        finally:
            self._draining = False

    def explain_retry(self, reason: str) -> None:
        """Explain why entries are retried."""
        self._retry_reason = reason

    async def stop(self) -> None:
        """Stop sending."""
        self._error = self._error or asyncio.CancelledError()
        if self._timer is not None:
            self._timer.cancel()
        for request in self._requests:
            request.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)

    @property
    def _limit(self) -> int:
        return self.configuration.max_buffered_requests

    @property
    def _max_batch_size(self) -> int:
        return min(self.configuration.max_batch_size, self.strategy.max_batch_size)

    def _is_blocked(self) -> bool:
        if len(self._requests) >= self.configuration.max_in_flight_requests:
            return True
        size = min(self._buffer.ready, self._max_batch_size)
        return self.strategy.should_block(RequestInfo(size))

    async def _until(self, condition: Callable[[], bool]) -> None:
        while self._error is None and not condition():
            self._changed.clear()
            await self._changed.wait()
        if self._error is not None:
            raise self._error

    def _must_send(self) -> bool:
        """Return whether ready entries should not wait for more."""
        return (
            self._draining
            or self._buffer.count >= self._limit
            or self._buffer.is_full(self._max_batch_size)
            or self._buffer.is_overdue(self._loop.time())
        )

    def _send(self) -> None:
        """Send as many requests as allowed. Also a callback, so it raises nothing."""
        if self._error is not None:
            return
        try:
            self._send_ready()
        except Exception as error:  # from the strategy: all other code here is our own
            self._fail(error, f"the rate limiting strategy of sink {self.context.sink_uid!r}")
            self._changed.set()

    def _send_ready(self) -> None:
        self._buffer.wake(self._loop.time())
        self._blocked = False
        while self._buffer.ready and self._must_send():
            self._blocked = self._is_blocked()
            if self._blocked:
                break
            parts = self._buffer.take(self._max_batch_size)
            if not parts:
                continue  # all of it waits for requests in flight
            self.strategy.register_in_flight_request(RequestInfo(_count(parts)))
            request = self._loop.create_task(self._request(parts))
            self._requests.add(request)  # a loop keeps no task alive
            request.add_done_callback(self._request_ended)
        self._wait()

    def _wait(self) -> None:
        """Check again when an entry is due; a response triggers a check by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        moment = self._buffer.next_moment()
        if self._blocked:
            moment = self._loop.time() + _BLOCKED_SECONDS
        if moment != math.inf:
            self._timer = self._loop.call_at(moment, self._send)

    async def _request(self, parts: list[Held[EntryT]]) -> None:
        failed = parts
        try:
            failed = await self._answer(parts)
        finally:
            self.strategy.register_completed_request(ResultInfo(_count(failed), _count(parts)))

    def _request_ended(self, request: asyncio.Task[None]) -> None:
        self._requests.discard(request)
        error = None if request.cancelled() else request.exception()
        if error is not None:
            self._fail(error, f"a request of sink {self.context.sink_uid!r}")
        self._changed.set()
        self._send()

    async def _answer(self, parts: list[Held[EntryT]]) -> list[Held[EntryT]]:
        """Send a request; return the entries to retry, which are back in the buffer."""
        self.context.metric_group.inc(SinkMetric.NUM_REQUESTS)
        timeout = self.configuration.request_timeout.total_seconds()
        error: RetryableError | None = None
        for held in parts:
            held.attempts += 1
        entries = _joined(parts)
        try:
            returned = await _ended_within(timeout, self.submit_entries(entries))
            failed = _chosen(parts, _numbers(entries, returned))
        except RetryableError as exc:
            error, failed = exc, parts
            self.explain_retry(exc.message if exc.found is None else f"{exc.message}: {exc.found}")
        if _count(failed) < _count(parts):
            for held in failed:  # the service is busy: longer pauses would leave it idle
                held.attempts = 1
        moment = self._retry_moment(failed, error) if failed else 0.0
        self._buffer.answered(parts, failed, moment)
        return failed

    def _retry_moment(self, failed: Sequence[Held[EntryT]], error: RetryableError | None) -> float:
        """Return when to retry entries.

        Raises:
            RetryableError: They were retried for long enough.
        """
        now = self._loop.time()
        for held in failed:
            held.failing_since = min(held.failing_since, now)
        elapsed = now - min(held.failing_since for held in failed)
        tries = max(held.attempts for held in failed)
        if self._retries.is_over(tries, elapsed):
            raise RetryableError(
                f"the service did not accept {_count(failed)} entries for "
                f"{self._retries.timeout:g} seconds",
                found=self._retry_reason,
                option="retry_timeout",
                hint="find out why it rejects them; send less at a time, or raise the timeout",
            ) from error
        self.context.metric_group.inc(SinkMetric.NUM_RETRIES, _count(failed))
        self._retry_log.failed(self._retry_reason or error or "entries were temporarily rejected")
        return now + self._retries.pause(tries, error, elapsed)

    def _fail(self, error: BaseException, what: str) -> None:
        if self._error is None:
            if not isinstance(error, ConnectorError):
                failure = UnexpectedError(
                    f"{what} failed with an unexpected error",
                    found=type(error).__name__,
                )
                failure.__cause__ = error
                error = failure
            self._error = error


async def _ended_within(seconds: float, request: Coroutine[Any, Any, T]) -> T:
    """Return the result of a request; abandon a request that ignores its cancellation.

    Raises:
        RetryableError: It did not end in time, or its client canceled it.
    """
    task = asyncio.ensure_future(contained(request))
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
    except TimeoutError as exc:
        raise RetryableError("a request timed out") from exc
    except asyncio.CancelledError as exc:
        if not task.cancelled():
            raise  # the writer is closed
        raise RetryableError("a request was canceled before its response") from exc
    finally:
        if not task.done():
            task.add_done_callback(_forget)
            task.cancel()
            await asyncio.wait({task}, timeout=_CANCEL_SECONDS)
    raise RetryableError(f"a request got no response within {seconds:g} seconds")


def _forget(task: asyncio.Task[Any]) -> None:
    """Retrieve the result of a task, so that the loop does not warn that it was never retrieved."""
    if not task.cancelled():
        task.exception()


def _count(parts: Iterable[Held[EntryT]]) -> int:
    return sum(map(len, parts))


def _joined(parts: Sequence[Held[EntryT]]) -> Sequence[EntryT]:
    entries: Any = [held.entries for held in parts]
    if all(isinstance(each, EntryColumns) for each in entries):
        return cast("Sequence[EntryT]", EntryColumns.concat(entries))
    return list(chain.from_iterable(entries))


def _numbers(given: Sequence[EntryT], returned: Sequence[EntryT]) -> npt.NDArray[np.int64]:
    """Return which of the given objects were returned; one object may be several entries."""
    left = Counter(map(id, returned))
    found: list[int] = []
    if left:
        looked_at: Any = given.seen() if isinstance(given, EntryColumns) else enumerate(given)
        for number, entry in looked_at:
            if left[id(entry)] > 0:
                left[id(entry)] -= 1
                found.append(number)
    if len(found) != len(returned):
        raise FatalError(
            "submit_request_entries returned entries that it did not receive",
            expected="the same objects",
            found=f"{len(returned) - len(found)} others",
            hint="this is a bug in the connector: report it",
        )
    return np.array(found, np.int64)


def _chosen(parts: Sequence[Held[EntryT]], numbers: npt.NDArray[np.int64]) -> list[Held[EntryT]]:
    """Return the entries with these numbers, which run through all parts."""
    found = []
    start = 0
    for held in parts:
        end = start + len(held)
        inside = numbers[(start <= numbers) & (numbers < end)]
        if len(inside):
            found.append(held.select(inside - start))
        start = end
    return found
