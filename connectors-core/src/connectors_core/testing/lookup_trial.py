# SPDX-License-Identifier: Apache-2.0
"""The tools of one lookup case: joins in this process, by key or with the whole table."""

from __future__ import annotations

import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from connectors_core.engine.coordinator.enumeration import batch_entries, enumerate_splits
from connectors_core.engine.coordinator.lookup_versions import FullCache, LookupPinning
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.execution.lookup_snapshots import (
    SnapshotLookup,
    WrittenSnapshot,
    remove_local_copies,
    write_snapshot,
)
from connectors_core.engine.execution.lookup_task import ByKey, LookupTask, close_lookups
from connectors_core.engine.execution.reader_task import ReaderTask
from connectors_core.engine.protocol import encode_entry
from connectors_core.engine.state import StateStore
from connectors_core.lookup import FullCachingLookupProvider, LookupFunctionProvider
from connectors_core.lookup.join import JoinType, LookupJoin
from connectors_core.metrics import MetricGroup
from connectors_core.source import DataGeneratorSource
from connectors_core.table import LookupContext, LookupRuntimeProvider, LookupTableSource
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.environment import TestEnvironment
from connectors_core.testing.pace import stretched

LOOKUP_ROWS: Final = pa.schema(
    [
        pa.field("number", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("value", pa.string()),
        pa.field("amount", pa.int64()),
    ]
)
"""Schema of the tables that the suite looks up. The key is ``number``, ``text``, or both."""

_UID: Final = "table"
_SECONDS: Final = 240.0


class LookupExternalContext(ABC):
    """The external system of one lookup case, initially empty and not shared."""

    @abstractmethod
    def create_table(self, options: Mapping[str, str]) -> LookupTableSource:
        """Return the table of :data:`LOOKUP_ROWS` in this context.

        Args:
            options: Some of ``connectors_core.lookup.LOOKUP_OPTIONS``, as a user writes them.
        """

    @abstractmethod
    def write(self, rows: pa.Table) -> None:
        """Replace all rows of the table with rows of :data:`LOOKUP_ROWS`.

        They are visible on return. ``value`` and ``amount`` may be null, but the other columns may
        not.
        """

    def create_typed_table(self, rows: pa.Table, options: Mapping[str, str]) -> LookupTableSource:
        """Return a table with columns of other types.

        Args:
            rows: Rows with two columns, the key ``id`` and ``value``. The table returns both
                unchanged.
            options: The options, as in `create_table`.

        Raises:
            NotImplementedError: The table lacks the capability `DATA_TYPES`.
        """
        raise NotImplementedError

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


class LookupTrial:
    """Joins rows with a table as the runtime does, without Spark.

    Args:
        context: The external system.
        folder: The folder for the files of the runtime.
        options: The options of the table.
    """

    def __init__(
        self, context: LookupExternalContext, folder: Path, options: Mapping[str, str]
    ) -> None:
        self.context = context
        self.options = dict(options)
        self._folder = folder
        self._pipeline_id = uuid.uuid4().hex
        self._caches: list[FullCache] = []

    def close(self) -> None:
        """Close all open resources."""
        for cache in self._caches:
            cache.close()
        close_lookups()
        remove_local_copies(self._pipeline_id)

    def provider(self, table: LookupTableSource, join: LookupJoin) -> LookupRuntimeProvider:
        """Return the table's provider for a join."""
        return table.get_lookup_runtime_provider(LookupContext(keys=join.keys, schema=join.table))

    def join(
        self,
        rows: pa.Table,
        on: Sequence[str],
        *,
        how: JoinType = "left",
        columns: Sequence[str] = ("value", "amount"),
        table: LookupTableSource | None = None,
        batch_rows: int = 10_000,
    ) -> pa.Table:
        """Join the rows once. A table with a full cache is read as a whole first.

        Args:
            rows: The rows. Their columns have the names of the keys.
            on: The keys.
            how: "left" or "inner".
            columns: The columns of the table to add.
            table: The table, by default that of the context.
            batch_rows: The number of rows in a batch.
        """
        table = table or self.context.create_table(self.options)
        rule = LookupJoin.of(rows.schema, table.schema(), on=on, how=how, columns=columns)
        provider = self.provider(table, rule)
        if isinstance(provider, FullCachingLookupProvider):
            cache = self.full_cache(provider, rule)
            return self.join_pinned(rows, rule, cache, uuid.uuid4().hex, batch_rows)
        assert isinstance(provider, ByKey), f"{type(provider).__name__} is no provider of the core"
        return self.run(rows, rule, provider, uuid.uuid4().hex, batch_rows)

    def run(
        self,
        rows: pa.Table,
        join: LookupJoin,
        provider: ByKey,
        life: str,
        batch_rows: int = 10_000,
    ) -> pa.Table:
        """Join rows in one task. The tasks of one run share resources and caches."""
        task = LookupTask(
            pipeline_id=self._pipeline_id, uid=_UID, life=life, join=join, provider=provider
        )
        found = task.run(rows.to_batches(batch_rows), forget)
        return pa.Table.from_batches(found, schema=join.schema)

    def full_cache(self, provider: FullCachingLookupProvider, join: LookupJoin) -> FullCache:
        """Return the versions of a table. The first one is read here, and no trigger is started."""
        store = StateStore(tempfile.mkdtemp(dir=self._folder))

        def load() -> WrittenSnapshot:
            return write_snapshot(store, join.table, self._read(provider, join, store))

        cache = FullCache(
            _UID,
            pipeline_id=self._pipeline_id,
            store=store,
            confirm=lambda: None,
            load=load,
            give_up=lambda: None,
            trigger=None,
        )
        cache.start()
        self._caches.append(cache)
        self._store = store
        return cache

    def join_pinned(
        self,
        rows: pa.Table,
        join: LookupJoin,
        cache: FullCache,
        batch: str,
        batch_rows: int = 10_000,
    ) -> pa.Table:
        """Join rows as the micro-batch with this name. All its runs see the same version."""
        pinning = LookupPinning(
            [cache], store=self._store, pipeline_id=self._pipeline_id, query="query"
        )
        version = pinning.pin(batch)[_UID]
        function = SnapshotLookup(self._store, version, join.table, len(join.on))
        return self.run(rows, join, LookupFunctionProvider(function), version.file, batch_rows)

    def _read(
        self, provider: FullCachingLookupProvider, join: LookupJoin, store: StateStore
    ) -> Iterator[pa.RecordBatch]:
        source = provider.source
        settings = SourceSettings(uid=_UID, source=source, parallelism=2)
        task = ReaderTask(source=source, uid=_UID, store=store, schema=source.schema())
        entries = batch_entries(
            settings,
            enumerate_splits(settings),
            pipeline_id=self._pipeline_id,
            run_id=uuid.uuid4().hex,
        )
        for entry in entries:
            for batch in task(encode_entry(entry)):
                known = batch.select(join.table.names)
                yield pa.RecordBatch.from_arrays(known.columns, schema=join.table)


class SparkLookupTrial(LookupTrial):
    """The same joins, each in a pipeline on Spark.

    Args:
        context: The external system.
        folder: The folder for the files of the pipelines.
        options: The options of the table.
        environment: Creates the pipelines.
    """

    def __init__(
        self,
        context: LookupExternalContext,
        folder: Path,
        options: Mapping[str, str],
        environment: TestEnvironment,
    ) -> None:
        super().__init__(context, folder, options)
        self._environment = environment

    def join(
        self,
        rows: pa.Table,
        on: Sequence[str],
        *,
        how: JoinType = "left",
        columns: Sequence[str] = ("value", "amount"),
        table: LookupTableSource | None = None,
        batch_rows: int = 10_000,
    ) -> pa.Table:
        """See `LookupTrial.join`."""
        root = Path(tempfile.mkdtemp(dir=self._folder))
        source = DataGeneratorSource(
            RowsOf(rows), rows.num_rows, rows.schema, batch_rows=batch_rows
        )
        sink = DirectorySink(root / "rows")
        with self._environment.pipeline("lookup", root / "checkpoint") as pipeline:
            joined = pipeline.lookup_join(
                pipeline.from_source(source, uid="rows"),
                table or self.context.create_table(self.options),
                on=on,
                how=how,
                columns=columns,
                uid=_UID,
            )
            pipeline.sink_to(joined, sink, uid="joined")
            seconds = stretched(_SECONDS)
            assert pipeline.run(timeout=seconds), f"the pipeline does not end within {seconds:g} s"
        return sink.read()


@dataclass(frozen=True)
class RowsOf:
    """Returns the rows of a table by their numbers, for a `DataGeneratorSource`."""

    rows: pa.Table

    def __call__(self, numbers: pa.Array) -> pa.RecordBatch:
        """Return some rows."""
        (batch,) = self.rows.take(numbers).combine_chunks().to_batches()
        return batch


def forget(_numbers: MetricGroup) -> None:
    """Ignore the metrics of a task."""


def table_rows(**columns: Sequence[Any]) -> pa.Table:
    """Return rows of :data:`LOOKUP_ROWS`."""
    return pa.table(columns, schema=LOOKUP_ROWS)
