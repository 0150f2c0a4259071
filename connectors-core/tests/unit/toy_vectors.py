# SPDX-License-Identifier: Apache-2.0
"""A table of vectors for tests of the suite: rows in an Arrow file, compared by brute force."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from toy_files import FileContext, FileReader

from connectors_core.lineage import LineageVertexProvider, file_dataset
from connectors_core.lookup import (
    AsyncVectorSearchFunction,
    LookupOptions,
    VectorMatches,
    VectorSearchFunction,
)
from connectors_core.table import VectorSearchTableSource
from connectors_core.testing import (
    VECTOR_ROWS,
    Capabilities,
    Capability,
    VectorSearchExternalContext,
)

CAN = Capabilities(
    can=frozenset(
        {
            Capability.VECTOR_SEARCH,
            Capability.ASYNC_VECTOR_SEARCH,
            Capability.OUTAGES,
            Capability.SECRETS,
        }
    )
)


@dataclass
class ToySearch(FileReader, VectorSearchFunction):
    def vector_search(self, top_k, vectors):
        rows = self.read()
        rows = rows.filter(rows["embedding"].is_valid())
        stored = matrix(rows["embedding"].combine_chunks())
        numbers, scores = [], []
        for query in matrix(vectors):
            found = self.scores(query, stored)
            nearest = np.argsort(-found, kind="stable")[:top_k]
            numbers.append(nearest)
            scores.append(found[nearest])
        counts = pa.array([len(each) for each in numbers], pa.int64())
        taken = rows.take(pa.array(np.concatenate(numbers))).select(self.columns)
        return VectorMatches(counts, taken, pa.array(np.concatenate(scores), pa.float64()))

    def scores(self, query, stored):
        return stored @ query


@dataclass
class ToyAsyncSearch(AsyncVectorSearchFunction):
    function: ToySearch

    async def async_vector_search(self, top_k, vectors):
        return self.function.vector_search(top_k, vectors)


@dataclass(frozen=True)
class ToyVectors(VectorSearchTableSource, LineageVertexProvider):
    path: str
    options: dict[str, str]

    function: ClassVar[type[ToySearch]] = ToySearch

    def lineage_datasets(self):
        return (file_dataset(self.path),)

    def schema(self):
        return VECTOR_ROWS

    def get_search_runtime_provider(self, context):
        def function():
            return self.function(self.path, context.schema.names)

        settings = LookupOptions.from_options(self.options)
        quick = settings.requests.replaced(initial_backoff="1 ms", max_backoff="2 ms")
        return settings.replaced(requests=quick).vector_search_provider(
            function=function,
            async_function=lambda: ToyAsyncSearch(function()),
            dimensions=8,
        )


class ToyVectorFiles(FileContext, VectorSearchExternalContext):
    def __init__(self, folder: Path, table: type[ToyVectors] = ToyVectors) -> None:
        super().__init__(folder, table)

    def scores(self, query, vectors):
        return (vectors @ query).astype(np.float64)


def matrix(vectors):
    """Return vectors of one length as a matrix."""
    elements = vectors.flatten().to_numpy(zero_copy_only=False)
    return elements.reshape(len(vectors), 8)
