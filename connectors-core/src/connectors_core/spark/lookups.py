# SPDX-License-Identifier: Apache-2.0
"""Lookup joins on Spark: a stage over the rows, and fully cached tables."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, cast

import orjson
import pyarrow as pa
from pyspark import TaskContext
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

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
from connectors_core.engine.execution.writer_task import conform
from connectors_core.engine.protocol import LOOKUP_VERSIONS, LookupVersion, lookup_path, run_path
from connectors_core.engine.query.status import LookupCaching, LookupStatus, error_text
from connectors_core.engine.state import Lease, StateStore
from connectors_core.errors import ConfigurationError, UnsupportedError
from connectors_core.lookup.join import LookupJoin
from connectors_core.lookup.lookup_table_source import LookupRuntimeProvider
from connectors_core.lookup.provider import (
    FullCachingLookupProvider,
    LookupFunctionProvider,
    PartialCachingLookupProvider,
)
from connectors_core.metrics import LookupMetric, MetricGroup
from connectors_core.schema.ddl import quoted
from connectors_core.spark.arrow_stages import map_in_arrow
from connectors_core.spark.batch import batch_source
from connectors_core.spark.carriers import spark_schema
from connectors_core.spark.direct_frames import Stage
from connectors_core.spark.error_notes import add_notes
from connectors_core.spark.internals.plans import PlanNode, analyzed_plan
from connectors_core.spark.ownership import local_property
from connectors_core.spark.warm_workers import keep_warm
from connectors_core.spark.writing_job import RegisteredSink

IDLE_WORKERS_END_AFTER: Final = timedelta(minutes=1)
"""Time for which Spark keeps an idle Python worker."""

_ALIAS_PREFIX: Final = "connectors_lookup__"
_VERSIONS_PROPERTY: Final = "connectors.lookup.versions"
# Operators that leave every row in its partition. All others may move rows.
_LEAVE_ROWS: Final = frozenset(
    {
        "CollectMetrics",
        "DeserializeToObject",
        "EventTimeWatermark",
        "Expand",
        "Filter",
        "Generate",
        "LocalLimit",
        "MapElements",
        "MapInArrow",
        "MapInPandas",
        "MapPartitions",
        "Project",
        "PythonMapInArrow",
        "ResolvedHint",
        "Sample",
        "SerializeFromObject",
        "SubqueryAlias",
        "TypedFilter",
        "Union",
        "UnresolvedHint",
        "View",
    }
)


class _Numbers(AccumulatorParam[MetricGroup]):
    """Adds up the metrics of tasks."""

    def zero(self, value: MetricGroup) -> MetricGroup:
        return MetricGroup()

    def addInPlace(self, value1: MetricGroup, value2: MetricGroup) -> MetricGroup:  # noqa: N802
        for name, number in value2.counters.items():
            value1.inc(name, number)
        for name, gauge in value2.gauges.items():
            value1.set(name, gauge)
        return value1


@dataclass(frozen=True, kw_only=True)
class RegisteredLookup:
    """A lookup join that ``Pipeline.lookup_join`` registered.

    Attributes:
        uid: Its name.
        join: The columns to compare and to add.
        provider: Looks up rows in the table.
        allow_unstable: Whether later operators may move rows although a retry may return others.
        numbers: The metrics of its tasks.
    """

    uid: str
    join: LookupJoin
    provider: LookupRuntimeProvider
    allow_unstable: bool
    numbers: Accumulator[MetricGroup]

    @property
    def full(self) -> FullCachingLookupProvider | None:
        """The provider, if the table is fully cached."""
        return self.provider if isinstance(self.provider, FullCachingLookupProvider) else None

    @property
    def is_partial(self) -> bool:
        """Whether worker processes cache the rows that they looked up."""
        return isinstance(self.provider, PartialCachingLookupProvider)


def new_numbers(spark: SparkSession) -> Accumulator[MetricGroup]:
    """Return an accumulator of the metrics of a lookup's tasks. Driver."""
    return spark.sparkContext.accumulator(MetricGroup(), _Numbers())


