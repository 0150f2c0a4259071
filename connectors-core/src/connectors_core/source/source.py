# SPDX-License-Identifier: Apache-2.0
"""The source: a factory of enumerators, readers, and serializers (Flink's FLIP-27)."""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic

import pyarrow as pa

from connectors_core.errors import InvalidOptionError
from connectors_core.options import RecordedOption
from connectors_core.serialization import VersionedSerializer
from connectors_core.source.enumerator import (
    EnumStateT,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from connectors_core.source.events import SourceEvent
from connectors_core.source.rate_limiter import RateLimiterStrategy
from connectors_core.source.reader import SourceReader, SourceReaderContext
from connectors_core.source.split import ReadLimits, SplitT, SplitTraits

_KEEP_UNBOUNDED: Final = (
    "keep the source unbounded; to end after the available data, use "
    "run(available_now=True, drain=False)"
)
_KEEP_BOUNDED: Final = (
    "keep the source bounded, or start with another checkpoint location; the pipeline then reads "
    "everything again"
)
_SMALLEST_TASK_BYTES: Final = 4 << 20
_LARGEST_TASK_BYTES: Final = 128 << 20
_TASKS_PER_READER: Final = 4


class Boundedness(enum.Enum):
    """Whether a source ends."""

    BOUNDED = "bounded"
    CONTINUOUS_UNBOUNDED = "continuous unbounded"


class Source(ABC, Generic[SplitT, EnumStateT]):
    """A source for ``Pipeline.from_source``: one implementation for batch and streaming.

    Immutable and picklable, because Spark sends it to executors. No I/O in the constructor.
    """

    # Classes of events that the enumerator and the readers exchange.
    event_types: tuple[type[SourceEvent], ...] = ()

    @abstractmethod
    def boundedness(self) -> Boundedness:
        """Whether the source ends."""

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return the schema of the emitted batches. May query the external system (driver)."""

    @abstractmethod
    def create_enumerator(
        self, context: SplitEnumeratorContext[SplitT]
    ) -> SplitEnumerator[SplitT, EnumStateT]:
        """Create an enumerator for a first start. Driver."""

    @abstractmethod
    def restore_enumerator(
        self, context: SplitEnumeratorContext[SplitT], state: EnumStateT
    ) -> SplitEnumerator[SplitT, EnumStateT]:
        """Create an enumerator that continues from a snapshot. Driver."""

    @abstractmethod
    def create_reader(self, context: SourceReaderContext) -> SourceReader[SplitT]:
        """Create a reader for one plan entry. Executor."""

    @abstractmethod
    def split_serializer(self) -> VersionedSerializer[SplitT]:
        """Return the serializer of splits in plans and reports."""

    @abstractmethod
    def enumerator_state_serializer(self) -> VersionedSerializer[EnumStateT]:
        """Return the serializer of the enumerator's snapshot."""

    def split_traits(self) -> SplitTraits:
        """Guarantees of all splits; the default is for splits that end and can be replayed."""
        return SplitTraits()

    def input_version(self, splits: Sequence[SplitT]) -> str | None:
        """Return what tells the input of a batch run from others; None if nothing does. Driver.

        The batch run after an interrupted one compares both texts. If they are equal, it does not
        read its input, so they must differ if a row could. If they differ, it reads its input in
        addition, so they must be equal for the same rows: leave out how these are divided into
        splits, and when they were found.

        Args:
            splits: All splits of the run, as they were assigned.
        """
        return None

    def recorded_options(self) -> Sequence[RecordedOption]:
        """Return the options that may not change on stored state. Driver.

        The default is whether the source ends: an enumerator of a bounded source stores what it
        has assigned, and one of an unbounded source what it has discovered. Extend it by options
        with which a restored enumerator would find other splits, or splits that were read.
        """
        bounded = self.boundedness() is Boundedness.BOUNDED
        hint = _KEEP_UNBOUNDED if bounded else _KEEP_BOUNDED
        return (RecordedOption(name="boundedness", value=self.boundedness().value, hint=hint),)

    def rate_limiter_strategy(self) -> RateLimiterStrategy:
        """Rate of the whole source if the user sets none."""
        return RateLimiterStrategy.none()

    def default_limits(self) -> ReadLimits:
        """Limits per plan if the user sets none."""
        return ReadLimits()


class SupportsRewinding(ABC, Generic[SplitT, EnumStateT]):
    """Ability of a source: starts at a position that a person names.

    ``connectors state rewind --to-start --at UID=POSITION`` rewinds a pipeline to it.
    """

    def check_position(self, position: str) -> None:
        """Reject an invalid position. Driver, without I/O.

        The next start after a rewind calls this before it reads anything. By default, only
        ``create_enumerator_at`` validates the position, which happens later.

        Args:
            position: The text that the person entered.

        Raises:
            ConfigurationError: The position is invalid; the error lists valid ones.
        """

    @abstractmethod
    def create_enumerator_at(
        self, context: SplitEnumeratorContext[SplitT], position: str
    ) -> SplitEnumerator[SplitT, EnumStateT]:
        """Create an enumerator that starts at a position. Driver.

        The next start calls this instead of ``create_enumerator``. The start after that also calls
        it if the previous one ended before its first plan.

        Args:
            context: The context of the enumerator.
            position: The text that the person entered, such as
                `timestamp:2026-01-31T00:00:00Z`.

        Raises:
            ConfigurationError: The position is invalid; the error lists valid ones.
        """


class SupportsForetoldEvents(ABC, Generic[SplitT]):
    """Ability of a source: foretells the events of readers that read their splits to the end.

    The readers of a native format cannot report. A source needs this ability there if its
    enumerator plans stops and waits for an event of its readers at the end of a run up to the
    available data.
    """

    @abstractmethod
    def events_after(self, splits: Sequence[SplitT]) -> Sequence[SourceEvent]:
        """Return the events that a reader sends when it has read these splits to their end.

        Without I/O. Driver.

        Args:
            splits: Splits of one reader, as planned, with their stops.
        """


@dataclass(frozen=True, kw_only=True)
class BatchTasks:
    """The limits of the number of tasks that read a source in a batch run.

    Attributes:
        max_tasks: The largest number of tasks; None for four for each reader.
        bytes_per_task: The volume of data, in bytes, above which a source adds a task. Only a
            source with the ability `DynamicParallelismInference` uses it.

    Raises:
        InvalidOptionError: A limit is not above 0.
    """

    max_tasks: int | None = None
    bytes_per_task: int = _LARGEST_TASK_BYTES

    def __post_init__(self) -> None:
        for name, limit in vars(self).items():
            if limit is not None and (not isinstance(limit, int) or limit < 1):
                raise InvalidOptionError(
                    "the limit of the tasks of a batch run is invalid",
                    expected="an integer above 0",
                    found=limit,
                    option=f"batch_tasks.{name}",
                )

    def upper_bound(self, parallelism: int) -> int:
        """Return the largest number of tasks of a source with this number of readers."""
        return self.max_tasks or parallelism * _TASKS_PER_READER


@dataclass(frozen=True, kw_only=True)
class ParallelismInferenceContext(Generic[SplitT]):
    """The facts from which a source infers the number of tasks of a batch run.

    Attributes:
        splits: All splits that the enumerator has found.
        parallelism: The number of tasks that run at the same time.
        upper_bound: The largest number of tasks.
        bytes_per_task: The volume of data, in bytes, above which to add a task.
    """

    splits: Sequence[SplitT]
    parallelism: int
    upper_bound: int
    bytes_per_task: int = _LARGEST_TASK_BYTES

    def tasks_for(self, volume: int) -> int:
        """Return the number of tasks for a volume of data.

        As Spark does for files, use all slots unless a task would then read less than 4 MB, and
        add tasks if one would read more than ``bytes_per_task``, by default 128 MB.

        Args:
            volume: The size of all splits, in bytes.
        """
        share = volume // self.parallelism
        per_task = min(max(share, _SMALLEST_TASK_BYTES), self.bytes_per_task)
        return min(max(math.ceil(volume / per_task), 1), self.upper_bound)


class DynamicParallelismInference(ABC, Generic[SplitT]):
    """Ability of a source: infers the number of tasks of a batch run (Flink's FLIP-379).

    Without it, each split has its own task, up to the limit of `BatchTasks`. Starting a Python task
    takes some hundredths of a second, which small splits should not pay one by one.
    """

    @abstractmethod
    def infer_parallelism(self, context: ParallelismInferenceContext[SplitT]) -> int:
        """Return the number of tasks. Driver, without I/O.

        Args:
            context: The splits and the limits.

        Returns:
            At least 1. The runtime never uses more tasks than there are splits.
        """


class SupportsStatisticReport(ABC, Generic[SplitT]):
    """Ability of a source: knows the size of the rows of a batch run (Flink's FLIP-231).

    Without it, Spark takes the size as unknown and broadcasts the rows to no join before it has
    counted them.
    """

    @abstractmethod
    def report_size(self, splits: Sequence[SplitT]) -> int | None:
        """Return the size of the rows of splits in bytes, or None if it is unknown.

        An estimate is enough, such as the size of files. Driver, without I/O.
        """


AnySource = Source[Any, Any]
