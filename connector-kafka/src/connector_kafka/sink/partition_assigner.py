# SPDX-License-Identifier: Apache-2.0
"""Assigns records to partitions."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connector_kafka.records import Partitioner

__all__ = ["KafkaPartitioner", "PartitionAssigner"]


class KafkaPartitioner(StrEnum):
    """How to assign records without an explicit partition (Flink's `sink.partitioner`)."""

    DEFAULT = "default"
    """By the hash of the key, as in Java's clients, and round-robin for records without a key."""
    FIXED = "fixed"
    """Each writer writes to one partition."""
    ROUND_ROBIN = "round-robin"
    """Round-robin, whatever the key."""


class PartitionAssigner:
    """Assigns the records of one writer.

    The same rows in the same calls get the same partitions. Executor.

    Args:
        partitioner: The strategy.
        subtask_id: The writer, which determines the first partition.
        batch_size: The number of bytes per partition before the next one, so that its batches are
            full.
    """

    def __init__(self, partitioner: KafkaPartitioner, *, subtask_id: int, batch_size: int) -> None:
        self._partitioner = partitioner
        self._subtask_id = subtask_id
        self._batch_size = batch_size
        self._turns: dict[str, Partitioner] = {}

    def assign(self, topic: str, records: pa.RecordBatch, count: int) -> npt.NDArray[np.int32]:
        """Return the partition of each record.

        Args:
            topic: The topic of all of them.
            records: Records from `KafkaRecordSerializationSchema`, whose explicit partitions exist.
            count: The number of partitions of the topic.
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
