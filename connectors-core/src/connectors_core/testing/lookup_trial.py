# SPDX-License-Identifier: Apache-2.0
"""The tools of one lookup case: joins in this process, by key or with the whole table."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
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
from connectors_core.engine.execution.lookup_task import ByKey, LookupTask
from connectors_core.engine.execution.reader_task import ReaderTask
from connectors_core.engine.protocol import encode_entry
from connectors_core.engine.state import StateStore
from connectors_core.lookup import FullCachingLookupProvider, LookupFunctionProvider
from connectors_core.lookup.join import JoinType, LookupJoin
from connectors_core.table import LookupContext, LookupRuntimeProvider, LookupTableSource
from connectors_core.testing.environment import TestEnvironment
from connectors_core.testing.join_trial import BATCH_ROWS, JoinExternalContext, JoinTrial, forget

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


class LookupExternalContext(JoinExternalContext[LookupTableSource]):
    """The external system of one lookup case, initially empty and not shared.

    Its table has rows of :data:`LOOKUP_ROWS`, whose ``value`` and ``amount`` may be null.
    """

    def create_typed_table(self, rows: pa.Table, options: Mapping[str, str]) -> LookupTableSource:
        """Return a table with columns of other types.

        Args:
            rows: Rows with two columns, the key ``id`` and one that often is called ``value``. The
                table returns both unchanged.
            options: The options, as in `create_table`.

        Raises:
            NotImplementedError: The table lacks the capability `DATA_TYPES`.
        """
        raise NotImplementedError

    def create_misfit_table(
        self, schema: pa.Schema, rows: pa.Table, options: Mapping[str, str]
    ) -> LookupTableSource:
        """Return a table of rows that do not fit its schema.

        Args:
            schema: Two columns, the first of which is the key. The table declares them.
            rows: Rows with these columns. The second one has another type.
            options: The options, as in `create_table`.

        Raises:
            NotImplementedError: The table lacks the capability `MISFITS`.
        """
        raise NotImplementedError


class LookupTrial(JoinTrial[LookupExternalContext]):
    """Joins rows with a table as the runtime does, without Spark."""

    def __init__(
        self,
        context: LookupExternalContext,
        folder: Path,
        options: Mapping[str, str],
        environment: TestEnvironment,
    ) -> None:
        super().__init__(context, folder, options, environment)
        self._caches: list[FullCache] = []

    def close(self) -> None:
        """Close all open resources."""
        for cache in self._caches:
            cache.close()
        super().close()
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
        batch_rows: int = BATCH_ROWS,
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
        batch_rows: int = BATCH_ROWS,
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
        batch_rows: int = BATCH_ROWS,
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
    """The same joins, each in a pipeline on Spark."""

    def join(
        self,
        rows: pa.Table,
        on: Sequence[str],
        *,
        how: JoinType = "left",
        columns: Sequence[str] = ("value", "amount"),
        table: LookupTableSource | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> pa.Table:
        """See `LookupTrial.join`."""
        joined = table or self.context.create_table(self.options)
        return self.run_pipeline(
            rows,
            lambda pipeline, stream: pipeline.lookup_join(
                stream, joined, on=on, how=how, columns=columns, uid=_UID
            ),
            batch_rows=batch_rows,
        )


def table_rows(**columns: Sequence[Any]) -> pa.Table:
    """Return rows of :data:`LOOKUP_ROWS`."""
    return pa.table(columns, schema=LOOKUP_ROWS)
