# SPDX-License-Identifier: Apache-2.0
"""File formats and compressions, shared by the source and the sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, Literal

from connectors_core.errors import InvalidOptionError
from connectors_core.formats import JsonFormat
from connectors_core.formats.text import AmbiguousTimes, CsvDialect, TimesText
from connectors_core.options import Configured, Setting, option, option_like, positive

__all__ = [
    "Compression",
    "CsvOptions",
    "FileFormat",
    "JsonOptions",
    "ParquetOptions",
    "detect_format",
]

_SINCE: Final = "2.0.0"


class FileFormat(StrEnum):
    """The layout of the records in a file."""

    CSV = "csv"
    """Text with one record per line and a separator between the fields."""
    JSON = "json"
    """One JSON object per line."""
    PARQUET = "parquet"
    """Columns in row groups, compressed inside the file."""

    @property
    def suffix(self) -> str:
        """The usual suffix of a file name, e.g. `.csv`."""
        return _SUFFIX_OF[self]

    @property
    def is_text(self) -> bool:
        """Whether a file is a sequence of lines, which can be compressed as a whole."""
        return self is not FileFormat.PARQUET


class Compression(StrEnum):
    """The compression of a whole text file. Parquet compresses inside the file."""

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"

    @property
    def suffix(self) -> str:
        """The suffix added to a file name, e.g. `.gz`, or an empty text."""
        return _SUFFIX_OF_COMPRESSION[self]


_SUFFIX_OF: Final[Mapping[FileFormat, str]] = {
    FileFormat.CSV: ".csv",
    FileFormat.JSON: ".jsonl",
    FileFormat.PARQUET: ".parquet",
}
_SUFFIX_OF_COMPRESSION: Final[Mapping[Compression, str]] = {
    Compression.NONE: "",
    Compression.GZIP: ".gz",
    Compression.ZSTD: ".zst",
}
_FORMAT_SUFFIXES: Final[Mapping[str, FileFormat]] = {
    ".csv": FileFormat.CSV,
    ".jsonl": FileFormat.JSON,
    ".ndjson": FileFormat.JSON,
    ".json": FileFormat.JSON,
    ".parquet": FileFormat.PARQUET,
    ".pq": FileFormat.PARQUET,
}
_COMPRESSION_SUFFIXES: Final[Mapping[str, Compression]] = {
    ".gz": Compression.GZIP,
    ".gzip": Compression.GZIP,
    ".zst": Compression.ZSTD,
    ".zstd": Compression.ZSTD,
}


def detect_format(path: str) -> tuple[FileFormat | None, Compression]:
    """Return the format and compression of a suffix, e.g. CSV and gzip for `2013/01.csv.gz`.

    Args:
        path: A path or a name.

    Returns:
        The format, or None if no suffix names one, and the compression.
    """
    name = path.rpartition("/")[2].lower()
    stem, dot, last = name.rpartition(".")
    compression = _COMPRESSION_SUFFIXES.get(dot + last, Compression.NONE)
    if compression is not Compression.NONE:
        _, dot, last = stem.rpartition(".")
    return _FORMAT_SUFFIXES.get(dot + last), compression


class CsvOptions(
    CsvDialect,
    since=_SINCE,
    elsewhere={
        former: f"use {each.key!r}"
        for each in CsvDialect.OPTIONS
        for former in each.deprecated_keys
    },
):
    """The dialect of CSV files.

    Lines end in LF or CRLF. A file in which all lines end in CR also works.

    Raises:
        InvalidOptionError: If files in this dialect could not be read.
    """

    # Since 3.0.0, these have Flink's keys, and no others.
    delimiter: Setting[str] = option_like(CsvDialect.delimiter, since="3.0.0", deprecated_keys=())
    quote_char: Setting[str] = option_like(CsvDialect.quote_char, since="3.0.0", deprecated_keys=())
    escape_char: Setting[str | None] = option_like(
        CsvDialect.escape_char, since="3.0.0", deprecated_keys=()
    )
    null_values: Setting[tuple[str, ...], str | Sequence[str]] = option_like(
        CsvDialect.null_values, since="3.0.0", deprecated_keys=()
    )
    ambiguous_times: Setting[AmbiguousTimes, AmbiguousTimes | TimesText] = option_like(
        CsvDialect.ambiguous_times, since="3.1.0"
    )
    header: Setting[bool] = option(
        "csv.header",
        bool,
        default=True,
        aliases=("header",),
        doc="The first line names the columns. Otherwise, the schema does.",
    )
    newlines_in_values: Setting[bool] = option(
        "csv.newlines-in-values",
        bool,
        default=False,
        aliases=("multiline",),
        doc="Quoted fields can contain line breaks. Such a file cannot be cut into splits, and "
        "quotes can only enclose whole fields (RFC 4180). If false, the sink treats a row with a "
        "line break as a bad record.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.newlines_in_values and (self.escape_char is not None or not self.double_quote):
            raise InvalidOptionError(
                "line breaks in values cannot be distinguished from the ends of records",
                expected="doubled quotes and no escape character",
                found=f"escape character {self.escape_char!r}, double quote {self.double_quote}",
                option="csv.newlines-in-values",
            )


class JsonOptions(Configured):
    """The dialect of JSON lines: UTF-8, one object per line.

    Times are ISO 8601, in UTC unless they have a zone.
    """

    write_nulls: Setting[bool] = option(
        "json.write-nulls",
        bool,
        default=False,
        since=_SINCE,
        doc="Write null fields as `null` instead of omitting them.",
    )
    strict: Setting[bool] = option_like(JsonFormat.strict, since="3.1.0")


class ParquetOptions(Configured, since=_SINCE):
    """The settings for writing Parquet files. Reading needs none of them."""

    compression: Setting[str, Literal["snappy", "zstd", "gzip", "lz4", "brotli", "none"]] = option(
        "parquet.compression",
        str,
        default="zstd",
        choices=("snappy", "zstd", "gzip", "lz4", "brotli", "none"),
        doc="Compression inside Parquet files.",
    )
    row_group_rows: Setting[int] = option(
        "parquet.row-group-rows",
        int,
        unit="rows",
        default=1024 * 1024,
        validator=positive,
        doc="Maximum number of rows in a row group. `sink.buffer-size` also limits it.",
    )
    use_dictionary: Setting[bool] = option(
        "parquet.use-dictionary",
        bool,
        default=True,
        doc="Dictionary-encode columns with few distinct values.",
    )
