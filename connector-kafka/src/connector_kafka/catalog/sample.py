# SPDX-License-Identifier: Apache-2.0
"""Reads a bounded sample of a topic's records."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connector_kafka.catalog.options import SampleOptions, SampleStart
from connector_kafka.client.config import ClientConfig
from connector_kafka.client.fetch_api import FetchApi, open_fetcher
from connector_kafka.client.fetcher import FetchSettings, PartitionRange
from connector_kafka.client.metadata import (
    EARLIEST,
    LATEST,
    Cluster,
    IsolationLevel,
    Topic,
    TopicPartition,
)
from connector_kafka.errors import KafkaRetryableError

__all__ = ["Sample", "read_sample"]

_COLUMNS: Final = ("key", "value")
# Aborted records show nothing about those that a reader gets.
_ISOLATION: Final = IsolationLevel.READ_COMMITTED


@dataclass(frozen=True)
class Sample:
    """Records of a topic.

    Attributes:
        keys: Their keys, which can be null.
        values: Their values, which can be null.
    """

    keys: pa.Array
    values: pa.Array

    @property
    def size(self) -> int:
        """The number of bytes of keys and values."""
        return int(_sizes(self.keys, self.values).sum())

    def __len__(self) -> int:
        return len(self.values)


def read_sample(
    cluster: Cluster, topic: Topic, config: ClientConfig, options: SampleOptions
) -> Sample:
    """Read the newest or oldest records of each partition. Driver.

    Args:
        cluster: The client for offsets.
        topic: The topic.
        config: Properties of the client that fetches.
        options: The bounds of the sample.

    Raises:
        KafkaRetryableError: The topic has records, and none arrived in time.
        ConnectorError: Kafka rejects a request.
    """
    ranges = _ranges(cluster, topic, options)
    if not ranges:
        return _sample([])
    deadline = time.monotonic() + options.timeout.total_seconds()
    settings = FetchSettings(
        isolation=_ISOLATION,
        on_data_loss="earliest",
        columns=_COLUMNS,
        batch_rows=options.records,
        batch_bytes=options.size,
    )
    parts = {
        each.key: _Part(options.records, max(1, options.size // len(ranges))) for each in ranges
    }
    fetcher = open_fetcher(config, settings, FetchApi.AUTO)
    alarm = threading.Timer(options.timeout.total_seconds(), fetcher.wake_up)
    alarm.daemon = True
    alarm.start()
    try:
        fetcher.add(ranges)
        while not all(each.is_full for each in parts.values()) and time.monotonic() < deadline:
            for fetched in fetcher.poll():
                part = parts[fetched.key]
                if fetched.records is not None:
                    part.take(fetched.records)
                part.is_full |= fetched.finished
                if part.is_full:
                    fetcher.pause_or_resume([fetched.key], [])
    finally:
        alarm.cancel()
        fetcher.close()
    batches = [batch for each in parts.values() for batch in each.batches]
    if not batches and not all(each.is_full for each in parts.values()):
        raise KafkaRetryableError(
            f"no records of the topic {topic.name!r} arrive",
            expected=f"records within {options.timeout.total_seconds():g} seconds",
            option="sample.timeout",
        )
    return _sample(batches)


class _Part:
    """The records of one partition.

    Args:
        records: The maximum number of records.
        size: The maximum number of bytes, unless the first record is larger.

    Attributes:
        batches: The records.
        is_full: Whether no more are needed.
    """

    def __init__(self, records: int, size: int) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.is_full = False
        self._records = records
        self._size = size

    def take(self, batch: pa.RecordBatch) -> None:
        """Keep the records that fit."""
        if self.is_full or not batch.num_rows:
            return
        ends = np.cumsum(_sizes(*batch.columns))
        count = min(self._records, int(np.searchsorted(ends, self._size, side="right")))
        if not self.batches:
            count = max(count, 1)
        if count:
            self.batches.append(batch.slice(0, count))
            self._records -= count
            self._size -= int(ends[count - 1])
        self.is_full = count < batch.num_rows or not self._records


def _ranges(cluster: Cluster, topic: Topic, options: SampleOptions) -> list[PartitionRange]:
    """Return the offsets to read of each partition that is not empty."""
    partitions = [TopicPartition(topic.name, number) for number in topic.partitions]
    starts = cluster.offsets(partitions, EARLIEST)
    stops = cluster.offsets(partitions, LATEST, _ISOLATION)
    newest = options.start is SampleStart.LATEST
    return [
        PartitionRange(
            key=str(each),
            partition=each,
            topic_id=topic.topic_id,
            start=max(starts[each], stops[each] - options.records) if newest else starts[each],
            stop=stops[each],
        )
        for each in partitions
        if starts[each] < stops[each]
    ]


def _sample(batches: Sequence[pa.RecordBatch]) -> Sample:
    nothing = pa.array([], pa.binary())
    return Sample(
        *(
            pa.concat_arrays([nothing, *(each.column(name) for each in batches)])
            for name in _COLUMNS
        )
    )


def _sizes(keys: pa.Array, values: pa.Array) -> npt.NDArray[np.int64]:
    lengths = [pc.fill_null(pc.binary_length(each), 0).to_numpy() for each in (keys, values)]
    total: npt.NDArray[np.int64] = np.add(*lengths, dtype=np.int64)
    return total
