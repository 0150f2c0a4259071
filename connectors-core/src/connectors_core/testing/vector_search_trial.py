# SPDX-License-Identifier: Apache-2.0
"""The tools of one case for vector searches: searches in this process, and on Spark."""

from __future__ import annotations

import dataclasses
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors_core.engine.execution.lookup_task import ByKey, LookupTask, close_lookups
from connectors_core.lookup.join import JoinType
from connectors_core.lookup.vector_join import VectorJoin
from connectors_core.source import DataGeneratorSource
from connectors_core.table import VectorSearchRuntimeProvider, VectorSearchTableSource
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.environment import TestEnvironment
from connectors_core.testing.lookup_trial import RowsOf, forget
from connectors_core.testing.pace import stretched

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
_SECONDS: Final = 240.0


class VectorSearchExternalContext(ABC):
    """The external system of one case, initially empty and not shared.

    Of a few hundred rows, its tables find exactly the most similar ones.
    """

    @abstractmethod
    def create_table(self, options: Mapping[str, str]) -> VectorSearchTableSource:
        """Return the table of :data:`VECTOR_ROWS` in this context.

        Args:
            options: Some of ``connectors_core.lookup.LOOKUP_OPTIONS``, as a user writes them.
        """

    @abstractmethod
    def write(self, rows: pa.Table) -> None:
        """Replace all rows of the table with rows of :data:`VECTOR_ROWS`.

        They are visible on return. ``text`` and ``embedding`` may be null.
        """

    @abstractmethod
    def scores(self, query: Floats, vectors: Floats) -> npt.NDArray[np.float64]:
        """Return the score of each row of a matrix for a query, as the table computes it."""

    def away(self) -> AbstractContextManager[None]:
        """Make the external system unavailable within the context.

        Raises:
            NotImplementedError: The table lacks the capability `OUTAGES`.
        """
        raise NotImplementedError

    def secrets(self) -> Sequence[str]:
        """Return the secrets given to all tables of this context. No output may show them."""
        return ()

    def close(self) -> None:
        """Remove the remaining data of the case from the external system."""


class VectorSearchTrial:
    """Searches a table as the runtime does, without Spark.

    Args:
        context: The external system.
        folder: The folder for the files of the runtime.
        options: The options of the table.
    """

    def __init__(
        self, context: VectorSearchExternalContext, folder: Path, options: Mapping[str, str]
    ) -> None:
        self.context = context
        self.options = dict(options)
        self._folder = folder
        self._pipeline_id = uuid.uuid4().hex

    def close(self) -> None:
        """Close all open resources."""
        close_lookups()

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
    """The same searches, each in a pipeline on Spark.

    Args:
        context: The external system.
        folder: The folder for the files of the pipelines.
        options: The options of the table.
        environment: Creates the pipelines.
    """

    def __init__(
        self,
        context: VectorSearchExternalContext,
        folder: Path,
        options: Mapping[str, str],
        environment: TestEnvironment,
    ) -> None:
        super().__init__(context, folder, options)
        self._environment = environment

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
        root = Path(tempfile.mkdtemp(dir=self._folder))
        source: Any = DataGeneratorSource(RowsOf(rows), rows.num_rows, rows.schema)
        sink = DirectorySink(root / "rows")
        with self._environment.pipeline("search", root / "checkpoint") as pipeline:
            found = pipeline.vector_search(
                pipeline.from_source(source, uid="rows"),
                table or self.context.create_table(self.options),
                vector_column="query",
                search_column="embedding",
                top_k=top_k,
                how=how,
                columns=columns,
                uid=_UID,
            )
            pipeline.sink_to(found, sink, uid="found")
            seconds = stretched(_SECONDS)
            assert pipeline.run(timeout=seconds), f"the pipeline does not end within {seconds:g} s"
        return sink.read()
