# SPDX-License-Identifier: Apache-2.0
"""The columns, the key, and the watermark of `CREATE TABLE`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import pyarrow as pa

from connectors_core.errors import InvalidOptionError
from connectors_core.schema import parse_schema
from connectors_core.table.sql.dialect import Kind, Word
from connectors_core.table.sql.errors import SqlError
from connectors_core.table.sql.word_reader import WordReader
from connectors_core.table.table_schema import (
    Column,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    TableSchema,
    WatermarkSpec,
)

__all__ = ["read_elements"]

_AFTER_TYPE: Final = frozenset(
    {
        ",",
        "NOT",
        "NULL",
        "COMMENT",
        "METADATA",
        "PRIMARY",
        "DEFAULT",
        "GENERATED",
        "CHECK",
        "UNIQUE",
    }
)
_UNITS: Final = {
    "MILLISECOND": timedelta(milliseconds=1),
    "SECOND": timedelta(seconds=1),
    "MINUTE": timedelta(minutes=1),
    "HOUR": timedelta(hours=1),
    "DAY": timedelta(days=1),
}
# Types of Flink by other names. The precision of times is always that of microseconds.
_FLINK: Final = {"ROW": "STRUCT", "BYTES": "BINARY", "VARBINARY": "BINARY"}
_WITHOUT_SIZE: Final = frozenset({"VARBINARY", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})


def read_elements(reader: WordReader) -> TableSchema:
    """Read `(column, ..., WATERMARK FOR ..., PRIMARY KEY (...))`.

    Raises:
        SqlError: An element is wrong, or names a column that does not exist.
    """
    columns: list[Column] = []
    keys: list[tuple[int, list[str]]] = []
    watermarks: list[tuple[int, str, timedelta | None]] = []

    def read() -> None:
        start = reader.place
        if reader.peek() == "WATERMARK" and reader.peek(1) == "FOR":
            watermarks.append((start, *_watermark(reader)))
        elif reader.peek() in {"PRIMARY", "CONSTRAINT"} and reader.peek(1) not in {",", ")"}:
            if reader.take("CONSTRAINT"):
                reader.identifier()
            reader.expect("PRIMARY", "KEY")
            keys.append((start, reader.listed(reader.identifier)))
            _not_enforced(reader)
        else:
            column, is_key = _column(reader)
            if column.name.lower() in {each.name.lower() for each in columns}:
                message = f"another column has the name {column.name!r}"
                raise SqlError.at(reader.text, start, message)
            columns.append(column)
            if is_key:
                keys.append((start, [column.name]))

    reader.listed(read)
    names = {each.name.lower(): each.name for each in columns}

    def known(name: str, start: int) -> str:
        if name.lower() not in names:
            raise SqlError.at(
                reader.text,
                start,
                f"there is no column {name!r}",
                expected=f"one of {', '.join(names.values())}",
            )
        return names[name.lower()]

    for found, what in ((keys, "primary key"), (watermarks, "watermark")):
        if len(found) > 1:
            raise SqlError.at(reader.text, found[1][0], f"the table has a second {what}")
    key = tuple(known(name, keys[0][0]) for name in keys[0][1]) if keys else ()
    watermark = None
    if watermarks:
        start, name, lateness = watermarks[0]
        watermark = WatermarkSpec(known(name, start), lateness)
    return TableSchema(columns=tuple(columns), primary_key=key, watermark=watermark)


def _column(reader: WordReader) -> tuple[Column, bool]:
    name = reader.identifier()
    if reader.take("AS"):
        return _computed(reader, name), False
    kind = _type(reader, name)
    nullable, is_key = True, False
    comment: str | None = None
    metadata: tuple[str, bool] | None = None
    while reader.peek() not in {",", ")"}:
        if reader.take("NOT", "NULL"):
            nullable = False
        elif reader.take("NULL"):
            pass
        elif reader.take("COMMENT"):
            comment = reader.string()
        elif reader.take("METADATA"):
            key = reader.string() if reader.take("FROM") else name
            metadata = (key, reader.take("VIRTUAL"))
        elif reader.take("PRIMARY", "KEY"):
            _not_enforced(reader)
            is_key = True
        else:
            raise reader.wrong(
                f"the column {name!r} has a part that is not known",
                expected="NOT NULL, COMMENT, METADATA, or PRIMARY KEY",
            )
    if metadata is not None:
        return MetadataColumn(name, kind, *metadata, comment), is_key
    return PhysicalColumn(name, kind, nullable and not is_key, comment), is_key


def _computed(reader: WordReader, name: str) -> ComputedColumn:
    def is_comment() -> bool:
        words, at = reader.words, reader.at
        is_text = at + 1 < len(words) and words[at + 1].kind is Kind.TEXT
        return reader.peek() == "COMMENT" and is_text and reader.peek(2) in {",", ")"}

    expression = reader.until(lambda: reader.peek() == "," or is_comment())
    comment = reader.string() if reader.take("COMMENT") else None
    if re.fullmatch(r"PROCTIME\s*\(\s*\)", expression, re.IGNORECASE):
        expression = "current_timestamp()"
    return ComputedColumn(name, expression, comment)


def _type(reader: WordReader, name: str) -> pa.DataType:
    start, angles = reader.place, 0

    def stops() -> bool:
        nonlocal angles
        if angles == 0 and reader.peek() in _AFTER_TYPE:
            return True
        angles += {"<": 1, ">": -1, ">>": -2}.get(reader.peek(), 0)
        return False

    first = reader.at
    written = reader.until(stops)
    try:
        return (
            parse_schema(f"c {_of_spark(reader.text, reader.words[first : reader.at])}")
            .field(0)
            .type
        )
    except InvalidOptionError as error:
        message = f"the column {name!r} has the unknown type {written}"
        expected = "a type of Spark, such as BIGINT, STRING, or ARRAY<STRING>"
        raise SqlError.at(reader.text, start, message, expected=expected) from error


def _of_spark(text: str, words: Sequence[Word]) -> str:
    """Return a type of Flink or Spark as one of Spark; names of nested fields stay as they are."""
    found: list[str] = []
    outer: list[str] = []
    kind, is_name, at = "", False, 0
    while at < len(words):
        word, written = words[at], text[words[at].start : words[at].end]
        at += 1
        if is_name:
            is_name = False
        elif word.kind is Kind.WORD:
            kind = written = _FLINK.get(word.upper, word.upper)
            has_size = [each.upper for each in words[at : at + 3 : 2]] == ["(", ")"]
            at += 3 if has_size and word.upper in _WITHOUT_SIZE else 0
        elif word.upper == "<":
            outer.append(kind)
        elif word.upper in {">", ">>"}:
            del outer[-len(word.value) :]
        is_name = word.upper in {"<", ","} and outer[-1:] == ["STRUCT"]
        found.append(written)
    return " ".join(found)


def _watermark(reader: WordReader) -> tuple[str, timedelta | None]:
    reader.expect("WATERMARK", "FOR")
    name = reader.identifier()
    reader.expect("AS")
    if reader.take("SOURCE_WATERMARK", "(", ")"):
        return name, None
    start = reader.place
    wrong = SqlError.at(
        reader.text,
        start,
        "the watermark cannot be computed",
        expected=f"{name} or {name} - INTERVAL '5' SECOND",
    )
    if reader.identifier().lower() != name.lower():
        raise wrong
    if reader.peek() in {",", ")"}:
        return name, timedelta(0)
    if not reader.take("-", "INTERVAL"):
        raise wrong
    number, unit = reader.string(), reader.identifier().upper().removesuffix("S")
    if unit not in _UNITS or not re.fullmatch(r"\d+(\.\d+)?", number):
        raise wrong
    if reader.peek() not in {",", ")"}:
        raise wrong
    try:
        return name, float(number) * _UNITS[unit]
    except OverflowError:
        raise wrong from None


def _not_enforced(reader: WordReader) -> None:
    """Go past NOT ENFORCED; keys are never enforced."""
    reader.take("NOT", "ENFORCED")
