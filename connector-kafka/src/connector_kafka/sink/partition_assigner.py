# SPDX-License-Identifier: Apache-2.0
"""Assigns records to partitions."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connector_kafka.records import Partitioner
from connector_kafka.sink.partitioners import (
    KafkaPartitioner,
    RecordPartitioner,
    checked_partitions,
)

__all__ = ["PartitionAssigner"]


class PartitionAssigner:
    """Assigns the records of one writer.

    The same rows in the same calls get the same partitions. Executor.

    Args:
        partitioner: The strategy. The writer has its own copy of a `RecordPartitioner`.
        subtask_id: The writer, which determines the first partition.
        batch_size: The number of bytes per partition before the next one, so that its batches are
            full.
    """

    def __init__(
        self,
        partitioner: KafkaPartitioner | RecordPartitioner,
        *,
        subtask_id: int,
        batch_size: int,
    ) -> None:
        self._partitioner = partitioner
        if isinstance(partitioner, RecordPartitioner):
            self._partitioner = copy.deepcopy(partitioner)
            self._partitioner.open(subtask_id)
        self._subtask_id = subtask_id
        self._batch_size = batch_size
        self._turns: dict[str, Partitioner] = {}

    def assign(
        self,
        topic: str,
        records: pa.RecordBatch,
        count: int,
        rows_of: Callable[[pa.RecordBatch], pa.RecordBatch],
    ) -> npt.NDArray[np.int32]:
        """Return the partition of each record.

        Args:
            topic: The topic of all of them.
            records: Records from `KafkaRecordSerializationSchema`, whose explicit partitions exist.
            count: The number of partitions of the topic.
            rows_of: Returns the rows of records.

        Raises:
            InvalidOptionError: A `RecordPartitioner` returned partitions that do not exist.
        """
        if isinstance(self._partitioner, RecordPartitioner):
            return _assigned_by(self._partitioner, topic, records, count, rows_of)
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


def _assigned_by(
    partitioner: RecordPartitioner,
    topic: str,
    records: pa.RecordBatch,
    count: int,
    rows_of: Callable[[pa.RecordBatch], pa.RecordBatch],
) -> npt.NDArray[np.int32]:
    assigned = np.zeros(records.num_rows, np.int32)
    rest = np.ones(records.num_rows, np.bool_)
    if "partition" in records.schema.names:
        given = records.column("partition")
        assigned[:] = given.fill_null(0).to_numpy(zero_copy_only=False)
        rest = given.is_null().to_numpy(zero_copy_only=False)
        records = records.filter(pa.array(rest))
    if records.num_rows:
        found = partitioner.partition(
            rows_of(records), records.column("key"), records.column("value"), topic, count
        )
        assigned[rest] = checked_partitions(found, records.num_rows, topic, count)
    return assigned
