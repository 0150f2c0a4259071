# SPDX-License-Identifier: Apache-2.0
"""Sinks and their writers (Flink's FLIP-143 and FLIP-372)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic

import pyarrow as pa

from connectors_core.metrics import MetricGroup
from connectors_core.options import RecordedOption
from connectors_core.records import RecordErrorHandler
from connectors_core.serialization import VersionedSerializer
from connectors_core.sink.committer import Committer, CommitterInitContext
from connectors_core.sink.messages import CommT


class DeliveryGuarantee(StrEnum):
    """The delivery guarantee: how often a row arrives after a failure."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"


def _cannot_claim(name: str) -> bool:
    raise NotImplementedError(f"{name!r} cannot be claimed: this context does not support claims")


@dataclass(frozen=True, kw_only=True)
class WriterInitContext:
    """The context of a writer. Executor.

    Attributes:
        pipeline_id: The pipeline, stable across restarts.
        sink_uid: The sink within the pipeline.
        checkpoint_id: The epoch that this writer writes.
        subtask_id: Number of the writer in the epoch, from 0.
        attempt_number: Spark's attempt of this task.
        nonce: Unique for every attempt. Name staged output by epoch, subtask, attempt, and
            nonce, so that no two attempts use the same name.
        schema: Arrow schema of the input batches.
        metric_group: Metrics of this writer, sent with its summary.
        record_errors: Handles a row that cannot be written (the sink's record policy).
        lease: The driver's lease for the writers of this job. None if the committer does not
            have the ability :class:`~connectors_core.sink.SupportsLeases`.
        claim: Claims a name for this attempt: True for the first of all attempts of this job
            that asks for it, False for all others. A name has at most 200 letters, digits, '_', '.'
            and '-'. A job that writes the epoch again has separate names.
    """

    pipeline_id: str
    sink_uid: str
    checkpoint_id: int
    subtask_id: int
    attempt_number: int
    nonce: str
    schema: pa.Schema
    record_errors: RecordErrorHandler
    metric_group: MetricGroup = field(default_factory=MetricGroup)
    lease: Any = None
    claim: Callable[[str], bool] = _cannot_claim

    @property
    def attempt_name(self) -> str:
        """``<subtask>-<attempt>-<nonce>``: the name of this attempt within the epoch."""
        return f"{self.subtask_id:05d}-{self.attempt_number}-{self.nonce}"


class SinkWriter(ABC):
    """Writes the rows of one task of one epoch. Executor, one thread."""

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch of the sink's rows."""

    @abstractmethod
    def flush(self) -> None:
        """All rows of the epoch have arrived: make them durable, or stage them for the commit."""

    @abstractmethod
    def close(self) -> None:
        """Release resources; after a failure, also without :meth:`flush`."""


class CommittingSinkWriter(SinkWriter, Generic[CommT]):
    """A writer whose output becomes visible when its committables are committed."""

    @abstractmethod
    def prepare_commit(self) -> Sequence[CommT]:
        """Return the committables, after :meth:`flush`. Until the commit, no output is visible."""


class Sink(ABC):
    """A sink for ``Pipeline.sink_to``. Without further abilities, it is at-least-once.

    Immutable and picklable, because Spark sends it to executors. No I/O in the constructor.
    """

    @abstractmethod
    def create_writer(self, context: WriterInitContext) -> SinkWriter:
        """Create a writer for one task of one epoch. Executor."""

    def writer_parallelism(self) -> int | None:
        """Return the number of writers; ``None`` keeps the input partitions (cheapest)."""
        return None

    def writer_keys(self) -> Sequence[str]:
        """Return the columns whose equal values go to one writer if the number of writers is fixed.

        Then the changes of a key keep their order. Without columns, the rows are spread evenly.
        """
        return ()

    def validate(self, schema: pa.Schema) -> None:
        """Reject rows that can never be written, when the pipeline is built. Driver.

        Raises:
            ConfigurationError: The schema does not match.
        """

    def recorded_options(self, schema: pa.Schema) -> Sequence[RecordedOption]:
        """Return the options whose change would mix different output in one place. Driver.

        Args:
            schema: The schema of the rows.
        """
        return ()


class TwoPhaseCommittingSink(Sink, Generic[CommT]):
    """A sink whose rows become visible exactly once, by a commit after the epoch's decision."""

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        """The guarantee in `Pipeline.status()`; override it for a configurable guarantee."""
        return DeliveryGuarantee.EXACTLY_ONCE

    @abstractmethod
    def create_writer(self, context: WriterInitContext) -> CommittingSinkWriter[CommT]:
        """Create a writer for one task of one epoch. Executor."""

    @abstractmethod
    def create_committer(self, context: CommitterInitContext) -> Committer[CommT]:
        """Create the committer, which lives as long as the pipeline runs. Driver.

        The core calls this at every start, when no other driver runs the pipeline and before
        anything is committed or written. Check here whether the target allows the configured
        behavior, for example whether a timeout is longer than the trigger interval.

        Raises:
            ConfigurationError: The target does not allow it. The start fails with this
                error.
        """

    @abstractmethod
    def committable_serializer(self) -> VersionedSerializer[CommT]:
        """Return the serializer of committables in decisions."""

    def committer_parallelism(self) -> int:
        """Return the number of threads that commit an epoch, each with its own committer.

        Spark tasks commit large epochs of a sink with the ability
        :class:`~connectors_core.sink.SupportsCommitTasks`.
        """
        return 1


AnyTwoPhaseCommittingSink = TwoPhaseCommittingSink[Any]
