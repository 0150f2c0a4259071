# SPDX-License-Identifier: Apache-2.0
"""Merge complete files of one format (Flink's FLIP-191)."""

from __future__ import annotations

import contextlib
import posixpath
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, BinaryIO, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from connector_filesystem.filesystem import FileLocation, whole_content
from connector_filesystem.formats import Compression, CsvOptions, FileFormat
from connector_filesystem.sink.part_file import EncoderConfig, PartFile, StagedOutput, Unclosed
from connectors_core.errors import DataLossError, InvalidOptionError

__all__ = [
    "BYTE_ORDER_MARK",
    "PIECE_BYTES",
    "ConcatFileCompactor",
    "FileCompactor",
    "IdenticalFileCompactor",
    "InputFile",
    "MergedFile",
    "Merging",
    "OutputFile",
    "Outputs",
    "RecordWiseFileCompactor",
    "Records",
    "TextOutput",
    "TextPieces",
    "TextRecords",
    "default_compactor",
    "has_header",
    "plain_text",
]

PIECE_BYTES: Final = 1 << 20
_BATCH_ROWS: Final = 16 * 1024
_AS_IS: Final = "start with FileSink.disable_compact(), which commits the files as they are"
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, kw_only=True)
class InputFile:
    """A complete file to merge.

    Attributes:
        path: Its path, relative to the target.
        size: Its size in bytes.
        rows: Its rows; None if the number is not known.
    """

    path: str
    size: int
    rows: int | None = None


@dataclass(frozen=True, kw_only=True)
class MergedFile:
    """A complete, staged file with the rows of some inputs.

    Attributes:
        path: Its path, relative to the target.
        size: Its size in bytes.
        inputs: Number of inputs that it holds. All outputs together hold all inputs, in order.
    """

    path: str
    size: int
    inputs: int


@dataclass(frozen=True)
class Merging:
    """The files and the format of one merge. Executor.

    Args:
        location: The target.
        folder: A new, empty folder for outputs, relative to the target.
        config: The format of inputs and outputs. Its schema is not used.
        buffer_size: Maximum number of bytes to buffer.
    """

    location: FileLocation
    folder: str
    _: KW_ONLY
    config: EncoderConfig
    buffer_size: int

    def path_of(self, number: int) -> str:
        """Return the path of an output, relative to the target."""
        return posixpath.join(self.folder, str(number))

    def create_output(self, number: int) -> StagedOutput:
        """Create an output. `finish` makes it durable, `discard` leaves it to the sink."""
        return StagedOutput(self.location, self.path_of(number))

    @contextlib.contextmanager
    def open_input(self, file: InputFile) -> Iterator[BinaryIO]:
        """Open an input for reading.

        Raises:
            DataLossError: It is gone, or incomplete.
        """
        path = self.location.join(file.path)
        try:
            found = self.location.status(path).size
            if found != file.size:
                raise _lost(file, f"{found} bytes")
            opened = self.location.fs.open(path, "rb")
        except FileNotFoundError as exc:
            raise _lost(file, "none") from exc
        with opened as source:
            yield cast(BinaryIO, source)


def _lost(file: InputFile, found: str) -> DataLossError:
    return DataLossError(
        f"the file {file.path!r}, which is to be merged, is gone or incomplete",
        expected=f"a file of {file.size} bytes",
        found=found,
        hint="start with the path of the sink that wrote it, and do not remove staged files. If it "
        "was merged after the backup that this pipeline was restored from, start with "
        "FileSink.disable_compact(), which commits the remaining files, and give the lost ones up "
        "with `connectors state give-up`",
    )


class FileCompactor(ABC):
    """Merges complete files. Executor; immutable and picklable."""

    def refusal(self, config: EncoderConfig) -> str | None:
        """Return why files of this format cannot be merged, or None if they can. Driver."""
        return None

    def check(self, config: EncoderConfig) -> None:
        """Refuse a format. Driver.

        Raises:
            InvalidOptionError: Its files cannot be merged.
        """
        reason = self.refusal(config)
        if reason is not None:
            raise InvalidOptionError(
                f"{type(self).__name__} cannot merge these files: {reason}",
                expected="a format whose files can be joined",
                found=config.format.value,
                option="compaction",
                hint="use RecordWiseFileCompactor",
            )

    @abstractmethod
    def merge(self, files: Sequence[InputFile], merging: Merging) -> Sequence[MergedFile]:
        """Merge files in their order into one file, or several if their layouts differ.

        Args:
            files: At least two complete files of the same format.
            merging: Opens them, and names the outputs.

        Raises:
            DataLossError: A file is gone, or incomplete.
        """


@dataclass(frozen=True)
class IdenticalFileCompactor(FileCompactor):
    """Keeps files as they are: each is only held back until it is due."""

    def merge(self, files: Sequence[InputFile], merging: Merging) -> Sequence[MergedFile]:
        """Return the files."""
        return [MergedFile(path=each.path, size=each.size, inputs=1) for each in files]


