# SPDX-License-Identifier: Apache-2.0
"""The tools of the `AsyncSinkWriter` suite: a writer and its recorded requests."""

from __future__ import annotations

import contextlib
import functools
import operator
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa

from connectors_core.records import RecordErrorHandler, RecordPolicy
from connectors_core.sink import (
    AsyncSink,
    AsyncSinkWriter,
    AsyncSinkWriterConfiguration,
    EntryColumns,
)
from connectors_core.testing.context import ROWS, AsyncSinkExternalContext
from connectors_core.testing.data import assert_at_least, make_rows
from connectors_core.testing.pace import Deadline
from connectors_core.testing.sink_unit import writer_context

# Limits that a few rows reach. The timeout of the buffer never triggers a request.
BOUNDS: Final = AsyncSinkWriterConfiguration(
    max_batch_size=5,
    max_in_flight_requests=2,
    max_buffered_requests=20,
    max_batch_size_in_bytes=4 << 10,
    max_record_size_in_bytes=4 << 10,
    max_time_in_buffer=timedelta(hours=1),
    request_timeout=timedelta(seconds=5),
    retry_timeout=timedelta(seconds=20),
    initial_backoff=timedelta(milliseconds=2),
    max_backoff=timedelta(milliseconds=20),
)


@dataclass(eq=False)
class SentRequest:
    """A request as the core sent it.

    Attributes:
        entries: The entries of the request.
        keys: The keys of the entries.
        beside: The number of requests in flight at that time, including this one.
        keys_beside: The keys of the entries in the other requests.
        again: The entries to retry, or None until the response arrives.
    """

    entries: tuple[Any, ...]
    keys: tuple[Any, ...]
    beside: int
    keys_beside: frozenset[Any]
    again: tuple[Any, ...] | None = None


class SentRequests:
    """Records the requests of a writer, between the writer and its base class.

    Args:
        writer: The writer, which is modified in place.
    """

    def __init__(self, writer: AsyncSinkWriter[Any]) -> None:
        self.all: list[SentRequest] = []
        self.rejected: list[Any] = []
        self._writer = writer
        self._submit = writer.submit_request_entries
        self._reject = writer.reject
        writer._sending.submit_entries = self._submitting
        vars(writer)["reject"] = self._rejecting

    async def _submitting(self, entries: Sequence[Any]) -> Sequence[Any]:
        on_their_way = self.open()
        request = SentRequest(
            tuple(entries),
            tuple(self._keys(entries)),
            1 + len(on_their_way),
            frozenset(key for each in on_their_way for key in each.keys),
        )
        self.all.append(request)
        try:
            again = await self._submit(entries)
        except BaseException:
            request.again = request.entries
            raise
        request.again = tuple(again)
        return again

    def _rejecting(self, entry: Any, *arguments: Any, **named: Any) -> None:
        self.rejected.append(entry)
        self._reject(entry, *arguments, **named)

    def open(self) -> list[SentRequest]:
        """Return the requests without a response."""
        return [request for request in self.all if request.again is None]

    def times_sent(self, entry: Any) -> int:
        """Return how often this entry was sent. Each request may copy its bytes."""
        is_it = operator.eq if isinstance(entry, bytes) else operator.is_
        return sum(is_it(entry, sent) for request in self.all for sent in request.entries)

    def _keys(self, entries: Sequence[Any]) -> Iterable[Any]:
        if not isinstance(entries, EntryColumns):
            return map(self._writer.get_key, entries)
        return [None] * len(entries) if entries.keys is None else entries.keys.to_pylist()


class Writing:
    """A running writer.

    Args:
        writer: The writer.
        errors: What its context does with bad records.
        seconds: The timeout for each call.
    """

    def __init__(
        self, writer: AsyncSinkWriter[Any], errors: RecordErrorHandler, seconds: float
    ) -> None:
        self.writer = writer
        self.requests = SentRequests(writer)
        self.errors = errors
        self._seconds = seconds

    @property
    def held(self) -> int:
        """The number of entries that are neither accepted nor rejected."""
        return self.writer._sending._buffer.count

    def write(self, rows: pa.Table) -> None:
        """Write rows, in several batches."""
        for batch in rows.to_batches(max_chunksize=7):
            self.end(self.begin(functools.partial(self.writer.write, batch)), "write")

    def flush(self) -> None:
        """Wait until the writer holds no entries."""
        self.end(self.begin(self.writer.flush), "flush")

    def begin(self, call: Callable[[], None]) -> Future[None]:
        """Call the writer on another thread, because it may wait for the test's next step."""
        ended: Future[None] = Future()

        def run() -> None:
            try:
                call()
            except BaseException as error:
                ended.set_exception(error)
            else:
                ended.set_result(None)

        threading.Thread(target=run, name="writing", daemon=True).start()
        return ended

    def end(self, call: Future[None], what: str) -> None:
        """Wait for the end of a call, and raise its error."""
        self.wait(call.done, f"{what} ends")
        call.result()

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition."""
        deadline = Deadline(self._seconds)
        while not condition():
            assert not deadline.passed, f"not within {deadline}: {what}"
            time.sleep(0.005)


class AsyncSinkTrial:
    """The external system and the rows of a case.

    Args:
        context: The external system.
        seed: The seed of the rows.
        seconds: The timeout for each call of a writer.
    """

    def __init__(self, context: AsyncSinkExternalContext, seed: int, seconds: float) -> None:
        self.context = context
        self._seed = seed
        self._seconds = seconds

    def sink(self, **bounds: Any) -> AsyncSink[Any]:
        """Create a sink with the limits of the suite, or with others."""
        return self.context.create_async_sink(replace(BOUNDS, **bounds))

    @contextlib.contextmanager
    def writing(self, policy: RecordPolicy | None = None, **bounds: Any) -> Iterator[Writing]:
        """Run a writer, and close it at the end.

        Args:
            policy: The record policy.
            **bounds: The limits that differ from `BOUNDS`.
        """
        errors = RecordErrorHandler(policy or RecordPolicy.fail())
        context = writer_context(pipeline_id=uuid.uuid4().hex, record_errors=errors)
        writer = self.sink(**bounds).create_writer(context)
        with contextlib.closing(writer):
            yield Writing(writer, errors, self._seconds)

    def rows(self, count: int, *, split: int | None = None, letters: int | None = None) -> pa.Table:
        """Return rows from ``seq`` 0, each in its own split by default.

        Args:
            count: The number of rows.
            split: The split of all rows.
            letters: The length of their texts.
        """
        if split is None:
            each = (make_rows(seq, seq, 1, self._seed) for seq in range(count))
            rows = pa.concat_tables(each).combine_chunks()
        else:
            rows = make_rows(split, 0, count, self._seed)
        if letters is None:
            return rows
        texts = pa.array([f"{number:0{letters}d}" for number in range(count)], pa.string())
        return rows.set_column(3, ROWS.field("text"), texts)

    def assert_taken(self, *rows: pa.Table) -> None:
        """Check that the external system contains exactly these rows."""
        assert_at_least(self.context.read_back(), rows)
