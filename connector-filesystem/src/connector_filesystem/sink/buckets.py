# SPDX-License-Identifier: Apache-2.0
"""Assigns each row to a folder of the target by its columns."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connector_filesystem.time_zones import check_time_zone
from connectors_core.errors import ConfigurationError
from connectors_core.formats.text import concat_texts, dates_without_text, is_binary, is_string
from connectors_core.options import suggesting_keywords

__all__ = [
    "DEFAULT_PARTITION",
    "BucketAssigner",
    "bucket_problem",
    "escape_path_name",
    "unescape_path_name",
]

DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""The name of the folder for null and the empty text, as in Hive and Spark."""

# The characters that Hive escapes, and NUL. Letters beyond ASCII stay as they are.
_ESCAPED: Final = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
# Characters not allowed in unescaped folders: NUL ends a name, and the others are patterns or
# separators on some systems.
_UNUSABLE: Final = re.compile(r"[\x00-\x1f\x7f*?\[\\]")
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_MAX_NAME_BYTES: Final = 255

_EPOCH: Final = datetime(1970, 1, 1)
_DAY: Final = 86_400
# Only numbers, because names of days and months depend on the locale.
_DIRECTIVES: Final = {
    **dict.fromkeys("YmdjGVu", _DAY),
    "H": 3_600,
    "M": 60,
    "S": 1,
}
_DIRECTIVE: Final = re.compile(r"%(.?)", re.DOTALL)

COLUMNS_OPTION: Final = "partition.columns"
PATTERN_OPTION: Final = "partition.date-pattern"
DATE_COLUMN_OPTION: Final = "partition.date-column"
TIME_ZONE_OPTION: Final = "partition.date-time-zone"


def escape_path_name(text: str | None) -> str:
    """Return a value as part of a folder name, percent-escaped as in Hive.

    Args:
        text: The value. None and the empty text become `__HIVE_DEFAULT_PARTITION__`.

    Returns:
        A text without separators and control characters, unique for each value.
    """
    if not text:
        return DEFAULT_PARTITION
    if text == DEFAULT_PARTITION:
        return "%5F" + text[1:]  # this text is not null
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def unescape_path_name(name: str) -> str | None:
    """Return the value that `escape_path_name` encoded, or None for the default partition."""
    if name == DEFAULT_PARTITION:
        return None
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), name)


def bucket_problem(bucket: str | None) -> str | None:
    """Return why a text cannot be a folder inside the target, or None if it can.

    The empty text is the target itself.
    """
    if bucket is None:
        return "the bucket is null, or its date is outside the years 1 to 9999"
    if bucket == "":
        return None
    if _UNUSABLE.search(bucket):
        return "the bucket holds a control character, a backslash or one of * ? ["
    for name in bucket.split("/"):
        if name in ("", ".", ".."):
            return "the bucket is not a plain relative path"
        if name.startswith("."):
            return "the bucket would be hidden from readers"
        if name.startswith("_") and "=" not in name:
            return "the bucket would be hidden from readers"
        if len(name.encode("utf-8", "surrogatepass")) > _MAX_NAME_BYTES:
            return f"a folder's name is longer than {_MAX_NAME_BYTES} bytes"
    return None


