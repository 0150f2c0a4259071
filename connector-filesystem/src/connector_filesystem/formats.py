# SPDX-License-Identifier: Apache-2.0
"""Formats and compressions of files, shared by source and sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from connectors_core.errors import InvalidOptionError
from connectors_core.formats.text import CsvDialect

__all__ = [
    "Compression",
    "CsvOptions",
    "Format",
    "JsonOptions",
    "ParquetOptions",
    "detect_format",
]


class Format(StrEnum):
    """How records are laid out in a file."""

    CSV = "csv"
    """Text, one record a line, fields separated by a character."""
    JSON_LINES = "json-lines"
    """One JSON object a line."""
    PARQUET = "parquet"
    """Columns in row groups, compressed within the file."""

    @property
    def suffix(self) -> str:
        """The usual suffix of file names, e.g. `.csv`."""
        return _SUFFIX_OF[self]

    @property
    def is_text(self) -> bool:
        """Whether a file is a sequence of lines, which may be compressed as a whole."""
        return self is not Format.PARQUET


class Compression(StrEnum):
    """How a text file is compressed as a whole; Parquet compresses within the file."""

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"

    @property
    def suffix(self) -> str:
        """What is appended to file names, e.g. `.gz`; empty for none."""
        return _SUFFIX_OF_COMPRESSION[self]


_SUFFIX_OF: Final[Mapping[Format, str]] = {
    Format.CSV: ".csv",
    Format.JSON_LINES: ".jsonl",
    Format.PARQUET: ".parquet",
}
_SUFFIX_OF_COMPRESSION: Final[Mapping[Compression, str]] = {
    Compression.NONE: "",
    Compression.GZIP: ".gz",
    Compression.ZSTD: ".zst",
}
_FORMAT_SUFFIXES: Final[Mapping[str, Format]] = {
    ".csv": Format.CSV,
    ".jsonl": Format.JSON_LINES,
    ".ndjson": Format.JSON_LINES,
    ".json": Format.JSON_LINES,
    ".parquet": Format.PARQUET,
    ".pq": Format.PARQUET,
}
_COMPRESSION_SUFFIXES: Final[Mapping[str, Compression]] = {
    ".gz": Compression.GZIP,
    ".gzip": Compression.GZIP,
    ".zst": Compression.ZSTD,
    ".zstd": Compression.ZSTD,
}


def detect_format(path: str) -> tuple[Format | None, Compression]:
    """Return what the suffixes of a file name say, e.g. CSV and gzip for `2013/01.csv.gz`.

    Args:
        path: A path or a name.

    Returns:
        The format, None where no suffix names one, and the compression.
    """
    name = path.rpartition("/")[2].lower()
    stem, dot, last = name.rpartition(".")
    compression = _COMPRESSION_SUFFIXES.get(dot + last, Compression.NONE)
    if compression is not Compression.NONE:
        _, dot, last = stem.rpartition(".")
    return _FORMAT_SUFFIXES.get(dot + last), compression


@dataclass(frozen=True, kw_only=True)
class CsvOptions(CsvDialect):
    """Dialect of CSV files. Lines end in LF, CRLF or, all of them, in CR.

    Args:
        delimiter: Between fields.
        quote_char: Around fields that hold delimiters or quotes.
        double_quote: A quote within a quoted field is written twice.
        escape_char: Takes the next character literally; None for none.
        null_values: Spellings of a missing value. For text columns too, unless quoted. The sink
            writes the first.
        true_values: Spellings of true.
        false_values: Spellings of false.
        timestamp_formats: Patterns of `strptime`, tried in order; without any ISO 8601 is read.
        assume_time_zone: Time zone of the times in the file, for columns whose type has a zone.
            None: every such time carries its offset, e.g. `2013-01-01T05:00:00Z`.
        header: The first line names the columns. Without it they are those of the schema.
        newlines_in_values: Quoted fields may hold line breaks. Such a file cannot be cut into
            splits, and quotes may only stand around whole fields (RFC 4180).

    Raises:
        InvalidOptionError: If the dialect cannot be read.
    """

    header: bool = True
    newlines_in_values: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.newlines_in_values and (self.escape_char is not None or not self.double_quote):
            raise InvalidOptionError(
                "line breaks in values cannot be told apart from ends of records",
                expected="doubled quotes and no escape character",
                found=f"escape character {self.escape_char!r}, double quote {self.double_quote}",
                option="csv.newlines-in-values",
            )


@dataclass(frozen=True, kw_only=True)
class JsonOptions:
    """Dialect of JSON lines: UTF-8, one object a line; times are ISO 8601, without zone UTC.

    Args:
        write_nulls: The sink writes fields that are null, instead of leaving them out.
    """

    write_nulls: bool = False


@dataclass(frozen=True, kw_only=True)
class ParquetOptions:
    """How Parquet files are written; nothing of it is needed to read them.

    Args:
        compression: `snappy`, `zstd`, `gzip`, `lz4`, `brotli` or `none`.
        row_group_rows: Most rows of a row group.
        use_dictionary: Whether columns of few values are dictionary-encoded.
    """

    compression: str = "zstd"
    row_group_rows: int = 1024 * 1024
    use_dictionary: bool = True