def lookup_stage(lookup: RegisteredLookup, *, pipeline_id: str, root: StateStore) -> Stage:
    """Return the lookup as a transformation of a task's rows. Driver.

    Raises:
        UnsupportedError: The provider has an unknown type.
        ConfigurationError: The source of a table does not have the columns.
    """
    join = lookup.join
    if lookup.full is not None:
        _check_source(lookup.full, join)
        store = root.child(lookup_path(lookup.uid))
        return _FullLookup(pipeline_id, lookup.uid, join, store, lookup.numbers.add)
    if isinstance(lookup.provider, ByKey):
        task = LookupTask(
            pipeline_id=pipeline_id,
            uid=lookup.uid,
            life=uuid.uuid4().hex,
            join=join,
            provider=lookup.provider,
        )
        return _KeyLookup(task, lookup.numbers.add)
    raise UnsupportedError(
        "the provider of a lookup table has an unknown type",
        expected="one of connectors_core.lookup",
        found=type(lookup.provider).__name__,
    )


def lookup_dataframe(df: DataFrame, lookup: RegisteredLookup, stage: Stage) -> DataFrame:
    """Return a DataFrame with the columns of a lookup, in one stage. Driver.

    Raises:
        UnsupportedError: Spark does not support the type of a column.
    """
    join = lookup.join
    added = spark_schema(pa.schema([join.schema.field(name) for _, name in join.columns]))
    rows = map_in_arrow(df, stage, StructType([*df.schema.fields, *added.fields]))
    # A Python stage drops column metadata, such as the watermark.
    columns = [
        F.col(quoted(known.name)).alias(known.name, metadata=known.metadata)
        for known in df.schema.fields
    ]
    columns += [F.col(quoted(name)) for name in added.names]
    return rows.select(*columns).alias(_ALIAS_PREFIX + lookup.uid)


def _check_source(provider: FullCachingLookupProvider, join: LookupJoin) -> None:
    schema = provider.source.schema()
    for wanted in join.table:
        index = schema.get_field_index(wanted.name)
        if index < 0 or not schema.field(index).type.equals(wanted.type):
            raise ConfigurationError(
                f"the source of a lookup table has no column {wanted.name!r}",
                expected=str(wanted),
                found="none" if index < 0 else str(schema.field(index)),
            )


# --- Stages ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _KeyLookup:
    """Looks up the keys of the rows with a function. Executor."""

    task: LookupTask
    observe: Callable[[MetricGroup], None]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keep_warm()
        try:
            yield from self.task.run(batches, self.observe)
        except Exception as error:
            add_notes(error, f"in lookup {self.task.uid!r}")
            raise


@dataclass(frozen=True)
class _FullLookup:
    """Finds the keys of the rows in the version that the batch has pinned. Executor."""

    pipeline_id: str
    uid: str
    join: LookupJoin
    store: StateStore
    observe: Callable[[MetricGroup], None]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        version = _pinned_version(self.uid)
        function = SnapshotLookup(self.store, version, self.join.table, len(self.join.on))
        task = LookupTask(
            pipeline_id=self.pipeline_id,
            uid=self.uid,
            life=version.file,
            join=self.join,
            provider=LookupFunctionProvider(function),
        )
        yield from _KeyLookup(task, self._observe_keys)(batches)

    def _observe_keys(self, numbers: MetricGroup) -> None:
        """Count keys only: searching a copy is not a load."""
        keys = numbers.counters.get(LookupMetric.NUM_LOOKUP_KEYS, 0)
        self.observe(MetricGroup({LookupMetric.NUM_LOOKUP_KEYS.value: keys}))


def _pinned_version(uid: str) -> LookupVersion:
    context = TaskContext.get()
    said = None if context is None else context.getLocalProperty(_VERSIONS_PROPERTY)
    versions = orjson.loads(said) if said else {}
    if uid not in versions:
        raise UnsupportedError(
            f"another query reads lookup {uid!r}, whose versions belong to a pipeline",
            hint="register the output with Pipeline.sink_to",
        )
    return LOOKUP_VERSIONS.decode(versions[uid].encode(), uid)


# --- Fully cached tables --------------------------------------------------------------------------


