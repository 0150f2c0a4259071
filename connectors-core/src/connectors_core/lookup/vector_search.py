# SPDX-License-Identifier: Apache-2.0
"""Tables that find the most similar rows to a vector (Flink's FLIP-540)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from connectors_core.lookup.cache import LookupCache
from connectors_core.lookup.function import FunctionContext
from connectors_core.lookup.provider import LookupRequestConfiguration

__all__ = [
    "AsyncVectorSearchFunction",
    "VectorMatches",
    "VectorSearchContext",
    "VectorSearchFunction",
    "VectorSearchRuntimeProvider",
    "VectorSearchTableSource",
]


@dataclass(frozen=True, kw_only=True)
class VectorSearchContext:
    """The parameters of a search that its table needs.

    Attributes:
        search_column: The column of the table whose vectors are compared.
        schema: Schema of the returned rows: the needed columns, without the score.
        top_k: The maximum number of rows for a vector.
    """

    search_column: str
    schema: pa.Schema
    top_k: int


class VectorMatches(NamedTuple):
    """The rows that a search found for a batch of vectors.

    Attributes:
        counts: The number of rows for each vector, as whole numbers without nulls.
        rows: The rows with exactly the columns of ``context.schema``, which can have none: first
            those of the first vector. The rows of a vector are in descending order of their scores.
        scores: The score of each row: doubles without nulls. A higher score is more similar.
    """

    counts: pa.Array
    rows: pa.Table
    scores: pa.Array


class VectorSearchFunction(ABC):
    """Finds the most similar rows, one or more requests for a batch of vectors (Flink's FLIP-540).

    Its life is that of a `LookupFunction`.
    """

    def open(self, context: FunctionContext) -> None:
        """Create clients. Executor, before the first search; retried like `vector_search`."""

    @abstractmethod
    def vector_search(self, top_k: int, vectors: pa.ListArray) -> VectorMatches:
        """Return the rows that are most similar to some vectors. Executor, task's thread.

        Args:
            top_k: The maximum number of rows for each vector, at least one.
            vectors: Distinct lists of finite 32-bit floats without nulls, at least one. All have
                ``VectorSearchRuntimeProvider.dimensions`` elements if the provider states them.

        Raises:
            RetryableError: A retry may help; the core retries a limited number of times.
            ConnectorError: A retry does not help; the task fails.
        """

    def close(self) -> None:
        """Release the resources from ``open``."""


class AsyncVectorSearchFunction(ABC):
    """A `VectorSearchFunction` for an asynchronous client, with several concurrent requests.

    Create clients that belong to an event loop in the first call of `async_vector_search`.
    """

    def open(self, context: FunctionContext) -> None:
        """Prepare the function. Executor, task's thread, before the first search."""

    @abstractmethod
    async def async_vector_search(self, top_k: int, vectors: pa.ListArray) -> VectorMatches:
        """Return similar rows, as `VectorSearchFunction.vector_search` does. Never block.

        It is canceled after its timeout, and when its rows are no longer needed.
        """

    async def close(self) -> None:
        """Release all resources. Event loop's thread."""


@dataclass(frozen=True)
class VectorSearchRuntimeProvider:
    """The search of a table's rows.

    Attributes:
        function: Finds the rows.
        dimensions: The number of elements of each vector, which the core then checks. None if it is
            unknown.
        cache: Caches the rows of vectors separately in each worker process; None for no cache.
        requests: Limits of the function's requests.
    """

    function: VectorSearchFunction | AsyncVectorSearchFunction
    dimensions: int | None = None
    cache: LookupCache | None = None
    requests: LookupRequestConfiguration = field(default_factory=LookupRequestConfiguration)


class VectorSearchTableSource(ABC):
    """A table for ``Pipeline.vector_search``. Immutable; no I/O in the constructor."""

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return all columns of the table. May query the external system. Driver."""

    @abstractmethod
    def get_search_runtime_provider(
        self, context: VectorSearchContext
    ) -> VectorSearchRuntimeProvider:
        """Return the provider that finds rows for a search. Driver.

        Args:
            context: The column to search and the needed columns. The provider need not fetch
                others.

        Raises:
            ConfigurationError: The column has no vectors that the table can search.
        """
