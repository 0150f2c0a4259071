# SPDX-License-Identifier: Apache-2.0
"""Converts CSV records to Arrow columns and back, without a Python object per record.

pyarrow's own writer supports neither other quote characters, nor other null texts, nor ISO 8601
with `T`, and it looks up the time zone for each row. This writer works like the JSON writer. It
always quotes texts, so that an empty text differs from null.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from connectors_core.errors import InvalidOptionError
from connectors_core.formats.text.columns import converted, explained, one_batch, zoned
from connectors_core.formats.text.decimals import (
    LONG_DECIMAL,
    are_whole,
    check_decimal_texts,
    check_digits,
    decimals_in,
    may_be_long,
    may_be_tiny,
)
from connectors_core.formats.text.lenient import cast_leniently
from connectors_core.formats.text.local_times import (
    AmbiguousTimes,
    TimesText,
    check_zone,
    moments_of,
)
from connectors_core.formats.text.texts import (
    concat_texts,
    dates_without_text,
    is_plain,
    is_string,
    max_rows_of,
    plain_texts,
    replace_bytes,
    text_bytes,
    zone_sign,
)
from connectors_core.options import Configured, Setting, list_of, option
from connectors_core.schema.misfits import MisfitError

__all__ = [
    "CsvDialect",
    "CsvReader",
    "check_written_spellings",
    "csv_faults",
    "csv_header",
    "csv_records",
    "infer_csv",
    "unquotable_rows",
    "unreadable_csv_type",
    "unsupported_csv_type",
]

# Characters that occur in the texts of numbers, booleans and times.
_PLAIN: Final = frozenset("+-.:" + string.ascii_letters + string.digits)
_TEXTS: Final = list_of(str)


def _null_values(value: object) -> tuple[str, ...]:
    return ("",) if value == "" else _TEXTS.parse(value)


class CsvDialect(Configured, since="1.0.0"):
    """A CSV dialect. Text is UTF-8. The keys are Flink's, where it has them.

    Raises:
        InvalidOptionError: If the dialect is ambiguous.
    """

    delimiter: Setting[str] = option(
        "csv.field-delimiter",
        str,
        default=",",
        aliases=("delimiter", "sep"),
        deprecated_keys=("csv.delimiter",),
        doc="Character between fields.",
    )
    quote_char: Setting[str] = option(
        "csv.quote-character",
        str,
        default='"',
        aliases=("quote",),
        deprecated_keys=("csv.quote-char",),
        doc="Character around fields that hold delimiters or quotes.",
    )
    double_quote: Setting[bool] = option(
        "csv.double-quote",
        bool,
        default=True,
        doc="A quote within a quoted field is written twice.",
    )
    escape_char: Setting[str | None] = option(
        "csv.escape-character",
        str,
        default=None,
        aliases=("escape",),
        deprecated_keys=("csv.escape-char",),
        doc="Escape character: the character after it is literal. By default, there is none.",
    )
    null_values: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "csv.null-literal",
        replace(_TEXTS, parse=_null_values),
        default=("",),
        aliases=("nullvalue",),
        deprecated_keys=("csv.null-values",),
        doc='Spellings of a missing value, e.g. `NA` or `["", "NA"]`. They also apply '
        "to text columns, unless quoted. The first one is written.",
    )
    true_values: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "csv.true-values",
        list_of(str),
        default=("true", "True", "TRUE", "1"),
        doc="Spellings of true; the first one is written.",
    )
    false_values: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "csv.false-values",
        list_of(str),
        default=("false", "False", "FALSE", "0"),
        doc="Spellings of false; the first one is written.",
    )
    timestamp_formats: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "csv.timestamp-formats",
        list_of(str),
        default=(),
        aliases=("timestampformat",),
        doc="`strptime` patterns for reading times, tried in order. By default, times are "
        "read as ISO 8601.",
    )
    assume_time_zone: Setting[str | None] = option(
        "csv.assume-time-zone",
        str,
        default=None,
        aliases=("timezone",),
        doc="Time zone of the times that are read, for columns whose type has a zone. By "
        "default, every such time must have an offset, e.g. `2013-01-01T05:00:00Z`.",
    )
    ambiguous_times: Setting[AmbiguousTimes, AmbiguousTimes | TimesText] = option(
        "csv.ambiguous-times",
        AmbiguousTimes,
        default=AmbiguousTimes.EARLIER,
        since="1.2.0",
        doc="What a time of `csv.assume-time-zone` means that occurs twice or never, because the "
        "clocks change: the clocks have not changed yet (`earlier`, as in Spark and Flink), or "
        "they have (`later`), or the record is bad (`bad`).",
    )
    strict: Setting[bool] = option(
        "csv.decode.strict",
        bool,
        default=False,
        since="1.2.0",
        doc="Whether a time or a decimal with more places than its type makes a record bad. By "
        "default, times are cut and decimals are rounded, as in Spark and Flink.",
    )

    def __post_init__(self) -> None:
        kind = type(self)
        if self.assume_time_zone is not None:
            check_zone(self.assume_time_zone, "csv.assume-time-zone")
        for each in (kind.delimiter, kind.quote_char, kind.escape_char):
            value = getattr(self, each.attribute)
            if value is not None and (len(value) != 1 or not value.isascii() or value in "\r\n"):
                [key] = each.keywords
                raise InvalidOptionError(
                    f"the value of {key!r} cannot be used",
                    expected="one ASCII character that is not a line break",
                    found=value,
                    option=key,
                )
        if self.delimiter in (self.quote_char, self.escape_char):
            raise InvalidOptionError(
                "the CSV delimiter is also its quote or escape character",
                expected="different characters",
                found=self.delimiter,
                option="csv.field-delimiter",
            )


def unsupported_csv_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type if a CSV field cannot represent it, otherwise None."""
    if pa.types.is_dictionary(kind):
        return unsupported_csv_type(kind.value_type)
    return None if is_plain(kind) else kind


