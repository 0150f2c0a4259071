# SPDX-License-Identifier: Apache-2.0
"""The DataFrames of a pipeline: of its sources, lookups, and sinks. Driver."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from connectors_core.engine.coordinator.identity import (
    QueryShape,
    is_spark_stream,
    shown,
    uids_of,
)
from connectors_core.engine.coordinator.pipeline_checks import check_sources
from connectors_core.engine.coordinator.plan_log import StoredPlans
from connectors_core.engine.coordinator.registrations import Registrations
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.execution.reader_task import HEARTBEAT_COLUMN, ReaderTask
from connectors_core.engine.protocol import RunRecord
from connectors_core.engine.state import StateStore
from connectors_core.errors import ConfigurationError
from connectors_core.lineage import LineageGraph
from connectors_core.lookup.join import JoinType, LookupJoin
from connectors_core.lookup.lookup_table_source import (
    LookupContext,
    LookupRuntimeProvider,
    LookupTableSource,
)
from connectors_core.lookup.vector_join import VectorJoin
from connectors_core.lookup.vector_search import VectorSearchTableSource
from connectors_core.source.source import Boundedness
from connectors_core.spark.batch import BatchSource, batch_source, batch_sources_of
from connectors_core.spark.batch_functions import BatchFunctionSink
from connectors_core.spark.carriers import (
    choose_carrier,
    spark_inputs_of,
    stream_keys_of,
    streams_of,
)
from connectors_core.spark.direct_frames import DirectFrame, EntryRows, SelectedColumns
from connectors_core.spark.failures import short_cause, translated
from connectors_core.spark.heartbeats import with_heartbeats
from connectors_core.spark.internals.arrow_types import arrow_schema, check_writable
from connectors_core.spark.internals.exceptions import explain_actions_on_streams
from connectors_core.spark.lineage import lineage_graph
from connectors_core.spark.lookups import (
    RegisteredLookup,
    check_stable,
    lookup_dataframe,
    lookup_stage,
    lookups_of,
    new_numbers,
)
from connectors_core.spark.ownership import OwnedReader
from connectors_core.spark.pushdown import PushableSource, explanation, push_down
from connectors_core.spark.recorded_identity import RecordedIdentity
from connectors_core.spark.streaming_run import StreamingSource
from connectors_core.spark.workers import workers_differ
from connectors_core.spark.writing_job import RegisteredSink, WritingJob


@dataclass(eq=False, repr=False)
class PipelineFrames:
    """Builds the DataFrames of one pipeline. Driver.

    Attributes:
        streams: Sources that are read as streams, by uid.
        batches: Sources that a batch run reads, by uid.
        lookups: Lookup joins by uid.
        sinks: The sinks, in order.

    Args:
        spark: The session.
        root: The state location of the pipeline.
        registered: The parts of the pipeline.
        identity: The identity of the pipeline.
        streaming: Whether bounded sources are also read as streams.
        resumable: Whether a batch run keeps its rows for later drivers.
    """

    spark: SparkSession
    _: KW_ONLY
    root: StateStore
    registered: Registrations
    identity: RecordedIdentity
    streaming: bool
    resumable: bool = False

    def __post_init__(self) -> None:
        self.streams: dict[str, StreamingSource] = {}
        self.batches: dict[str, BatchSource] = {}
        self.lookups: dict[str, RegisteredLookup] = {}
        self.sinks: list[RegisteredSink] = []
        self._direct: list[DirectFrame] = []

    # --- building -------------------------------------------------------------------------------

    def from_source(self, settings: SourceSettings) -> DataFrame:
        """Return the rows of a source."""
        source, strategy = settings.source, settings.strategy
        streaming = self.streaming or source.boundedness() is not Boundedness.BOUNDED
        reader = ReaderTask(
            source=source,
            uid=settings.uid,
            store=self.root,
            schema=source.schema(),
            strategy=strategy,
            evaluator=settings.evaluator,
            policy=settings.policy.for_executors(),
            first_fetch_seconds=settings.first_fetch_timeout.total_seconds(),
            keeps=self.resumable and not streaming,
            attempt=_attempt_number,
        )
        df = self._stream(settings, reader) if streaming else self._batch(settings, reader)
        self.registered.sources[settings.uid] = settings
        self._direct.append(DirectFrame(df, settings.uid))
        return df

    def _batch(self, settings: SourceSettings, reader: ReaderTask) -> DataFrame:
        pipeline_id = self.identity.pipeline_id  # first, since it determines the run
        source = self.batches[settings.uid] = batch_source(
            self.spark,
            settings,
            reader,
            pipeline_id,
            self.identity.run_id,
            self.identity.resumed_run,
        )
        df = source.dataframe()
        return df if settings.strategy is None else df.drop(HEARTBEAT_COLUMN)

    def _stream(self, settings: SourceSettings, reader: ReaderTask) -> DataFrame:
        explain_actions_on_streams()
        try:
            carrier = choose_carrier(self.spark)(
                self.spark,
                pipeline_id=self.identity.pipeline_id,
                uid=settings.uid,
                schema=reader.output_schema(),
                read_entry=OwnedReader(reader, self.identity.pipeline_id),
                plans=StoredPlans(self.root, settings.uid),
                max_entries=settings.parallelism,
            )
        except PySparkException as error:  # Spark 4 opens a source in a Python process
            raise workers_differ(self.spark) or translated(
                error, f"source {settings.uid!r}"
            ) from short_cause(error)
        self.streams[settings.uid] = StreamingSource(
            settings=settings,
            carrier=carrier,
            reader=reader,
            pipeline_id=self.identity.pipeline_id,
        )
        df = carrier.dataframe()
        return df if settings.strategy is None else with_heartbeats(df, settings.strategy)

    def lookup_join(
        self,
        df: DataFrame,
        table: LookupTableSource,
        *,
        uid: str,
        on: Sequence[str] | Mapping[str, str],
        how: JoinType,
        columns: Sequence[str] | Mapping[str, str] | None,
        allow_unstable: bool,
    ) -> DataFrame:
        """Return rows with columns of a table."""
        join = LookupJoin.of(
            arrow_schema(df.schema), table.schema(), on=on, how=how, columns=columns
        )
        context = LookupContext(keys=join.keys, schema=join.table)
        provider = table.get_lookup_runtime_provider(context)
        return self._joined(df, table, uid, join, provider, allow_unstable=allow_unstable)

    def vector_search(
        self,
        df: DataFrame,
        table: VectorSearchTableSource,
        *,
        uid: str,
        vector_column: str,
        search_column: str | None,
        top_k: int,
        how: JoinType,
        columns: Sequence[str] | Mapping[str, str] | None,
        score: str,
        allow_unstable: bool,
    ) -> DataFrame:
        """Return rows with the most similar rows of a table."""
        join = VectorJoin.searching(
            arrow_schema(df.schema),
            table.schema(),
            vector_column=vector_column,
            search_column=search_column,
            top_k=top_k,
            how=how,
            columns=columns,
            score=score,
        )
        search = table.get_search_runtime_provider(join.context)
        join = dataclasses.replace(join, dimensions=search.dimensions)
        provider = join.provider(search)
        return self._joined(df, table, uid, join, provider, allow_unstable=allow_unstable)

    def _joined(
        self,
        df: DataFrame,
        table: LookupTableSource | VectorSearchTableSource,
        uid: str,
        join: LookupJoin,
        provider: LookupRuntimeProvider,
        *,
        allow_unstable: bool,
    ) -> DataFrame:
        lookup = RegisteredLookup(
            uid=uid,
            join=join,
            provider=provider,
            allow_unstable=allow_unstable,
            numbers=new_numbers(self.spark),
        )
        stage = lookup_stage(lookup, pipeline_id=self.identity.pipeline_id, root=self.root)
        joined = lookup_dataframe(df, lookup, stage)
        self.lookups[uid] = lookup
        self.registered.tables[uid] = table
        self._direct += [
            DirectFrame(joined, known.source, (*known.stages, stage))
            for known in self._direct
            if known.df is df
        ]
        return joined

    def sink_to(self, sink: RegisteredSink) -> None:
        """Register a sink."""
        if not isinstance(sink.sink, BatchFunctionSink):  # its rows stay within Spark
            check_writable(sink.df.schema)
        sink.sink.validate(arrow_schema(sink.df.schema))
        sink = dataclasses.replace(sink, spark_inputs=spark_inputs_of(sink.df))
        self.registered.add_sink(sink)
        self.sinks.append(sink)

    # --- at the start ---------------------------------------------------------------------------

    def check_complete(self) -> None:
        """Refuse a pipeline that cannot run.

        Raises:
            ConfigurationError: The pipeline moves rows of unstable lookups, mixes streams and
                batches, has no sink, or was started before.
        """
        self.registered.check_complete()
        check_stable(self.sinks, self.lookups.values())
        streaming = [*self.streams, *(sink.uid for sink in self.sinks if sink.df.isStreaming)]
        if streaming and self.batches:
            raise ConfigurationError(
                "the pipeline mixes streaming and batch sources",
                expected="streaming=True, which also reads bounded sources as streams",
                found=f"streaming {', '.join(streaming)}; batch {', '.join(self.batches)}",
                option="streaming",
                hint="use Pipeline(..., streaming=True)",
            )
        batch = [sink.uid for sink in self.sinks if not sink.df.isStreaming]
        if batch and (streaming or self.streaming):
            raise ConfigurationError(
                f"sink {batch[0]!r} writes rows of a batch DataFrame in a streaming pipeline",
                expected="a DataFrame that reads a stream",
                hint="write it with a Pipeline of its own, without streaming=True",
            )
        self.registered.check_policies()

    @property
    def is_batch(self) -> bool:
        """Whether the pipeline is one batch run."""
        if self.streams or any(sink.df.isStreaming for sink in self.sinks):
            return False
        return bool(self.batches or self.sinks)

    def check_ends(self, *, available_now: bool) -> None:
        """Refuse to wait for the end of queries that have none.

        Args:
            available_now: Whether the run ends after the data that is available at its start.

        Raises:
            ConfigurationError: A query reads a stream of Spark, and does not end.
        """
        if not any(sink.spark_inputs for sink in self.sinks):
            return
        for sinks in self.queries():
            streams = {each for sink in sinks for each in streams_of(sink.df)}
            foreign = {each for each in streams if is_spark_stream(each)}
            what = f"run() would never end: {', '.join(sink.uid for sink in sinks)} reads a stream "
            if foreign and not available_now:
                raise ConfigurationError(
                    f"{what}of Spark", hint="use run(available_now=True), or start() and stop()"
                )
            if foreign and streams - foreign:
                raise ConfigurationError(
                    f"{what}of Spark and one of a connector, which cannot end together",
                    found=shown(sorted(streams)),
                    hint="use start() and stop(), or read all streams through connectors",
                )

    def batches_read(self) -> dict[str, BatchSource]:
        """Return the batch sources that the sinks need.

        Raises:
            ConfigurationError: A sink writes rows of another pipeline's source.
        """
        read: set[str] = set()
        for sink in self.sinks:
            sources = batch_sources_of(sink.df)
            check_sources(sink.uid, sources, self.batches)
            read |= sources
        return {uid: batch for uid, batch in self.batches.items() if uid in read}

    def batch_shape(self) -> QueryShape:
        """Return the shape of the batch run.

        It lacks sources that only subqueries read, because early releases did not record them.
        """
        uids = {uid for sink in self.sinks for uid in batch_sources_of(sink.df, subqueries=False)}
        return QueryShape(
            tuple(uid for uid in self.batches if uid in uids),
            tuple(sink.uid for sink in self.sinks),
        )

    def queries(self) -> list[list[RegisteredSink]]:
        """Group the sinks that share a stream, directly or through another sink.

        Raises:
            ConfigurationError: A sink writes rows of another pipeline's source.
        """
        components: list[tuple[set[str], list[RegisteredSink]]] = []
        for sink in self.sinks:
            sources = stream_keys_of(sink.df)
            check_sources(sink.uid, uids_of(sources), self.streams)
            sinks = [sink]
            apart = []
            for known_sources, known_sinks in components:
                if known_sources & sources:
                    sources |= known_sources
                    sinks = known_sinks + sinks
                else:
                    apart.append((known_sources, known_sinks))
            components = [*apart, (sources, sinks)]
        order = {sink.uid: number for number, sink in enumerate(self.sinks)}
        return sorted(
            (sorted(sinks, key=lambda s: order[s.uid]) for _, sinks in components),
            key=lambda sinks: order[sinks[0].uid],
        )

    def rows_of(self, run: RunRecord) -> DataFrame:
        """Return the rows of an earlier batch run with the same sources, for the same sinks."""
        former = {uid: batch.in_run(run) for uid, batch in self.batches.items()}
        frames = copy.copy(self)
        frames.batches = former
        return frames.writing_job(self.sinks, replaced=former.keys()).df

    def writing_job(
        self, sinks: Sequence[RegisteredSink], *, replaced: Collection[str] = ()
    ) -> WritingJob:
        """Return the job of a query, which is direct if Spark does not process the rows.

        Args:
            sinks: The sinks of the query.
            replaced: Uids of sources that read other entries than those of their DataFrames.
        """
        frame = self._direct_frame(sinks)
        if frame is not None:
            reader = self._sources()[frame.source].reader
            return self._direct_job(sinks, frame.source, EntryRows(reader, frame.stages))
        job = WritingJob(sinks)
        pushed = push_down(job.df, self._sources(), self.lookups, replaced=replaced)
        readers = {uid: each.reader for uid, each in pushed.sources.items()}
        selection = pushed.selection
        if selection is None or not _may_be_direct(sinks):
            job.read_less(pushed.df, readers)
            return job
        rows = EntryRows(readers[selection.uid], (SelectedColumns(selection.columns),))
        return self._direct_job(sinks, selection.uid, rows)

    def _direct_job(self, sinks: Sequence[RegisteredSink], uid: str, rows: EntryRows) -> WritingJob:
        """Return a job whose tasks read entries of a source and write their rows."""
        if uid in self.batches:
            entries = self.batches[uid].entries_dataframe()
        else:
            entries = self.streams[uid].carrier.entries()
        job = WritingJob(sinks, (entries, rows))
        job.readers[uid] = rows.reader
        return job

    def _direct_frame(self, sinks: Sequence[RegisteredSink]) -> DirectFrame | None:
        """Return the DataFrame of these sinks if Spark need not process its rows."""
        if not _may_be_direct(sinks):
            return None
        frames = (each for each in self._direct if all(sink.df is each.df for sink in sinks))
        return next(frames, None)

    def _sources(self) -> dict[str, PushableSource]:
        return {**self.batches, **self.streams}

    def lineage(self) -> LineageGraph:
        """Return the lineage of the pipeline."""
        return lineage_graph(self.registered, self._sources(), self.lookups, self.sinks)

    def explain(self) -> str:
        """Return what the queries push down to their sources, in lines."""
        lines: list[str] = []
        batches = self.batches_read() if self.is_batch else {}
        tasks = {uid: each.tasks_text() for uid, each in batches.items()}
        for sinks in [self.sinks] if self.is_batch else self.queries():
            names = [sink.uid for sink in sinks]
            if self._direct_frame(sinks) is not None:
                lines += explanation(names, tasks=tasks, direct=True)
                continue
            pushed = push_down(WritingJob(sinks).df, self._sources(), self.lookups)
            direct = pushed.selection is not None and _may_be_direct(sinks)
            lines += explanation(
                names, pushed.sources, tasks=tasks, reason=pushed.reason, direct=direct
            )
        return "\n".join(lines)

    def lookups_used(self, jobs: Iterable[WritingJob]) -> list[RegisteredLookup]:
        """Return the lookups that these jobs use."""
        if not self.lookups:
            return []
        used = {uid for job in jobs for sink in job.sinks for uid in lookups_of(sink.df)}
        return [lookup for uid, lookup in self.lookups.items() if uid in used]


def _may_be_direct(sinks: Sequence[RegisteredSink]) -> bool:
    return not any(sink.needs_own_job or sink.function for sink in sinks)


def _attempt_number() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()
