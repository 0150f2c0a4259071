# SPDX-License-Identifier: Apache-2.0
"""Converts JSON objects to Arrow columns and back, without a Python object per record.

Arrow's parser reads the objects, which are first rewritten for it if necessary. To write, every
column becomes a column of JSON texts, and one kernel joins them to objects. Timestamps are ISO 8601
in UTC (with `Z`; one without a time zone has none), dates and times ISO 8601, decimals numbers with
all their digits, binary base64, maps objects, NaN and infinities the strings `NaN`, `Infinity` and
`-Infinity`, as in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from connectors_core.formats.text.base64 import base64_bytes, base64_texts
from connectors_core.formats.text.columns import converted, explained, one_batch
from connectors_core.formats.text.decimals import (
    LONG_DECIMAL,
    are_whole,
    check_digits,
    check_json_decimals,
    may_be_long,
)
from connectors_core.formats.text.json_rewriter import (
    has_floats,
    has_maps,
    has_moments,
    has_texts,
    last_fields,
    rewritten_json,
)
from connectors_core.formats.text.lenient import cast_leniently, has_lenient, lenient_type
from connectors_core.formats.text.texts import (
    concat_texts,
    data_of,
    dates_without_text,
    is_binary,
    is_plain,
    is_string,
    max_rows_of,
    plain_texts,
    replace_bytes,
    zone_sign,
)
from connectors_core.schema.nested_columns import map_entries

__all__ = [
    "JsonReader",
    "infer_json",
    "json_faults",
    "json_objects",
    "parse_json",
    "unreadable_json_type",
    "unsupported_json_type",
]

_ESCAPES: Final = (
    (0x5C, "\\\\"),  # the backslash first, since the other escapes add backslashes
    (0x22, '\\"'),
    *(
        (code, {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}.get(code, f"\\u{code:04x}"))
        for code in range(0x20)
    ),
)
_HEAD_ESCAPES: Final = _ESCAPES[:2]
_MOMENT: Final = pa.timestamp("us", tz="UTC")
_DATE: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
# Arrow's errors about a value that is not a string although one is expected.
_NO_TEXT: Final = ("changed from string to", "Number too big")
# Arrow's error about a field that an object has twice.
_TWICE: Final = "was specified twice"
# Reasons that name a column or are not about a value.
_NAMES_A_COLUMN: Final = re.compile("^the record |^column |^the message ")
# Arrow's error about a string although a number is expected.
_NO_NUMBER: Final = "changed from number to string"


def unsupported_json_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type, or a nested type, that has no JSON form; None if all have one."""
    types = pa.types
    if types.is_dictionary(kind):
        return unsupported_json_type(kind.value_type)
    if types.is_map(kind):
        if types.is_nested(kind.key_type) or is_binary(kind.key_type):
            return kind
        return unsupported_json_type(kind.key_type) or unsupported_json_type(kind.item_type)
    if _is_list(kind):
        return unsupported_json_type(kind.value_type)
    if types.is_struct(kind):
        found = (unsupported_json_type(kind.field(at).type) for at in range(kind.num_fields))
        return next((each for each in found if each is not None), None)
    return None if is_plain(kind) or is_binary(kind) else kind