class Lookups:
    """The lookup joins of a pipeline's queries. Driver.

    Args:
        spark: The session.
        root: The state location of the pipeline.
        used: The lookups.
        pipeline_id: The pipeline.
        lease: The lease of this driver.
        parallelism: Number of readers of a table.
    """

    def __init__(
        self,
        spark: SparkSession,
        root: StateStore,
        used: Sequence[RegisteredLookup],
        *,
        pipeline_id: str,
        lease: Lease,
        parallelism: int,
    ) -> None:
        self._spark = spark
        self._root = root
        self._used = tuple(used)
        self._pipeline_id = pipeline_id
        self._caches: dict[str, FullCache] = {}
        for lookup in used:
            if lookup.full is not None:
                store = root.child(lookup_path(lookup.uid))
                load = _TableLoad(spark, lookup, store, pipeline_id, parallelism)
                self._caches[lookup.uid] = FullCache(
                    lookup.uid,
                    pipeline_id=pipeline_id,
                    store=store,
                    confirm=lease.confirm,
                    load=load,
                    give_up=load.cancel,
                    trigger=lookup.full.reload_trigger,
                )
        self._pinnings: dict[str, LookupPinning] = {}

    def pinning(self, query: str, sinks: Sequence[RegisteredSink]) -> BatchLookups:
        """Return the pinning of table versions by a query's batches, before :meth:`start`."""
        used = dict.fromkeys(uid for sink in sinks for uid in lookups_of(sink.df))
        pinning = LookupPinning(
            [self._caches[uid] for uid in used if uid in self._caches],
            store=self._root.child(query),
            pipeline_id=self._pipeline_id,
            query=query,
        )
        self._pinnings[query] = pinning
        return BatchLookups(self._spark, pinning)

    def start(self) -> None:
        """Load all tables and start their triggers.

        Raises:
            ConnectorError: A table cannot be loaded and never was.
        """
        pinned = [pin for pinning in self._pinnings.values() for pin in pinning.pinned_last()]
        for uid, cache in self._caches.items():
            cache.start((query, number) for of, query, number in pinned if of == uid)

    def end_reloads(self) -> None:
        """Stop the triggers and cancel reloads; batches keep the previous versions."""
        for cache in self._caches.values():
            cache.close()

    def close(self) -> None:
        """Stop the triggers, and remove this host's copies."""
        self.end_reloads()
        if self._caches:
            remove_local_copies(self._pipeline_id)

    def statuses(self) -> tuple[LookupStatus, ...]:
        """Return the status of each lookup. From any thread."""
        return tuple(_status(lookup, self._caches.get(lookup.uid)) for lookup in self._used)


@dataclass(frozen=True)
class BatchLookups:
    """Pins the table versions of a query's batches. Driver."""

    spark: SparkSession
    pinning: LookupPinning

    def pinned(self, batch: str) -> AbstractContextManager[None]:
        """Let jobs that this thread starts in the context use a batch's pinned versions."""
        versions = self.pinning.pin(batch)
        if not versions:
            return nullcontext()
        said = {uid: LOOKUP_VERSIONS.encode(each).decode() for uid, each in versions.items()}
        return local_property(self.spark, _VERSIONS_PROPERTY, orjson.dumps(said).decode())


@dataclass(frozen=True)
class _TableLoad:
    """Reads a table in batch mode and writes it to one file."""

    spark: SparkSession = field(repr=False)
    lookup: RegisteredLookup
    store: StateStore
    pipeline_id: str
    parallelism: int

    @property
    def _group(self) -> str:
        return f"{_ALIAS_PREFIX}{self.pipeline_id}-{self.lookup.uid}"

    def cancel(self) -> None:
        """Cancel the job that reads it, if any. From any thread."""
        self.spark.sparkContext.cancelJobGroup(self._group)

    def __call__(self) -> WrittenSnapshot:
        # This thread belongs to the cache.
        self.spark.sparkContext.setJobGroup(self._group, f"reading lookup {self.lookup.uid}")
        provider = cast(FullCachingLookupProvider, self.lookup.full)
        schema = self.lookup.join.table
        settings = SourceSettings(
            uid=self.lookup.uid, source=provider.source, parallelism=self.parallelism
        )
        reader = ReaderTask(
            source=provider.source,
            uid=settings.uid,
            store=self.store,
            schema=provider.source.schema(),
        )
        columns = {name: F.col(quoted(name)) for name in schema.names}
        run_id = uuid.uuid4().hex
        found = batch_source(self.spark, settings, reader, self.pipeline_id, run_id, None)
        try:
            rows = found.dataframe().select(*columns.values())
            for key in self.lookup.join.keys:
                rows = rows.where(columns[key].isNotNull())  # a lookup never finds null keys
            stage = _SnapshotStage(self.store, schema)
            written = map_in_arrow(
                rows.repartition(1), stage, "file string, rows bigint, bytes bigint"
            ).collect()
        finally:
            found.close()
            self.store.delete_tree(run_path(run_id))
        if not written:  # Spark runs no task for a table without rows
            return write_snapshot(self.store, schema, ())
        (row,) = written
        return WrittenSnapshot(row.file, row.rows, row.bytes)


