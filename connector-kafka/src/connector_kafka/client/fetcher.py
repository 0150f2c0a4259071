# SPDX-License-Identifier: Apache-2.0
"""Fetches record batches, and requests the next ones while the last ones are decoded."""

from __future__ import annotations

import logging
import queue
import struct
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
from kafka import errors as kafka_errors
from kafka.protocol.consumer import FetchRequest

from connector_kafka.client import config as properties
from connector_kafka.client.errors import error_of_code, is_missing, is_retriable
from connector_kafka.client.metadata import (
    EARLIEST,
    LATEST,
    Cluster,
    IsolationLevel,
    TopicPartition,
)
from connector_kafka.client.retries import retry_log, retry_policy
from connector_kafka.client.wire import Wire
from connector_kafka.errors import KafkaRetryableError
from connector_kafka.records import MAX_RECORD_BYTES, decode
from connectors_core.errors import DataLossError

__all__ = [
    "FetchSettings",
    "Fetched",
    "Fetcher",
    "OffsetRange",
    "PartitionRange",
    "log_was_cut",
]

_logger = logging.getLogger(__name__)

_OUT_OF_RANGE: Final = kafka_errors.OffsetOutOfRangeError.errno
_NO_LEADER: Final = kafka_errors.LeaderNotAvailableError.errno
#: From this version on, requests identify topics by ID, which distinguishes a recreated topic.
_BY_ID: Final = 13
_BY_NAME: Final = 12
_LONGEST_POLL: Final = 1.0
# Base offset, length, (leader epoch or checksum), magic; in format 2: (attributes and checksum),
# and the delta of the last offset.
_BATCH: Final = struct.Struct(">qiib")
_LAST_OFFSET_DELTA: Final = struct.Struct(">23xi")
_BEFORE_LENGTH: Final = 12
_SHORTEST: Final = {0: 14, 1: 22, 2: 49}
_BEYOND: Final = 2**63 - 1


@dataclass(frozen=True)
class OffsetRange:
    """Offsets from `start` up to, but not including, `stop`."""

    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.start} to {self.stop - 1}"


@dataclass(frozen=True, kw_only=True)
class PartitionRange:
    """The offsets to read from a partition.

    Attributes:
        key: A unique key, because there can be several ranges of one partition.
        partition: The partition.
        topic_id: The ID of the topic at discovery, or empty if not known.
        start: The first offset.
        stop: The first offset not to read, or None for no end.
        leader_epoch: The leader epoch of the records before the start, or -1 if it is not known.
            With it, the broker detects a log that was cut before the start (KIP-320).
    """

    key: str
    partition: TopicPartition
    topic_id: str = ""
    start: int
    stop: int | None
    leader_epoch: int = -1


@dataclass(frozen=True, kw_only=True)
class FetchSettings:
    """The settings for reading.

    Attributes:
        isolation: Whether to read records of open and aborted transactions.
        on_data_loss: `fail`, or the offset to continue from: `earliest` or `latest`.
        columns: The columns to build, with names of `connector_kafka.records.COLUMNS`.
        batch_rows: The maximum number of rows in a batch.
        batch_bytes: The maximum number of bytes of records in a batch.
        max_record_bytes: The maximum size of a record from a compressed batch.
    """

    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    on_data_loss: str = "fail"
    columns: tuple[str, ...] = ("key", "value", "offset", "timestamp", "timestamp_type")
    batch_rows: int = 65_536
    batch_bytes: int = 32 << 20
    max_record_bytes: int = MAX_RECORD_BYTES


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """The result of a fetch for one partition.

    Attributes:
        key: The key of the range.
        records: The columns, or None if only the position advanced.
        next_offset: The next offset to read.
        raw_bytes: The number of bytes received for the partition.
        high_watermark: The first offset that consumers cannot see yet.
        finished: Whether the range has been read up to its stop.
        lost: Lost offsets, after which reading continues.
        resume_at: The offset of the next available record, which is beyond the stop if more was
            lost than the range contains. None if nothing was lost, or if it is not known.
        cut_at: The offset at which the log was cut before the position and written again, or None.
        leader_epoch: The leader epoch of the last received record, or -1 if it is not known.
    """

    key: str
    records: pa.RecordBatch | None
    next_offset: int
    raw_bytes: int = 0
    high_watermark: int = -1
    finished: bool = False
    lost: OffsetRange | None = None
    resume_at: int | None = None
    cut_at: int | None = None
    leader_epoch: int = -1

    @property
    def nbytes(self) -> int:
        """The memory in bytes."""
        return int(self.records.nbytes) if self.records is not None else 0