def unreadable_csv_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type if it cannot be read from a CSV field, otherwise None."""
    types = pa.types
    refused = types.is_nested(kind) or types.is_null(kind) or types.is_duration(kind)
    return kind if refused else None


# --- Reading -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CsvReader:
    """Reads CSV records without a header.

    Attributes:
        schema: Wanted columns, in order.
        columns: Names of all fields of a record, in order.
        dialect: The dialect.
        newlines_in_values: Whether quoted fields may contain line breaks.
    """

    schema: pa.Schema
    columns: Sequence[str]
    dialect: CsvDialect = field(default_factory=CsvDialect)
    newlines_in_values: bool = False

    def read(self, data: bytes | pa.Buffer) -> pa.RecordBatch:
        """Read any number of records, at least one; wanted columns that are not fields are null.

        A quote that is not closed includes the lines after it, so a caller whose records may be
        malformed must compare the number of records.

        Raises:
            pa.ArrowInvalid: A record is malformed.
        """
        self._check_decimals(data)
        try:
            table = self._parsed(data, self._convert_options)
            check_digits(table, self.schema)
        except pa.ArrowInvalid as error:
            table = self._read_leniently(data, error)
        batch = one_batch(table)
        if self.dialect.assume_time_zone is not None:
            batch = _assume_zone(batch, self.schema, self.dialect)
        return converted(batch, self.schema)

    def _read_leniently(self, data: bytes | pa.Buffer, error: pa.ArrowInvalid) -> pa.Table:
        """Read times and decimals with more places than their types; several times slower.

        Raises:
            pa.ArrowInvalid: The given error, if this does not help.
        """
        kinds = {each.name: self._parsed_type(each.type) for each in self.schema}
        texts = {name: pa.string() for name, kind in kinds.items() if self._may_be_longer(kind)}
        if self.dialect.strict or not texts.keys() & set(self.columns):
            raise error
        wanted = [name for name in kinds if name in set(self.columns)]
        try:
            table = self._parsed(data, _convert_options(self.dialect, kinds | texts, wanted))
            columns = [
                cast_leniently(table.column(name).combine_chunks(), kinds[name], needs_zone=True)
                for name in table.column_names
            ]
        except pa.ArrowInvalid:
            raise error from None
        return pa.table(columns, names=table.column_names)

    def _may_be_longer(self, kind: pa.DataType) -> bool:
        is_time = pa.types.is_timestamp(kind) and not self.dialect.timestamp_formats
        return is_time or pa.types.is_decimal128(kind)

    def _parsed(
        self, data: bytes | pa.Buffer, convert_options: pyarrow.csv.ConvertOptions
    ) -> pa.Table:
        return pyarrow.csv.read_csv(
            pa.py_buffer(data) if isinstance(data, bytes) else data,
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, column_names=list(self.columns), block_size=len(data) + 1
            ),
            parse_options=self._parse_options,
            convert_options=convert_options,
        )

    def _check_decimals(self, data: bytes | pa.Buffer) -> None:
        kinds = {each.name: each.type for each in decimals_in(self.schema)}
        names = [name for name in self.columns if name in kinds]
        if not names:
            return
        escape = (self.dialect.escape_char or "").encode()
        if not may_be_tiny(memoryview(data).tobytes().replace(escape, b"") if escape else data):
            return
        types = dict.fromkeys(names, pa.string())
        texts = self._parsed(data, _convert_options(self.dialect, types, names))
        for name in names:
            check_decimal_texts(texts.column(name), kinds[name])

    def explain(self, error: Exception) -> str:
        """Explain why a record is bad, without its values."""
        reason = explained(error)
        at = re.match(r"In CSV column #(\d+):", str(error))
        return f"column {self.columns[int(at[1])]}: {reason}" if at else reason

    @cached_property
    def _parse_options(self) -> pyarrow.csv.ParseOptions:
        return _parse_options(self.dialect, self.newlines_in_values)

    @cached_property
    def _convert_options(self) -> pyarrow.csv.ConvertOptions:
        wanted = [each.name for each in self.schema if each.name in set(self.columns)]
        types = {each.name: self._parsed_type(each.type) for each in self.schema}
        return _convert_options(self.dialect, types, wanted)

    def _parsed_type(self, kind: pa.DataType) -> pa.DataType:
        if pa.types.is_timestamp(kind) and kind.tz and self.dialect.assume_time_zone:
            return pa.timestamp(kind.unit)
        return kind


def infer_csv(
    data: bytes, columns: Sequence[str], dialect: CsvDialect, newlines_in_values: bool
) -> pa.Schema:
    """Infer the columns of records without a header.

    Whole numbers of which one has more than 64 bits are decimals of 38 digits.

    Args:
        data: The records, at least one.
        columns: Names of all fields; none to number them.
        dialect: The dialect.
        newlines_in_values: Whether quoted fields may contain line breaks.

    Raises:
        pa.ArrowInvalid: It is not CSV of this dialect.
    """

    def read(types: dict[str, pa.DataType], wanted: Sequence[str]) -> pa.Table:
        return pyarrow.csv.read_csv(
            pa.py_buffer(data),
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False,
                column_names=list(columns) or None,
                autogenerate_column_names=not columns,
                block_size=len(data) + 1,
            ),
            parse_options=_parse_options(dialect, newlines_in_values),
            convert_options=_convert_options(dialect, types, wanted),
        )

    schema = read({}, []).schema
    doubles = [each.name for each in schema if pa.types.is_float64(each.type)]
    if doubles and may_be_long(data):
        # Arrow has inferred doubles; the original texts show whether they are whole.
        texts = read(dict.fromkeys(doubles, pa.string()), doubles)
        for at, each in enumerate(schema):
            if each.name in doubles and are_whole(texts.column(each.name)):
                schema = schema.set(at, each.with_type(LONG_DECIMAL))
    return schema if dialect.assume_time_zone is None else zoned(schema)


def _parse_options(dialect: CsvDialect, newlines_in_values: bool) -> pyarrow.csv.ParseOptions:
    return pyarrow.csv.ParseOptions(
        delimiter=dialect.delimiter,
        quote_char=dialect.quote_char,
        double_quote=dialect.double_quote,
        escape_char=dialect.escape_char or False,
        newlines_in_values=newlines_in_values,
    )


def _convert_options(
    dialect: CsvDialect, types: dict[str, pa.DataType], wanted: Sequence[str]
) -> pyarrow.csv.ConvertOptions:
    return pyarrow.csv.ConvertOptions(
        column_types=types,
        include_columns=list(wanted),
        null_values=list(dialect.null_values),
        true_values=list(dialect.true_values),
        false_values=list(dialect.false_values),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        timestamp_parsers=list(dialect.timestamp_formats) or None,
    )


def _assume_zone(batch: pa.RecordBatch, schema: pa.Schema, dialect: CsvDialect) -> pa.RecordBatch:
    assert dialect.assume_time_zone is not None
    arrays = []
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        kind = schema.field(name).type
        if pa.types.is_timestamp(kind) and kind.tz:
            try:
                array = moments_of(array, dialect.assume_time_zone, dialect.ambiguous_times)
            except MisfitError as error:
                raise MisfitError(f"column {name}: {error}") from error
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


# --- Writing -------------------------------------------------------------------------------------


def check_written_spellings(dialect: CsvDialect) -> None:
    """Check that a reader recognizes the null and the booleans that the dialect writes.

    Raises:
        InvalidOptionError: A first spelling is missing, or has a special character.
    """
    special = {dialect.delimiter, dialect.quote_char, dialect.escape_char, "\n", "\r"}
    of_booleans = special - {dialect.delimiter} if dialect.delimiter in _PLAIN else special
    kind = type(dialect)
    for each, refused in (
        (kind.null_values, special),
        (kind.true_values, of_booleans),
        (kind.false_values, of_booleans),
    ):
        values = getattr(dialect, each.attribute)
        if not values or refused & {*values[0]}:
            raise InvalidOptionError(
                "the first of these spellings is written, and it cannot be read back",
                expected="at least one, without delimiter, quote, escape character, and line break",
                found=values,
                option=next(iter(each.keywords)),
            )


def unquotable_rows(
    batch: pa.RecordBatch, dialect: CsvDialect
) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """Yield the columns with quotes that the dialect cannot write, and their rows."""
    if dialect.double_quote or dialect.escape_char is not None:
        return
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        texts = _decoded(column)
        if is_string(texts.type) and (text_bytes(texts) == ord(dialect.quote_char)).any():
            found = pc.fill_null(pc.match_substring(texts, dialect.quote_char), False)
            yield name, found.to_numpy(zero_copy_only=False)


def csv_faults(
    batch: pa.RecordBatch, dialect: CsvDialect
) -> Iterator[tuple[str, str, npt.NDArray[np.bool_]]]:
    """Yield why rows would not be read back unchanged, the option for it, and the rows."""
    for name, rows in unquotable_rows(batch, dialect):
        reason = f"the column {name!r} contains a quote, and the dialect cannot escape it"
        yield reason, "csv.double-quote", rows
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        rows = _read_as_null(_decoded(column), dialect)
        if rows.any():
            reason = f"the column {name!r} contains a value that is a spelling of null"
            yield reason, "csv.null-literal", rows
    for name, rows in dates_without_text(batch):
        reason = f"the column {name!r} contains a time outside the years 1 to 9999"
        yield reason, "format", rows


def _read_as_null(column: pa.Array, dialect: CsvDialect) -> npt.NDArray[np.bool_]:
    """Return which values other than texts are written like a null; quotes do not help a reader."""
    spellings = [each for each in dialect.null_values if each]
    if not spellings or is_string(column.type):
        return np.zeros(len(column), np.bool_)
    texts = _field_texts(column, dialect)
    if sign := zone_sign(column.type):
        texts = concat_texts([texts, sign])
    found = pc.fill_null(pc.is_in(texts, pa.array(spellings, texts.type)), False)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


def _field_texts(column: pa.Array, dialect: CsvDialect) -> pa.Array:
    if is_string(column.type):
        return _escaped(column, dialect)
    if pa.types.is_boolean(column.type):
        return pc.if_else(column, dialect.true_values[0], dialect.false_values[0])
    return plain_texts(column, infinity="Inf", minus="-Inf")


def csv_header(schema: pa.Schema, dialect: CsvDialect) -> bytes:
    """Return the header line."""
    names = [_escaped(pa.array([name], pa.string()), dialect)[0].as_py() for name in schema.names]
    quote = dialect.quote_char
    return (dialect.delimiter.join(f"{quote}{name}{quote}" for name in names) + "\n").encode()


def csv_records(
    batch: pa.RecordBatch, dialect: CsvDialect, *, line_breaks: bool = False
) -> Iterator[pa.Array]:
    """Write rows as CSV records.

    Args:
        batch: The rows, without `csv_faults`; all types pass `unsupported_csv_type`.
        dialect: The dialect.
        line_breaks: Whether a line break follows each record.

    Yields:
        Columns of texts, in order, each small enough for one Arrow array.
    """
    step = max_rows_of(batch)
    end = "\n" if line_breaks else ""
    for start in range(0, batch.num_rows, step):
        yield _records(batch.slice(start, step), dialect, end)


def _records(batch: pa.RecordBatch, dialect: CsvDialect, end: str) -> pa.Array:
    quote_all = dialect.delimiter in _PLAIN
    parts: list[pa.Array | str] = []
    literal = ""
    for number, column in enumerate(batch.columns):
        column = _decoded(column)
        texts, sign = _field_texts(column, dialect), zone_sign(column.type)
        quote = dialect.quote_char if quote_all or is_string(column.type) else ""
        delimiter = dialect.delimiter if number else ""
        before, after = quote, sign + quote
        if after and texts.null_count:
            texts, before, after = concat_texts([before, texts, after]), "", ""
        parts += [literal + delimiter + before, texts]
        literal = after
    return concat_texts([*parts, literal + end], null=dialect.null_values[0])


def _decoded(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string_view(column.type):
        column = pc.cast(column, pa.large_string())
    return column


def _escaped(texts: pa.Array, dialect: CsvDialect) -> pa.Array:
    quote, escape = dialect.quote_char, dialect.escape_char
    replacements = [] if escape is None else [(ord(escape), escape * 2)]
    if dialect.double_quote:
        replacements.append((ord(quote), quote * 2))
    elif escape is not None:
        replacements.append((ord(quote), escape + quote))
    return replace_bytes(texts, replacements)