@dataclass(frozen=True)
class ConcatFileCompactor(FileCompactor):
    """Joins the bytes of files, without a look at their rows.

    JSON lines and CSV without a header can be joined, also if they are compressed: a gzip or zstd
    file can have several parts.
    """

    def refusal(self, config: EncoderConfig) -> str | None:
        """Return why the bytes of files cannot be joined."""
        if config.format is FileFormat.PARQUET:
            return "a Parquet file ends with a footer, which describes only its own rows"
        if config.format is FileFormat.CSV and config.csv.header:
            return "each CSV file begins with a header"
        return None

    def merge(self, files: Sequence[InputFile], merging: Merging) -> Sequence[MergedFile]:
        """Join the bytes."""
        output = merging.create_output(0)
        try:
            for each in files:
                with merging.open_input(each) as source:
                    while piece := source.read(PIECE_BYTES):
                        output.write(piece)
            output.finish()
        except BaseException:
            output.discard()
            raise
        if output.tell() != sum(each.size for each in files):
            raise DataLossError(
                "a file has changed while it was merged",
                expected=f"{sum(each.size for each in files)} bytes",
                found=f"{output.tell()} bytes",
            )
        return [MergedFile(path=merging.path_of(0), size=output.tell(), inputs=len(files))]


@dataclass(frozen=True)
class RecordWiseFileCompactor(FileCompactor):
    """Reads the records of files and writes them again, in bounded memory.

    Parquet files are read in Arrow batches and get row groups of the sink's size. Text files are
    copied as lines, so every value keeps its spelling; one header remains. Files with another
    schema or header begin a new file.
    """

    def merge(self, files: Sequence[InputFile], merging: Merging) -> Sequence[MergedFile]:
        """Write the records again."""
        return Outputs(merging).merge(files, _records_of)


def default_compactor(config: EncoderConfig) -> FileCompactor:
    """Return the cheapest compactor of a format."""
    joined = ConcatFileCompactor()
    return joined if joined.refusal(config) is None else RecordWiseFileCompactor()


class Records(ABC):
    """The records of an open input.

    Attributes:
        layout: Inputs of the same layout can share an output.
    """

    layout: object

    @abstractmethod
    def begin(self, merging: Merging, number: int) -> OutputFile:
        """Begin an output of this layout."""


class OutputFile(ABC):
    """One merged file."""

    @abstractmethod
    def append(self, records: Any) -> None:
        """Copy the records of an input of the same layout."""

    @abstractmethod
    def finish(self) -> int:
        """Complete the file and return its size."""

    @abstractmethod
    def abort(self) -> None:
        """Leave the file to the sweep."""


def _records_of(file: InputFile, source: BinaryIO, config: EncoderConfig) -> Records:
    if config.format is FileFormat.PARQUET:
        return _ParquetRecords(file, source)
    return TextRecords(source, config)


@dataclass
class Outputs:
    """The merged files; each input goes to the last one, or to a new one of its layout."""

    merging: Merging
    finished: list[MergedFile] = field(default_factory=list)
    layout: object = None
    current: OutputFile | None = None
    inputs: int = 0

    def merge(
        self,
        files: Sequence[InputFile],
        records_of: Callable[[InputFile, BinaryIO, EncoderConfig], Records],
    ) -> list[MergedFile]:
        """Copy the records of all inputs, and complete the outputs.

        Args:
            files: The inputs.
            records_of: Returns the records of an open input of the format.
        """
        try:
            for each in files:
                with self.merging.open_input(each) as source, whole_content(each.path, hint=_AS_IS):
                    self.add(records_of(each, source, self.merging.config))
            return self.finish()
        except BaseException:
            self.abort()
            raise

    def add(self, records: Records) -> None:
        """Copy the records of the next input."""
        if self.current is None or records.layout != self.layout:
            self._finish_current()
            self.layout = records.layout
            self.current = records.begin(self.merging, len(self.finished))
        self.current.append(records)
        self.inputs += 1

    def finish(self) -> list[MergedFile]:
        """Complete all outputs."""
        self._finish_current()
        return self.finished

    def abort(self) -> None:
        """Leave the current output to the sweep."""
        if self.current is not None:
            self.current.abort()

    def _finish_current(self) -> None:
        if self.current is not None:
            path = self.merging.path_of(len(self.finished))
            size = self.current.finish()
            self.finished.append(MergedFile(path=path, size=size, inputs=self.inputs))
            self.current, self.inputs = None, 0


class _ParquetRecords(Records):
    def __init__(self, file: InputFile, source: BinaryIO) -> None:
        self.file = file
        self.content = pq.ParquetFile(source, pre_buffer=False)
        # With the metadata of the schema and its fields, which == does not compare.
        self.layout = self.content.schema_arrow.serialize().to_pybytes()

    def begin(self, merging: Merging, number: int) -> OutputFile:
        return _ParquetOutput(merging, number, self.content.schema_arrow)


