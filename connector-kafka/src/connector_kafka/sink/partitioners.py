# SPDX-License-Identifier: Apache-2.0
"""The built-in partitioners, and the interface of others (Flink's `KafkaPartitioner`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connector_kafka.classes import created
from connectors_core.errors import InvalidOptionError
from connectors_core.options import OptionType

__all__ = ["PARTITIONER", "KafkaPartitioner", "RecordPartitioner", "checked_partitions"]


class KafkaPartitioner(StrEnum):
    """A strategy for records without an explicit partition (Flink's `sink.partitioner`)."""

    DEFAULT = "default"
    """By the hash of the key, as in Java's clients, and round-robin for records without a key."""
    FIXED = "fixed"
    """Each writer writes to one partition."""
    ROUND_ROBIN = "round-robin"
    """Round-robin, whatever the key."""


class RecordPartitioner(ABC):
    """Assigns records to partitions, as Flink's `KafkaPartitioner` does, a batch at a time.

    Pickled with the sink. Each writer has its own copy, which starts in the state of the one that
    the sink received. If Spark retries a task, the same rows must get the same partitions, so
    use no clock and no random numbers.
    """

    def open(self, subtask_id: int) -> None:
        """Prepare for one writer. Executor.

        The number of writers is not known, because it differs between micro-batches.

        Args:
            subtask_id: The number of the writer in its epoch, from 0.
        """

    @abstractmethod
    def partition(
        self,
        rows: pa.RecordBatch,
        keys: pa.BinaryArray,
        values: pa.BinaryArray,
        topic: str,
        partition_count: int,
    ) -> npt.NDArray[np.integer[Any]] | pa.Array:
        """Return the partition of each record. Executor.

        Args:
            rows: The rows, with all columns.
            keys: The keys of their records, as bytes.
            values: The values of their records, as bytes.
            topic: The topic of all rows.
            partition_count: The number of partitions of the topic.

        Returns:
            Integers from 0 up to, but not including, `partition_count`, in the order of the rows.
        """


def checked_partitions(found: object, rows: int, topic: str, count: int) -> npt.NDArray[np.int32]:
    """Return the result of a partitioner as an array of existing partitions.

    Args:
        found: The result of `RecordPartitioner.partition`.
        rows: The number of records.
        topic: Their topic.
        count: The number of its partitions.

    Raises:
        InvalidOptionError: It is something else.
    """
    if isinstance(found, pa.Array):
        found = found.to_numpy(zero_copy_only=False)
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "iu" or found.shape != (rows,):
        shape = f"{found.dtype} {found.shape}" if isinstance(found, np.ndarray) else type(found)
        raise _refusal(f"{rows} integers without nulls", shape)
    wrong = found[(found < 0) | (found >= count)]
    if len(wrong):
        raise _refusal(f"0 to {count - 1}, the partitions of {topic!r}", int(wrong[0]))
    return found.astype(np.int32)


def _refusal(expected: str, found: object) -> InvalidOptionError:
    return InvalidOptionError(
        "the partitioner returned partitions that cannot be used",
        expected=expected,
        found=found,
        option="sink.partitioner",
        hint="correct its method `partition`",
    )


def _parse(value: object) -> KafkaPartitioner | RecordPartitioner:
    """A built-in one, an object, or the path of a class without arguments."""
    if isinstance(value, RecordPartitioner):
        return value
    text = str(value)
    if ":" in text:
        return created(text, RecordPartitioner)  # type: ignore[type-abstract]
    try:
        return KafkaPartitioner(text.strip().lower().replace("_", "-"))
    except ValueError:
        names = ", ".join(KafkaPartitioner)
        raise ValueError(f"one of {names}, or a class as module:Class") from None


def _shown(value: KafkaPartitioner | RecordPartitioner) -> str:
    if isinstance(value, RecordPartitioner):
        return f"{type(value).__module__}:{type(value).__qualname__}"
    return value.value


PARTITIONER: Final[OptionType[KafkaPartitioner | RecordPartitioner]] = OptionType(
    "partitioner", _parse, _shown
)
"""`default`, `fixed`, `round-robin`, a `RecordPartitioner`, or its class as `module:Class`."""
