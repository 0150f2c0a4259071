# SPDX-License-Identifier: Apache-2.0
"""Sinks that send requests to a service, several at a time (Flink's FLIP-171)."""

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
from connectors_core.sink.entry_columns import EntryColumns
from connectors_core.sink.rate_limits import (
    CongestionControlRateLimitingStrategy,
    FixedRateLimitingStrategy,
    RateLimiting,
    RateLimitingStrategy,
)
from connectors_core.sink.request_buffer import Held
from connectors_core.sink.request_sender import AsyncSinkWriterConfiguration, RequestSender
from connectors_core.sink.sink import Sink, SinkWriter, TwoPhaseCommittingSink, WriterInitContext

__all__ = ["AsyncSink", "AsyncSinkWriter", "AsyncSinkWriterConfiguration", "ElementConverter"]

EntryT = TypeVar("EntryT")
T = TypeVar("T")

_logger = logging.getLogger(__name__)

_CONVERTED_ROWS: Final = 8192
_CONVERTED_BYTES: Final = 8 << 20
_CLOSE_SECONDS: Final = 10.0


class ElementConverter(ABC, Generic[EntryT]):
    """Makes request entries of rows. Immutable and picklable."""

    @abstractmethod
    def apply(self, batch: pa.RecordBatch, context: WriterInitContext) -> Iterable[EntryT]:
        """The entries of some rows, in their order. Executor, task's thread.

        A row that cannot be an entry goes to ``context.record_errors`` and is left out. Where
        entries are bytes that are made column by column, return `EntryColumns`.

        Args:
            batch: Rows of the sink, a part of what the writer was given.
            context: The writer's.
        """


class AsyncSink(Sink, Generic[EntryT]):
    """A sink whose writers send requests to a service. At least once.

    An epoch is over when the service has accepted, or the record policy taken, all its rows. What
    was accepted of an attempt that fails stays, so it cannot be committed in two phases: make the
    requests idempotent where a row must not count twice.
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
        """A writer for one task of one epoch. Executor."""


class AsyncSinkWriter(SinkWriter, Generic[EntryT]):
    """Collects entries and sends them in requests, several at a time. Executor.

    Rows are converted on the task's thread; requests are sent from the event loop of the process,
    also while the task reads on. Where the buffer is full the task waits.

    Args:
        converter: Makes entries of rows.
        context: The writer's.
        configuration: The bounds.
        rate_limiting_strategy: When the next request is sent; one of its own. By default the one
            that the configuration names. What congestion control has learned about the service,
            the next writer of the sink in the same process begins with.
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
            entries: What to send, in this order.

        Returns:
            Those of the given objects that must be sent again, as the service was not able to take
            them now. One that it will never take goes to `reject` and is not returned.

        Raises:
            RetryableError: All of them must be sent again, after ``retry_after`` where that is set.
            ConnectorError: Sending them again cannot help; the attempt fails.
        """

    @abstractmethod
    def get_size_in_bytes(self, entry: EntryT) -> int:
        """How much an entry adds to its request."""

    def get_key(self, entry: EntryT) -> Hashable | None:
        """Entries of one key are sent in their order, each when the one before is accepted.

        A request that timed out may still be carried out later: only a version in the request
        itself keeps it from overwriting a newer one. None, as here, where order does not matter.
        """
        return None

    def raw(self, entry: EntryT) -> bytes | None:
        """The entry for the dead letters."""
        return entry if isinstance(entry, bytes) else None

    async def close_client(self) -> None:
        """Close what `submit_request_entries` opened. Event loop's thread."""

    def reject(self, entry: EntryT, reason: str, *, cause: BaseException | None = None) -> None:
        """Give an entry that will never be accepted to the record policy. Any thread.

        Args:
            entry: The entry.
            reason: Why, for people.
            cause: The error behind it.
        """
        record = BadRecord(reason=reason, source_uid=self._context.sink_uid, raw=self.raw(entry))
        self._rejected.append((record, cause))

    def explain_retry(self, reason: str) -> None:
        """Say why entries are returned to be sent again. Event loop's thread.

        It stands in the error where that goes on for too long; a `RetryableError` says it itself.
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
        """Give up what is on its way, and close the client."""
        stopped = submit(self._stop())
        try:
            stopped.result(_CLOSE_SECONDS)
        except TimeoutError:
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
        if self._learning is not None:  # before what is given up counts as refused
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
        """On the task's thread: the policy is not for several."""
        while self._rejected:
            record, cause = self._rejected.popleft()
            self._context.record_errors.handle(record, cause=cause)


def _hashes(keys: Iterable[Hashable | None]) -> pa.Array | None:
    """Numbers to tell keys apart by: where two have the same, one waits for the other in vain."""
    found = [None if key is None else hash(key) for key in keys]
    return None if found.count(None) == len(found) else pa.array(found, pa.int64())


def _finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine of the event loop returns, when it has."""
    future = submit(coroutine)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # of no effect on one that has ended
        raise