@dataclass
class _Read:
    """A range and its reading progress."""

    wanted: PartitionRange
    position: int
    leader_epoch: int = -1  # of the records before the position
    paused: bool = False
    on_its_way: bool = False
    replica: int | None = None  # the nearest replica, if the broker named one (KIP-392)
    replica_until: float = 0.0
    not_before: float = 0.0
    failing_since: float | None = None
    failures: int = 0

    @property
    def partition(self) -> TopicPartition:
        return self.wanted.partition


@dataclass(frozen=True)
class _Piece:
    """The part of a response for one range, not decoded yet."""

    wanted: PartitionRange
    raw: Any
    start: int
    next_offset: int
    finished: bool
    aborted: tuple[tuple[int, int], ...] | None = None
    high_watermark: int = -1
    lost: OffsetRange | None = None
    resume_at: int | None = None
    log_end: int | None = None
    cut_at: int | None = None
    leader_epoch: int = -1


class Fetcher:
    """Reads partitions by fetch requests, with one in flight per broker at any time.

    Memory holds at most two responses per broker: one being decoded and one being received. Call
    all methods except :meth:`wake_up` from one thread. Executor.

    Args:
        wire: The connections, which close together with the fetcher.
        settings: The settings for reading.
    """

    def __init__(self, wire: Wire, settings: FetchSettings) -> None:
        self._wire = wire
        self._settings = settings
        self._reads: dict[str, _Read] = {}  # the unfinished ranges, in the order of fetching
        self._empty: list[PartitionRange] = []
        self._busy: set[int] = set()
        self._asking_metadata = False
        self._answers: queue.SimpleQueue[Callable[[], list[_Piece]]] = queue.SimpleQueue()
        self._patience = wire.config[properties.API_TIMEOUT_MS] / 1000
        self._retries = retry_policy(wire.config)
        self._retry_log = retry_log("reading from", wire.config)

    def add(self, ranges: Iterable[PartitionRange]) -> None:
        """Add ranges."""
        for each in ranges:
            if each.stop is not None and each.start >= each.stop:
                self._empty.append(each)
            else:
                self._reads[each.key] = _Read(
                    wanted=each, position=each.start, leader_epoch=each.leader_epoch
                )

    def pause_or_resume(self, pause: Iterable[str], resume: Iterable[str]) -> None:
        """Exclude these keys from the next fetches, or include them again."""
        for keys, paused in ((pause, True), (resume, False)):
            for key in keys:
                if key in self._reads:
                    self._reads[key].paused = paused

    def offsets_at(
        self, partitions: Iterable[TopicPartition], milliseconds: int
    ) -> dict[TopicPartition, int]:
        """Return the first offsets whose timestamps are not before a time; see `Cluster`."""
        return Cluster(self._wire).offsets(partitions, milliseconds)

    def poll(self) -> Iterator[Fetched]:
        """Wait for data or a call to :meth:`wake_up`, then yield the available results.

        Consume all of them before the next call. The next fetches are already in flight.

        Raises:
            DataLossError: Records are lost, and the settings make that an error.
            ConnectorError: Kafka rejected a request, or did not respond within
                `default.api.timeout.ms`.
        """
        self._begin_fetches()
        pieces = [
            _Piece(
                each,
                b"",
                each.start,
                next_offset=each.start,
                finished=True,
                leader_epoch=each.leader_epoch,
            )
            for each in self._empty
        ]
        self._empty.clear()
        for answer in self._wait_for_answers(0.0 if pieces else self._longest_wait()):
            pieces += answer()
        self._begin_fetches()
        for piece in pieces:
            yield from self._decode(piece)

    def wake_up(self) -> None:
        """Make the current or the next poll return. Any thread."""
        self._answers.put(list)

    def close(self) -> None:
        """Close the connections."""
        self._wire.close()

    # --- Requests --------------------------------------------------------------------------------

    def _begin_fetches(self) -> None:
        """Send a fetch to every broker that has none in flight."""
        now = time.monotonic()
        by_node: dict[int, list[_Read]] = {}
        leaderless: set[str] = set()
        for read in self._next_of_partitions():
            if read.paused or read.on_its_way or read.not_before > now:
                continue
            node = self._node_of(read, now)
            if node is None:
                leaderless.add(read.partition.topic)
            elif node not in self._busy:
                by_node.setdefault(node, []).append(read)
        if leaderless and not self._asking_metadata:
            self._ask_metadata(leaderless)
        for node, reads in by_node.items():
            self._fetch(node, reads)

    def _next_of_partitions(self) -> Iterable[_Read]:
        """Return the current range of each partition. A fetch names a partition only once."""
        chosen: dict[TopicPartition, _Read] = {}
        for read in self._reads.values():
            first = chosen.setdefault(read.partition, read)
            if (read.on_its_way, -read.position) > (first.on_its_way, -first.position):
                chosen[read.partition] = read
        return chosen.values()

    def _node_of(self, read: _Read, now: float) -> int | None:
        if read.replica is not None and read.replica_until > now:
            return read.replica
        return self._wire.known_leader(read.partition.topic, read.partition.partition)

    def _fetch(self, node: int, reads: Sequence[_Read]) -> None:
        config = self._wire.config
        topics: dict[str, Any] = {}
        for read in reads:
            topic = topics.setdefault(
                read.partition.topic,
                FetchRequest.FetchTopic(
                    topic=read.partition.topic,
                    topic_id=uuid.UUID(read.wanted.topic_id) if read.wanted.topic_id else None,
                    partitions=[],
                ),
            )
            topic.partitions.append(
                FetchRequest.FetchTopic.FetchPartition(
                    partition=read.partition.partition,
                    current_leader_epoch=-1,
                    fetch_offset=read.position,
                    last_fetched_epoch=read.leader_epoch,
                    log_start_offset=-1,
                    partition_max_bytes=config[properties.MAX_PARTITION_FETCH_BYTES],
                )
            )
        by_id = all(read.wanted.topic_id for read in reads)
        max_wait = config[properties.FETCH_MAX_WAIT_MS]
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=max_wait,
            min_bytes=config[properties.FETCH_MIN_BYTES],
            max_bytes=config[properties.FETCH_MAX_BYTES],
            isolation_level=self._settings.isolation.level,
            session_id=0,
            session_epoch=-1,
            topics=list(topics.values()),
            forgotten_topics_data=[],
            rack_id=config[properties.CLIENT_RACK],
            max_version=_BY_ID if by_id else _BY_NAME,
        )
        timeout = (config[properties.REQUEST_TIMEOUT_MS] + max_wait) / 1000
        self._busy.add(node)
        for read in reads:
            read.on_its_way = True
        self._wire.send(request, node=node, timeout=timeout).add_done_callback(
            lambda answer: self._answers.put(partial(self._take_answer, node, reads, answer))
        )

    def _ask_metadata(self, topics: set[str]) -> None:
        self._asking_metadata = True
        self._wire.ask_metadata(sorted(topics)).add_done_callback(
            lambda answer: self._answers.put(partial(self._take_metadata, topics, answer))
        )

    def _wait_for_answers(self, longest: float) -> Iterator[Callable[[], list[_Piece]]]:
        try:
            yield self._answers.get(timeout=longest) if longest else self._answers.get_nowait()
            while True:
                yield self._answers.get_nowait()
        except queue.Empty:
            return

    def _longest_wait(self) -> float:
        now = time.monotonic()
        waits = [read.not_before - now for read in self._reads.values() if read.not_before > now]
        return min([_LONGEST_POLL, *waits])

    # --- Responses -------------------------------------------------------------------------------

    def _take_answer(self, node: int, reads: Sequence[_Read], answer: Future[Any]) -> list[_Piece]:
        self._busy.discard(node)
        for read in reads:
            read.on_its_way = False
        try:
            response = answer.result()
            if response.error_code:
                raise error_of_code(response.error_code, f"fetching from broker {node}")
        except KafkaRetryableError as exc:
            return [piece for read in reads for piece in self._failed(read, exc)]
        by_name = {(read.partition.topic, read.partition.partition): read for read in reads}
        by_id = {(read.wanted.topic_id, read.partition.partition): read for read in reads}
        pieces = []
        for topic in response.responses:
            for data in topic.partitions:
                number = data.partition_index
                read = by_name.get((topic.topic, number)) or by_id[topic.topic_id.hex, number]
                pieces += self._take_partition(read, data)
        return pieces

    def _take_partition(self, read: _Read, data: Any) -> list[_Piece]:
        code = data.error_code
        if code == _OUT_OF_RANGE:
            return self._out_of_range(read)
        if code and is_retriable(code):
            error = error_of_code(code, f"reading {read.partition}")
            assert isinstance(error, KafkaRetryableError)
            return self._failed(read, error)
        if code:
            raise error_of_code(code, f"reading {read.partition} at offset {read.position}")
        if data.diverging_epoch is not None and data.diverging_epoch.end_offset >= 0:
            return self._diverging(read, data.diverging_epoch)
        if data.preferred_read_replica is not None and data.preferred_read_replica >= 0:
            max_age = self._wire.config[properties.METADATA_MAX_AGE_MS] / 1000
            read.replica = data.preferred_read_replica
            read.replica_until = time.monotonic() + max_age
        start, raw = read.position, data.records or b""
        behind, leader_epoch = _end_of(raw)
        if behind is None:
            return self._nothing_came(read, data.high_watermark)
        aborted = None
        if self._settings.isolation is IsolationLevel.READ_COMMITTED:
            aborted = tuple(
                (each.producer_id, each.first_offset) for each in data.aborted_transactions or ()
            )
        try:
            log_end = self._log_end(read.partition, behind, data.high_watermark)
        except KafkaRetryableError as exc:
            return self._failed(read, exc)
        read.leader_epoch = leader_epoch
        finished = self._move(read, behind)
        return [
            _Piece(
                read.wanted,
                raw,
                start,
                next_offset=read.position,
                finished=finished,
                aborted=aborted,
                high_watermark=data.high_watermark,
                log_end=log_end,
                leader_epoch=leader_epoch,
            )
        ]

    def _log_end(self, partition: TopicPartition, behind: int, high_watermark: int) -> int:
        """Return the end of the log, beyond which no valid batch extends.

        A broker notes the high watermark before it reads, so the log can have grown meanwhile.
        """
        if behind <= high_watermark or behind == _BEYOND:
            return high_watermark
        latest = Cluster(self._wire).offsets([partition], LATEST).get(partition, high_watermark)
        return max(high_watermark, latest)

    def _nothing_came(self, read: _Read, high_watermark: int) -> list[_Piece]:
        """Check for missing records.

        Without a stop, an empty response is normal. With one, the records must exist or arrive
        soon.
        """
        stop = read.wanted.stop
        if stop is None:
            self._succeeded(read)
            return []
        now = time.monotonic()
        if read.failing_since is None:
            read.failing_since = now
        if now - read.failing_since < self._patience:
            return []
        lost = OffsetRange(read.position, stop)
        if self._settings.on_data_loss == "fail":
            raise DataLossError(
                f"the broker does not return the planned offsets {lost} of {read.partition}",
                expected=f"records within {self._patience:g} seconds",
                found=f"the high watermark {high_watermark}",
                option="on-data-loss",
                hint="an unclean leader election lost the end of the log, or a transaction is "
                "open; set on-data-loss to continue without these records",
            )
        return [self._pass_over(read, stop)]

    def _take_metadata(self, topics: set[str], answer: Future[Any]) -> list[_Piece]:
        self._asking_metadata = False
        errors: dict[str, KafkaRetryableError] = {}
        try:
            response = answer.result()
        except KafkaRetryableError as exc:
            errors = dict.fromkeys(topics, exc)
        else:
            for topic in response.topics:
                error = error_of_code(
                    topic.error_code or _NO_LEADER, f"finding the leaders of {topic.name!r}"
                )
                if not isinstance(error, KafkaRetryableError):
                    raise error
                errors[topic.name] = error
        now = time.monotonic()
        return [
            piece
            for read in list(self._reads.values())
            if read.partition.topic in errors and self._node_of(read, now) is None
            for piece in self._failed(read, errors[read.partition.topic])
        ]

    def _out_of_range(self, read: _Read) -> list[_Piece]:
        if read.replica is not None:  # a follower can lag behind
            read.replica = None
            return []
        partition, position, stop = read.partition, read.position, read.wanted.stop
        cluster = Cluster(self._wire)
        earliest = cluster.offsets([partition], EARLIEST)[partition]
        latest = cluster.offsets([partition], LATEST)[partition]
        if earliest <= position <= latest:  # as a new leader can for a moment
            error = KafkaRetryableError(f"{partition} has offset {position} but does not return it")
            return self._failed(read, error)
        if self._settings.on_data_loss == "fail":
            raise DataLossError(
                f"offset {position} of {partition} does not exist",
                expected=f"offsets {earliest} to {latest}",
                found=f"offset {position}, where reading should continue",
                option="on-data-loss",
                hint="keep records longer (retention), or set on-data-loss to earliest or latest "
                "to continue without the lost records",
            )
        if position > latest:  # the end of the log is lost, and the next plan starts there
            return [self._pass_over(read, position if stop is None else stop)]
        target = earliest if self._settings.on_data_loss == "earliest" else latest
        return [replace(self._pass_over(read, target), resume_at=target)]

    def _diverging(self, read: _Read, found: Any) -> list[_Piece]:
        """Check whether the log was cut before the position, and written again.

        Args:
            read: The range.
            found: The last common leader epoch of both logs, and the offset at which it ends.
        """
        if read.replica is not None:  # a follower can lag behind
            read.replica = None
            return []
        if found.end_offset >= read.position:  # only later leaders, without records, are unknown
            read.leader_epoch = found.epoch
            return []
        partition, cut_at = read.partition, found.end_offset
        if self._settings.on_data_loss == "fail":
            raise log_was_cut(partition, cut_at, read.position)
        if self._settings.on_data_loss == "latest":
            cut_at = max(cut_at, Cluster(self._wire).offsets([partition], LATEST)[partition])
        stop = read.position if read.wanted.stop is None else read.wanted.stop
        return [replace(self._pass_over(read, stop), cut_at=cut_at)]

    def _pass_over(self, read: _Read, behind: int) -> _Piece:
        start = read.position
        read.leader_epoch = -1
        finished = self._move(read, behind)
        lost = OffsetRange(start, read.position)
        _logger.error(
            "offsets %s of %s are lost; reading continues after them", lost, read.partition
        )
        return _Piece(
            read.wanted, b"", start, next_offset=read.position, finished=finished, lost=lost
        )

    def _failed(self, read: _Read, error: KafkaRetryableError) -> list[_Piece]:
        """Retry later, on another broker if the leader has changed."""
        self._wire.forget_leader(read.partition.topic, read.partition.partition)
        read.replica = None
        now = time.monotonic()
        read.failures += 1
        if read.failing_since is None:
            read.failing_since = now
        elapsed = now - read.failing_since
        if not self._retries.is_over(read.failures, elapsed):
            self._retry_log.failed(error)
            read.not_before = now + self._retries.pause(read.failures, error, elapsed)
            return []
        if not is_missing(error.kafka_code):
            raise error
        if self._settings.on_data_loss == "fail":
            raise DataLossError(
                f"{read.partition} was deleted while it was being read",
                expected=f"the topic {read.partition.topic!r} that existed at the start",
                found=error.found,
                option="on-data-loss",
                hint="restart with another starting offset, or set on-data-loss to continue "
                "without the lost records",
            ) from error
        return [self._pass_over(read, read.wanted.stop or read.position)]

    def _succeeded(self, read: _Read) -> None:
        read.failing_since, read.failures = None, 0
        if self._retry_log.failing and not any(each.failures for each in self._reads.values()):
            self._retry_log.succeeded()

    def _move(self, read: _Read, position: int) -> bool:
        """Advance past the received records, and return whether that is the end."""
        stop = read.wanted.stop
        read.position = position if stop is None else min(position, stop)
        self._succeeded(read)
        del self._reads[read.wanted.key]
        if read.position == stop:
            return True
        self._reads[read.wanted.key] = read  # to the back: the broker fills a response in order
        return False

    # --- Decoding --------------------------------------------------------------------------------

    def _decode(self, piece: _Piece) -> Iterator[Fetched]:
        settings, wanted = self._settings, piece.wanted
        last = Fetched(
            key=wanted.key,
            records=None,
            next_offset=piece.next_offset,
            raw_bytes=len(piece.raw),
            high_watermark=piece.high_watermark,
            finished=piece.finished,
            lost=piece.lost,
            resume_at=piece.resume_at,
            cut_at=piece.cut_at,
            leader_epoch=piece.leader_epoch,
        )
        if not piece.raw:
            yield last
            return
        held: pa.RecordBatch | None = None
        held_behind = piece.start
        for part in decode(
            piece.raw,
            topic=wanted.partition.topic,
            partition=wanted.partition.partition,
            start_offset=piece.start,
            stop_offset=wanted.stop,
            end_offset=piece.log_end,
            columns=settings.columns,
            aborted=piece.aborted,
            check_crcs=self._wire.config[properties.CHECK_CRCS],
            max_rows=settings.batch_rows,
            max_bytes=settings.batch_bytes,
            max_record_bytes=settings.max_record_bytes,
        ):
            if held is not None:  # only the last part ends the range
                yield replace(
                    last, records=held, next_offset=held_behind, raw_bytes=0, finished=False
                )
            if part.records.num_rows:
                held, held_behind = part.records, part.next_offset
        yield replace(last, records=held)


