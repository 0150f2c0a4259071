# SPDX-License-Identifier: Apache-2.0
"""The file writer, which splits batches by folder, buffers, rolls, and stages rows."""

from __future__ import annotations

import posixpath
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connector_filesystem.filesystem import FileLocation, mapped_errors
from connector_filesystem.folders import make_folders, sync_folders
from connector_filesystem.formats import FileFormat
from connector_filesystem.sink.buckets import BucketAssigner, bucket_problem
from connector_filesystem.sink.csv_lines import bad_csv_rows
from connector_filesystem.sink.json_lines import encode_json_lines
from connector_filesystem.sink.part_file import (
    EncoderConfig,
    PartFile,
    attempt_folder,
    short_attempt_name,
)
from connector_filesystem.sink.rolling_policy import OpenFile, OutputFileConfig, RollingPolicy
from connectors_core.formats.text import json_faults, unsupported_json_type
from connectors_core.records import BadRecord
from connectors_core.sink import CommittingSinkWriter, WriterInitContext

__all__ = ["FileCommittable", "FileSinkWriter"]

# The buffer limit of all folders together, as a multiple of the limit of one folder.
_TOTAL_BUFFERS: Final = 4
# The limit of staged, incomplete files, as a multiple of the limit of handles.
_STAGED_FILES: Final = 32
# A larger buffer does not improve text files. Parquet gains larger row groups.
_TEXT_BUFFER_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class FileCommittable:
    """A complete file that a commit moves to where readers see it.

    Attributes:
        staged_path: The current path, relative to the target of the sink.
        final_path: The path after the commit, relative to the target. It is unique.
        rows: The number of rows.
        size: The size in bytes.
    """

    staged_path: str
    final_path: str
    rows: int
    size: int

    @property
    def folder(self) -> str:
        """The folder of the file, relative to the target; empty for the target itself."""
        return posixpath.dirname(self.final_path)


