# SPDX-License-Identifier: Apache-2.0
"""An in-memory table for lookup tests, and functions that request it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from connectors_core.engine.execution.lookup_task import LookupTask
from connectors_core.errors import RetryableError
from connectors_core.lookup import (
    AsyncLookupFunction,
    AsyncLookupFunctionProvider,
    LookupFunction,
    LookupFunctionProvider,
    PartialCachingLookupProvider,
)
from connectors_core.lookup.join import LookupJoin

ROWS = pa.schema([pa.field("n", pa.int64()), pa.field("key", pa.int64())])
TABLE = pa.schema([pa.field("key", pa.int64()), pa.field("value", pa.string())])


def rows_of(keys: Sequence[int | None], first: int = 0) -> pa.RecordBatch:
    numbers = range(first, first + len(keys))
    return pa.record_batch([pa.array(numbers, pa.int64()), pa.array(keys, pa.int64())], ROWS)


def found(keys: pa.RecordBatch) -> pa.Table:
    """Return `key` rows for each key, but at most two, and none for a negative key."""
    rows = [
        {"key": key, "value": f"{key}.{number}"}
        for key in keys.column("key").to_pylist()
        for number in range(max(0, min(2, key)))
    ]
    return pa.Table.from_pylist(rows, schema=TABLE)


def expected(batches: Sequence[pa.RecordBatch], how: str = "left") -> list[dict[str, object]]:
    result = []
    for row in (row for batch in batches for row in batch.to_pylist()):
        key = row["key"]
        values = [f"{key}.{n}" for n in range(max(0, min(2, key or 0)))]
        result += [row | {"value": value} for value in values or [None] * (how == "left")]
    return result


@dataclass
class Asked(LookupFunction):
    """Records its requests and fails as often as configured."""

    failures: list[Exception] = field(default_factory=list)
    asked: list[list[int]] = field(default_factory=list)
    opened: int = 0
    closed: int = 0

    def open(self, context):
        self.opened += 1

    def lookup(self, keys):
        self.asked.append(keys.column("key").to_pylist())
        if self.failures:
            raise self.failures.pop()
        return found(keys)

    def close(self):
        self.closed += 1


class AskedLater(AsyncLookupFunction):
    """Answers when the test allows it. Requests are numbered from zero."""

    def __init__(self, waits: Callable[[int], asyncio.Future | None] | None = None):
        self.waits = waits
        self.asked = []
        self.cancelled = []
        self.on_their_way = self.most_on_their_way = 0
        self.failures = []
        self.closed = threading.Event()

    async def async_lookup(self, keys):
        number = len(self.asked)
        self.asked.append(keys.column("key").to_pylist())
        self.on_their_way += 1
        self.most_on_their_way = max(self.most_on_their_way, self.on_their_way)
        try:
            if self.failures:
                raise self.failures.pop()
            await (asyncio.sleep(0) if self.waits is None else self.waits(number))
        except asyncio.CancelledError:
            self.cancelled.append(number)
            raise
        finally:
            self.on_their_way -= 1
        return found(keys)

    async def close(self):
        self.closed.set()


def task_of(provider, *, uid="table", life="1", how="left"):
    if isinstance(provider, LookupFunction):
        provider = LookupFunctionProvider(provider)
    elif isinstance(provider, AsyncLookupFunction):
        provider = AsyncLookupFunctionProvider(provider)
    join = LookupJoin.of(ROWS, TABLE, on=["key"], how=how)
    return LookupTask(pipeline_id="p", uid=uid, life=life, join=join, provider=provider)


def cached(function, cache):
    return PartialCachingLookupProvider(function, cache)


def retryable(**arguments) -> RetryableError:
    return RetryableError("not now", **arguments)
