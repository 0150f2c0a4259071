# SPDX-License-Identifier: Apache-2.0
"""The status of a pipeline: plain, immutable, serializable as JSON. Driver.

Times and watermarks are in microseconds since 1970 (UTC). Counts start with this driver and come
from reports and decisions, so nothing that Spark runs twice counts twice.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from connectors_core.engine.coordinator.epoch_committer import SinkCommitter
from connectors_core.engine.coordinator.source_observation import SourceObservation, SplitStatus
from connectors_core.errors import ConnectorError, ForeignError
from connectors_core.metrics import (
    CommitterMetric,
    EnumeratorMetric,
    Meter,
    MetricGroup,
    SinkMetric,
    SourceMetric,
)
from connectors_core.secrets import mask_text
from connectors_core.sink.sink import DeliveryGuarantee
from connectors_core.source.watermarks import END_OF_TIME

__all__ = [
    "LookupCaching",
    "LookupStatus",
    "PipelineState",
    "PipelineStatus",
    "QueryStatus",
    "SinkProgress",
    "SinkStatus",
    "SourceStatus",
    "SplitStatus",
    "error_kinds",
    "error_text",
    "sink_status",
    "source_status",
]

_MOST_CAUSES: Final = 32


class PipelineState(StrEnum):
    """The state of a pipeline or one of its queries."""

    NOT_STARTED = "not started"
    RUNNING = "running"
    FINISHED = "finished"
    """All sources were read to their end."""
    STOPPED = "stopped"
    """It was stopped before the end of its sources."""
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class SourceStatus:
    """A source of a query.

    Attributes:
        uid: The source.
        guarantee: At-least-once if its splits cannot be read again, otherwise exactly-once.
        splits_assigned: Splits that are assigned and not finished.
        splits_finished: Splits read to their end.
        splits_unassigned: Splits that no reader has; None if unknown.
        tasks: The number of tasks that read it in a batch run; None in a stream.
        idle_splits: Splits that have no rows and so do not hold back the watermark.
        rows: Rows read.
        rows_per_second: Average over the last 30 seconds.
        bytes: Bytes read.
        watermark: Its watermark; None if there is none (yet).
        watermark_lag: Seconds between the watermark and now; None at the end of a source.
        head: The watermark that the first row held back by alignment would cause, or None.
        idle_seconds: Time since a micro-batch last had rows from it.
        pending_records: Records not read yet; None if unknown.
        pending_bytes: Bytes not read yet; None if unknown.
        skipped: Records dropped by the record policy.
        dead_letters: Records that became dead letters.
        finished: Whether it is read to its end.
        splits: The splits that are partly read.
        counters: All counters, including the connector's.
        gauges: All gauges of the source as a whole.
        reader_gauges: The connector's own gauges by reader.
    """

    uid: str
    guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE
    splits_assigned: int = 0
    splits_finished: int = 0
    splits_unassigned: int | None = None
    tasks: int | None = None
    idle_splits: int = 0
    rows: int = 0
    rows_per_second: float = 0.0
    bytes: int = 0
    watermark: int | None = None
    watermark_lag: float | None = None
    head: int | None = None
    idle_seconds: float = 0.0
    pending_records: int | None = None
    pending_bytes: int | None = None
    skipped: int = 0
    dead_letters: int = 0
    finished: bool = False
    splits: tuple[SplitStatus, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)
    reader_gauges: Mapping[int, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SinkStatus:
    """A sink of a query. Dead-letter sinks are named ``<uid>.dead-letters``.

    Attributes:
        uid: The sink.
        guarantee: Exactly-once if rows are committed, otherwise at-least-once.
        rows: Rows in decided epochs.
        rows_per_second: Average over the last 30 seconds.
        bytes: Bytes in decided epochs.
        committables: Committables in decided epochs.
        committed: Committed ones, including those that were already committed.
        pending: Those that are neither committed nor failed.
        failed: Those that can never be committed.
        retries: Number of commit retries.
        commits: Epochs committed.
        skipped: Rows dropped by the record policy.
        dead_letters: Rows that became dead letters.
        spark_inputs: The kinds of inputs that Spark reads itself for this sink, such as "kafka" or
            "LogicalRelation". Exactly-once requires that they return the same rows when Spark reads
            them again after a failure. Empty if reports pin all rows.
        counters: All counters, including the connector's.
        gauges: All gauges.
    """

    uid: str
    guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE
    rows: int = 0
    rows_per_second: float = 0.0
    bytes: int = 0
    committables: int = 0
    committed: int = 0
    pending: int = 0
    failed: int = 0
    retries: int = 0
    commits: int = 0
    skipped: int = 0
    dead_letters: int = 0
    spark_inputs: tuple[str, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)


class LookupCaching(StrEnum):
    """The caching of a lookup table."""

    NONE = "none"
    PARTIAL = "partial"
    FULL = "full"


@dataclass(frozen=True, kw_only=True)
class LookupStatus:
    """A lookup join; see `LookupMetric` for its metrics.

    Attributes:
        uid: The lookup.
        caching: The caching of its table.
        version: Of a fully cached table, the newest version.
        read_at: Time at which that version was loaded.
        error: Why the last reload failed; the previous version is still in use. None if it
            succeeded.
        counters: All counters, including the connector's.
        gauges: All gauges.
    """

    uid: str
    caching: LookupCaching = LookupCaching.NONE
    version: int | None = None
    read_at: int | None = None
    error: str | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class QueryStatus:
    """One Spark query of a pipeline, or its batch run.

    Attributes:
        name: Its folder below the state location.
        state: Its state.
        plan: Number of the newest plan; None before the first and in batch mode.
        epoch: The newest decided epoch; None before the first.
        batch: The last committed micro-batch of Spark.
        spark_watermark: Spark's own watermark.
        sources: Its sources.
        sinks: Its sinks.
        error: Why it failed.
    """

    name: str
    state: PipelineState
    plan: int | None = None
    epoch: int | None = None
    batch: int | None = None
    spark_watermark: int | None = None
    sources: tuple[SourceStatus, ...] = ()
    sinks: tuple[SinkStatus, ...] = ()
    error: str | None = None

    @classmethod
    def of(
        cls,
        name: str,
        *,
        ended: bool,
        completed: bool,
        error: BaseException | None,
        plan: int,
        epoch: int,
        batch: int,
        spark_watermark: int | None = None,
        sources: Iterable[SourceStatus],
        sinks: Iterable[SinkStatus],
    ) -> QueryStatus:
        """Return the status of a streaming query.

        Args:
            name: Its folder.
            ended: Whether its run is over.
            completed: Whether its sources were read to their end.
            error: Why it failed, if it did.
            plan: The newest plan; negative before the first.
            epoch: The newest decided epoch; negative before the first.
            batch: The last committed batch; negative before the first.
            spark_watermark: Spark's own watermark.
            sources: Its sources.
            sinks: Its sinks.
        """
        if not ended:
            state = PipelineState.RUNNING
        elif error is not None:
            state = PipelineState.FAILED
        else:
            state = PipelineState.FINISHED if completed else PipelineState.STOPPED
        return cls(
            name=name,
            state=state,
            plan=plan if plan >= 0 else None,
            epoch=epoch if epoch >= 0 else None,
            batch=batch if batch >= 0 else None,
            spark_watermark=spark_watermark,
            sources=tuple(sources),
            sinks=tuple(sinks),
            error=error_text(error) if ended and error is not None else None,
        )


@dataclass(frozen=True, kw_only=True)
class PipelineStatus:
    """A pipeline at one moment; see ``Pipeline.status``.

    Attributes:
        pipeline_id: Its id; None before the first start.
        name: The user's name for it.
        state: Its state.
        queries: Its queries; empty before the start.
        lookups: Its lookup joins; empty before the start.
        error: Why it failed.
    """

    name: str
    pipeline_id: str | None = None
    state: PipelineState = PipelineState.NOT_STARTED
    queries: tuple[QueryStatus, ...] = ()
    lookups: tuple[LookupStatus, ...] = ()
    error: str | None = None

    @classmethod
    def of(
        cls,
        name: str,
        pipeline_id: str | None,
        queries: Sequence[QueryStatus],
        *,
        lookups: Sequence[LookupStatus] = (),
        started: bool,
        error: BaseException | None = None,
    ) -> PipelineStatus:
        """Return the status of a pipeline with these queries.

        Args:
            name: The user's name for it.
            pipeline_id: The pipeline.
            queries: Its queries.
            lookups: Its lookup joins.
            started: Whether it was started.
            error: An error outside of its queries.
        """
        errors = [error_text(error)] if error is not None else []
        errors += [query.error for query in queries if query.error is not None]
        return cls(
            name=name,
            pipeline_id=pipeline_id,
            state=PipelineState.FAILED if errors else _state_of(queries, started=started),
            queries=tuple(queries),
            lookups=tuple(lookups),
            error=errors[0] if errors else None,
        )

    @property
    def sources(self) -> tuple[SourceStatus, ...]:
        """The sources of all queries."""
        return tuple(source for query in self.queries for source in query.sources)

    @property
    def sinks(self) -> tuple[SinkStatus, ...]:
        """The sinks of all queries."""
        return tuple(sink for query in self.queries for sink in query.sinks)

    def to_dict(self) -> dict[str, Any]:
        """Return the status as plain JSON values."""
        found: dict[str, Any] = _plain(dataclasses.asdict(self))
        return found


def _plain(value: Any) -> Any:
    """Convert enums and keys to text and tuples to lists, so that a JSON round trip is lossless."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.value if isinstance(value, StrEnum) else value


