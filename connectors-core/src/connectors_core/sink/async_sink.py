# SPDX-License-Identifier: Apache-2.0
"""Sinks that send concurrent requests to a service (Flink's FLIP-171)."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Coroutine, Hashable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np
import pyarrow as pa

from connectors_core.clients.event_loop import event_loop, submit
from connectors_core.errors import UnsupportedError
from connectors_core.records import BadRecord
from connectors_core.sink import capacity
from connectors_core.sink.async_configuration import AsyncSinkWriterConfiguration
from connectors_core.sink.entry_columns import EntryColumns
from connectors_core.sink.rate_limits import (
    CongestionControlRateLimitingStrategy,
    FixedRateLimitingStrategy,
    RateLimiting,
    RateLimitingStrategy,
)
from connectors_core.sink.request_buffer import Held
from connectors_core.sink.request_sender import RequestSender
from connectors_core.sink.sink import Sink, SinkWriter, TwoPhaseCommittingSink, WriterInitContext

__all__ = ["AsyncSink", "AsyncSinkWriter", "AsyncSinkWriterConfiguration", "ElementConverter"]

EntryT = TypeVar("EntryT")
T = TypeVar("T")

_logger = logging.getLogger(__name__)

_CONVERTED_ROWS: Final = 8192
_CONVERTED_BYTES: Final = 8 << 20
_CLOSE_SECONDS: Final = 10.0


class ElementConverter(ABC, Generic[EntryT]):
    """Converts rows to request entries. Immutable and picklable."""

    @abstractmethod
    def apply(self, batch: pa.RecordBatch, context: WriterInitContext) -> Iterable[EntryT]:
        """Return the entries for some rows, in order. Executor, task's thread.

        Pass a row that cannot become an entry to ``context.record_errors`` and leave it out. If
        entries are bytes that you build by column, return `EntryColumns`.

        Args:
            batch: Rows of the sink, a part of the writer's input.
            context: The context of the writer.
        """


class AsyncSink(Sink, Generic[EntryT]):
    """A sink whose writers send requests to a service. At least once.

    An epoch ends when the service has accepted all its rows, or the record policy has handled
    them. Rows that the service accepted from a failed attempt stay there, so the sink cannot
    commit in two phases. Make the requests idempotent if duplicates matter.
    """

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if issubclass(cls, TwoPhaseCommittingSink):
            raise UnsupportedError(
                f"{cls.__name__} is both an AsyncSink and a TwoPhaseCommittingSink",
                expected="only one of them, because a sent request cannot be undone",
                hint="either stage the rows and commit them, or send them and make them idempotent",
            )

    @abstractmethod
    def create_writer(self, context: WriterInitContext) -> AsyncSinkWriter[EntryT]:
        """Create a writer for one task of one epoch. Executor."""


class AsyncSinkWriter(SinkWriter, Generic[EntryT]):
    """Collects entries and sends them in concurrent requests. Executor.

    The task's thread converts rows. The event loop of the process sends requests while the task
    continues to read. If the buffer is full, the task waits.

    Args:
        converter: Converts rows to entries.
        context: The context of the writer.
        configuration: The limits.
        rate_limiting_strategy: Decides when to send the next request; not shared with other
            writers. By default, the configuration determines it. Congestion control passes what it
            learned about the service to the next writer of the sink in the same process.
    """

    def __init__(
        self,
        converter: ElementConverter[EntryT],
        context: WriterInitContext,
        configuration: AsyncSinkWriterConfiguration | None = None,
        *,
        rate_limiting_strategy: RateLimitingStrategy | None = None,
    ) -> None:
        self._converter = converter
        self._context = context
        self._configuration = configuration or AsyncSinkWriterConfiguration()
        strategy = rate_limiting_strategy or self._named_strategy()
        is_ours = rate_limiting_strategy is None
        self._learning: CongestionControlRateLimitingStrategy | None = None
        if is_ours and isinstance(strategy, CongestionControlRateLimitingStrategy):
            self._learning = strategy
        self._sending = RequestSender(
            self.submit_request_entries,
            self._configuration,
            strategy,
            context,
        )
        self._rejected: deque[tuple[BadRecord, BaseException | None]] = deque()

    # --- For a connector ------------------------------------------------------------------------

    @abstractmethod
    async def submit_request_entries(self, entries: Sequence[EntryT]) -> Sequence[EntryT]:
        """Send one request. Event loop's thread: await, never block.

        Args:
            entries: The entries to send, in this order.

        Returns:
            The given objects to retry, because the service temporarily rejected them. If the
            service will never accept an entry, pass it to `reject` and do not return it.

        Raises:
            RetryableError: Retry all entries, after ``retry_after`` if set.
            ConnectorError: Retrying does not help; the attempt fails.
        """

    @abstractmethod
    def get_size_in_bytes(self, entry: EntryT) -> int:
        """Return the size that an entry adds to its request."""

    def get_key(self, entry: EntryT) -> Hashable | None:
        """Return the key of an entry. Entries with the same key are sent in order.

        Each is sent after the service has accepted the previous one. The service may still execute
        a request that timed out; only a version in the request prevents it from overwriting newer
        data. None, the default, means that order does not matter.
        """
        return None

    def raw(self, entry: EntryT) -> bytes | None:
        """Return the entry for the dead letters."""
        return entry if isinstance(entry, bytes) else None

    async def close_client(self) -> None:
        """Close what `submit_request_entries` opened. Event loop's thread."""

    def reject(self, entry: EntryT, reason: str, *, cause: BaseException | None = None) -> None:
        """Pass an entry that will never be accepted to the record policy. Any thread.

        Args:
            entry: The entry.
            reason: Why, for people.
            cause: The underlying error.
        """
        record = BadRecord(reason=reason, source_uid=self._context.sink_uid, raw=self.raw(entry))
        self._rejected.append((record, cause))

    def explain_retry(self, reason: str) -> None:
        """Explain why entries are retried. Event loop's thread.

        The error contains this text if retries continue for too long. A `RetryableError` has its
        own text.
        """
        self._sending.explain_retry(reason)

    # --- For the runtime ------------------------------------------------------------------------

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows; wait while the buffer is full."""
        size = max(batch.nbytes, 1)
        step = max(1, min(_CONVERTED_ROWS, batch.num_rows * _CONVERTED_BYTES // size))
        for start in range(0, batch.num_rows, step):
            rows = batch.slice(start, step)
            held = self._held(self._converter.apply(rows, self._context))
            _finished(self._sending.add(held))
            self._hand_over_rejected()

    def flush(self) -> None:
        """Wait until every entry is accepted or rejected."""
        _finished(self._sending.drain())
        self._hand_over_rejected()

    def close(self) -> None:
        """Cancel requests in flight and close the client."""
        stopped = submit(self._stop())
        try:
            stopped.result(_CLOSE_SECONDS)
        except TimeoutError:
            if stopped.done():
                raise  # the client had a timeout of its own
            stopped.cancel()
            _logger.warning(
                "the client of sink %r did not close within %g seconds and stays open in its "
                "process",
                self._context.sink_uid,
                _CLOSE_SECONDS,
            )

    def _named_strategy(self) -> RateLimitingStrategy:
        bounds = self._configuration
        if bounds.rate_limiting is RateLimiting.FIXED:
            return FixedRateLimitingStrategy(
                max_in_flight_requests=bounds.max_in_flight_requests,
                max_batch_size=bounds.max_batch_size,
            )
        return CongestionControlRateLimitingStrategy(
            max_in_flight_requests=bounds.max_in_flight_requests,
            max_batch_size=bounds.max_batch_size,
            initial_max_in_flight_messages=capacity.seen(*self._sink_key),
        )

    @property
    def _sink_key(self) -> tuple[str, str]:
        return self._context.pipeline_id, self._context.sink_uid

    async def _stop(self) -> None:
        if self._learning is not None:  # before canceled requests count as rejected
            messages = self._learning.max_in_flight_messages
            capacity.remember(*self._sink_key, messages)
        await self._sending.stop()
        await self.close_client()

    def _held(self, entries: Iterable[EntryT]) -> Held[EntryT]:
        largest = self._configuration.max_record_size_in_bytes
        now = event_loop().time()
        held: Held[Any]
        if isinstance(entries, EntryColumns):
            held = Held(entries, entries.sizes, entries.keys, now)
        else:
            found = list(entries)
            sizes = np.fromiter(map(self.get_size_in_bytes, found), np.int64, len(found))
            held = Held(found, sizes, _hashes(map(self.get_key, found)), now)
        fits = held.sizes <= largest
        if fits.all():
            return held
        for at in np.flatnonzero(~fits).tolist():
            reason = f"it has {held.sizes[at]} bytes; max_record_size_in_bytes is {largest}"
            self.reject(held.entries[at], reason)
        return held.select(np.flatnonzero(fits))

    def _hand_over_rejected(self) -> None:
        """Run on the task's thread, because the policy is not thread safe."""
        while self._rejected:
            record, cause = self._rejected.popleft()
            self._context.record_errors.handle(record, cause=cause)


def _hashes(keys: Iterable[Hashable | None]) -> pa.Array | None:
    """Numbers that distinguish keys. If two keys share a number, one waits unnecessarily."""
    found = [None if key is None else hash(key) for key in keys]
    return None if found.count(None) == len(found) else pa.array(found, pa.int64())


def _finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine on the event loop."""
    future = submit(coroutine)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # no effect on a finished one
        raise