def log_was_cut(partition: TopicPartition, end: int, position: int) -> DataLossError:
    """Return the error for a log whose records before a position are other ones by now.

    Args:
        partition: The partition.
        end: The offset at which the log was cut, or -1 if it is not known.
        position: The next offset to read.
    """
    where = f"at offset {end}" if end >= 0 else "at an offset that the broker does not know"
    return DataLossError(
        f"records of {partition} are lost: the log was cut {where}",
        expected=f"the records before offset {position}, which were read",
        found="other records, which were written after the cut" if end >= 0 else "another log",
        option="on-data-loss",
        hint="an unclean leader election lost the end of the log; set on-data-loss to earliest to "
        "continue with the records after the cut, or to latest to continue with new records",
    )


def _end_of(raw: Any) -> tuple[int | None, int]:
    """Return the offset after the last whole batch, or None without one, and its leader epoch."""
    behind, leader_epoch, at, size = None, -1, 0, len(raw)
    while at + _BATCH.size <= size:
        base, length, epoch, magic = _BATCH.unpack_from(raw, at)
        end = at + _BEFORE_LENGTH + length
        if length < _SHORTEST.get(magic, 0):
            return _BEYOND, -1  # the decoder reports the damage
        if end > size:
            break
        delta = _LAST_OFFSET_DELTA.unpack_from(raw, at)[0] if magic == 2 else 0
        leader_epoch = epoch if magic == 2 else -1
        behind, at = base + delta + 1, end
    if behind is None and size:
        # Brokers return the first batch as a whole, whatever its size (KIP-74), so this one is
        # damaged.
        return _BEYOND, -1
    return behind, leader_epoch
