# SPDX-License-Identifier: Apache-2.0
"""Which partition a record goes to."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connector_kafka.records import Partitioner

__all__ = ["KafkaPartitioner", "PartitionAssigner"]


class KafkaPartitioner(StrEnum):
    """How records without a partition of their own find one (Flink's `sink.partitioner`)."""

    DEFAULT = "default"
    """By the hash of the key, as Java's clients have it; records without a key in turn."""
    FIXED = "fixed"
    """Each writer writes to one partition."""
    ROUND_ROBIN = "round-robin"
    """In turn, whatever the key."""


class PartitionAssigner:
    """Assigns the records of one writer; the same rows in the same calls alike. Executor.

    Args:
        partitioner: How.
        subtask_id: The writer: it begins its turns elsewhere than others.
        batch_size: Bytes that one partition gets in its turn, so that its batches are full.
    """

    def __init__(self, partitioner: KafkaPartitioner, *, subtask_id: int, batch_size: int) -> None:
        self._partitioner = partitioner
        self._subtask_id = subtask_id
        self._batch_size = batch_size
        self._turns: dict[str, Partitioner] = {}

    def assign(self, topic: str, records: pa.RecordBatch, count: int) -> npt.NDArray[np.int32]:
        """The partition of each record.

        Args:
            topic: Where all of them go.
            records: As `KafkaRecordSerializationSchema` makes them; partitions in them exist.
            count: Partitions of the topic.
        """
        if self._partitioner is KafkaPartitioner.FIXED:
            fixed = self._subtask_id % count
            if "partition" not in records.schema.names:
                return np.full(records.num_rows, fixed, np.int32)
            given = records.column("partition").fill_null(fixed)
            return np.asarray(given.to_numpy(), np.int32)
        if self._partitioner is KafkaPartitioner.ROUND_ROBIN:
            records = records.drop_columns(["key"])
        if topic not in self._turns:
            self._turns[topic] = Partitioner(sticky_bytes=self._batch_size, first=self._subtask_id)
        return self._turns[topic].assign(records, count)
