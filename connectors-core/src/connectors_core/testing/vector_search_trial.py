# SPDX-License-Identifier: Apache-2.0
"""The tools of one case for vector searches: searches in this process, and on Spark."""

from __future__ import annotations

import dataclasses
import uuid
from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors_core.engine.execution.lookup_task import ByKey, LookupTask
from connectors_core.lookup.join import JoinType
from connectors_core.lookup.vector_join import VectorJoin
from connectors_core.table import VectorSearchRuntimeProvider, VectorSearchTableSource
from connectors_core.testing.join_trial import JoinExternalContext, JoinTrial, forget

Floats = npt.NDArray[np.float32]

DIMENSIONS: Final = 8
"""The number of elements of all vectors."""
VECTOR_ROWS: Final = pa.schema(
    [
        pa.field("number", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("embedding", pa.list_(pa.float32())),
    ]
)
"""Schema of the tables that the suite searches. The vectors have eight elements."""
QUERIES: Final = pa.schema([("id", pa.int64()), ("query", pa.list_(pa.float32()))])
"""Schema of the rows that search."""

_UID: Final = "search"


class VectorSearchExternalContext(JoinExternalContext[VectorSearchTableSource]):
    """The external system of one vector search case, initially empty and not shared.

    Its table has rows of :data:`VECTOR_ROWS`, whose ``text`` and ``embedding`` may be null. Of a
    few hundred rows, the table finds exactly the most similar ones.
    """

    @abstractmethod
    def scores(self, query: Floats, vectors: Floats) -> npt.NDArray[np.float64]:
        """Return the score of each row of a matrix for a query, as the table computes it."""


class VectorSearchTrial(JoinTrial[VectorSearchExternalContext]):
    """Searches a table as the runtime does, without Spark."""

    def search(
        self,
        rows: pa.Table,
        *,
        top_k: int = 3,
        how: JoinType = "left",
        columns: Sequence[str] = ("number",),
        life: str | None = None,
        table: VectorSearchTableSource | None = None,
    ) -> pa.Table:
        """Search once with the vectors of rows of :data:`QUERIES`.

        Args:
            rows: The rows.
            top_k: The maximum number of matches of a row.
            how: "left" or "inner".
            columns: The columns of the table to add.
            life: Searches of one life share resources and caches.
            table: The table, by default that of the context.
        """
        join, provider = self.prepared(rows, top_k=top_k, how=how, columns=columns, table=table)
        runtime = join.provider(provider)
        assert isinstance(runtime, ByKey)
        task = LookupTask(
            pipeline_id=self._pipeline_id,
            uid=_UID,
            life=life or uuid.uuid4().hex,
            join=join,
            provider=runtime,
        )
        return pa.Table.from_batches(task.run(rows.to_batches(), forget), schema=join.schema)

    def prepared(
        self,
        rows: pa.Table,
        *,
        top_k: int = 3,
        how: JoinType = "left",
        columns: Sequence[str] = ("number",),
        table: VectorSearchTableSource | None = None,
    ) -> tuple[VectorJoin, VectorSearchRuntimeProvider]:
        """Return the join of a search, and the provider of the table. See `search`."""
        table = table or self.context.create_table(self.options)
        join = VectorJoin.searching(
            rows.schema,
            table.schema(),
            vector_column="query",
            search_column="embedding",
            top_k=top_k,
            how=how,
            columns=columns,
        )
        provider = table.get_search_runtime_provider(join.context)
        return dataclasses.replace(join, dimensions=provider.dimensions), provider


class SparkVectorSearchTrial(VectorSearchTrial):
    """The same searches, each in a pipeline on Spark."""

    def search(
        self,
        rows: pa.Table,
        *,
        top_k: int = 3,
        how: JoinType = "left",
        columns: Sequence[str] = ("number",),
        life: str | None = None,
        table: VectorSearchTableSource | None = None,
    ) -> pa.Table:
        """See `VectorSearchTrial.search`."""
        searched = table or self.context.create_table(self.options)
        return self.run_pipeline(
            rows,
            lambda pipeline, stream: pipeline.vector_search(
                stream,
                searched,
                vector_column="query",
                search_column="embedding",
                top_k=top_k,
                how=how,
                columns=columns,
                uid=_UID,
            ),
        )