def _state_of(queries: Sequence[QueryStatus], *, started: bool) -> PipelineState:
    if not started:
        return PipelineState.NOT_STARTED
    states = {query.state for query in queries}
    if not states or PipelineState.RUNNING in states:
        return PipelineState.RUNNING
    return PipelineState.FINISHED if states == {PipelineState.FINISHED} else PipelineState.STOPPED


def error_text(error: BaseException) -> str:
    """Return the text of an error, with secrets masked."""
    if isinstance(error, ConnectorError):
        return str(error)
    return mask_text(f"{type(error).__name__}: {error}")


def error_kinds(error: BaseException) -> str:
    """Return the class and code of an error and of its causes, without their texts."""
    kinds: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(kinds) < _MOST_CAUSES:
        kinds.append(_kind(cause))
        cause = cause.__cause__
    return ", caused by ".join(dict.fromkeys(kinds))


def _kind(error: BaseException) -> str:
    if isinstance(error, ForeignError):
        return error.type_name.rpartition(".")[2] or type(error).__name__
    if not isinstance(error, ConnectorError):
        return type(error).__name__
    option = "" if error.option is None else f" about the option {error.keyword or error.option}"
    return f"{type(error).__name__} [{error.code}]{option}"


def source_status(uid: str, seen: SourceObservation) -> SourceStatus:
    """Return the status of a source of a streaming query."""
    counters, gauges = seen.metrics.counters, dict(seen.metrics.gauges)
    lag = None
    if seen.watermark is not None and 0 < seen.watermark < END_OF_TIME:
        lag = time.time() - seen.watermark / 1e6
        gauges[SourceMetric.WATERMARK_LAG.value] = lag * 1e3
    gauges[SourceMetric.SOURCE_IDLE_TIME.value] = seen.idle_seconds * 1e3
    return SourceStatus(
        uid=uid,
        guarantee=DeliveryGuarantee.EXACTLY_ONCE
        if seen.replayable
        else DeliveryGuarantee.AT_LEAST_ONCE,
        splits_assigned=len(seen.splits),
        splits_finished=seen.splits_finished,
        splits_unassigned=_whole(gauges.get(EnumeratorMetric.UNASSIGNED_SPLITS)),
        idle_splits=sum(split.idle for split in seen.splits),
        rows=counters.get(SourceMetric.NUM_RECORDS_IN, 0),
        rows_per_second=seen.rows_per_second,
        bytes=counters.get(SourceMetric.NUM_BYTES_IN, 0),
        watermark=seen.watermark,
        watermark_lag=lag,
        head=min((split.head for split in seen.splits if split.head is not None), default=None),
        idle_seconds=seen.idle_seconds,
        pending_records=_whole(gauges.get(SourceMetric.PENDING_RECORDS)),
        pending_bytes=_whole(gauges.get(SourceMetric.PENDING_BYTES)),
        skipped=counters.get(SourceMetric.NUM_RECORDS_SKIPPED, 0),
        dead_letters=counters.get(SourceMetric.NUM_DEAD_LETTERS, 0),
        finished=seen.finished,
        splits=tuple(split for split in seen.splits if split.read),
        counters=counters,
        gauges=gauges,
        reader_gauges=seen.reader_gauges,
    )


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


