# SPDX-License-Identifier: Apache-2.0
"""A range of a file, with the file's version and the position in the range."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import pyarrow as pa

from connector_filesystem.filesystem import FileStatus
from connectors_core.errors import ConnectorError
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source import SourceSplit, SplitState

__all__ = ["Damaged", "FileChunk", "FileSplit", "FileSplitState", "Position", "split_serializer"]


@dataclass(frozen=True, kw_only=True)
class Position:
    """The position in a split.

    The position counts the records after `offset`, not bytes. Reading from there and dropping
    `rows` rows and `bad_records` bad records gives the rest, independent of the sizes of blocks and
    batches.

    Attributes:
        offset: The byte at which a record starts, in the decompressed stream. For Parquet, the
            number of a row group.
        rows: The number of good rows emitted after `offset`.
        bad_records: The number of bad records reported after `offset`.
    """

    offset: int
    rows: int = 0
    bad_records: int = 0


@dataclass(frozen=True, kw_only=True)
class FileSplit(SourceSplit):
    """A range of bytes of one version of a file.

    It owns the lines, or the row groups, that start in the range.

    Attributes:
        split_id: The path, version, and range.
        path: The path on the filesystem.
        size: The size of the file in bytes at discovery.
        modification_time: Microseconds since the epoch.
        etag: The tag of the version.
        start: The first byte of the range.
        end: The byte after the range.
        event_time: The lowest event time in the file in microseconds, or None if not known.
        offset: See `Position`.
        rows: See `Position`.
        bad_records: See `Position`.
        remaining: The estimated number of bytes left.
    """

    split_id: str
    path: str
    size: int
    modification_time: int | None
    etag: str | None
    start: int
    end: int
    event_time: int | None = None
    offset: int = 0
    rows: int = 0
    bad_records: int = 0
    remaining: int = 0

    def weight(self) -> int:
        """The estimated number of bytes left."""
        return max(self.remaining, 1)

    def event_time_lower_bound(self) -> int | None:
        """The lowest event time, from the path."""
        return self.event_time

    @property
    def status(self) -> FileStatus:
        """The version of the file at discovery."""
        return FileStatus(
            path=self.path,
            size=self.size,
            modification_time=self.modification_time,
            etag=self.etag,
        )

    @property
    def position(self) -> Position:
        """The position to resume from."""
        return Position(offset=self.offset, rows=self.rows, bad_records=self.bad_records)


@dataclass(frozen=True)
class Damaged:
    """A record that cannot be read.

    Attributes:
        reason: The reason, without the record's values.
        position: The position of the record in the file.
        raw: The bytes of the record in the file, or None if the format has none.
        cause: The underlying error.
    """

    reason: str
    position: str
    raw: bytes | None = None
    cause: Exception | None = None


@dataclass(frozen=True)
class FileChunk:
    """The result of one fetch: rows or bad records, and the position after them.

    Bad records are in separate chunks, so that a batch that the runtime cuts never contains one.

    Attributes:
        position: The position after this chunk.
        remaining: The estimated number of bytes left after it.
        batch: The rows, or None if the chunk has none.
        passed_over: The number of rows that are not read because conditions exclude them.
        bad_records: The records to report.
        counters: Metrics to count when the chunk is emitted.
        unreadable: Why the rest of the split is skipped, or None.
    """

    position: Position
    remaining: int
    batch: pa.RecordBatch | None = None
    passed_over: int = 0
    bad_records: tuple[Damaged, ...] = ()
    counters: tuple[str, ...] = ()
    unreadable: ConnectorError | None = None

    @property
    def nbytes(self) -> int:
        """The memory of the chunk in bytes."""
        if self.batch is not None:
            return int(self.batch.nbytes)
        return sum(len(bad.raw or b"") for bad in self.bad_records)


class FileSplitState(SplitState[FileSplit]):
    """The mutable position in a split."""

    def __init__(self, split: FileSplit) -> None:
        self._split = split
        self._position = split.position
        self._remaining = split.remaining

    def move_behind(self, chunk: FileChunk) -> None:
        """Advance to the end of an emitted chunk."""
        self._position = chunk.position
        self._remaining = chunk.remaining

    def to_split(self) -> FileSplit:
        """Return the split to resume from."""
        position = self._position
        return dataclasses.replace(
            self._split,
            offset=position.offset,
            rows=position.rows,
            bad_records=position.bad_records,
            remaining=self._remaining,
        )


def split_serializer() -> JsonDataclassSerializer[FileSplit]:
    """The stored form of splits."""
    return JsonDataclassSerializer(FileSplit)
