# SPDX-License-Identifier: Apache-2.0
"""Formats and compressions of files, shared by source and sink."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal

from connectors_core.errors import InvalidOptionError
from connectors_core.formats.text import CsvDialect
from connectors_core.options import Configured, Setting, option, positive

__all__ = [
    "Compression",
    "CsvOptions",
    "Format",
    "JsonOptions",
    "ParquetOptions",
    "detect_format",
]

_SINCE: Final = "2.0.0"


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


class CsvOptions(CsvDialect):
    """Dialect of CSV files. Lines end in LF, CRLF or, all of them, in CR.

    Raises:
        InvalidOptionError: If the dialect cannot be read.
    """

    header: Setting[bool] = option(
        "csv.header",
        bool,
        default=True,
        since=_SINCE,
        aliases=("header",),
        doc="The first line names the columns. Without it they are those of the schema.",
    )
    newlines_in_values: Setting[bool] = option(
        "csv.newlines-in-values",
        bool,
        default=False,
        since=_SINCE,
        aliases=("multiline",),
        doc="Quoted fields may hold line breaks. Such a file cannot be cut into splits, and quotes "
        "may only stand around whole fields (RFC 4180). Without it the sink treats such a row as "
        "a bad record.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.newlines_in_values and (self.escape_char is not None or not self.double_quote):
            raise InvalidOptionError(
                "line breaks in values cannot be told apart from ends of records",
                expected="doubled quotes and no escape character",
                found=f"escape character {self.escape_char!r}, double quote {self.double_quote}",
                option="csv.newlines-in-values",
            )


class JsonOptions(Configured):
    """Dialect of JSON lines: UTF-8, one object a line; times are ISO 8601, without zone UTC."""

    write_nulls: Setting[bool] = option(
        "json.write-nulls",
        bool,
        default=False,
        since=_SINCE,
        doc="Write fields that are null, as `null`, instead of leaving them out.",
    )


class ParquetOptions(Configured):
    """How Parquet files are written; nothing of it is needed to read them."""

    compression: Setting[str, Literal["snappy", "zstd", "gzip", "lz4", "brotli", "none"]] = option(
        "parquet.compression",
        str,
        default="zstd",
        choices=("snappy", "zstd", "gzip", "lz4", "brotli", "none"),
        since=_SINCE,
        doc="Compression within Parquet files.",
    )
    row_group_rows: Setting[int] = option(
        "parquet.row-group-rows",
        int,
        default=1024 * 1024,
        validator=positive,
        since=_SINCE,
        doc="Most rows of a row group; `sink.buffer-size` bounds it too.",
    )
    use_dictionary: Setting[bool] = option(
        "parquet.use-dictionary",
        bool,
        default=True,
        since=_SINCE,
        doc="Dictionary-encode columns of few different values.",
    )