class FileSinkWriter(CommittingSinkWriter[FileCommittable]):
    """Writes the rows of one task in one epoch to staged files. Executor, one thread.

    Args:
        location: The target.
        config: How rows become bytes, with the schema of the files.
        context: The context of the writer.
        bucket_assigner: Assigns each row to a folder.
        rolling_policy: Decides when a file is complete.
        output_file: The names of finished files.
        suffix: The suffix of the names.
        max_open_buckets: The maximum number of open files.
        buffer_size: The maximum number of bytes buffered for one folder.
    """

    def __init__(
        self,
        location: FileLocation,
        config: EncoderConfig,
        context: WriterInitContext,
        *,
        bucket_assigner: BucketAssigner,
        rolling_policy: RollingPolicy,
        output_file: OutputFileConfig,
        suffix: str,
        max_open_buckets: int,
        buffer_size: int,
    ) -> None:
        self._location = location
        self._config = config
        self._context = context
        self._assigner = bucket_assigner
        self._policy = rolling_policy
        self._suffix = suffix
        self._max_open = max_open_buckets
        text = config.format.is_text
        self._buffer_size = min(buffer_size, _TEXT_BUFFER_BYTES) if text else buffer_size
        dropped = set(bucket_assigner.dropped_columns())
        self._kept = [name for name in context.schema.names if name not in dropped]
        self._drops = len(self._kept) < len(context.schema.names)
        epoch = context.checkpoint_id
        ids = (context.pipeline_id, context.sink_uid)
        self._folder = attempt_folder(*ids, epoch, context.attempt_name)
        short = short_attempt_name(
            *ids, context.subtask_id, context.attempt_number, context.attempt_name
        )
        self._stem = f"{output_file.prefix}-{epoch:010d}-{short}"
        # All incomplete files by folder. The two collections after it, least recently written
        # first, hold those that are staged and those that have a handle.
        self._open: dict[str, PartFile] = {}
        self._staged: OrderedDict[str, PartFile] = OrderedDict()
        self._handles: OrderedDict[str, PartFile] = OrderedDict()
        self._opened = 0
        self._held_bytes = 0
        self._finished: list[FileCommittable] = []
        self._rows_seen = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Buffer the rows of a batch for the files of their folders."""
        if not batch.num_rows:
            return
        first_row = self._rows_seen
        self._rows_seen += batch.num_rows
        with mapped_errors("writing to", self._location.url):
            for bucket, rows in self._split(batch, first_row):
                self._append(bucket, rows)
            self._roll_old()

    def complete(self, bucket: str) -> None:
        """Close the file of a folder, which receives no more rows."""
        if bucket in self._open:
            self._roll(bucket)

    def flush(self) -> None:
        """Close all files. On return, they are staged and durable."""
        with mapped_errors("writing to", self._location.url):
            while self._open:
                self._roll(next(iter(self._open)))
            if self._finished:
                sync_folders(self._location, [self._folder])

    def prepare_commit(self) -> Sequence[FileCommittable]:
        """Return the files staged since the last call."""
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        """Close all handles. After a failure, staged files remain for the sweep."""
        self._staged.clear()
        self._handles.clear()
        while self._open:
            _, file = self._open.popitem()
            file.abort()

    # --- From batches to folders ---

    def _split(self, batch: pa.RecordBatch, first_row: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        good = np.ones(batch.num_rows, np.bool_)
        content = batch.select(self._kept) if self._drops else batch
        if self._config.format is FileFormat.CSV:
            damages = bad_csv_rows(content, self._config.csv)
            for reason, option, refused in damages:
                self.refuse(batch, refused & good, first_row, f"{reason} (option {option})")
                good &= ~refused
        if self._config.format is FileFormat.JSON:
            for reason, refused in json_faults(content):
                self.refuse(batch, refused & good, first_row, reason)
                good &= ~refused
        buckets = self._assigner.assign(batch)
        if buckets is None:
            yield from self._pieces("", content, None if good.all() else np.flatnonzero(good))
            return
        if not pa.types.is_dictionary(buckets.type):
            buckets = buckets.dictionary_encode()
        names: list[str | None] = [*buckets.dictionary.to_pylist(), None]
        indices = buckets.indices
        if indices.null_count:
            indices = indices.cast(pa.int64()).fill_null(len(names) - 1)
        codes = indices.to_numpy(zero_copy_only=False).astype(np.int64)
        numbers: dict[str | None, int] = {}
        same = [numbers.setdefault(name, len(numbers)) for name in names]
        if len(numbers) < len(names):
            # Several values share a folder, for example the days of a month.
            codes = np.array(same, np.int64)[codes]
            names = list(numbers)
        counts = np.bincount(codes, minlength=len(names))
        used = np.flatnonzero(counts).tolist()
        for code in used:
            problem = bucket_problem(names[code])
            if problem is not None:
                refused = codes == code
                self.refuse(batch, refused & good, first_row, problem)
                good &= ~refused
        if len(used) == 1 and good.all():
            yield from self._pieces(names[used[0]] or "", content, None)
            return
        # A stable sort keeps the order of rows within a folder. On small integers, it is a radix
        # sort.
        narrow = codes.astype(np.uint16) if len(names) <= 1 << 16 else codes
        order = np.argsort(narrow, kind="stable")
        ends = np.cumsum(counts)
        complete = bool(good.all())
        for code in used:
            rows = order[ends[code] - counts[code] : ends[code]]
            if not complete:
                rows = rows[good[rows]]
            if len(rows):
                yield from self._pieces(names[code] or "", content, rows)

    def _pieces(
        self, bucket: str, content: pa.RecordBatch, rows: npt.NDArray[np.int64] | None
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        # `take` copies the rows of one folder. A slice would keep the rows of all others in memory.
        taken = content if rows is None else content.take(pa.array(rows))
        limit = self._policy.max_rows
        start = 0
        while start < taken.num_rows:
            length = taken.num_rows - start
            if limit is not None:
                file = self._open.get(bucket)
                length = min(length, max(1, limit - (file.rows if file is not None else 0)))
            whole = start == 0 and length == taken.num_rows
            yield bucket, taken if whole else taken.slice(start, length)
            start += length

    def refuse(
        self, batch: pa.RecordBatch, rows: npt.NDArray[np.bool_], first_row: int, reason: str
    ) -> None:
        """Give rows to the record policy.

        Args:
            batch: Rows of the sink.
            rows: Which of them to refuse.
            first_row: The number of the first one within the task.
            reason: Why.

        Raises:
            BadRecordError: The policy is to fail.
        """
        readable = [
            name
            for name in batch.schema.names
            if unsupported_json_type(batch.schema.field(name).type) is None
        ]
        for row in np.flatnonzero(rows).tolist():
            shown = batch.select(readable).slice(row, 1)
            self._context.metric_group.inc("numRecordsSendErrors")
            self._context.record_errors.handle(
                BadRecord(
                    reason=reason,
                    source_uid=self._context.sink_uid,
                    code="FILE_RECORD",
                    position=f"row {first_row + row} of subtask {self._context.subtask_id}",
                    raw=b"".join(each.to_pybytes() for each in encode_json_lines(shown)),
                )
            )

    # --- From folders to files ---

    def _append(self, bucket: str, rows: pa.RecordBatch) -> None:
        file = self._open.get(bucket)
        if file is None:
            file = self._open[bucket] = self._begin(bucket)
        before = file.held_bytes
        file.append(rows)
        self._held_bytes += file.held_bytes - before
        if self._is_complete(file):
            self._roll(bucket)
            return
        full = file.held_bytes >= self._buffer_size
        if self._config.format is FileFormat.PARQUET:
            full = full or file.buffered_rows >= self._config.parquet.row_group_rows
        if full:
            self._drain(file)
        if self._held_bytes > _TOTAL_BUFFERS * self._buffer_size:
            self._drain_largest()

    def _begin(self, bucket: str) -> PartFile:
        if not self._opened:
            # Only once: an attempt whose folder was swept must not recreate it.
            make_folders(self._location, self._folder)
        self._opened += 1
        number = self._opened - 1
        return PartFile(
            self._config,
            self._location,
            bucket=bucket,
            staged_path=posixpath.join(self._folder, str(number)),
            number=number,
            opened_at=self._policy.clock(),
        )

    def _is_complete(self, file: PartFile) -> bool:
        age = self._policy.clock() - file.opened_at
        return self._policy.should_roll(OpenFile(rows=file.rows, size=file.size, age=age))

    def _roll_old(self) -> None:
        for bucket in [each for each, file in self._open.items() if self._is_complete(file)]:
            self._roll(bucket)

    def _drain_largest(self) -> None:
        """Write until the buffer is half empty, to avoid a sort for every row."""
        for file in sorted(self._open.values(), key=lambda each: each.held_bytes, reverse=True):
            if self._held_bytes <= _TOTAL_BUFFERS * self._buffer_size // 2:
                break
            if file.held_bytes:  # making room for another file can have completed this one
                self._drain(file)

    def _drain(self, file: PartFile) -> None:
        self._make_room(file)
        self._held_bytes -= file.held_bytes
        file.drain()

    def _make_room(self, file: PartFile) -> None:
        """Give a file a handle.

        If necessary, take the handle of the least recently written file.
        """
        bucket = file.bucket
        self._handles.pop(bucket, None)
        self._staged.pop(bucket, None)
        while len(self._handles) >= self._max_open:
            unused, other = self._handles.popitem(last=False)
            if other.can_be_parked:
                other.park()
            else:
                self._roll(unused)
        while len(self._staged) >= _STAGED_FILES * self._max_open:
            self._roll(next(iter(self._staged)))
        self._handles[bucket] = self._staged[bucket] = file

    def _roll(self, bucket: str) -> None:
        file = self._open[bucket]
        self._drain(file)
        size = file.finish()
        for files in (self._open, self._staged, self._handles):
            files.pop(bucket, None)
        name = f"{self._stem}-{file.number}{self._suffix}"
        self._finished.append(
            FileCommittable(
                staged_path=file.staged_path,
                final_path=posixpath.join(file.bucket, name),
                rows=file.rows,
                size=size,
            )
        )
        metrics = self._context.metric_group
        metrics.inc("numRecordsSend", file.rows)
        metrics.inc("numBytesSend", size)
        metrics.inc("numFilesStaged")
