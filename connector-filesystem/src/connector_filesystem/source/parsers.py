# SPDX-License-Identifier: Apache-2.0
"""Parses records of CSV and JSON lines into columns.

One thread. Good records create no Python objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connector_filesystem.formats import CsvOptions
from connector_filesystem.source.text import BOM, lines_of
from connectors_core.formats import read_json_messages
from connectors_core.formats.text import CsvReader, JsonReader, infer_json
from connectors_core.schema import MisfitError

__all__ = ["CsvParser", "JsonParser", "TextParser"]


class TextParser(Protocol):
    """Parses whole records of a text format."""

    def parse(self, data: bytes) -> pa.RecordBatch:
        """Parse any number of records.

        Raises:
            pa.ArrowInvalid: A record is bad.
        """

    def explain(self, data: bytes, error: Exception) -> str:
        """Return why a single record is bad, without its values."""


@dataclass(frozen=True)
class CsvParser:
    """Parses lines of CSV.

    Attributes:
        schema: The wanted columns, in order.
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
        batch = self._reader.read(data)
        if not self.options.newlines_in_values:
            self._check_lines(data, batch.num_rows)
        elif data.count(self.options.quote_char.encode()) % 2:
            raise MisfitError("a quoted value is not closed")
        return batch

    def explain(self, data: bytes, error: Exception) -> str:
        """See `TextParser`."""
        return self._reader.explain(error)

    @cached_property
    def _reader(self) -> CsvReader:
        return CsvReader(
            self.schema, self.file_columns, self.options, self.options.newlines_in_values
        )

    def _check_lines(self, data: bytes, rows: int) -> None:
        """Require one record per line, because an unclosed quote would absorb the next lines."""
        quote = self.options.quote_char.encode()
        if data.count(b"\r") == data.count(b"\r\n"):
            lines = data.count(b"\n") + (not data.endswith(b"\n"))
            if rows != lines:
                lines -= sum(
                    not line.rstrip(b"\r") for line in data.removesuffix(b"\n").split(b"\n")
                )
            if rows != lines:
                raise MisfitError("a quoted value holds a line break or is not closed")
        elif rows != sum(bool(line.strip(b"\r\n")) for line in lines_of(data)):
            raise MisfitError("a line holds a bare carriage return")
        last = data.rstrip(b"\r\n")
        last = last[last.rfind(b"\n") + 1 :]
        if quote in last and not self._closed(last):
            raise MisfitError("a quoted value is not closed")

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


@dataclass(frozen=True)
class JsonParser:
    """Parses lines of JSON.

    Attributes:
        schema: The wanted fields, in order.
        ignore_new: Ignore fields that are not wanted. Otherwise, a record with such a field is bad.
        strict: Refuse values in another spelling than that of their type, and repeated fields.
    """

    schema: pa.Schema
    ignore_new: bool = False
    strict: bool = False

    def parse(self, data: bytes) -> pa.RecordBatch:
        """See `TextParser`."""
        data = data.removeprefix(BOM)
        if count := _objects_alone(data):
            rows = self._reader.read(data)
            if rows.num_rows == count:
                return rows
        lines = _filled_lines(data)
        return read_json_messages(lines, self._reader) if len(lines) else _empty(self.schema)

    def explain(self, data: bytes, error: Exception) -> str:
        """See `TextParser`."""
        reason = self._reader.explain(data.removeprefix(BOM), error)
        return reason.replace("the message is", "the line is")

    def new_fields(self, data: bytes) -> list[str]:
        """Return the unwanted top-level fields of a record, or none if the record is not JSON."""
        try:
            found = infer_json(data)
        except pa.ArrowInvalid:
            return []
        wanted = set(self.schema.names)
        return [name for name in found.names if name not in wanted]

    @cached_property
    def _reader(self) -> JsonReader:
        return JsonReader(self.schema, self.ignore_new, strict=self.strict)


def _objects_alone(data: bytes) -> int:
    """Return the number of lines if each begins and ends like an object, else 0.

    If there are as many objects, each line is one; see `read_json_messages`.
    """
    breaks = data.count(b"\n") - data.endswith(b"\n")
    framed = data.startswith(b"{") and data.endswith((b"}", b"}\n")) and b"\0" not in data
    return breaks + 1 if framed and data.count(b"}\n{") == breaks else 0


def _filled_lines(data: bytes) -> pa.Array:
    """Cut text into lines, without surrounding white space and blank lines."""
    breaks = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    offsets = np.concatenate([[0], breaks + 1, [len(data)]]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    lines = pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)
    lines = pc.ascii_trim(lines, " \t\r\n").view(pa.binary())
    return lines.filter(pc.greater(pc.binary_length(lines), 0))


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in schema], schema=schema)
