# SPDX-License-Identifier: Apache-2.0
"""JSON lines from Arrow columns, without a Python object per record.

Every column becomes a column of JSON texts, and one kernel joins them to lines: the data buffer
of the joined column is the output. Timestamps are ISO 8601 in UTC (with `Z`; one without a time
zone has none), dates and times ISO 8601, decimals numbers with all their digits, binary base64,
maps objects, NaN and infinities the strings `NaN`, `Infinity` and `-Infinity`, as in Spark.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from connector_filesystem.sink.texts import (
    concat_texts,
    data_of,
    is_binary,
    is_plain,
    is_string,
    max_rows_of,
    plain_texts,
    replace_bytes,
    zone_sign,
)

__all__ = ["encode_json_lines", "unsupported_json_type"]

_ESCAPES: Final = (
    (0x5C, "\\\\"),  # the backslash first: the others bring new ones
    (0x22, '\\"'),
    *(
        (code, {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}.get(code, f"\\u{code:04x}"))
        for code in range(0x20)
    ),
)
_HEAD_ESCAPES: Final = _ESCAPES[:2]


def unsupported_json_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type itself, or the one within it, that has no JSON form; None if all have."""
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


def encode_json_lines(batch: pa.RecordBatch, *, write_nulls: bool = False) -> Iterator[pa.Buffer]:
    """Encode rows as JSON lines.

    Args:
        batch: The rows; all types pass `unsupported_json_type`.
        write_nulls: Whether fields that are null are written.

    Yields:
        Buffers that hold whole lines, in order.
    """
    step = max_rows_of(batch)
    for start in range(0, batch.num_rows, step):
        part = batch.slice(start, step)
        lines = _objects(part.schema.names, part.columns, part.num_rows, write_nulls, end="}\n")
        yield data_of(lines)


# A column of JSON texts, and what is to stand before and after each of them where it is not null.
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
    # What surrounds the values is fused with the names of the fields: the join costs by the piece.
    # Where fields may be left out, each brings its comma, and the first of them is cut off.
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
        return _base64(column), '"', '"'
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
    # One look for all control characters: there are hardly ever any.
    return replace_bytes(column, _ESCAPES if (data < 0x20).any() else _HEAD_ESCAPES)


def _base64(column: pa.Array) -> pa.Array:
    encode = base64.b64encode
    # Arrow has no kernel for this: the one place with an object for each value.
    values = [None if value is None else encode(value) for value in column.to_pylist()]
    return pa.array(values, pa.string())


def _structs(column: pa.Array, write_nulls: bool) -> pa.Array:
    kind = column.type
    names = [kind.field(at).name for at in range(kind.num_fields)]
    return _masked(_objects(names, column.flatten(), len(column), write_nulls), column)


def _lists(column: pa.Array, write_nulls: bool) -> pa.Array:
    lists = pc.cast(column, pa.large_list(column.type.value_type))
    elements = _closed(*_texts(pc.list_flatten(lists), write_nulls))
    return _joined(lists, elements, "[", "]", column)


def _maps(column: pa.Array, write_nulls: bool) -> pa.Array:
    kind = column.type
    lists = pc.cast(column, pa.list_(pa.struct([kind.key_field, kind.item_field])))
    entries = pc.list_flatten(lists)
    keys, before, after = _texts(entries.field(0), write_nulls)
    if not before:
        keys = pc.replace_substring(keys, '"', "")  # of NaN, which has its own quotes
    values = _closed(*_texts(entries.field(1), write_nulls))
    members = concat_texts(['"', keys, (after or '"') + ":", values], null="null")
    return _joined(lists, members, "{", "}", column)


def _joined(
    lists: pa.Array, texts: pa.Array, before: str, after: str, column: pa.Array
) -> pa.Array:
    """Join the texts of the elements of each list."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    texts = pc.fill_null(pc.cast(texts, pa.string()), "null")
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), texts), ",")
    return _masked(concat_texts([before, joined, after]), column)


def _masked(texts: pa.Array, column: pa.Array) -> pa.Array:
    if not column.null_count:
        return texts
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, texts.type))


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))
