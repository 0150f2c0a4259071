# SPDX-License-Identifier: Apache-2.0
"""A file in progress, and the paths of staged files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import posixpath
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from connector_filesystem.filesystem import FileLocation
from connector_filesystem.formats import (
    Compression,
    CsvOptions,
    FileFormat,
    JsonOptions,
    ParquetOptions,
)
from connector_filesystem.sink.buckets import escape_path_name
from connector_filesystem.sink.csv_lines import encode_csv_lines
from connector_filesystem.sink.json_lines import encode_json_lines
from connectors_core.formats.text import csv_header
from connectors_core.schema import nullable_column, nullable_type

__all__ = [
    "STAGING_FOLDER",
    "EncoderConfig",
    "PartFile",
    "StagedOutput",
    "Unclosed",
    "attempt_folder",
    "epoch_file",
    "epoch_folder",
    "request_folder",
    "short_attempt_name",
    "sink_folder",
]

STAGING_FOLDER: Final = "_staging"
_EPOCHS_FOLDER: Final = "_epochs"

_BUFFER_BYTES: Final = 1 << 20
# The memory overhead of a buffered slice: its objects, and those of each of its columns.
_PIECE_BYTES: Final = 512
_COLUMN_BYTES: Final = 256


def sink_folder(pipeline_id: str, sink_uid: str) -> str:
    """Return the folder for all staged files of a sink, relative to its target."""
    return posixpath.join(STAGING_FOLDER, _name(pipeline_id), _name(sink_uid))


def epoch_folder(pipeline_id: str, sink_uid: str, epoch: int) -> str:
    """Return the folder for all staged files of an epoch, relative to the target."""
    return posixpath.join(sink_folder(pipeline_id, sink_uid), f"{epoch:010d}")


def attempt_folder(pipeline_id: str, sink_uid: str, epoch: int, attempt_name: str) -> str:
    """Return the folder of one attempt of a writer, relative to the target."""
    folder = epoch_folder(pipeline_id, sink_uid, epoch)
    return posixpath.join(folder, _name(attempt_name))


def epoch_file(pipeline_id: str, sink_uid: str) -> str:
    """Return the file with the newest committed epoch of a sink, relative to the target."""
    return posixpath.join(_EPOCHS_FOLDER, _name(pipeline_id), _name(sink_uid))


def request_folder(pipeline_id: str, sink_uid: str, request_id: str) -> str:
    """Return the folder for the staged files of a compaction, relative to the target."""
    return posixpath.join(sink_folder(pipeline_id, sink_uid), f"compacted-{_name(request_id)}")


def _name(text: str) -> str:
    """Return a text encoded as the name of one folder."""
    return text.replace(".", "%2E") if text in (".", "..") else escape_path_name(text)


def short_attempt_name(
    pipeline_id: str, sink_uid: str, subtask_id: int, attempt_number: int, attempt_name: str
) -> str:
    """Return an identifier of the attempt that is unique across pipelines."""
    told = "\0".join((pipeline_id, sink_uid, attempt_name)).encode("utf-8", "surrogatepass")
    return f"{subtask_id:05d}-{attempt_number}-{hashlib.sha256(told).hexdigest()[:12]}"


@dataclass(frozen=True)
class EncoderConfig:
    """How rows become bytes: format, compression, and dialect. Immutable.

    Args:
        format: The format.
        compression: The compression of the whole file, for text formats.
        csv: The dialect of CSV.
        json: The dialect of JSON lines.
        parquet: The settings of Parquet.
        schema: The schema of the written rows.
    """

    format: FileFormat
    compression: Compression
    _: KW_ONLY
    csv: CsvOptions
    json: JsonOptions
    parquet: ParquetOptions
    schema: pa.Schema

    def encoder(self, output: StagedOutput) -> _Encoder:
        """Start a file on an open output."""
        if self.format is FileFormat.PARQUET:
            return _ParquetEncoder(self, output)
        return _TextEncoder(self, output)


class _Encoder(ABC):
    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""

    @abstractmethod
    def finish(self) -> None:
        """Write the end of the file, and leave the output open."""

    @abstractmethod
    def abort(self) -> None:
        """Release resources without writing more output."""


class _TextEncoder(_Encoder):
    def __init__(self, config: EncoderConfig, output: StagedOutput) -> None:
        self._config = config
        self._output: Any = output
        self._compressed: Any = None
        self._unclosed = Unclosed(output)
        if config.compression is not Compression.NONE:
            # pyarrow closes the file that it wraps, but the sink still has to sync it.
            self._compressed = pa.CompressedOutputStream(
                pa.PythonFile(self._unclosed, mode="w"), config.compression.value
            )
            self._output = self._compressed
        if config.format is FileFormat.CSV and config.csv.header:
            self._output.write(csv_header(config.schema, config.csv))

    def write(self, batch: pa.RecordBatch) -> None:
        if self._config.format is FileFormat.CSV:
            buffers = encode_csv_lines(batch, self._config.csv)
        else:
            buffers = encode_json_lines(batch, write_nulls=self._config.json.write_nulls)
        for buffer in buffers:
            self._output.write(buffer)

    def finish(self) -> None:
        if self._compressed is not None:
            self._compressed.close()

    def abort(self) -> None:
        self._unclosed.discard()
        self.finish()


class _ParquetEncoder(_Encoder):
    def __init__(self, config: EncoderConfig, output: StagedOutput) -> None:
        self._rows = config.parquet.row_group_rows
        self._unclosed = Unclosed(output)
        # Nested fields are optional in the file, as in Spark. pyarrow cannot write null in a
        # required field, even if the enclosing struct is null.
        self._schema = pa.schema(
            [field.with_type(nullable_type(field.type)) for field in config.schema]
        )
        self._writer = pq.ParquetWriter(
            pa.PythonFile(self._unclosed, mode="w"),
            self._schema,
            compression=config.parquet.compression,
            use_dictionary=config.parquet.use_dictionary,
        )

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [nullable_column(column) for column in batch.columns]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self._writer.write_batch(rows, row_group_size=self._rows)

    def finish(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        self._unclosed.discard()
        self._writer.close()


class Unclosed:
    """A wrapper of a staged file that pyarrow cannot close."""

    closed = False

    def __init__(self, file: StagedOutput) -> None:
        self._file = file
        self._discarded = False
        self._position = 0

    def discard(self) -> None:
        """Discard the bytes that pyarrow writes when it closes."""
        self._discarded = True

    def write(self, data: Any) -> int:
        """Append bytes."""
        size = len(data)
        if not self._discarded:
            self._file.write(data)
        self._position += size
        return size

    def tell(self) -> int:
        """Return the number of bytes."""
        return self._position

    def flush(self) -> None:
        """Do nothing: the file writes its buffer when it is closed."""

    def close(self) -> None:
        """Do nothing: the owner closes the file."""

    def readable(self) -> bool:
        """Return False."""
        return False

    def writable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return False."""
        return False