class BucketAssigner(ABC):
    """Assigns each row to a folder below the target. Executor.

    `none()`, `columns()`, `date_pattern()`, and `of()` create the usual assigners. A custom
    assigner must be picklable and works on columns: the writer calls it once per batch, never once
    per row.
    """

    @abstractmethod
    def assign(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the folder of every row, relative to the target, with `/` as separator.

        A column of strings, preferably dictionary-encoded, or None if all rows belong in the target
        itself. The sink's record policy handles a row whose folder is null, leaves the target
        (`..`), or would be hidden from readers (a leading `_` or `.`).
        """

    def dropped_columns(self) -> Sequence[str]:
        """The columns that are not written to the files because the folder name contains them."""
        return ()

    def folder_columns(self) -> Sequence[str] | None:
        """Return the columns whose values have a folder each; None if values can share one."""
        return None

    def described(self) -> str:
        """Return a text of the folders, which is the same after a restart."""
        columns = self.folder_columns()
        return type(self).__qualname__ if columns is None else ", ".join(columns)

    def validate(self, schema: pa.Schema) -> None:
        """Refuse a schema whose rows can never be assigned. Driver.

        Raises:
            ConfigurationError: A column is missing, or its type cannot name a folder.
        """

    @staticmethod
    def none() -> BucketAssigner:
        """Put all files in the target itself."""
        return _NoBuckets()

    @staticmethod
    def columns(*names: str, keep_columns: bool = False) -> BucketAssigner:
        """Name folders after columns, as Hive does: `month=1/origin=EWR`.

        Args:
            *names: The columns, outermost folder first.
            keep_columns: Whether the files also contain these columns. Hive and Spark drop them.

        Raises:
            ConfigurationError: The names are empty or contain a duplicate.
        """
        if not names or len(set(names)) != len(names) or "" in names:
            raise ConfigurationError(
                "the bucket columns cannot be used",
                expected="at least one column, each only once",
                found=list(names),
                option=COLUMNS_OPTION,
            )
        return _ColumnBuckets(names=names, keep_columns=keep_columns)

    @staticmethod
    @suggesting_keywords
    def date_pattern(column: str, pattern: str, *, time_zone: str = "UTC") -> BucketAssigner:
        """Name folders after a date or timestamp: `date_pattern("ts", "year=%Y/month=%m")`.

        Args:
            column: The column. Null becomes the folder `__HIVE_DEFAULT_PARTITION__`.
            pattern: The folder, with `%Y %m %d %H %M %S %j %G %V %u`, which are all numbers.
            time_zone: The time zone to which timestamps with a zone are converted. Dates and
                timestamps without a zone are not converted.

        Raises:
            ConfigurationError: The pattern or the time zone is not valid.
        """
        return _DateBuckets(column=column, pattern=pattern, time_zone=time_zone)

    @staticmethod
    def of(assign: Callable[[pa.RecordBatch], pa.Array]) -> BucketAssigner:
        """Name folders by a function that maps a batch to a column of strings.

        Args:
            assign: Picklable; see `assign`.
        """
        return _FunctionBuckets(function=assign)


@dataclass(frozen=True)
class _NoBuckets(BucketAssigner):
    def assign(self, batch: pa.RecordBatch) -> pa.Array | None:
        return None

    def folder_columns(self) -> Sequence[str]:
        return ()


@dataclass(frozen=True, kw_only=True)
class _FunctionBuckets(BucketAssigner):
    function: Callable[[pa.RecordBatch], pa.Array]

    def assign(self, batch: pa.RecordBatch) -> pa.Array | None:
        buckets = self.function(batch)
        if isinstance(buckets, pa.ChunkedArray):
            buckets = buckets.combine_chunks()
        found = f"{type(buckets).__name__}"
        if isinstance(buckets, pa.Array):
            kind = buckets.type
            if pa.types.is_dictionary(kind):
                kind = kind.value_type
            text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
            if len(buckets) == batch.num_rows and (text or pa.types.is_null(kind)):
                return buckets
            found = f"{len(buckets)} values of {buckets.type} for {batch.num_rows} rows"
        raise ConfigurationError(
            "the function of the bucket assigner returned an unexpected value",
            expected="a pyarrow array of strings, one for each row",
            found=found,
            option="bucket_assigner",
        )


@dataclass(frozen=True, kw_only=True)
class _ColumnBuckets(BucketAssigner):
    names: tuple[str, ...]
    keep_columns: bool

    def assign(self, batch: pa.RecordBatch) -> pa.Array | None:
        if not batch.num_rows:
            return pa.array([], pa.string())
        codes = np.zeros(batch.num_rows, np.int64)
        buckets: list[str] = [""]
        for number, name in enumerate(self.names):
            own_codes, values = _encoded(_path_texts(batch.column(name)))
            prefix = ("/" if number else "") + _column_name(name) + "="
            folders = [prefix + escape_path_name(value) for value in values]
            # Only combinations that occur are kept, so that the codes stay small.
            pairs, inverse = np.unique(codes * len(folders) + own_codes, return_inverse=True)
            codes = inverse.reshape(-1)
            buckets = [
                buckets[left] + folders[right]
                for left, right in (divmod(pair, len(folders)) for pair in pairs.tolist())
            ]
        without = [rows for _, rows in dates_without_text(batch.select(list(self.names)))]
        indices = pa.array(
            codes, pa.int32(), mask=np.logical_or.reduce(without) if without else None
        )
        return pa.DictionaryArray.from_arrays(indices, buckets)

    def dropped_columns(self) -> Sequence[str]:
        return () if self.keep_columns else self.names

    def folder_columns(self) -> Sequence[str]:
        return self.names

    def validate(self, schema: pa.Schema) -> None:
        for name in self.names:
            kind = _field_type(schema, name, COLUMNS_OPTION)
            if pa.types.is_dictionary(kind):
                kind = kind.value_type
            if pa.types.is_nested(kind) or is_binary(kind) or pa.types.is_duration(kind):
                raise ConfigurationError(
                    f"the column {name!r} cannot name a folder",
                    expected="text, a number, a boolean, a date or a timestamp",
                    found=kind,
                    option=COLUMNS_OPTION,
                )
        if not self.keep_columns and set(schema.names) <= set(self.names):
            raise ConfigurationError(
                "all columns are bucket columns, so the files would have no columns",
                expected="a column that is not a bucket column",
                found=list(self.names),
                option=COLUMNS_OPTION,
                hint="keep the bucket columns in the files (partition.keep-columns)",
            )


@dataclass(frozen=True, kw_only=True)
class _DateBuckets(BucketAssigner):
    column: str
    pattern: str
    time_zone: str

    def __post_init__(self) -> None:
        used = _DIRECTIVE.findall(self.pattern)
        problem = bucket_problem(_DIRECTIVE.sub("0", self.pattern))
        if not used or not set(used) <= set(_DIRECTIVES) or not self.pattern or problem:
            raise ConfigurationError(
                "the date pattern is not valid" + (f": {problem}" if problem else ""),
                expected="a relative folder with some of "
                + " ".join(f"%{letter}" for letter in _DIRECTIVES),
                found=self.pattern,
                option=PATTERN_OPTION,
            )
        check_time_zone(self.time_zone, TIME_ZONE_OPTION)

    def described(self) -> str:
        return f"{self.pattern} of {self.column} in {self.time_zone}"

    def assign(self, batch: pa.RecordBatch) -> pa.Array | None:
        column = batch.column(self.column)
        zoned = pa.types.is_timestamp(column.type) and column.type.tz is not None
        zone = ZoneInfo(self.time_zone) if zoned and self.time_zone != "UTC" else None
        # Rows of the same folder share a code, so few timestamps are formatted.
        unit = 1 if zone else min(_DIRECTIVES[each] for each in _DIRECTIVE.findall(self.pattern))
        seconds = pc.cast(_plain_timestamps(column), pa.int64())
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        floored = pc.fill_null(seconds, 0).to_numpy(zero_copy_only=False) // unit
        moments, codes = np.unique(floored, return_inverse=True)
        folders = [self._folder(moment * unit, zone) for moment in moments.tolist()]
        codes = codes.reshape(-1).astype(np.int32)
        codes[~valid] = len(folders)
        folders.append("/".join(map(_null_segment, self.pattern.split("/"))))
        return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(folders, pa.string()))

    def _folder(self, seconds: int, zone: ZoneInfo | None) -> str | None:
        try:
            moment = _EPOCH + timedelta(seconds=seconds)
            if zone is not None:
                moment = moment.replace(tzinfo=UTC).astimezone(zone)
        except OverflowError:
            return None  # outside the years 1 to 9999, so this is a bad record
        year, week, weekday = moment.isocalendar()
        numbers = {
            "Y": f"{moment.year:04d}",
            "m": f"{moment.month:02d}",
            "d": f"{moment.day:02d}",
            "j": f"{moment.timetuple().tm_yday:03d}",
            "G": f"{year:04d}",
            "V": f"{week:02d}",
            "u": str(weekday),
            "H": f"{moment.hour:02d}",
            "M": f"{moment.minute:02d}",
            "S": f"{moment.second:02d}",
        }
        return _DIRECTIVE.sub(lambda match: numbers[match[1]], self.pattern)

    def validate(self, schema: pa.Schema) -> None:
        kind = _field_type(schema, self.column, DATE_COLUMN_OPTION)
        if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            raise ConfigurationError(
                f"the column {self.column!r} has no date",
                expected="a date or a timestamp",
                found=kind,
                option=DATE_COLUMN_OPTION,
            )


def _null_segment(segment: str) -> str:
    """Return a segment of a date pattern for null: `hour=%H` and `day=%Y-%m-%d` are one value."""
    if not _DIRECTIVE.search(segment):
        return segment
    name, equals, _ = segment.partition("=")
    return name + equals + DEFAULT_PARTITION if equals else DEFAULT_PARTITION


def _plain_timestamps(column: pa.Array) -> pa.Array:
    """Return whole seconds since 1970, rounded down, without a zone."""
    if not pa.types.is_timestamp(column.type):
        return pc.cast(column, pa.timestamp("s"))
    plain = column.view(pa.timestamp(column.type.unit))
    if column.type.unit == "s":
        return plain
    return pc.cast(pc.floor_temporal(plain, unit="second"), pa.timestamp("s"))


def _path_texts(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        # Converts the few distinct values to text, not all rows.
        texts = _path_texts(column.dictionary)
        return pa.DictionaryArray.from_arrays(column.indices, texts)
    if is_string(kind):
        return column
    if pa.types.is_timestamp(kind):
        # In UTC, with its zone designator, which Spark reads as a timestamp.
        text = pc.cast(column.view(pa.timestamp(kind.unit)), pa.string())
        return text if kind.tz is None else concat_texts([text, "Z"])
    return pc.cast(column, pa.string())


def _encoded(
    column: pa.Array,
) -> tuple[npt.NDArray[np.int64], list[str | None]]:
    """Return a code for each row, and the distinct values. Null counts as a value."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    values: list[str | None] = column.dictionary.to_pylist()
    codes = column.indices
    if codes.null_count:
        codes = pc.fill_null(codes, len(values))
        values.append(None)
    return codes.to_numpy(zero_copy_only=False).astype(np.int64), values


def _column_name(name: str) -> str:
    escaped = escape_path_name(name)
    # Readers skip folders that start with these characters.
    return f"%{ord(name[0]):02X}" + escaped[1:] if name[0] in "._" else escaped


def _field_type(schema: pa.Schema, name: str, option: str) -> pa.DataType:
    if name not in schema.names:
        raise ConfigurationError(
            f"the bucket column {name!r} is missing",
            expected="one of " + ", ".join(schema.names),
            found=name,
            option=option,
        )
    return schema.field(name).type
