# SPDX-License-Identifier: Apache-2.0
"""Reads with kafka-python's public API, record by record and therefore far slower.

Replaces the fast fetcher if the private parts are not as `wire` expects them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition
from kafka import errors as kafka_errors

from connector_kafka.client import config as properties
from connector_kafka.client.bounds import bounded_decompression
from connector_kafka.client.config import ClientConfig
from connector_kafka.client.errors import error_of_exception
from connector_kafka.client.fetcher import Fetched, FetchSettings, OffsetRange, PartitionRange
from connector_kafka.client.logins import prepare_logins
from connector_kafka.client.metadata import TopicPartition
from connector_kafka.errors import CorruptRecordsError, KafkaRetryableError
from connector_kafka.records import COLUMNS
from connector_kafka.records.errors import MalformedError, TooLargeError
from connectors_core.errors import DataLossError

__all__ = ["PollingFetcher"]

_logger = logging.getLogger(__name__)

_POLL_MS: Final = 200
_ALONE_SECONDS: Final = 5.0
_DAMAGE: Final = (kafka_errors.CorruptRecordError, MalformedError)


class PollingFetcher:
    """Does the same as `Fetcher`, record by record. Executor.

    It knows topics only by name, so it cannot detect a recreated topic.

    Args:
        config: Properties of the client.
        settings: The settings for reading.
    """

    def __init__(self, config: ClientConfig, settings: FetchSettings) -> None:
        self._config = config
        self._settings = settings
        self._consumer: Any = None
        self._waiting: list[PartitionRange] = []
        self._reading: dict[TopicPartition, PartitionRange] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[str] = set()
        self._woken = threading.Event()
        self._patience = config[properties.API_TIMEOUT_MS] / 1000
        self._moved_at = 0.0
        self._is_assigned = True

    def add(self, ranges: Iterable[PartitionRange]) -> None:
        """Add ranges. It reads several ranges of one partition one after another."""
        self._waiting.extend(ranges)

    def pause_or_resume(self, pause: Iterable[str], resume: Iterable[str]) -> None:
        """Exclude these keys from the next polls, or include them again."""
        self._paused = (self._paused | set(pause)) - set(resume)

    def offsets_at(
        self, partitions: Iterable[TopicPartition], milliseconds: int
    ) -> dict[TopicPartition, int]:
        """Return the first offsets whose timestamps are not before a time."""
        times = dict.fromkeys(map(_of_client, partitions), milliseconds)
        try:
            found = self._opened().offsets_for_times(times)
        except kafka_errors.KafkaError as exc:
            raise error_of_exception(exc, "seeking") from exc
        return {
            TopicPartition(each.topic, each.partition): at.offset
            for each, at in found.items()
            if at is not None
        }

    def poll(self) -> Iterator[Fetched]:
        """Wait for data or a call to :meth:`wake_up`, then yield the available results."""
        yield from self._begin()
        while not self._woken.is_set() and self._reading:
            try:
                came = self._polled()
            except kafka_errors.OffsetOutOfRangeError as exc:
                yield from self._lost(exc)
                return
            except _DAMAGE as exc:
                raise self._damaged(exc) from exc
            except kafka_errors.KafkaError as exc:
                raise error_of_exception(exc, "polling") from exc
            for partition, records in came.items():
                yield self._take(TopicPartition(partition.topic, partition.partition), records)
            passed = self._passed()
            yield from passed
            if came or passed:
                break  # the next poll assigns the remaining partitions
            self._check_patience()
        self._woken.clear()

    def wake_up(self) -> None:
        """Make the current or the next poll return. Any thread."""
        self._woken.set()

    def close(self) -> None:
        """Close the client."""
        if self._consumer is not None:
            self._consumer.close()

    def _opened(self) -> Any:
        if self._consumer is None:
            prepare_logins()
            config = self._config
            try:
                self._consumer = KafkaConsumer(
                    **config.client_arguments(),
                    group_id=None,
                    enable_auto_commit=False,
                    auto_offset_reset="none",
                    isolation_level=self._settings.isolation.value,
                    fetch_min_bytes=config[properties.FETCH_MIN_BYTES],
                    fetch_max_bytes=config[properties.FETCH_MAX_BYTES],
                    fetch_max_wait_ms=config[properties.FETCH_MAX_WAIT_MS],
                    max_partition_fetch_bytes=config[properties.MAX_PARTITION_FETCH_BYTES],
                    check_crcs=config[properties.CHECK_CRCS],
                    client_rack=config[properties.CLIENT_RACK],
                )
            except kafka_errors.KafkaError as exc:
                raise error_of_exception(exc, "connecting") from exc
        return self._consumer

    def _polled(self) -> dict[Any, Any]:
        with bounded_decompression(self._settings.max_record_bytes):
            came: dict[Any, Any] = self._opened().poll(
                _POLL_MS, max_records=self._settings.batch_rows
            )
        return came

    def _damaged(self, error: Exception) -> Exception:
        """Identify the damaged batch by reading each partition separately."""
        self.close()  # the client hangs in its next poll after a damaged batch
        self._consumer = None
        consumer = self._opened()
        for partition, position in self._positions.items():
            consumer.assign([_of_client(partition)])
            consumer.seek(_of_client(partition), position)
            deadline = time.monotonic() + _ALONE_SECONDS
            try:
                while not self._polled() and time.monotonic() < deadline:
                    pass
            except _DAMAGE as exc:
                return CorruptRecordsError(
                    str(exc),
                    topic=partition.topic,
                    partition=partition.partition,
                    offset=position,
                    is_too_large=isinstance(exc, TooLargeError),
                )
        return error_of_exception(error, "polling")

    def _begin(self) -> Iterator[Fetched]:
        """Start the ranges of idle partitions, and assign them to the client."""
        for wanted in list(self._waiting):
            if wanted.stop is not None and wanted.start >= wanted.stop:
                self._waiting.remove(wanted)
                yield Fetched(key=wanted.key, records=None, next_offset=wanted.start, finished=True)
            elif wanted.partition not in self._reading:
                self._waiting.remove(wanted)
                self._reading[wanted.partition] = wanted
                self._positions[wanted.partition] = wanted.start
                self._is_assigned = False
                self._moved_at = time.monotonic()
        consumer = self._opened()
        if not self._is_assigned:
            # Only now, because these are the positions after all results of the last poll.
            consumer.assign([_of_client(each) for each in self._reading])
            for partition, position in self._positions.items():
                consumer.seek(_of_client(partition), position)
            self._is_assigned = True
        for partition, wanted in self._reading.items():
            switch = consumer.pause if wanted.key in self._paused else consumer.resume
            switch(_of_client(partition))

    def _take(self, partition: TopicPartition, records: Sequence[Any]) -> Fetched:
        wanted = self._reading[partition]
        stop = wanted.stop
        rows = [each for each in records if stop is None or each.offset < stop]
        batch = _columns(rows, self._settings.columns) if rows else None
        return self._moved(
            partition,
            records[-1].offset + 1,
            records=batch,
            raw_bytes=sum(len(each.key or b"") + len(each.value or b"") for each in rows),
            leader_epoch=records[-1].leader_epoch,
        )

    def _moved(self, partition: TopicPartition, position: int, **came: Any) -> Fetched:
        wanted = self._reading[partition]
        self._moved_at = time.monotonic()
        if wanted.stop is not None:
            position = min(position, wanted.stop)
        finished = position == wanted.stop
        self._positions[partition] = position
        if finished:
            del self._reading[partition], self._positions[partition]
            self._is_assigned = False
        return Fetched(key=wanted.key, next_offset=position, finished=finished, **came)

    def _passed(self) -> list[Fetched]:
        """Advance past offsets without records, such as markers and compacted records."""
        reached = {each: self._opened().position(_of_client(each)) for each in self._positions}
        return [
            self._moved(partition, offset, records=None)
            for partition, offset in reached.items()
            if offset is not None and offset > self._positions[partition]
        ]

    def _check_patience(self) -> None:
        """Check for missing records. With a stop, records exist or arrive soon."""
        waiting = [
            str(each.partition)
            for each in self._reading.values()
            if each.stop is not None and each.key not in self._paused
        ]
        if waiting and time.monotonic() - self._moved_at > self._patience:
            raise KafkaRetryableError(
                f"no records arrive from {', '.join(waiting)}",
                expected=f"records within {self._patience:g} seconds",
            )

    def _lost(self, error: Exception) -> Iterator[Fetched]:
        for each in error.args[0]:
            partition = TopicPartition(each.topic, each.partition)
            position = self._positions[partition]
            earliest = self._opened().beginning_offsets([each])[each]
            latest = self._opened().end_offsets([each])[each]
            if self._settings.on_data_loss == "fail":
                raise DataLossError(
                    f"offset {position} of {partition} does not exist",
                    expected=f"offsets {earliest} to {latest}",
                    option="on-data-loss",
                ) from error
            target = earliest if self._settings.on_data_loss == "earliest" else latest
            resume_at: int | None = target
            if position > latest:
                target, resume_at = self._reading[partition].stop or position, None
            _logger.error("offsets from %d of %s are lost; reading continues", position, partition)
            moved = self._moved(partition, target, records=None)
            if not moved.finished:
                self._opened().seek(each, moved.next_offset)
            yield Fetched(
                key=moved.key,
                records=None,
                next_offset=moved.next_offset,
                finished=moved.finished,
                lost=OffsetRange(position, moved.next_offset),
                resume_at=resume_at,
            )


def _of_client(partition: TopicPartition) -> KafkaTopicPartition:
    return KafkaTopicPartition(partition.topic, partition.partition)


def _columns(records: Sequence[Any], names: Sequence[str]) -> pa.RecordBatch:
    values = {
        "key": lambda each: each.key,
        "value": lambda each: each.value,
        "offset": lambda each: each.offset,
        "timestamp": lambda each: each.timestamp,
        "timestamp_type": lambda each: each.timestamp_type,
        "headers": lambda each: [{"key": key, "value": value} for key, value in each.headers],
    }
    schema = pa.schema([COLUMNS.field(name) for name in names])
    arrays = [pa.array(map(values[name], records), schema.field(name).type) for name in names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
