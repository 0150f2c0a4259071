# SPDX-License-Identifier: Apache-2.0
"""Schemas as text, in the words of Spark SQL."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from connectors_core.errors import InvalidOptionError
from connectors_core.options import OptionType

__all__ = ["SCHEMA", "parse_schema"]

_TOKEN: Final = re.compile(r"\s*(`[^`]*`|[A-Za-z_][\w]*|\d+|[(),:<>])")
_TYPES: Final = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ltz": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def parse_schema(text: str) -> pa.Schema:
    """Read a schema such as `id BIGINT NOT NULL, price DECIMAL(10, 2), tags ARRAY<STRING>`.

    Raises:
        InvalidOptionError: It cannot be understood.
    """
    return pa.schema(_Parser(text).fields(""))


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at, stripped = 0, text.rstrip()
        while at < len(stripped):
            match = _TOKEN.match(stripped, at)
            if match is None:
                raise self._wrong(f"{stripped[at:][:20]!r}")
            self._tokens.append(match[1])
            at = match.end()

    def fields(self, close: str) -> list[pa.Field]:
        fields = [self._field()]
        while self._peek() == ",":
            self._take()
            fields.append(self._field())
        if self._peek() != close:
            raise self._wrong(repr(self._peek()))
        return fields

    def _field(self) -> pa.Field:
        name = self._take()
        if not re.match(r"[`\w]", name):
            raise self._wrong(repr(name))
        if self._peek() == ":":
            self._take()
        kind = self._type()
        nullable = True
        if self._peek().lower() == "not":
            self._take()
            self._expect("null")
            nullable = False
        return pa.field(name.strip("`"), kind, nullable)

    def _type(self) -> pa.DataType:
        word = self._take().lower()
        if word in ("decimal", "numeric", "dec"):
            precision, scale = 10, 0
            if self._peek() == "(":
                self._take()
                precision = self._number()
                if self._peek() == ",":
                    self._take()
                    scale = self._number()
                self._expect(")")
            return pa.decimal128(precision, scale)
        if word == "array":
            self._expect("<")
            item = self._type()
            self._expect(">")
            return pa.list_(item)
        if word == "map":
            self._expect("<")
            key = self._type()
            self._expect(",")
            value = self._type()
            self._expect(">")
            return pa.map_(key, value)
        if word == "struct":
            self._expect("<")
            fields = self.fields(">")
            self._expect(">")
            return pa.struct(fields)
        if word not in _TYPES:
            raise self._wrong(f"the type {word!r}")
        return _TYPES[word]

    def _number(self) -> int:
        token = self._take()
        if not token.isdigit():
            raise self._wrong(repr(token))
        return int(token)

    def _peek(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def _take(self) -> str:
        if not self._tokens:
            raise self._wrong("its end")
        return self._tokens.pop(0)

    def _expect(self, token: str) -> None:
        found = self._take()
        if found.lower() != token:
            raise self._wrong(repr(found))

    def _wrong(self, found: str) -> InvalidOptionError:
        return InvalidOptionError(
            f"the schema {self._text!r} cannot be read",
            expected="columns such as 'id BIGINT NOT NULL, price DECIMAL(10, 2)'",
            found=found,
            option="schema",
        )


def _as_schema(value: object) -> pa.Schema:
    if isinstance(value, pa.Schema):
        return value
    if isinstance(value, str):
        try:
            return parse_schema(value)
        except InvalidOptionError as exc:
            raise ValueError(f"{exc.expected}, not {exc.found}") from exc
    raise ValueError("a schema, or a text such as 'id BIGINT, name STRING'")


SCHEMA: Final[OptionType[pa.Schema]] = OptionType(
    "schema",
    _as_schema,
    lambda schema: ", ".join(f"{each.name} {each.type}" for each in schema),
)
"""Columns; `id BIGINT, name STRING` becomes a schema."""
