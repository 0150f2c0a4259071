# SPDX-License-Identifier: Apache-2.0
"""A range of a file, with the version of the file and the position within it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import pyarrow as pa

from connector_filesystem.filesystem import FileStatus
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.source import SourceSplit, SplitState

__all__ = ["Damaged", "FileChunk", "FileSplit", "FileSplitState", "Position", "split_serializer"]


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where to go on within a split.

    The records behind `offset` are counted, not the bytes: reading from there and dropping `rows`
    rows and `bad_records` bad records gives the rest, whatever the sizes of blocks and batches.

    Attributes:
        offset: Byte at which a record starts (of the decompressed stream, in a compressed file);
            of Parquet the number of a row group.
        rows: Good rows behind it that were emitted.
        bad_records: Bad records behind it that were handed over.
    """

    offset: int
    rows: int = 0
    bad_records: int = 0


@dataclass(frozen=True, kw_only=True)
class FileSplit(SourceSplit):
    """A range of bytes of one version of a file.

    It owns the lines, or the row groups, that start in the range.

    Attributes:
        split_id: Path, version and range.
        path: Path on the filesystem.
        size: Bytes of the file when it was discovered.
        modification_time: Microseconds since the epoch.
        etag: Tag of the version.
        start: First byte of the range.
        end: Byte behind the range.
        event_time: Lowest event time in the file in microseconds, None if not known.
        offset: See `Position`.
        rows: See `Position`.
        bad_records: See `Position`.
        remaining: Estimated bytes left.
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
        """Estimated bytes left."""
        return max(self.remaining, 1)

    def event_time_lower_bound(self) -> int | None:
        """What the path tells."""
        return self.event_time

    @property
    def status(self) -> FileStatus:
        """The version of the file that was discovered."""
        return FileStatus(
            path=self.path,
            size=self.size,
            modification_time=self.modification_time,
            etag=self.etag,
        )

    @property
    def position(self) -> Position:
        """Where to go on."""
        return Position(offset=self.offset, rows=self.rows, bad_records=self.bad_records)


@dataclass(frozen=True)
class Damaged:
    """A record that cannot be read.

    Attributes:
        reason: Why, without its values.
        position: Where it stands in the file.
        raw: The record as it stands in the file, None where it has no such form.
        cause: The error behind it.
    """

    reason: str
    position: str
    raw: bytes | None = None
    cause: Exception | None = None


@dataclass(frozen=True)
class FileChunk:
    """What one fetch gives: rows, or bad records, and the position behind them.

    Bad records come alone, so that a batch which the runtime cuts never has one inside.

    Attributes:
        position: Where to go on behind this chunk.
        remaining: Estimated bytes left behind it.
        batch: The rows, None where there are only bad records.
        bad_records: Records to hand over.
        counters: Metrics to count when this chunk is emitted.
    """

    position: Position
    remaining: int
    batch: pa.RecordBatch | None = None
    bad_records: tuple[Damaged, ...] = ()
    counters: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        if self.batch is not None:
            return int(self.batch.nbytes)
        return sum(len(bad.raw or b"") for bad in self.bad_records)


class FileSplitState(SplitState[FileSplit]):
    """The moving position of a split."""

    def __init__(self, split: FileSplit) -> None:
        self._split = split
        self._position = split.position
        self._remaining = split.remaining

    def move_behind(self, chunk: FileChunk) -> None:
        """A chunk was emitted."""
        self._position = chunk.position
        self._remaining = chunk.remaining

    def to_split(self) -> FileSplit:
        """The split to go on from."""
        return dataclasses.replace(
            self._split, **dataclasses.asdict(self._position), remaining=self._remaining
        )


def split_serializer() -> JsonDataclassSerializer[FileSplit]:
    """How splits are stored."""
    return JsonDataclassSerializer(FileSplit)
