# SPDX-License-Identifier: Apache-2.0
"""Joins the rows of a task with the rows of a lookup. Executor.

A worker process opens a function and its cache once and keeps them for the next task. To connect
and refill the cache again would cost more than most tasks.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.clients.event_loop import submit
from connectors_core.clients.retries import RetryLog, RetryPolicy
from connectors_core.engine.execution.closing import close_after_error
from connectors_core.engine.execution.writer_task import conform
from connectors_core.errors import (
    BadRecordError,
    ConnectorError,
    FatalError,
    RetryableError,
    UnexpectedError,
)
from connectors_core.lookup.cache import LookupCache
from connectors_core.lookup.function import AsyncLookupFunction, FunctionContext, LookupFunction
from connectors_core.lookup.join import LookupJoin
from connectors_core.lookup.provider import (
    AsyncLookupFunctionProvider,
    LookupFunctionProvider,
    LookupRequestConfiguration,
    PartialCachingLookupProvider,
)
from connectors_core.metrics import LookupMetric, MetricGroup

ByKey = LookupFunctionProvider | AsyncLookupFunctionProvider | PartialCachingLookupProvider
"""Providers whose functions look up keys."""

_KEPT_OPEN: Final = 8
_CLOSE_SECONDS: Final = 10.0
_HINT: Final = (
    "correct the record in the table, or remove the rows with its key before the lookup: "
    "df.where(...)"
)


@dataclass(frozen=True, kw_only=True)
class LookupTask:
    """Everything that a task needs to join its rows; sent to executors.

    Attributes:
        pipeline_id: The pipeline.
        uid: The lookup within it.
        life: One start of the pipeline, or one version of a fully cached table. A task does not
            reuse a function that was opened for another life.
        join: The columns to compare and to add.
        provider: Fetches the rows.
    """

    pipeline_id: str
    uid: str
    life: str
    join: LookupJoin
    provider: ByKey

    def run(
        self, batches: Iterable[pa.RecordBatch], observe: Callable[[MetricGroup], None]
    ) -> Iterator[pa.RecordBatch]:
        """Join rows.

        Requests are in flight while the task takes more rows. The output keeps the order of the
        input. The task cancels requests whose results it no longer needs.

        Args:
            batches: Rows from Spark.
            observe: Called with the metrics of this task at its end.

        Yields:
            Rows of ``join.schema``.

        Raises:
            BadRecordError: A key cannot be looked up, or a row of the table cannot be read.
            ConnectorError: A request failed permanently.
        """
        try:
            yield from self._run(batches, observe)
        except BadRecordError as error:
            error.hint = _HINT  # a lookup has no record policy
            raise

    def _run(
        self, batches: Iterable[pa.RecordBatch], observe: Callable[[MetricGroup], None]
    ) -> Iterator[pa.RecordBatch]:
        conformed = (conform(batch, self.join.rows) for batch in batches if batch.num_rows)
        rows = itertools.chain.from_iterable(map(self.join.pieces, conformed))
        first = next(rows, None)
        if first is None:
            return
        lookup = _opened.take(self)
        try:
            yield from _joined(self.join, lookup, itertools.chain([first], rows))
        except GeneratorExit:  # a downstream limit has enough rows
            _opened.give_back(self, lookup)
            raise
        except BaseException:
            observe(lookup.take_numbers())
            close_after_error(lookup)
            raise
        observe(lookup.take_numbers())
        _opened.give_back(self, lookup)


def _joined(
    join: LookupJoin, lookup: _OpenLookup, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    waiting: deque[tuple[pa.RecordBatch, pa.RecordBatch, _Request]] = deque()
    try:
        for rows in batches:
            keys = join.distinct_keys(rows)
            waiting.append((rows, keys, lookup.begin(keys)))
            while waiting and (len(waiting) >= lookup.most_requests or waiting[0][2].done()):
                rows, keys, request = waiting.popleft()
                yield from join.join(rows, keys, request.result())
        while waiting:
            rows, keys, request = waiting.popleft()
            yield from join.join(rows, keys, request.result())
    finally:
        for _, _, request in waiting:
            request.cancel()


# --- Requests -------------------------------------------------------------------------------------


class _Request(Protocol):
    """Rows that have arrived or are in flight."""

    def done(self) -> bool: ...

    def result(self) -> pa.Table: ...

    def cancel(self) -> object: ...


def _ready(rows: pa.Table) -> Future[pa.Table]:
    future: Future[pa.Table] = Future()
    future.set_result(rows)
    return future


class _Requests(ABC):
    """Calls a function, with retries."""

    def __init__(
        self, task: LookupTask, requests: LookupRequestConfiguration, metrics: MetricGroup
    ) -> None:
        self._uid = task.uid
        self._schema = task.join.table
        self._requests = requests
        self._metrics = metrics
        self._retry_log = RetryLog(f"a request of lookup {task.uid!r}")
        self._retries = RetryPolicy(
            initial_backoff=requests.initial_backoff.total_seconds(),
            max_backoff=requests.max_backoff.total_seconds(),
            max_attempts=1 + requests.max_retries,
        )

    @property
    @abstractmethod
    def most_requests(self) -> int:
        """Maximum number of concurrent requests."""

    @abstractmethod
    def begin(self, keys: pa.RecordBatch) -> _Request:
        """Request the rows of one or more keys."""

    @abstractmethod
    def close(self) -> None:
        """Close the function."""

    def _open(self, open_function: Callable[[FunctionContext], None]) -> None:
        """Open the function, with retries."""
        context = FunctionContext(uid=self._uid, metric_group=self._metrics)

        def opened() -> None:
            try:
                open_function(context)
            except Exception as error:
                self._fail(error)

        self._retries.retrying(self._retry_log)(opened)

    def _answered(self, rows: pa.Table, began: float) -> pa.Table:
        rows = self._checked(rows)
        milliseconds = (time.monotonic() - began) * 1e3
        self._metrics.inc(LookupMetric.LOAD_COUNT)
        self._metrics.inc(LookupMetric.LOAD_TIME, round(milliseconds))
        self._metrics.set(LookupMetric.LATEST_LOAD_TIME, milliseconds)
        return rows

    def _fail(self, error: Exception) -> NoReturn:
        """Count a failure and raise it as a connector error."""
        self._metrics.inc(LookupMetric.NUM_LOAD_FAILURE)
        if isinstance(error, ConnectorError):
            raise error
        raise UnexpectedError(
            f"a request of lookup {self._uid!r} failed with an unexpected error",
            found=type(error).__name__,
        ) from error

    def _checked(self, rows: pa.Table) -> pa.Table:
        names = self._schema.names
        if isinstance(rows, pa.Table) and set(rows.schema.names) == set(names):
            rows = rows.select(names)
            if rows.schema.types == self._schema.types:
                return rows
        raise FatalError(
            f"the function of lookup {self._uid!r} returned other columns than requested",
            expected=str(self._schema),
            found=str(rows.schema) if isinstance(rows, pa.Table) else type(rows).__name__,
            hint="this is a bug in the connector: report it",
        )


class _BlockingRequests(_Requests):
    """Runs requests one after another on the task's thread."""

    most_requests = 1

    def __init__(self, function: LookupFunction, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._function = function
        self._retrying = self._retries.retrying(self._retry_log)
        self._open(function.open)

    def begin(self, keys: pa.RecordBatch) -> _Request:
        return _ready(self._retrying(self._ask, keys))

    def _ask(self, keys: pa.RecordBatch) -> pa.Table:
        began = time.monotonic()
        try:
            return self._answered(self._function.lookup(keys), began)
        except Exception as error:
            self._fail(error)

    def close(self) -> None:
        self._function.close()


class _AsyncRequests(_Requests):
    """Runs several concurrent requests on the event loop of the process."""

    def __init__(self, function: AsyncLookupFunction, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._function = function
        self._retrying = self._retries.async_retrying(self._retry_log)
        self._open(function.open)

    @property
    def most_requests(self) -> int:
        # A task has exclusive use of the function, so no other task has requests in flight.
        return self._requests.max_concurrent_requests

    def begin(self, keys: pa.RecordBatch) -> _Request:
        return submit(self._retrying(self._ask, keys))

    async def _ask(self, keys: pa.RecordBatch) -> pa.Table:
        began = time.monotonic()
        seconds = self._requests.timeout.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                rows = await self._function.async_lookup(keys)
            return self._answered(rows, began)
        except TimeoutError as error:
            late = RetryableError(
                f"lookup {self._uid!r} got no response within {seconds:g} seconds", option="timeout"
            )
            late.__cause__ = error
            self._fail(late)
        except Exception as error:
            self._fail(error)

    def close(self) -> None:
        closed = submit(self._function.close())
        try:
            closed.result(_CLOSE_SECONDS)
        except TimeoutError:
            closed.cancel()


@dataclass
class _PartlyCached:
    """A request for the keys that the cache does not have, and the cached rows of the others."""

    cache: LookupCache
    missing: pa.RecordBatch
    cached: pa.Table | None
    fetched: _Request

    def done(self) -> bool:
        return self.fetched.done()

    def result(self) -> pa.Table:
        """Return the rows; runs on the task's thread, since the cache is not thread-safe."""
        rows = self.fetched.result()
        self.cache.put(self.missing, rows)
        return rows if self.cached is None else pa.concat_tables([self.cached, rows])

    def cancel(self) -> object:
        return self.fetched.cancel()


# --- Open lookups of a process --------------------------------------------------------------------


class _OpenLookup:
    """The open function of a lookup and its cache; one task at a time uses it."""

    def __init__(self, task: LookupTask) -> None:
        self.life = task.life
        self._metrics = MetricGroup()
        self._nothing = task.join.table.empty_table()
        provider = task.provider
        arguments = task, provider.requests, self._metrics
        self._requests: _Requests
        if isinstance(provider.function, AsyncLookupFunction):
            self._requests = _AsyncRequests(provider.function, *arguments)
        else:
            self._requests = _BlockingRequests(provider.function, *arguments)
        self._cache: LookupCache | None = None
        if isinstance(provider, PartialCachingLookupProvider):
            self._cache = provider.cache
            self._cache.open(self._metrics)

    @property
    def most_requests(self) -> int:
        """Maximum number of concurrent requests."""
        return self._requests.most_requests

    def begin(self, keys: pa.RecordBatch) -> _Request:
        """Get the rows of some keys."""
        self._metrics.inc(LookupMetric.NUM_LOOKUP_KEYS, keys.num_rows)
        if keys.num_rows == 0:
            return _ready(self._nothing)
        if self._cache is None:
            return self._requests.begin(keys)
        present, cached = self._cache.get_if_present(keys)
        missing = keys.filter(pc.invert(present))
        self._metrics.inc(LookupMetric.HIT_COUNT, keys.num_rows - missing.num_rows)
        self._metrics.inc(LookupMetric.MISS_COUNT, missing.num_rows)
        if missing.num_rows == 0:
            return _ready(self._nothing if cached is None else cached)
        return _PartlyCached(self._cache, missing, cached, self._requests.begin(missing))

    def take_numbers(self) -> MetricGroup:
        """Return the counts since the last call."""
        taken = self._metrics.copy()
        for name, number in taken.counters.items():
            self._metrics.inc(name, -number)
        return taken

    def close(self) -> None:
        """Close function and cache."""
        try:
            self._requests.close()
        finally:
            if self._cache is not None:
                self._cache.close()


class _OpenLookups:
    """The open lookups of this process that no task uses. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: OrderedDict[tuple[str, str], _OpenLookup] = OrderedDict()

    def take(self, task: LookupTask) -> _OpenLookup:
        """Take a task's lookup for exclusive use until it is given back; open it if necessary."""
        with self._lock:
            lookup = self._free.pop(_key(task), None)
        if lookup is not None and lookup.life != task.life:
            lookup.close()
            lookup = None
        return lookup or _OpenLookup(task)

    def give_back(self, task: LookupTask, lookup: _OpenLookup) -> None:
        """Keep it for the next task; may close the least recently used one."""
        with self._lock:
            replaced = [self._free.pop(_key(task), None)]
            self._free[_key(task)] = lookup
            if len(self._free) > _KEPT_OPEN:
                replaced.append(self._free.popitem(last=False)[1])
        for each in replaced:
            if each is not None:
                each.close()

    def close(self) -> None:
        """Close all lookups."""
        with self._lock:
            free, self._free = self._free, OrderedDict()
        for lookup in free.values():
            lookup.close()


def _key(task: LookupTask) -> tuple[str, str]:
    return task.pipeline_id, task.uid


_opened: Final = _OpenLookups()


def close_lookups() -> None:
    """Close the lookups of this process that no task uses; for tests and the driver."""
    _opened.close()
