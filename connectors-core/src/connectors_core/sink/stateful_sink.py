# SPDX-License-Identifier: Apache-2.0
"""Sinks whose writers keep state from epoch to epoch (Flink's FLIP-143 and FLIP-372)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from connectors_core.serialization import VersionedSerializer
from connectors_core.sink.sink import Sink, SinkWriter, WriterInitContext

__all__ = ["StatefulSink", "StatefulSinkWriter"]

StateT = TypeVar("StateT")


class StatefulSinkWriter(SinkWriter, Generic[StateT]):
    """A writer that hands its state on to the writer of the next epoch."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> Sequence[StateT]:
        """What the next writer needs, after :meth:`flush` and ``prepare_commit``. Executor.

        It is stored in the decision of the epoch, and so is seen by the next writers if the epoch
        is decided, and never if it is not. What the writer was restored with and still matters
        belongs to it. Where the parallelism changes each element goes to one of the new writers:
        what must stay together is one element.

        Args:
            checkpoint_id: The epoch.
        """


class StatefulSink(Sink, Generic[StateT]):
    """A sink whose writers go on from what the writers of the epoch before left.

    Its number of writers is fixed, by ``sink_to(parallelism=...)`` or `writer_parallelism`. As long
    as it stays the same, writer k goes on from the state of writer k; when it changes, all states
    are dealt out to the new writers in turn. Which rows a writer gets is another matter: Spark
    deals them out anew in every epoch, so a state must not depend on that.

    A writer is made when its first row of an epoch comes; the state of one that gets no row stays
    as it is. It passes through the driver with every epoch, so it is limited; it is for positions,
    names and counts, and not for rows, which would stay in it when no further row comes.

    Two-phase sinks derive from `TwoPhaseCommittingSink` too.
    """

    @abstractmethod
    def create_writer(self, context: WriterInitContext) -> StatefulSinkWriter[StateT]:
        """A writer without state: in the first epoch, or of more writers than states. Executor."""

    @abstractmethod
    def restore_writer(
        self, context: WriterInitContext, states: Sequence[StateT]
    ) -> StatefulSinkWriter[StateT]:
        """A writer that goes on from states, at least one. Executor.

        Called for every attempt, also when an epoch is written again, with the same states.

        Args:
            context: The writer's.
            states: What the writer of this number left, or what this one was dealt out.
        """

    @abstractmethod
    def writer_state_serializer(self) -> VersionedSerializer[StateT]:
        """How states are stored in decisions."""

    def max_writer_state_bytes(self) -> int:
        """Most that the states of one writer may have together, as they are stored."""
        return 64 << 10
