# SPDX-License-Identifier: Apache-2.0
"""Functions that fetch rows by key: what a connector writes for a lookup."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import pyarrow as pa

from connectors_core.metrics import MetricGroup


@dataclass(frozen=True, kw_only=True)
class FunctionContext:
    """What a function knows of the process that it runs in.

    Attributes:
        uid: The lookup within its pipeline.
        metric_group: Takes numbers of the connector's own.
    """

    uid: str
    metric_group: MetricGroup = field(default_factory=MetricGroup)


class LookupFunction(ABC):
    """Fetches rows by key, one request for a batch of keys (Flink's FLIP-221).

    Picklable until it is opened. Each worker process that needs it opens it once and keeps it
    for
    later tasks. It is closed when the pipeline restarts, when a task failed in it, or when the
    process ends in order. Spark ends an idle worker without closing it.
    """

    def open(self, context: FunctionContext) -> None:
        """Make clients. Executor, before the first lookup; tried again as `lookup` is."""

    @abstractmethod
    def lookup(self, keys: pa.RecordBatch) -> pa.Table:
        """The rows of some keys. Executor, task's thread.

        Args:
            keys: Distinct keys without nulls, at least one; its columns are ``context.keys`` of
                `LookupTableSource.get_lookup_runtime_provider`.

        Returns:
            Rows with exactly the columns of ``context.schema``, keys included, in any order:
            several for a key, or none. What was not asked for is left out by the join.

        Raises:
            RetryableError: Asking again may help; the core does so a bounded number of times.
            ConnectorError: It cannot; the task fails.
        """

    def close(self) -> None:
        """Release what ``open`` made."""


class AsyncLookupFunction(ABC):
    """As `LookupFunction`, for a client that does not block: several batches are asked at a time.

    Clients that belong to an event loop are made in `async_lookup`, at its first call.
    """

    def open(self, context: FunctionContext) -> None:
        """Get ready. Executor, task's thread, before the first lookup."""

    @abstractmethod
    async def async_lookup(self, keys: pa.RecordBatch) -> pa.Table:
        """Return the rows of some keys, as `LookupFunction.lookup` does. Never block.

        It is canceled after its timeout, and when its rows are no longer needed.
        """

    async def close(self) -> None:
        """Release what was made. Event loop's thread."""
