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
from connectors_core.records import RecordErrorHandler
from connectors_core.serialization import VersionedSerializer
from connectors_core.sink.committer import Committer, CommitterInitContext
from connectors_core.sink.messages import CommT


class DeliveryGuarantee(StrEnum):
    """How often a row arrives when something fails."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"


def _cannot_claim(name: str) -> bool:
    raise NotImplementedError(f"{name!r} cannot be claimed: this context does not support claims")


@dataclass(frozen=True, kw_only=True)
class WriterInitContext:
    """What a writer knows of itself. Executor.

    Attributes:
        pipeline_id: The pipeline, for all its restarts.
        sink_uid: The sink within the pipeline.
        checkpoint_id: The epoch that this writer writes.
        subtask_id: Number of the writer in the epoch, from 0.
        attempt_number: Spark's attempt of this task.
        nonce: Different for every attempt ever made: name staged output by epoch, subtask, attempt
            and nonce, and no two attempts touch the same.
        schema: Arrow schema of the batches that come.
        metric_group: Metrics of this writer; they travel in its summary.
        record_errors: What to do with a row that cannot be written (the sink's record policy).
        lease: What the driver leased to the writers of this job, None where the committer has not
            the ability :class:`~connectors_core.sink.SupportsLeases`.
        claim: Takes a name for this attempt: True for the first of all attempts of this job that
            asks for it, False for everyone after, for ever. A name is letters, digits, '_', '.'
            and '-', at most 200. A job that writes the epoch again has names of its own.
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
        """All rows of the epoch are here: make them durable, or staged if there are two phases."""

    @abstractmethod
    def close(self) -> None:
        """Release what the writer holds; after a failure also without :meth:`flush`."""


class CommittingSinkWriter(SinkWriter, Generic[CommT]):
    """A writer whose output becomes visible by its committables."""

    @abstractmethod
    def prepare_commit(self) -> Sequence[CommT]:
        """What to commit, after :meth:`flush`. Nothing written is visible before that."""


class Sink(ABC):
    """What a connector gives to ``Pipeline.sink_to``. Alone it is at-least-once.

    Immutable and picklable: it is shipped to executors. No I/O in the constructor.
    """

    @abstractmethod
    def create_writer(self, context: WriterInitContext) -> SinkWriter:
        """A writer for one task of one epoch. Executor."""

    def writer_parallelism(self) -> int | None:
        """Number of writers; ``None`` takes the upstream's partitions (cheapest)."""
        return None

    def validate(self, schema: pa.Schema) -> None:
        """Refuse rows that can never be written, when the pipeline is built. Driver.

        Raises:
            ConfigurationError: The schema does not fit.
        """


class TwoPhaseCommittingSink(Sink, Generic[CommT]):
    """A sink whose rows become visible exactly once, by a commit after the epoch's decision."""

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        """What `Pipeline.status()` shows; a sink that can be set to less says so here."""
        return DeliveryGuarantee.EXACTLY_ONCE

    @abstractmethod
    def create_writer(self, context: WriterInitContext) -> CommittingSinkWriter[CommT]:
        """A writer for one task of one epoch. Executor."""

    @abstractmethod
    def create_committer(self, context: CommitterInitContext) -> Committer[CommT]:
        """The committer; lives as long as the pipeline runs. Driver.

        Called at every start, when no other driver runs the pipeline and before anything is
        committed or written: the place to look whether the target allows what the sink is set to
        do, such as a time-out that is longer than the trigger interval.

        Raises:
            ConfigurationError: It does not. The start ends with this error.
        """

    @abstractmethod
    def committable_serializer(self) -> VersionedSerializer[CommT]:
        """How committables are stored in decisions."""

    def committer_parallelism(self) -> int:
        """Threads that commit one epoch; a committer for each."""
        return 1


AnyTwoPhaseCommittingSink = TwoPhaseCommittingSink[Any]