@dataclass(frozen=True)
class _SnapshotStage:
    """Writes all rows of a table. Executor, one task."""

    store: StateStore
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (conform(batch, self.schema) for batch in batches)
        written = write_snapshot(self.store, self.schema, rows)
        yield pa.RecordBatch.from_pydict(
            {"file": [written.file], "rows": [written.rows], "bytes": [written.bytes]}
        )


def _status(lookup: RegisteredLookup, cache: FullCache | None) -> LookupStatus:
    numbers = lookup.numbers.value.copy()
    if cache is None:
        return LookupStatus(
            uid=lookup.uid,
            caching=LookupCaching.PARTIAL if lookup.is_partial else LookupCaching.NONE,
            counters=numbers.counters,
            gauges=numbers.gauges,
        )
    own = cache.metrics.copy()
    version = cache.newest
    return LookupStatus(
        uid=lookup.uid,
        caching=LookupCaching.FULL,
        version=None if version is None else version.number,
        read_at=None if version is None else version.read_at,
        error=None if cache.error is None else error_text(cache.error),
        counters=numbers.counters | own.counters,
        gauges=own.gauges,
    )


# --- Lookups of a DataFrame -----------------------------------------------------------------------


def lookup_below(node: PlanNode) -> str | None:
    """Return the uid of the lookup whose DataFrame this node is; None for any other node."""
    alias = node.alias()
    if alias is None or not alias.startswith(_ALIAS_PREFIX):
        return None
    return alias.removeprefix(_ALIAS_PREFIX)


def lookups_of(df: DataFrame) -> Mapping[str, str | None]:
    """Return the lookups of a DataFrame.

    Returns:
        By uid, an operator after the lookup that may move rows to other tasks, or None.
    """
    found: dict[str, str | None] = {}

    def walk(node: PlanNode, mover: str | None) -> None:
        uid = lookup_below(node)
        if uid is not None:
            found[uid] = mover or found.get(uid)
        elif (name := node.name) not in _LEAVE_ROWS:
            mover = name
        for child in node.children:
            walk(child, mover)

    walk(analyzed_plan(df), None)
    return found


def check_stable(sinks: Sequence[RegisteredSink], lookups: Collection[RegisteredLookup]) -> None:
    """Refuse operators that move rows after an unstable lookup.

    If Spark runs part of a stage again, an unstable lookup may return different rows. A changed row
    may then move to a task that has already finished or that receives it twice.

    Raises:
        UnsupportedError: Names the lookup, the sink, and the operator.
    """
    unstable = {each.uid for each in lookups if each.full is None and not each.allow_unstable}
    if not unstable:
        return
    for sink in sinks:
        for uid, mover in lookups_of(sink.df).items():
            if sink.needs_own_job:
                mover = mover or "the distribution of rows to the sink's writers"
            if uid in unstable and mover is not None:
                raise UnsupportedError(
                    f"rows of lookup {uid!r} move between tasks before they reach sink "
                    f"{sink.uid!r}: a lookup that runs again after a failure may return different "
                    "rows, and rows would be lost or duplicated",
                    expected="no operator that moves rows after a lookup by key",
                    found=mover,
                    option="allow_unstable",
                    hint="move the lookup after the operator, cache the whole table, or accept "
                    "the risk with lookup_join(..., allow_unstable=True)",
                )
