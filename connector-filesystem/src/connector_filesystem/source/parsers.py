# SPDX-License-Identifier: Apache-2.0
"""Records of CSV and JSON lines to columns. One thread, no Python object for a good record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from connector_filesystem.formats import CsvOptions
from connector_filesystem.source.columns import converted
from connector_filesystem.source.text import BOM, lines_of

__all__ = ["CsvParser", "JsonParser", "TextParser", "infer_csv", "infer_json"]

# Values do not belong in messages; Arrow puts them behind these words or in quotes.
_VALUES: Final = re.compile(
    r"(?<=invalid value)\s.*|(?<=couldn't parse):.*|(?<=, got \d):.*|\s+in '.*"
    r"|:\s'.*|(?<=: )[^:]+(?= requires scale)|'[^']*'",
    re.DOTALL,
)


class TextParser(Protocol):
    """Parses whole records of one text format."""

    def parse(self, data: bytes) -> pa.RecordBatch:
        """Parse any number of records.

        Raises:
            pa.ArrowInvalid: One of them is bad.
        """

    def explain(self, data: bytes, error: Exception) -> str:
        """Say why a single record is bad, without its values."""


@dataclass(frozen=True)
class CsvParser:
    """Parses lines of CSV.

    Attributes:
        schema: Wanted columns, in order.
        file_columns: All columns of the file, in order.
        options: The dialect.
    """

    schema: pa.Schema
    file_columns: Sequence[str]
    options: CsvOptions = field(default_factory=CsvOptions)

    def parse(self, data: bytes) -> pa.RecordBatch:
        """See `TextParser`."""
        if not data.strip(b"\r\n"):
            return _empty(self.schema)
        table = pyarrow.csv.read_csv(
            pa.py_buffer(data),
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, column_names=list(self.file_columns), block_size=len(data) + 1
            ),
            parse_options=self._parse_options,
            convert_options=self._convert_options,
        )
        batch = _one_batch(table)
        if not self.options.newlines_in_values:
            self._check_lines(data, batch.num_rows)
        elif data.count(self.options.quote_char.encode()) % 2:
            raise pa.ArrowInvalid("a quoted value is not closed")
        zone = self.options.assume_time_zone
        if zone is not None:
            batch = _assume_zone(batch, self.schema, zone)
        return converted(batch, self.schema)

    def explain(self, data: bytes, error: Exception) -> str:
        """See `TextParser`."""
        text = _plain(error)
        match = re.match(r"In CSV column #(\d+):\s*(?:Row #\d+:\s*)?(.*)", text, re.DOTALL)
        if match and int(match[1]) < len(self.file_columns):
            return f"column {self.file_columns[int(match[1])]}: {match[2]}"
        return text

    def _check_lines(self, data: bytes, rows: int) -> None:
        """Every line must be one record: an unclosed quote would swallow the lines after it."""
        quote = self.options.quote_char.encode()
        if data.count(b"\r") == data.count(b"\r\n"):
            lines = data.count(b"\n") + (not data.endswith(b"\n"))
            if rows != lines:
                lines -= sum(
                    not line.rstrip(b"\r") for line in data.removesuffix(b"\n").split(b"\n")
                )
            if rows != lines:
                raise pa.ArrowInvalid("a quoted value holds a line break or is not closed")
        elif rows != sum(bool(line.strip(b"\r\n")) for line in lines_of(data)):
            raise pa.ArrowInvalid("a line holds a bare carriage return")
        last = data.rstrip(b"\r\n")
        last = last[last.rfind(b"\n") + 1 :]
        if quote in last and not self._closed(last):
            raise pa.ArrowInvalid("a quoted value is not closed")

    def _closed(self, line: bytes) -> bool:
        quote, delimiter = self.options.quote_char.encode(), self.options.delimiter.encode()
        escape = self.options.escape_char.encode() if self.options.escape_char else None
        at = 0
        while at < len(line):
            if line[at : at + 1] == quote:
                at += 1
                while True:
                    if at >= len(line):
                        return False
                    byte = line[at : at + 1]
                    if escape is not None and byte == escape:
                        at += 2
                    elif byte == quote:
                        at += 1
                        if not (self.options.double_quote and line[at : at + 1] == quote):
                            break
                        at += 1
                    else:
                        at += 1
            found = line.find(delimiter, at)
            if found < 0:
                return True
            at = found + 1
        return True

    @cached_property
    def _parse_options(self) -> pyarrow.csv.ParseOptions:
        return _csv_parse_options(self.options)

    @cached_property
    def _convert_options(self) -> pyarrow.csv.ConvertOptions:
        wanted = [each.name for each in self.schema if each.name in set(self.file_columns)]
        types = {each.name: self._parsed_type(each.type) for each in self.schema}
        return _csv_convert_options(self.options, types, wanted)

    def _parsed_type(self, kind: pa.DataType) -> pa.DataType:
        if pa.types.is_timestamp(kind) and kind.tz and self.options.assume_time_zone:
            return pa.timestamp(kind.unit)
        return kind


@dataclass(frozen=True)
class JsonParser:
    """Parses lines of JSON.

    Attributes:
        schema: Wanted fields, in order.
        ignore_new: Pass over fields that are not wanted; else such a record is bad.
    """

    schema: pa.Schema
    ignore_new: bool = False

    def parse(self, data: bytes) -> pa.RecordBatch:
        """See `TextParser`."""
        data = data.removeprefix(BOM)
        if not data.strip():
            return _empty(self.schema)
        table = pyarrow.json.read_json(
            pa.py_buffer(data),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=self._parse_options,
        )
        lines = data.count(b"\n") + (not data.endswith(b"\n"))
        if table.num_rows != lines:
            lines -= sum(not line.strip() for line in data.removesuffix(b"\n").split(b"\n"))
            if table.num_rows != lines:
                raise pa.ArrowInvalid("a line is not exactly one JSON object")
        batch = _one_batch(table)
        if self._has_text and not data.isascii():
            batch.validate(full=True)  # Arrow reads invalid UTF-8 without a word
        return converted(batch, self.schema)

    def explain(self, data: bytes, error: Exception) -> str:
        """See `TextParser`."""
        return re.sub(r" in row \d+$", "", _plain(error))

    def new_fields(self, data: bytes) -> list[str]:
        """Return the top-level fields of a record that are not wanted; none where it is no JSON."""
        try:
            table = pyarrow.json.read_json(
                pa.py_buffer(data), pyarrow.json.ReadOptions(use_threads=False)
            )
        except pa.ArrowInvalid:
            return []
        wanted = set(self.schema.names)
        return [name for name in table.schema.names if name not in wanted]

    @cached_property
    def _parse_options(self) -> pyarrow.json.ParseOptions:
        return pyarrow.json.ParseOptions(
            explicit_schema=pa.schema(
                [pa.field(each.name, _json_type(each.type)) for each in self.schema]
            ),
            unexpected_field_behavior="ignore" if self.ignore_new else "error",
        )

    @cached_property
    def _has_text(self) -> bool:
        return any(
            pa.types.is_string(each.type)
            or pa.types.is_large_string(each.type)
            or pa.types.is_nested(each.type)
            for each in self.schema
        )


def infer_csv(data: bytes, file_columns: Sequence[str], options: CsvOptions) -> pa.Schema:
    """Infer the columns of a sample without header.

    Raises:
        pa.ArrowInvalid: It is not CSV of this dialect.
    """
    if not data.strip(b"\r\n"):
        return pa.schema([pa.field(name, pa.null()) for name in file_columns])
    table = pyarrow.csv.read_csv(
        pa.py_buffer(data),
        read_options=pyarrow.csv.ReadOptions(
            use_threads=False,
            column_names=list(file_columns) or None,
            autogenerate_column_names=not file_columns,
            block_size=len(data) + 1,
        ),
        parse_options=_csv_parse_options(options),
        convert_options=_csv_convert_options(options, {}, []),
    )
    return _zoned(table.schema, options.assume_time_zone)


def infer_json(data: bytes) -> pa.Schema:
    """Infer the fields of a sample; times are UTC.

    Raises:
        pa.ArrowInvalid: It is not JSON lines.
    """
    data = data.removeprefix(BOM)
    if not data.strip():
        return pa.schema([])
    table = pyarrow.json.read_json(
        pa.py_buffer(data),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
    )
    return _zoned(table.schema, "UTC")


def _zoned(schema: pa.Schema, zone: str | None) -> pa.Schema:
    return pa.schema(
        [
            pa.field(each.name, pa.timestamp("us", tz="UTC"))
            if zone is not None and pa.types.is_timestamp(each.type) and each.type.tz is None
            else each
            for each in schema
        ]
    )


def _csv_parse_options(options: CsvOptions) -> pyarrow.csv.ParseOptions:
    return pyarrow.csv.ParseOptions(
        delimiter=options.delimiter,
        quote_char=options.quote_char,
        double_quote=options.double_quote,
        escape_char=options.escape_char or False,
        newlines_in_values=options.newlines_in_values,
    )


def _csv_convert_options(
    options: CsvOptions, types: dict[str, pa.DataType], wanted: Sequence[str]
) -> pyarrow.csv.ConvertOptions:
    return pyarrow.csv.ConvertOptions(
        column_types=types,
        include_columns=list(wanted),
        null_values=list(options.null_values),
        true_values=list(options.true_values),
        false_values=list(options.false_values),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        timestamp_parsers=list(options.timestamp_formats) or None,
    )


def _json_type(kind: pa.DataType) -> pa.DataType:
    """Return what Arrow's JSON reader gives for a type that it has no conversion of text for."""
    if pa.types.is_date(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _json_type(each.type)) for each in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_json_type(kind.value_type))
    return kind


def _assume_zone(batch: pa.RecordBatch, schema: pa.Schema, zone: str) -> pa.RecordBatch:
    arrays = []
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        kind = schema.field(name).type
        if pa.types.is_timestamp(kind) and kind.tz:
            array = pc.assume_timezone(array, zone)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.to_batches()
    if len(batches) == 1:
        return batches[0]
    return _empty(table.schema) if not batches else table.combine_chunks().to_batches()[0]


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in schema], schema=schema)


def _plain(error: Exception) -> str:
    return _VALUES.sub("", str(error)).strip()