@dataclass
class SinkProgress:
    """The counters of one sink since this driver started; updated on Spark's callback thread."""

    metrics: MetricGroup = field(default_factory=MetricGroup)
    rows: Meter = field(default_factory=Meter)


def sink_status(
    uid: str,
    progress: SinkProgress,
    committer: SinkCommitter | None,
    *,
    spark_inputs: tuple[str, ...] = (),
) -> SinkStatus:
    """Return the status of a sink.

    Args:
        uid: The sink.
        progress: The counters of its writers.
        committer: Its committer; None for a sink without one.
        spark_inputs: The inputs that Spark reads itself for it.
    """
    metrics = progress.metrics.copy()
    if committer is not None:
        own = committer.metrics.copy()
        metrics.gauges |= own.gauges
        for name in CommitterMetric:
            if name is not CommitterMetric.PENDING_COMMITTABLES:
                metrics.counters[name.value] = 0
        metrics.counters |= own.counters
    counters = metrics.counters
    total = counters.get(CommitterMetric.TOTAL_COMMITTABLES, 0)
    failed = counters.get(CommitterMetric.FAILED_COMMITTABLES, 0)
    committed = counters.get(CommitterMetric.SUCCESSFUL_COMMITTABLES, 0) + counters.get(
        CommitterMetric.ALREADY_COMMITTED_COMMITTABLES, 0
    )
    lost = counters.get(CommitterMetric.LOST_COMMITTABLES, 0)  # each has a replacement
    pending = max(0, total - committed - failed - lost)
    if committer is not None:
        metrics.gauges[CommitterMetric.PENDING_COMMITTABLES.value] = pending
    return SinkStatus(
        uid=uid,
        guarantee=DeliveryGuarantee.AT_LEAST_ONCE if committer is None else committer.guarantee,
        rows=counters.get(SinkMetric.NUM_RECORDS_SEND, 0),
        rows_per_second=progress.rows.rate(),
        bytes=counters.get(SinkMetric.NUM_BYTES_SEND, 0),
        committables=total,
        committed=committed,
        pending=pending,
        failed=failed,
        retries=counters.get(CommitterMetric.RETRIED_COMMITTABLES, 0),
        commits=counters.get(SinkMetric.NUM_EPOCHS_COMMITTED, 0),
        skipped=counters.get(SinkMetric.NUM_RECORDS_SKIPPED, 0),
        dead_letters=counters.get(SinkMetric.NUM_DEAD_LETTERS, 0),
        spark_inputs=spark_inputs,
        counters=counters,
        gauges=metrics.gauges,
    )


def spark_watermark(progress: Mapping[str, Any] | None) -> int | None:
    """Return Spark's watermark from a query's progress, in microseconds."""
    text = ((progress or {}).get("eventTime") or {}).get("watermark")
    if not text:
        return None
    moment = datetime.fromisoformat(text).astimezone(UTC)
    return round(moment.timestamp() * 1_000) * 1_000
