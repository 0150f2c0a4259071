# SPDX-License-Identifier: Apache-2.0
"""Values in another spelling than Arrow's parsers accept, as Spark and Flink read them.

A fraction of a second is cut to the unit of its column, a decimal is rounded half up to its scale,
and a number or a boolean may be a text. The parsers read such columns as texts, and these are
converted here, only after the usual way has failed.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.formats.text.decimals import check_decimal_texts
from connectors_core.schema.misfits import MisfitError

__all__ = ["cast_leniently", "has_lenient", "lenient_type"]

_WIDEST: Final = pa.decimal256(76, 38)
_ZONE: Final = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_NUMBER: Final = r"^([+-]?[0-9.]+([eE][+-]?[0-9]+)?|NaN|-?Infinity)$"
_BOOLEANS: Final = pa.array(["true", "false", None])
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def _is_lenient(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_timestamp(kind)
        or types.is_decimal128(kind)
        or types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_floating(kind)
    )


def has_lenient(kind: pa.DataType) -> bool:
    """Return whether a type has values with other spellings, at any depth."""
    return not lenient_type(kind).equals(kind)


def lenient_type(kind: pa.DataType) -> pa.DataType:
    """Return a type with texts for values with other spellings, at any depth."""
    types = pa.types
    if _is_lenient(kind):
        return pa.string()
    if types.is_struct(kind):
        return pa.struct([each.with_type(lenient_type(each.type)) for each in kind])
    if types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(lenient_type(kind.item_type)))
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(lenient_type(kind.value_type)))
    if types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(lenient_type(kind.value_type)))
    return kind


def cast_leniently(column: pa.Array, kind: pa.DataType, *, needs_zone: bool = False) -> pa.Array:
    """Convert a column of texts.

    Args:
        column: The texts.
        kind: The type of their values.
        needs_zone: Whether a time without a zone is refused if its type has one, instead of UTC.

    Raises:
        pa.ArrowInvalid: A text is no such value.
    """
    if not (pa.types.is_string(column.type) and _is_lenient(kind)):
        return column.cast(kind)
    if pa.types.is_timestamp(kind):
        digits = _DIGITS[kind.unit]
        kept = rf"([.,][0-9]{{{digits}}})[0-9]+" if digits else r"([.,][0-9]+)"
        cut = pc.replace_substring_regex(column, kept, r"\1" if digits else "")
        if kind.tz is not None and not needs_zone:
            is_zoned = pc.match_substring_regex(cut, _ZONE)
            cut = pc.if_else(is_zoned, cut, pc.binary_join_element_wise(cut, "Z", ""))
        return cut.cast(kind)
    if pa.types.is_boolean(kind):
        texts = pc.utf8_lower(column)
        if not pc.all(pc.is_in(texts, value_set=_BOOLEANS), min_count=0).as_py():
            raise MisfitError("a text is neither true nor false")
        return pc.equal(texts, "true")
    if pa.types.is_decimal(kind):
        check_decimal_texts(column, kind)
        wide = column.cast(_WIDEST)
        return pc.round(wide, kind.scale, round_mode="half_towards_infinity").cast(kind)
    if pa.types.is_floating(kind):
        are_numbers = pc.fill_null(pc.match_substring_regex(column, _NUMBER), True)
        if not pc.all(are_numbers, min_count=0).as_py():
            raise MisfitError("a text is no number")
    return column.cast(kind)