def unreadable_json_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type, or a nested type, that cannot be read from JSON; None if all can."""
    types = pa.types
    if types.is_struct(kind):
        found = (unreadable_json_type(field.type) for field in kind)
        return next((each for each in found if each is not None), None)
    if types.is_list(kind) or types.is_large_list(kind):
        return unreadable_json_type(kind.value_type)
    if types.is_map(kind):
        return unreadable_json_type(kind.item_type) if types.is_string(kind.key_type) else kind
    readable = (is_plain(kind) and not types.is_time(kind)) or is_binary(kind)
    return None if readable else kind


_FEW_BYTES: Final = 64 << 10
_OPEN: Final = getattr(pyarrow.json, "open_json", None)  # some releases of Arrow lack it

# --- Reading -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JsonReader:
    """Reads consecutive JSON objects, with or without white space between them.

    Attributes:
        schema: Wanted fields, in order; `unreadable_json_type` must accept them.
        ignore_new: Whether to ignore fields that are not wanted; else such an object is
            malformed.
        rewrite: Whether to rewrite objects that Arrow's parser refuses, which takes several times
            as long. Maps are always rewritten.
        strict: Whether an object is malformed if a value has another spelling than that of its
            type, see `lenient`, or if it has a field twice. Otherwise, the last value counts.
    """

    schema: pa.Schema
    ignore_new: bool = False
    rewrite: bool = True
    strict: bool = False

    def read(self, data: bytes | pa.Buffer) -> pa.RecordBatch:
        """Read any number of objects; missing fields are null.

        To match objects with rows, make sure that no object spans two records, and compare their
        numbers.

        Raises:
            pa.ArrowInvalid: An object is malformed.
        """
        try:
            batch = one_batch(self._table(data))
        except pa.ArrowInvalid as error:
            if self.strict or not self.rewrite:
                raise
            return self._read_again(data, error)
        if self._has_text and np.frombuffer(data, np.uint8).max(initial=0) >= 0x80:
            batch.validate(full=True)  # Arrow silently reads invalid UTF-8
        return converted(batch, self.schema, _cast_values)

    def explain(self, data: bytes | pa.Buffer, error: Exception) -> str:
        """Explain why a single object is malformed: name the column, without its values.

        Args:
            data: The object.
            error: The error of `read`.
        """
        reason = explained(error)
        if _NAMES_A_COLUMN.search(reason):
            return reason
        for field in self.schema:
            try:
                replace(self, schema=pa.schema([field]), ignore_new=True).read(data)
            except pa.ArrowInvalid:
                return f"column {field.name}: {reason}"
        return reason

    def _table(self, data: bytes | pa.Buffer) -> pa.Table:
        if not self._has_maps:
            try:
                return parse_json(data, self._parsed, ignore_new=self.ignore_new)
            except pa.ArrowInvalid as error:
                may_be_text = any(said in str(error) for said in _NO_TEXT)
                may_be_nan = _NO_NUMBER in str(error)
                kinds = self.schema.types
                can_help = (may_be_text and has_texts(kinds)) or (may_be_nan and has_floats(kinds))
                if not (self.rewrite and can_help):
                    raise
        rewritten = rewritten_json(data, self.schema)
        return parse_json(rewritten, self._parsed, ignore_new=self.ignore_new)

    @cached_property
    def _can_be_lenient(self) -> bool:
        return any(map(has_lenient, self.schema.types))

    def _read_again(self, data: bytes | pa.Buffer, error: pa.ArrowInvalid) -> pa.RecordBatch:
        """Read objects that are malformed by this error, unless it is only one of `strict`."""
        if _TWICE not in str(error):
            if not self._can_be_lenient:
                raise error
            try:
                return self._read_leniently(data)
            except pa.ArrowInvalid as lenient_error:
                if _TWICE not in str(lenient_error):
                    raise error from None
        last = last_fields(data, self.schema)
        if last == data:  # such as a field without a value
            raise error
        return self.read(last)

    def _read_leniently(self, data: bytes | pa.Buffer) -> pa.RecordBatch:
        """Read objects whose values have other spellings; takes several times as long."""
        texts = pa.schema([each.with_type(lenient_type(each.type)) for each in self.schema])
        reader = replace(self, schema=texts, strict=True)
        return converted(reader.read(data), self.schema, cast_leniently)

    @cached_property
    def _has_maps(self) -> bool:
        return has_maps(self.schema.types)

    @cached_property
    def _parsed(self) -> pa.Schema:
        return pa.schema([pa.field(each.name, _read_type(each.type)) for each in self.schema])

    @cached_property
    def _has_text(self) -> bool:
        return any(is_string(each) or pa.types.is_nested(each) for each in self._parsed.types)


def parse_json(data: bytes | pa.Buffer, schema: pa.Schema, *, ignore_new: bool) -> pa.Table:
    """Parse consecutive JSON objects as these types, with Arrow's parser alone.

    Args:
        data: The objects.
        schema: Their fields, of types that Arrow parses; the order may differ.
        ignore_new: Whether to ignore other fields; else such an object is malformed.

    Raises:
        pa.ArrowInvalid: An object is malformed.
    """
    check_json_decimals(data, schema)
    source = pa.py_buffer(data) if isinstance(data, bytes) else data
    read_options = pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1)
    parse_options = pyarrow.json.ParseOptions(
        explicit_schema=schema,
        unexpected_field_behavior="ignore" if ignore_new else "error",
    )
    if _OPEN is not None and len(data) <= _FEW_BYTES and b"{" in source.to_pybytes():
        # `read_json` starts a thread in each call, and this one does not. It refuses white space.
        with _OPEN(source, read_options=read_options, parse_options=parse_options) as reader:
            table = reader.read_all()
    else:
        table = pyarrow.json.read_json(source, read_options, parse_options)
    check_digits(table, schema)
    return table


def infer_json(data: bytes) -> pa.Schema:
    """Infer the fields of objects; a time without a zone is UTC.

    Whole numbers of which one has more than 64 bits are decimals of 38 digits. Texts that are dates
    without a time are dates.

    Raises:
        pa.ArrowInvalid: It is not JSON.
    """
    found = pyarrow.json.read_json(
        pa.py_buffer(data),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
    ).schema
    if not (may_be_long(data) or has_moments(found.types)):
        return found
    # Arrow has inferred doubles and timestamps; the original texts show the exact type.
    texts = pa.schema([field.with_type(_spelled_type(field.type)) for field in found])
    columns = parse_json(rewritten_json(data, texts), texts, ignore_new=True)
    return pa.schema(
        [
            field.with_type(_exact_type(field.type, columns.column(field.name).combine_chunks()))
            for field in found
        ]
    )


def _spelled_type(kind: pa.DataType) -> pa.DataType:
    """Return a type with texts for doubles and timestamps."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _spelled_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_spelled_type(kind.value_type))
    return pa.string() if pa.types.is_float64(kind) or pa.types.is_timestamp(kind) else kind