class _ParquetOutput(OutputFile):
    def __init__(self, merging: Merging, number: int, schema: pa.Schema) -> None:
        self._full_bytes = merging.buffer_size
        self._full_rows = merging.config.parquet.row_group_rows
        self._file = PartFile(
            replace(merging.config, schema=schema),
            merging.location,
            bucket="",
            staged_path=merging.path_of(number),
            number=number,
            opened_at=0.0,
        )

    def append(self, records: _ParquetRecords) -> None:
        file, before = self._file, self._file.rows
        for batch in records.content.iter_batches(min(_BATCH_ROWS, self._full_rows)):
            file.append(batch)
            if file.held_bytes >= self._full_bytes or file.buffered_rows >= self._full_rows:
                file.drain()
        wanted, rows = records.file.rows, file.rows - before
        if wanted is not None and rows != wanted:
            raise DataLossError(
                f"the file {records.file.path!r} has other rows than were written",
                expected=f"{wanted} rows",
                found=f"{rows} rows",
            )

    def finish(self) -> int:
        return self._file.finish()

    def abort(self) -> None:
        self._file.abort()


class TextRecords(Records):
    """The lines of a text file, whose header is not one of them.

    Attributes:
        content: The lines.
        opening: How a file with such lines begins.
        line_end: The end of a line.
    """

    def __init__(self, source: BinaryIO, config: EncoderConfig) -> None:
        self.content = TextPieces(plain_text(source, config.compression).read)
        self.content.skip(BYTE_ORDER_MARK)
        header = self.content.record(config.csv) if has_header(config) else b""
        self.line_end = b"\n"
        self.opening = header and header.rstrip(b"\r\n") + self.line_end
        self.layout = self.opening

    def begin(self, merging: Merging, number: int) -> OutputFile:
        """Begin a file."""
        return TextOutput(merging, number, self.opening)


class TextOutput(OutputFile):
    """A merged text file."""

    def __init__(self, merging: Merging, number: int, opening: bytes) -> None:
        compression = merging.config.compression
        self._file = merging.create_output(number)
        self._unclosed = Unclosed(self._file)
        self._compressed: Any = None
        if compression is not Compression.NONE:
            self._compressed = pa.CompressedOutputStream(
                pa.PythonFile(self._unclosed, mode="w"), compression.value
            )
        self._write: Callable[[bytes], Any] = (self._compressed or self._file).write
        self._ends_line = True
        self.write(opening)

    def write(self, piece: bytes) -> None:
        """Append bytes."""
        self._write(piece)

    def append(self, records: TextRecords) -> None:
        """Copy lines, each with an end."""
        if not self._ends_line:
            self.write(records.line_end)
            self._ends_line = True
        while piece := records.content.read():
            self.write(piece)
            self._ends_line = piece.endswith(b"\n")

    def finish(self) -> int:
        """Complete the file."""
        if self._compressed is not None:
            self._compressed.close()
        self._file.finish()
        return self._file.tell()

    def abort(self) -> None:
        """Leave it."""
        self._unclosed.discard()
        if self._compressed is not None:
            with contextlib.suppress(Exception):
                self._compressed.close()
        self._file.discard()


def plain_text(source: BinaryIO, compression: Compression) -> Any:
    """Return the bytes of a file without its compression."""
    if compression is Compression.NONE:
        return source
    return pa.CompressedInputStream(pa.PythonFile(source, mode="r"), compression.value)


def has_header(config: EncoderConfig) -> bool:
    """Return whether files begin with the names of the columns."""
    return config.format is FileFormat.CSV and config.csv.header


class TextPieces:
    """Reads the bytes of a text file, in pieces."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._ahead = b""

    def read(self) -> bytes:
        """Return the next piece; empty at the end."""
        ahead, self._ahead = self._ahead, b""
        return ahead or self._read(PIECE_BYTES)

    def skip(self, prefix: bytes) -> bool:
        """Skip these bytes if the file begins with them, and return whether it does."""
        start = self.read()
        self._ahead = start.removeprefix(prefix)
        return len(self._ahead) < len(start)

    def unread(self, piece: bytes) -> None:
        """Put the bytes that were read last back."""
        self._ahead = piece + self._ahead

    def record(self, csv: CsvOptions) -> bytes:
        """Return the first record of CSV, with its line break."""
        quote = csv.quote_char.encode()
        found = self.read()
        at = 0
        while True:
            end = found.find(b"\n", at)
            if end < 0:
                piece = self._read(PIECE_BYTES)
                if not piece:
                    return found
                found += piece
            elif csv.newlines_in_values and found.count(quote, 0, end) % 2:
                at = end + 1  # within quotes
            else:
                self._ahead = found[end + 1 :]
                return found[: end + 1]
