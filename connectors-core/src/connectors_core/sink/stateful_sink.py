# SPDX-License-Identifier: Apache-2.0
"""Sinks whose writers keep state between epochs (Flink's FLIP-143 and FLIP-372)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from connectors_core.serialization import VersionedSerializer
from connectors_core.sink.sink import Sink, SinkWriter, WriterInitContext

__all__ = ["StatefulSink", "StatefulSinkWriter"]

StateT = TypeVar("StateT")


class StatefulSinkWriter(SinkWriter, Generic[StateT]):
    """A writer that passes its state to the writer of the next epoch."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int) -> Sequence[StateT]:
        """Return the state for the next writer. Executor, after ``prepare_commit``.

        The decision of the epoch stores it, so the next writers receive it only if the epoch is
        decided. Include everything from the restored state that is still needed. If the parallelism
        changes, each element goes to one of the new writers, so keep values that belong together in
        one element.

        Args:
            checkpoint_id: The epoch.
        """


class StatefulSink(Sink, Generic[StateT]):
    """A sink whose writers continue from the state of the previous epoch.

    The number of writers is fixed, by ``sink_to(parallelism=...)`` or `writer_parallelism`. While
    it stays the same, writer k continues from the state of writer k. When it changes, the states
    are distributed round-robin to the new writers. Spark distributes rows differently in every
    epoch, so a state must not depend on the rows that its writer gets.

    A writer is created for its first row of an epoch; the state of a writer without rows does not
    change. State passes through the driver in every epoch, so its size is limited. Use it for
    positions, names, and counts, not for rows: they would stay in the state if no more rows arrive.

    Two-phase sinks also derive from `TwoPhaseCommittingSink`.
    """

    @abstractmethod
    def create_writer(self, context: WriterInitContext) -> StatefulSinkWriter[StateT]:
        """Create a writer without state: for a first epoch, or an additional writer. Executor."""

    @abstractmethod
    def restore_writer(
        self, context: WriterInitContext, states: Sequence[StateT]
    ) -> StatefulSinkWriter[StateT]:
        """Create a writer from one or more states. Executor.

        The core calls this for every attempt, with the same states if an epoch is written
        again.

        Args:
            context: The context of the writer.
            states: The states of the same writer number, or the states distributed to this
                writer.
        """

    @abstractmethod
    def writer_state_serializer(self) -> VersionedSerializer[StateT]:
        """Return the serializer of states in decisions."""

    def max_writer_state_bytes(self) -> int:
        """Maximum total size of the serialized states of one writer."""
        return 64 << 10
