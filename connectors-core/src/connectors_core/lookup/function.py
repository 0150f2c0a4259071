# SPDX-License-Identifier: Apache-2.0
"""Functions that fetch rows by key, which a connector implements for a lookup."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import pyarrow as pa

from connectors_core.metrics import MetricGroup


@dataclass(frozen=True, kw_only=True)
class FunctionContext:
    """The context of a lookup function in its process.

    Attributes:
        uid: The lookup within its pipeline.
        metric_group: Metrics of the connector.
    """

    uid: str
    metric_group: MetricGroup = field(default_factory=MetricGroup)


class LookupFunction(ABC):
    """Fetches rows by key, one request for a batch of keys (Flink's FLIP-221).

    Picklable until it is opened. Each worker process that needs it opens it once and keeps it for
    later tasks. The core closes it when the pipeline restarts, when a task fails in it, or when the
    process exits normally. Spark ends an idle worker without closing it.
    """

    def open(self, context: FunctionContext) -> None:
        """Create clients. Executor, before the first lookup; retried like `lookup`."""

    @abstractmethod
    def lookup(self, keys: pa.RecordBatch) -> pa.Table:
        """Return the rows of some keys. Executor, task's thread.

        Args:
            keys: Distinct keys without nulls, at least one; its columns are ``context.keys`` of
                `LookupTableSource.get_lookup_runtime_provider`.

        Returns:
            Rows with exactly the columns of ``context.schema``, keys included, in any order. A key
            may have several rows or none. The join drops rows of other keys.

        Raises:
            RetryableError: A retry may help; the core retries a limited number of times.
            ConnectorError: A retry does not help; the task fails.
        """

    def close(self) -> None:
        """Release the resources from ``open``."""


class AsyncLookupFunction(ABC):
    """A `LookupFunction` for an asynchronous client, with several concurrent requests.

    Create clients that belong to an event loop in the first call of `async_lookup`.
    """

    def open(self, context: FunctionContext) -> None:
        """Prepare the function. Executor, task's thread, before the first lookup."""

    @abstractmethod
    async def async_lookup(self, keys: pa.RecordBatch) -> pa.Table:
        """Return the rows of some keys, as `LookupFunction.lookup` does. Never block.

        It is canceled after its timeout, and when its rows are no longer needed.
        """

    async def close(self) -> None:
        """Release all resources. Event loop's thread."""