class StagedOutput:
    """The bytes of a staged file.

    A local file can release its handle and later continue at its end.

    Args:
        location: The target of the sink.
        staged_path: The path of the staged file, relative to the target.
    """

    def __init__(self, location: FileLocation, staged_path: str) -> None:
        self._path = location.join(staged_path)
        self._local = location.is_local
        self._position = 0
        # The name is unique to this attempt: an existing file is a bug.
        self._file: Any = (
            open(self._path, "xb", buffering=_BUFFER_BYTES)  # noqa: SIM115 - closed by the methods
            if self._local
            else location.fs.open(self._path, "wb")
        )

    def write(self, data: Any) -> None:
        """Append bytes."""
        if self._file is None:
            self._resume()
        self._file.write(data)
        self._position += len(data)

    def tell(self) -> int:
        """Return the number of bytes."""
        return self._position

    def park(self) -> None:
        """Release the handle. The next write opens a new one."""
        assert self._local
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def finish(self) -> None:
        """Make the file durable and close it."""
        if self._file is None:
            self._resume()
        if self._local:
            self._file.flush()
            os.fsync(self._file.fileno())
        self._file.close()

    def discard(self) -> None:
        """Close the file as it is. An object store publishes nothing."""
        if self._file is None:
            return
        with contextlib.suppress(Exception):
            # On an object store, closing would publish the partial file.
            discard = getattr(self._file, "discard", None)
            if not self._local and discard is not None:
                discard()
                self._file.closed = True
        with contextlib.suppress(Exception):
            self._file.close()

    def _resume(self) -> None:
        # Without O_CREAT, because a file that was swept belongs to a finished attempt.
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        self._file = open(handle, "ab", buffering=_BUFFER_BYTES)  # noqa: SIM115


