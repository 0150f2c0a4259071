# SPDX-License-Identifier: Apache-2.0
"""Joins files of any writer, or names the one that cannot be joined without a loss."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from connector_filesystem.filesystem import is_of_system
from connector_filesystem.formats import CsvOptions, FileFormat
from connector_filesystem.parquet_joining import (
    MAGIC,
    ParquetFooter,
    joined_footer,
    read_footer,
    shifted,
)
from connector_filesystem.sink.compactors import (
    BYTE_ORDER_MARK,
    PIECE_BYTES,
    FileCompactor,
    InputFile,
    MergedFile,
    Merging,
    OutputFile,
    Outputs,
    Records,
    TextOutput,
    TextPieces,
    TextRecords,
    has_header,
    plain_text,
)
from connector_filesystem.sink.part_file import EncoderConfig
from connector_filesystem.thrift_structs import Struct
from connectors_core.errors import ConfigurationError, DataLossError

__all__ = ["ForeignFileCompactor", "UnmergeableFileError"]

_WIDE_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_RETURN: Final = 13
_NEWLINE: Final = 10


class UnmergeableFileError(ConfigurationError):
    """A file that cannot be joined with others.

    Attributes:
        file: The file.
        reason: Why.
    """

    def __init__(self, file: InputFile, reason: str, hint: str) -> None:
        super().__init__(f"the file {file.path!r} cannot be merged: {reason}", hint=hint)
        self.file = file
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.reason, self.hint)


@dataclass(frozen=True)
class ForeignFileCompactor(FileCompactor):
    """Joins files of any writer by their bytes.

    Files that differ in anything that describes their rows begin a new output. Each output is read
    back from the storage and compared before it counts.
    """

    def merge(self, files: Sequence[InputFile], merging: Merging) -> Sequence[MergedFile]:
        """Join the files.

        Raises:
            UnmergeableFileError: A file cannot be joined without a loss.
            DataLossError: An input is gone, or an output is not what was written.
        """
        return Outputs(merging).merge(files, _records_of)


def _records_of(file: InputFile, source: BinaryIO, config: EncoderConfig) -> Records:
    if config.format is FileFormat.PARQUET:
        return _ParquetBody(file, source)
    return _ForeignText(file, source, config)


# --- Parquet ---

_ALONE: Final = "the file stays as it is; to merge its rows, write them again with their own writer"


class _ParquetBody(Records):
    def __init__(self, file: InputFile, source: BinaryIO) -> None:
        self.file = file
        self.source = source
        try:
            self.footer = read_footer(source, file.size)
            self.layout = self.footer.layout
            pq.ParquetFile(source, pre_buffer=False)  # refuses what only looks like a footer
        except (ValueError, KeyError) as exc:
            raise UnmergeableFileError(file, str(exc), _ALONE) from exc
        except (OSError, pa.ArrowException) as exc:
            if is_of_system(exc):
                raise
            raise UnmergeableFileError(file, "its footer is damaged", _ALONE) from exc

    def begin(self, merging: Merging, number: int) -> OutputFile:
        return _JoinedParquet(merging, number)

    def shifted(self, by: int) -> tuple[list[Struct], list[bytes]]:
        try:
            return shifted(self.footer, self.source, by)
        except (ValueError, KeyError) as exc:
            raise UnmergeableFileError(self.file, str(exc), _ALONE) from exc


class _JoinedParquet(OutputFile):
    def __init__(self, merging: Merging, number: int) -> None:
        self._merging = merging
        self._path = merging.path_of(number)
        self._file = merging.create_output(number)
        self._digest = hashlib.sha256()
        self._footers: list[ParquetFooter] = []
        self._groups: list[Struct] = []
        self._indexes: list[bytes] = []
        self._write(MAGIC)

    def append(self, records: _ParquetBody) -> None:
        groups, indexes = records.shifted(self._file.tell() - len(MAGIC))
        self._footers.append(records.footer)
        self._groups += groups
        self._indexes += indexes
        records.source.seek(len(MAGIC))
        left = records.footer.body_end - len(MAGIC)
        while left:
            piece = records.source.read(min(PIECE_BYTES, left))
            if not piece:
                raise _changed(records.file)
            self._write(piece)
            left -= len(piece)

    def finish(self) -> int:
        indexes = [self._file.tell(), *map(len, self._indexes)]
        self._write(b"".join(self._indexes))
        self._write(joined_footer(self._footers, self._groups, indexes))
        self._file.finish()
        with self._merging.location.fs.open(self._merging.location.join(self._path), "rb") as file:
            _check_digest(self._path, file.read, self._digest.digest())
            file.seek(0)
            self._check_metadata(pq.ParquetFile(file, pre_buffer=False).metadata)
        return self._file.tell()

    def abort(self) -> None:
        self._file.discard()

    def _check_metadata(self, found: pq.FileMetaData) -> None:
        rows, groups = sum(each.rows for each in self._footers), len(self._groups)
        if (found.num_rows, found.num_row_groups) != (rows, groups):
            raise DataLossError(
                f"the merged file {self._path!r} has other rows than its originals",
                expected=f"{rows} rows in {groups} row groups",
                found=f"{found.num_rows} rows in {found.num_row_groups} row groups",
                hint="the originals are unchanged; report this",
            )

    def _write(self, data: bytes) -> None:
        self._digest.update(data)
        self._file.write(data)


# --- Text ---

_CONVERT: Final = "the file stays as it is; write it again as UTF-8 lines that end in LF or CRLF"
_RETURNS: Final = (
    "the file stays as it is; write it again with lines that end in LF or CRLF. If its quoted "
    "fields hold line breaks, use --csv-newlines-in-values"
)
_QUOTED: Final = (
    "the file stays as it is; if its fields hold line breaks, use --csv-newlines-in-values"
)
_LINES: Final = "the file stays as it is; write it again with one JSON object per line"


class _ForeignText(TextRecords):
    """The lines of a text file, which are checked while they are read."""

    def __init__(self, file: InputFile, source: BinaryIO, config: EncoderConfig) -> None:
        self.file = file
        self._is_json = config.format is FileFormat.JSON
        dialect = CsvOptions() if self._is_json else config.csv
        self._quote = dialect.quote_char.encode() if dialect.newlines_in_values else b""
        self._plain = plain_text(source, config.compression)
        self._is_quoted = self._ends_in_return = False
        self._last = b""
        self.content = TextPieces(self._read)
        mark = BYTE_ORDER_MARK if self.content.skip(BYTE_ORDER_MARK) else b""
        first = self.content.record(dialect)
        if b"\0" in first or first.startswith(_WIDE_MARKS):
            raise self._unmergeable("it is not UTF-8", _CONVERT)
        self.line_end = b"\r\n" if first.endswith(b"\r\n") else b"\n"
        if self._is_json:
            self._check_object(first, "first")
        if has_header(config):
            self._check_header(first, dialect)
            self.opening = mark + (first and first.rstrip(b"\r\n") + self.line_end)
        else:
            self.content.unread(first)
            self.opening = mark
        self.layout = self.opening, self.line_end

    def begin(self, merging: Merging, number: int) -> OutputFile:
        return _JoinedText(merging, number, self.opening)

    def _read(self, size: int) -> bytes:
        try:
            piece: bytes = self._plain.read(size)
        except OSError as exc:
            if is_of_system(exc):
                raise
            raise self._unmergeable("its compressed content is damaged", _ALONE) from exc
        if piece:
            self._check_returns(piece)
            if self._is_json:
                tail = self._last + piece
                self._last = tail[tail.rstrip().rfind(b"\n") + 1 :]
        elif self._ends_in_return:
            raise self._bare_return()
        elif self._is_quoted:
            raise self._unmergeable("its last field has no closing quote", _ALONE)
        elif self._is_json:
            self._check_object(self._last, "last")
        return piece

    def _check_returns(self, piece: bytes) -> None:
        """Refuse CR alone as the end of a line, because readers differ on mixed ends."""
        if self._ends_in_return and piece[0] != _NEWLINE:
            raise self._bare_return()
        values = np.frombuffer(piece, np.uint8)
        returns = values == _RETURN
        if self._quote:
            quotes = np.cumsum(values == self._quote[0]) + self._is_quoted
            returns &= quotes % 2 == 0
            self._is_quoted = bool(quotes[-1] % 2)
        if (returns[:-1] & (values[1:] != _NEWLINE)).any():
            raise self._bare_return()
        self._ends_in_return = bool(returns[-1])

    def _check_header(self, header: bytes, dialect: CsvOptions) -> None:
        if header and not header.strip():
            raise self._unmergeable("it begins with an empty line instead of a header", _ALONE)
        if header.count(dialect.quote_char.encode()) % 2:
            raise self._unmergeable("its header has no closing quote", _QUOTED)

    def _check_object(self, line: bytes, which: str) -> None:
        try:
            is_object = not line or isinstance(json.loads(line), dict)
        except ValueError:
            is_object = False
        if not is_object:
            raise self._unmergeable(f"its {which} line is not a JSON object", _LINES)

    def _bare_return(self) -> UnmergeableFileError:
        return self._unmergeable("it has a CR without a LF", _RETURNS)

    def _unmergeable(self, reason: str, hint: str) -> UnmergeableFileError:
        return UnmergeableFileError(self.file, reason, hint)


class _JoinedText(TextOutput):
    def __init__(self, merging: Merging, number: int, opening: bytes) -> None:
        self._digest = hashlib.sha256()
        self._merging = merging
        self._path = merging.path_of(number)
        super().__init__(merging, number, opening)

    def write(self, piece: bytes) -> None:
        self._digest.update(piece)
        super().write(piece)

    def finish(self) -> int:
        size = super().finish()
        location = self._merging.location
        with location.fs.open(location.join(self._path), "rb") as file:
            plain = plain_text(file, self._merging.config.compression)
            _check_digest(self._path, plain.read, self._digest.digest())
        return size


def _check_digest(path: str, read: Callable[[int], bytes], expected: bytes) -> None:
    """Compare what the storage returns with what was written."""
    digest = hashlib.sha256()
    while piece := read(PIECE_BYTES):
        digest.update(piece)
    if digest.digest() != expected:
        raise DataLossError(
            f"the storage returns other bytes than were written to {path!r}",
            expected=expected.hex(),
            found=digest.hexdigest(),
            hint="the originals are unchanged; run the command again, and check the storage if it "
            "fails again",
        )


def _changed(file: InputFile) -> DataLossError:
    return DataLossError(
        f"the file {file.path!r} has changed while it was merged",
        expected=f"{file.size} bytes",
        hint="compact a folder only while no one writes to its files",
    )
