# SPDX-License-Identifier: Apache-2.0
"""A service that throttles, reorders, and partially fails, and a sink for it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from connectors_core.errors import RetryableError
from connectors_core.records import RecordErrorHandler, RecordPolicy
from connectors_core.sink import (
    AsyncSinkWriter,
    AsyncSinkWriterConfiguration,
    ElementConverter,
    EntryColumns,
    RateLimitingStrategy,
    WriterInitContext,
)

SCHEMA = pa.schema([("number", pa.int64()), ("key", pa.int64()), ("size", pa.int64())])
POISON = -1
_numbers = itertools.count()


@dataclass(frozen=True, eq=False)
class Entry:
    """A row. Two entries with the same content are different."""

    number: int
    key: int
    size: int


class Rows(ElementConverter[Entry]):
    """Makes one entry of each row."""

    def apply(self, batch: pa.RecordBatch, context: WriterInitContext) -> Iterable[Entry]:
        return [Entry(**row) for row in batch.to_pylist()]


@dataclass(frozen=True)
class Behaviour:
    """The handling of a request.

    Attributes:
        turns: The number of event loop turns before the response.
        refused: Positions in the request, in thousandths, of the entries to return for a retry.
        error: Whether the whole request fails.
    """

    turns: int = 0
    refused: tuple[int, ...] = ()
    error: bool = False


@dataclass
class Service:
    """Records requests, follows its behaviours, and then accepts everything."""

    behaviours: Sequence[Behaviour] = ()
    accepted: list[Entry] = field(default_factory=list)
    requests: list[list[Entry]] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    on_request: Callable[[], None] = lambda: None

    async def request(self, entries: Sequence[Entry]) -> list[Entry]:
        number = len(self.requests)
        behaviour = self.behaviours[number] if number < len(self.behaviours) else Behaviour()
        self.requests.append(list(entries))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self.on_request()
        try:
            for _ in range(behaviour.turns):
                await asyncio.sleep(0)
        finally:
            self.in_flight -= 1
        if behaviour.error:
            raise RetryableError("busy")
        again = {share * len(entries) // 1000 for share in behaviour.refused}
        self.accepted += [entry for at, entry in enumerate(entries) if at not in again]
        return [entry for at, entry in enumerate(entries) if at in again]


class ServiceWriter(AsyncSinkWriter[Entry]):
    """Sends to a simulated service. If ordered, it uses the keys; the key 0 means no key."""

    def __init__(
        self,
        service: Service,
        configuration: AsyncSinkWriterConfiguration,
        *,
        ordered: bool = False,
        policy: RecordPolicy | None = None,
        strategy: RateLimitingStrategy | None = None,
        uid: str | None = None,
    ) -> None:
        self.errors = RecordErrorHandler(policy or RecordPolicy.fail())
        self.context = WriterInitContext(
            pipeline_id="pipeline",
            sink_uid=uid or f"service-{next(_numbers)}",
            checkpoint_id=0,
            subtask_id=0,
            attempt_number=0,
            nonce="nonce",
            schema=SCHEMA,
            record_errors=self.errors,
        )
        super().__init__(Rows(), self.context, configuration, rate_limiting_strategy=strategy)
        self.service = service
        self.ordered = ordered
        self.closed = False

    async def submit_request_entries(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        for entry in entries:
            if entry.number == POISON:
                self.reject(entry, "poison")
        return await self.service.request(entries)

    def get_size_in_bytes(self, entry: Entry) -> int:
        return entry.size

    def get_key(self, entry: Entry) -> int | None:
        return (entry.key or None) if self.ordered else None

    async def close_client(self) -> None:
        self.closed = True


class EntriesAsColumns(ElementConverter[bytes]):
    """Entries as columns. Each entry has the size that its row states, if it fits."""

    def __init__(self, *, ordered: bool) -> None:
        self.ordered = ordered

    def apply(self, batch: pa.RecordBatch, context: WriterInitContext) -> EntryColumns:
        found = Rows().apply(batch, context)
        texts = [f"{each.number},{each.key},".ljust(each.size - 1, ".") + "\n" for each in found]
        keys = [f"key-{each.key}" if each.key else None for each in found]
        return EntryColumns(pa.array(texts), pa.array(keys, pa.string()) if self.ordered else None)


class ColumnsWriter(ServiceWriter):
    """The same writer with entries that stay in columns."""

    def __init__(self, *arguments: Any, ordered: bool = False, **named: Any) -> None:
        super().__init__(*arguments, ordered=ordered, **named)
        self._converter: Any = EntriesAsColumns(ordered=ordered)

    async def submit_request_entries(self, entries: Any) -> Any:
        found = []
        for text in entries.joined().splitlines():
            number, key, _ = text.split(b",")
            found.append(Entry(int(number), int(key), len(text) + 1))
        again = await self.service.request(found)
        return [entries[found.index(entry)] for entry in again]


def rows(numbers: Iterable[int], *, keys: int = 1, size: int = 1) -> pa.RecordBatch:
    """Return a batch of numbered rows."""
    found: list[dict[str, Any]] = [
        {"number": number, "key": number % keys + 1, "size": size} for number in numbers
    ]
    return pa.RecordBatch.from_pylist(found, schema=SCHEMA)