@dataclass(eq=False, repr=False)
class PartFile:
    """The file of one folder, which buffers rows and stages them in larger pieces.

    The staged file does not exist before the first piece is written.

    Args:
        config: How rows become bytes.
        location: The target of the sink.
        bucket: Folder of the finished file, relative to the target.
        staged_path: The path of the staged file, relative to the target.
        number: The number of the file within its writer.
        opened_at: The reading of the clock when the file was opened.
    """

    config: EncoderConfig
    location: FileLocation
    _: KW_ONLY
    bucket: str
    staged_path: str
    number: int
    opened_at: float

    def __post_init__(self) -> None:
        self.rows = 0
        self.buffered_rows = 0
        self.held_bytes = 0
        self._buffered_bytes = 0
        self._written_from = 0
        self._buffer: list[pa.RecordBatch] = []
        self._encoder: _Encoder | None = None
        self._output: StagedOutput | None = None

    @property
    def size(self) -> int:
        """The bytes written, plus an estimate for the buffered rows."""
        written = self._output.tell() if self._output is not None else 0
        ratio = written / self._written_from if self._written_from else 1.0
        return written + int(self._buffered_bytes * ratio)

    @property
    def can_be_parked(self) -> bool:
        """Whether the file can release its handle between writes and then needs little memory."""
        return self.location.is_local and self.config.compression is Compression.NONE

    def append(self, batch: pa.RecordBatch) -> None:
        """Buffer rows, which `held_bytes` counts."""
        self._buffer.append(batch)
        self.rows += batch.num_rows
        self.buffered_rows += batch.num_rows
        self._buffered_bytes += batch.nbytes
        self.held_bytes += batch.nbytes + _PIECE_BYTES + _COLUMN_BYTES * batch.num_columns

    def drain(self) -> None:
        """Encode the buffered rows. The first call creates the staged file."""
        batches, self._buffer = self._buffer, []
        if self._encoder is None:
            self._output = StagedOutput(self.location, self.staged_path)
            self._encoder = self.config.encoder(self._output)
        if not batches:
            return
        self._written_from += self._buffered_bytes
        self._buffered_bytes = self.buffered_rows = self.held_bytes = 0
        whole = pa.Table.from_batches(batches).combine_chunks() if len(batches) > 1 else None
        for batch in batches if whole is None else whole.to_batches():
            self._encoder.write(batch)

    def park(self) -> None:
        """Release the handle until the next write."""
        if self._output is not None:
            self._output.park()

    def finish(self) -> int:
        """Complete the file, make it durable, close it, and return its size in bytes."""
        self.drain()
        assert self._encoder is not None
        assert self._output is not None
        self._encoder.finish()
        size = self._output.tell()
        self._output.finish()
        return size

    def abort(self) -> None:
        """Close the file as it is, and leave the staged file to the sweep."""
        self._buffer = []
        if self._encoder is not None:
            with contextlib.suppress(Exception):
                self._encoder.abort()
        if self._output is not None:
            self._output.discard()
