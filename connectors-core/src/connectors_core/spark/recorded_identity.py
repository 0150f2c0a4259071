# SPDX-License-Identifier: Apache-2.0
"""The recorded identity of a pipeline on Spark, and its comparison. Driver."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from pyspark.sql import SparkSession

from connectors_core.engine.coordinator.completeness import verify_identified
from connectors_core.engine.coordinator.identity import (
    PipelineIdentity,
    QueryIdentity,
    QueryShape,
    assert_same_life,
    assert_unchanged,
    first_identity,
    new_pipeline_id,
    next_generation,
    read_identity,
    record_identity,
)
from connectors_core.engine.coordinator.plan_log import decisions_since, newest_decision
from connectors_core.engine.coordinator.recorded_options import recorded_options, with_options
from connectors_core.engine.coordinator.registrations import Registrations
from connectors_core.engine.execution.writer_task import SinkTask
from connectors_core.engine.protocol import RunRecord
from connectors_core.engine.query.batch_run import new_run_id, resumable_run, unfinished_run
from connectors_core.engine.state import StateStore
from connectors_core.errors import IdentityError
from connectors_core.spark.carriers import SparkLog

OnChangedQuery = Literal["refuse", "new-generation"]


@dataclass(eq=False, repr=False)
class RecordedIdentity:
    """The identity of a pipeline, read on first use. Driver.

    Attributes:
        known: The recorded identity, once it was read.
        run_id: The batch run of this driver.
        unfinished_run: The decided run of an earlier driver that did not end.
        resumed_run: The undecided run of an earlier driver that this driver resumes.

    Args:
        spark: The session.
        name: The pipeline.
        root: The state location of the pipeline.
        checkpoint: The checkpoint location of the pipeline.
        registered: The parts of the pipeline.
        on_changed_query: The reaction to changed sinks or a changed order of sources.
        resumes: Whether an undecided batch run is resumed.
    """

    spark: SparkSession
    name: str
    _: KW_ONLY
    root: StateStore
    checkpoint: str
    registered: Registrations
    on_changed_query: OnChangedQuery
    resumes: bool = False

    def __post_init__(self) -> None:
        self.known: PipelineIdentity | None = None
        self.run_id = new_run_id()
        self.unfinished_run: RunRecord | None = None
        self.resumed_run: RunRecord | None = None
        self._new_id = new_pipeline_id()
        self._read = False

    @property
    def pipeline_id(self) -> str:
        """The recorded id of the pipeline, or a new one.

        Raises:
            ConnectorError: The state location cannot be used or did not respond.
        """
        if not self._read:
            self.registered.check_state_location(self.root)
            self.known = read_identity(self.root)
            self._read = True
            if self.known is not None and not self.known.streaming:
                self.unfinished_run = unfinished_run(self.root, self.known)
                if self.resumes and self.unfinished_run is None:
                    self.resumed_run = resumable_run(self.root, self.known)
                if self.resumed_run is not None:
                    self.run_id = self.resumed_run.run_id
        return self._new_id if self.known is None else self.known.pipeline_id

    def identify(
        self, *, streaming: bool, shapes: Sequence[QueryShape], sinks: Iterable[SinkTask]
    ) -> PipelineIdentity:
        """Return the identity of the pipeline; record a new one.

        Args:
            streaming: Whether it streams.
            shapes: Its queries.
            sinks: Its sinks.

        Raises:
            IdentityError: The checkpoint location belongs to another pipeline, or an option has
                changed on which stored state or written output depends.
        """
        pipeline_id = self.pipeline_id
        recorded = self.known
        if recorded is None:
            verify_identified(self.root)
            identity = first_identity(pipeline_id, self.name, streaming=streaming, shapes=shapes)
        else:
            identity = recorded
            try:
                assert_unchanged(recorded, self.name, streaming=streaming, shapes=shapes)
            except IdentityError:
                kept = recorded.streaming and streaming and recorded.name == self.name
                if self.on_changed_query == "refuse" or not kept:
                    raise
                identity = self._new_generation(recorded, shapes)
        sources = self.registered.sources.values() if streaming else ()
        identity = with_options(identity, recorded_options(sources, sinks), self.root)
        if identity == recorded:
            return identity
        if streaming:
            known = recorded.queries if recorded is not None else ()
            identity = self._with_checkpoints(identity, known)
        record_identity(self.root, identity)
        self.known = identity
        return identity

    def _with_checkpoints(
        self, identity: PipelineIdentity, known: Sequence[QueryIdentity]
    ) -> PipelineIdentity:
        """Create the Spark checkpoints of new queries before recording the queries.

        A recorded query without a checkpoint is therefore one whose checkpoint was deleted.
        """
        queries = []
        for query in identity.queries:
            if query not in known:
                log = self._log_of(query)
                log.write_query_id(query.spark_query_id)
                found = log.query_id() or query.spark_query_id  # an interrupted start wrote it
                assert_same_life(
                    query,
                    found_query_id=query.spark_query_id,
                    newest_plan=-1 if query.generation == 0 else query.first,
                    logged_batch=log.last_logged_batch(),
                )
                query = dataclasses.replace(query, spark_query_id=found)
            queries.append(query)
        return dataclasses.replace(identity, queries=tuple(queries))

    def _new_generation(
        self, identity: PipelineIdentity, shapes: Sequence[QueryShape]
    ) -> PipelineIdentity:
        written = {
            query.folder: last_written_plan(
                query, self._log_of(query), self.root.child(query.folder)
            )
            for query in identity.queries
        }
        return next_generation(identity, shapes, written)

    def _log_of(self, query: QueryIdentity) -> SparkLog:
        return SparkLog(self.spark, f"{self.checkpoint}/{query.spark_folder}")


def last_written_plan(query: QueryIdentity, log: SparkLog, store: StateStore) -> int:
    """Return the plan after which a new Spark checkpoint of a query may begin.

    Raises:
        IdentityError: The query has Spark state, or its sources are not at the same plan.
    """
    if not query.uids:
        return query.first
    if log.has_state():
        raise IdentityError(
            f"{query.folder} has Spark state, which a new generation would lose",
            ways_out=["keep the original query", "start with another checkpoint location"],
            option="on_changed_query",
        )
    logged = log.last_logged_batch()
    decided = any(
        (decision.spark_query_id, decision.batch_id) == (query.spark_query_id, logged)
        for decision in decisions_since(store, newest_decision(store)).values()
    )
    resume = log.resume(query.sources, query.first).values()
    plans = {each.end if decided else each.start for each in resume}
    if len(plans) > 1:
        raise IdentityError(
            f"the sources of {query.folder} are not at the same plan",
            found=", ".join(map(str, sorted(plans))),
            ways_out=["start and stop the original pipeline once, then change it"],
            option="on_changed_query",
        )
    return plans.pop()