def _exact_type(kind: pa.DataType, column: pa.Array) -> pa.DataType:
    if pa.types.is_struct(kind):
        values = zip(kind, column.flatten(), strict=True)
        return pa.struct([(field.name, _exact_type(field.type, value)) for field, value in values])
    if pa.types.is_list(kind):
        return pa.list_(_exact_type(kind.value_type, pc.list_flatten(column)))
    if pa.types.is_float64(kind):
        return LONG_DECIMAL if are_whole(column) else kind
    if pa.types.is_timestamp(kind):
        are_dates = pc.all(pc.match_substring_regex(column, _DATE), min_count=1).as_py()
        return pa.date32() if are_dates else _MOMENT
    return kind


def _read_type(kind: pa.DataType) -> pa.DataType:
    """Return the type to read if Arrow's JSON reader cannot convert text to the wanted type."""
    if pa.types.is_date(kind) or is_binary(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _read_type(each.type)) for each in kind])
    if pa.types.is_map(kind):
        value = _read_type(kind.item_type)
        return pa.list_(pa.struct([("key", pa.string()), ("value", value)]))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_read_type(kind.value_type))
    return kind


def _cast_values(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return (base64_bytes(column) if is_binary(kind) else column).cast(kind)


# --- Writing -------------------------------------------------------------------------------------


def json_faults(batch: pa.RecordBatch) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """Yield why rows have no JSON form, and the rows."""
    for name, rows in dates_without_text(batch):
        yield f"the column {name!r} contains a time outside the years 1 to 9999", rows


def json_objects(
    batch: pa.RecordBatch, *, write_nulls: bool = False, line_breaks: bool = False
) -> Iterator[pa.Array]:
    """Write rows as JSON objects.

    Args:
        batch: The rows, without `json_faults`; all types pass `unsupported_json_type`.
        write_nulls: Whether fields that are null are written.
        line_breaks: Whether a line break follows each object.

    Yields:
        Columns of texts, in order, each small enough for one Arrow array.
    """
    step = max_rows_of(batch)
    end = "}\n" if line_breaks else "}"
    for start in range(0, batch.num_rows, step):
        part = batch.slice(start, step)
        yield _objects(part.schema.names, part.columns, part.num_rows, write_nulls, end=end)


# A column of JSON texts, and the text before and after each non-null value.
_Texts = tuple[pa.Array, str, str]


def _objects(
    names: Sequence[str],
    columns: Sequence[pa.Array],
    rows: int,
    write_nulls: bool,
    *,
    end: str = "}",
) -> pa.Array:
    """Join columns to one JSON object for each row."""
    if not columns:
        return pa.array(["{" + end] * rows, pa.string())
    # The text around values is fused with the field names, since each piece costs time in the join.
    # If fields may be omitted, each has a leading comma, and the first comma is cut off.
    cut = not write_nulls and bool(columns[0].null_count)
    parts: list[pa.Array | str] = []
    literal = "" if cut else "{"
    for number, (name, column) in enumerate(zip(names, columns, strict=True)):
        texts, before, after = _texts(column, write_nulls)
        head = ("," if number or cut else "") + orjson.dumps(name).decode() + ":"
        if not texts.null_count:
            parts += [literal + head + before, texts]
            literal = after
        elif write_nulls:
            parts += [literal + head, _closed(texts, before, after)]
            literal = ""
        else:
            parts += [literal, concat_texts([head + before, texts, after])]
            literal = ""
    if not cut:
        return concat_texts([*parts, literal + end], null="null" if write_nulls else "")
    members = concat_texts([*parts, literal], null="")
    return concat_texts(["{", pc.binary_replace_slice(members, 0, 1, ""), end])


def _texts(column: pa.Array, write_nulls: bool) -> _Texts:
    kind = column.type
    types = pa.types
    if types.is_dictionary(kind):
        return _texts(column.dictionary_decode(), write_nulls)
    if isinstance(kind, pa.BaseExtensionType):
        return _texts(column.storage, write_nulls)
    if types.is_map(kind):
        return _maps(column, write_nulls), "", ""
    if _is_list(kind):
        return _lists(column, write_nulls), "", ""
    if types.is_struct(kind):
        return _structs(column, write_nulls), "", ""
    if is_string(kind):
        return _escaped(column), '"', '"'
    if is_binary(kind):
        return base64_texts(column), '"', '"'
    if types.is_floating(kind):
        texts = plain_texts(column, nan='"NaN"', infinity='"Infinity"', minus='"-Infinity"')
        return texts, "", ""
    if types.is_temporal(kind):
        return plain_texts(column), '"', zone_sign(kind) + '"'
    return plain_texts(column), "", ""


def _closed(texts: pa.Array, before: str, after: str) -> pa.Array:
    return concat_texts([before, texts, after]) if before or after else texts


def _escaped(column: pa.Array) -> pa.Array:
    if pa.types.is_string_view(column.type):
        column = pc.cast(column, pa.large_string())
    data = np.frombuffer(data_of(column), np.uint8)
    # One search for all control characters, which are very rare.
    return replace_bytes(column, _ESCAPES if (data < 0x20).any() else _HEAD_ESCAPES)


def _structs(column: pa.Array, write_nulls: bool) -> pa.Array:
    kind = column.type
    names = [kind.field(at).name for at in range(kind.num_fields)]
    return _masked(_objects(names, column.flatten(), len(column), write_nulls), column)


def _lists(column: pa.Array, write_nulls: bool) -> pa.Array:
    elements = _closed(*_texts(pc.list_flatten(column), write_nulls))
    return _joined(column, elements, "[", "]")


def _maps(column: pa.Array, write_nulls: bool) -> pa.Array:
    lists = map_entries(column)
    entries = pc.list_flatten(lists)
    keys, before, after = _texts(entries.field(0), write_nulls)
    if not before:
        keys = pc.replace_substring(keys, '"', "")  # NaN already has quotes
    values = _closed(*_texts(entries.field(1), write_nulls))
    members = concat_texts(['"', keys, (after or '"') + ":", values], null="null")
    return _joined(lists, members, "{", "}")


def _joined(lists: pa.Array, texts: pa.Array, before: str, after: str) -> pa.Array:
    """Join the texts of the elements of each list."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    texts = pc.fill_null(pc.cast(texts, pa.string()), "null")
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), texts), ",")
    return _masked(concat_texts([before, joined, after]), lists)


def _masked(texts: pa.Array, column: pa.Array) -> pa.Array:
    if not column.null_count:
        return texts
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, texts.type))


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))
