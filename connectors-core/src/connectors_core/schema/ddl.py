# SPDX-License-Identifier: Apache-2.0
"""Schemas as text in Spark SQL's DDL. sqlglot parses it, so no JVM is needed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard

import pyarrow as pa

from connectors_core.errors import InvalidOptionError
from connectors_core.options import OptionType

if TYPE_CHECKING:
    from pyspark.sql.types import StructType
    from sqlglot import Token, exp

__all__ = ["SCHEMA", "SchemaLike", "parse_schema", "quoted", "type_text"]

SchemaLike: TypeAlias = "pa.Schema | StructType | str"
"""The values of schema keywords: Arrow's schema, a `StructType` of pyspark, or DDL as text."""

# Keyed by sqlglot's type names.
_TYPES: Final[Mapping[str, pa.DataType]] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMPTZ": pa.timestamp("us", tz="UTC"),
    "TIMESTAMPLTZ": pa.timestamp("us", tz="UTC"),
    "TIMESTAMPNTZ": pa.timestamp("us"),
}
# sqlglot knows the type names of many systems; these are Spark's.
_WORDS: Final = frozenset(
    {
        *("BOOLEAN", "TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG"),
        *("FLOAT", "REAL", "DOUBLE", "DECIMAL", "DEC", "NUMERIC"),
        *("STRING", "CHAR", "CHARACTER", "VARCHAR", "BINARY"),
        *("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "INTERVAL", "DAY", "TO", "SECOND"),
        *("ARRAY", "MAP", "STRUCT", "NOT", "NULL", "COMMENT"),
    }
)
_WORD: Final = re.compile(r"\w*[A-Z_]\w*", re.ASCII)
_MAX_DIGITS: Final = 38
_CONSTRAINTS: Final = ("NotNullColumnConstraint", "CommentColumnConstraint")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_TEXTS: Final[Mapping[pa.DataType, str]] = {
    **{kind: name.lower() for name, kind in _TYPES.items()},
    pa.string(): "string",
    pa.large_string(): "string",
    pa.large_binary(): "binary",
    pa.duration("us"): "interval day to second",
    pa.null(): "void",
}

_NAME: Final = "the name of a column"
_TYPE: Final = "a Spark SQL type that Arrow supports, such as BIGINT, STRING or ARRAY<STRING>"
_AFTER_TYPE: Final = "NOT NULL, COMMENT, a comma or the end of the columns"


def parse_schema(text: str) -> pa.Schema:
    """Parse a schema such as `id BIGINT NOT NULL, price DECIMAL(10, 2), tags ARRAY<STRING>`.

    It accepts every schema that all supported Spark lines accept, except types that Arrow lacks:
    `VOID`, `VARIANT`, and intervals other than `INTERVAL DAY TO SECOND`. `CHAR` and `VARCHAR`
    become strings without a length check. Comments are dropped.

    Raises:
        InvalidOptionError: The text is not a schema, or it names a column twice.
    """
    from sqlglot import exp
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import ParseError, TokenError

    spark = Spark()
    try:
        tokens = list(_with_marked_names(text, spark.tokenize(text)))
    except TokenError as error:
        raise _wrong(text, len(text), "the end of the quoted text or comment") from error
    try:
        row = spark.parser().parse_into(
            exp.DataType, [*spark.tokenize("STRUCT<"), *tokens, *spark.tokenize(">")]
        )[0]
        assert row is not None
    except ParseError as error:
        starts = {(token.line, token.col): token.start for token in tokens}
        place = (error.errors[0]["line"], error.errors[0]["col"])
        raise _wrong(text, starts.get(place, len(text)), _TYPE) from error
    written = spark.tokenize(spark.generate(row, identify=True, comments=False))
    _check_that_all_was_read(text, tokens, written[2:-1])
    return pa.schema(_fields(text, row.expressions))


def _with_marked_names(text: str, tokens: Iterable[Token]) -> Iterator[Token]:
    """Quote the names, so that a column can have the name `date` or `from`, and drop the colons.

    Raises:
        InvalidOptionError: Spark does not know a word, or a name is missing.
    """
    from sqlglot import Token, TokenType

    inside, before = ["STRUCT"], ","
    for token in tokens:
        word = text[token.start : token.end + 1].upper()
        is_word = _WORD.fullmatch(word) is not None
        if before in {",", "<"} and inside[-1] == "STRUCT":
            if not (is_word or word.startswith("`")) or token.token_type is TokenType.NUMBER:
                raise _wrong(text, token.start, _NAME)
            place = (token.line, token.col, token.start, token.end)
            yield Token(TokenType.IDENTIFIER, token.text, *place)
            before = "name"
            continue
        if word == ":" and before == "name":
            before = ":"
            continue
        is_type_next = before in {"name", ":", ",", "<"} and inside[-1] != "("
        if (is_type_next and not is_word) or (
            (is_word or word[:1].isalpha()) and word not in _WORDS
        ):
            raise _wrong(text, token.start, _TYPE if is_type_next else _AFTER_TYPE)
        if word in {"<", "("}:
            inside.append(before if word == "<" else word)
        elif word in {">", ")"}:
            inside.pop()
        if not inside:
            raise _wrong(text, token.start, _AFTER_TYPE)
        yield token
        before = word
    if before in {"name", ":", ",", "<"}:
        raise _wrong(text, len(text), _TYPE if before in {"name", ":"} else _NAME)
    if len(inside) > 1:
        raise _wrong(text, len(text), "')'" if inside[-1] == "(" else "'>'")


def _check_that_all_was_read(text: str, given: Sequence[Token], written: Iterable[Token]) -> None:
    """Compare a text with sqlglot's output for it, because sqlglot accepts more than Spark.

    Raises:
        InvalidOptionError: A part of the text does not belong to a schema.
    """
    expected = [token for token in written if token.text != ":"]
    for found, wanted in zip_longest(given, expected):
        if found is None or wanted is None or _meaning(found) != _meaning(wanted):
            at = len(text) if found is None else found.start
            raise _wrong(text, at, _AFTER_TYPE if wanted is None else repr(wanted.text))


def _meaning(token: Token) -> tuple[str, str]:
    kind = token.token_type.name
    return kind, token.text if kind in {"IDENTIFIER", "NUMBER", "STRING"} else ""


def _fields(text: str, columns: Iterable[exp.Expr]) -> list[pa.Field]:
    fields: dict[str, pa.Field] = {}
    for column in columns:
        name, at = column.name, column.this.meta["start"]
        if name.lower() in fields:
            raise _wrong(text, at, f"a name other than {name!r}, which another column has")
        constraints = [type(each.kind).__name__ for each in column.args.get("constraints") or ()]
        if constraints != [each for each in _CONSTRAINTS if each in constraints]:
            raise _wrong(text, at, f"at most NOT NULL and then COMMENT for {name!r}")
        kind = _type(text, at, column.args["kind"])
        fields[name.lower()] = pa.field(name, kind, _CONSTRAINTS[0] not in constraints)
    return list(fields.values())


def _type(text: str, at: int, kind: exp.DataType) -> pa.DataType:
    name, parts = getattr(kind.this, "name", ""), kind.expressions
    sizes = [int(part.name) for part in parts if part.name.isdigit()]
    match name, len(parts):
        case "ARRAY", 1:
            return pa.list_(_type(text, at, parts[0]))
        case "MAP", 2:
            return pa.map_(_type(text, at, parts[0]), _type(text, at, parts[1]))
        case "STRUCT", _ if parts:
            return pa.struct(_fields(text, parts))
        case "CHAR" | "VARCHAR", 1 if sizes:
            return pa.string()
        case "DECIMAL", 0 | 1 | 2 as number if len(sizes) == number:
            precision, scale = sizes[0] if sizes else 10, sizes[1] if number > 1 else 0
            if scale <= precision and 0 < precision <= _MAX_DIGITS:
                return pa.decimal128(precision, scale)
        case _, 0 if name in _TYPES:
            return _TYPES[name]
        case _, 0 if kind.sql("spark") == "INTERVAL DAY TO SECOND":
            return pa.duration("us")
    raise _wrong(text, at, _TYPE, found=f"{kind.sql('spark')} for the column")


def _wrong(text: str, at: int, expected: str, found: str = "") -> InvalidOptionError:
    found = found or (repr(text[at:][:20]) if text[at:].strip() else "the end")
    return InvalidOptionError(
        f"the schema {text!r} cannot be read",
        expected=expected,
        found=f"{found} at character {at + 1}",
        option="schema",
    )


# --- Types as text --------------------------------------------------------------------------------


def type_text(kind: pa.DataType, *, nullability: bool = False) -> str:
    """Return Spark's text of a type, such as `struct<a:bigint>`.

    Args:
        kind: A type that Spark has.
        nullability: Whether fields of structs that cannot be null are marked, as in DDL.
    """
    types = pa.types
    if types.is_dictionary(kind):
        return type_text(kind.value_type, nullability=nullability)
    if types.is_map(kind):
        sides = (
            type_text(each, nullability=nullability) for each in (kind.key_type, kind.item_type)
        )
        return f"map<{','.join(sides)}>"
    if types.is_struct(kind):
        return f"struct<{','.join(_field_text(each, nullability) for each in kind)}>"
    if types.is_nested(kind):
        return f"array<{type_text(kind.value_type, nullability=nullability)}>"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    return _TEXTS.get(kind, str(kind))


def _field_text(field: pa.Field, nullability: bool) -> str:
    required = " NOT NULL" if nullability and not field.nullable else ""
    name = field.name if _PLAIN_NAME.fullmatch(field.name) else quoted(field.name)
    return f"{name}:{type_text(field.type, nullability=nullability)}{required}"


def quoted(name: str) -> str:
    """Return a name in backticks."""
    return f"`{name.replace('`', '``')}`"


# --- The type of options --------------------------------------------------------------------------


def _as_schema(value: object) -> pa.Schema:
    if isinstance(value, pa.Schema):
        return value
    try:
        if isinstance(value, str):
            return parse_schema(value)
        if _is_struct_type(value):
            return parse_schema(_columns(value.jsonValue()))
    except InvalidOptionError as exc:
        raise ValueError(f"{exc.expected}, not {exc.found}") from exc
    raise ValueError("a schema, or a text such as 'id BIGINT, name STRING'")


def _is_struct_type(value: object) -> TypeGuard[StructType]:
    """Whether a value is a `StructType` of pyspark, without importing pyspark."""
    types = sys.modules.get("pyspark.sql.types")
    return types is not None and isinstance(value, types.StructType)


def _columns(struct: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{quoted(field['name'])} {_type_text(field['type'])}"
        + ("" if field["nullable"] else " NOT NULL")
        for field in struct["fields"]
    )


def _type_text(kind: Any) -> str:
    """Return the DDL of a type in pyspark's JSON form."""
    if isinstance(kind, str):
        return kind
    match kind["type"]:
        case "array":
            return f"ARRAY<{_type_text(kind['elementType'])}>"
        case "map":
            return f"MAP<{_type_text(kind['keyType'])}, {_type_text(kind['valueType'])}>"
        case "struct":
            return f"STRUCT<{_columns(kind)}>"
    return str(kind["type"])


SCHEMA: Final[OptionType[pa.Schema]] = OptionType(
    "schema",
    _as_schema,
    lambda schema: ", ".join(f"{each.name} {each.type}" for each in schema),
)
"""Columns; `id BIGINT, name STRING` or a pyspark `StructType` becomes a schema."""
