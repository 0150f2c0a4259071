# SPDX-License-Identifier: Apache-2.0
"""Values of documents, read as Elasticsearch itself understands them.

What it takes is more than what JSON says: numbers in quotes, a list of one for the one, moments as
milliseconds. What it would not take is a ValueError that says what is wrong, without the value.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final

import orjson
import pyarrow as pa

from connectors_core.errors import UnsupportedError

__all__ = ["MOST_IN_FLOAT", "converter_of", "moment_of", "value_in"]

MOST_IN_FLOAT: Final = 3.4028234663852886e38
_MOST_DIGITS: Final = Context(prec=76)  # of a decimal in Arrow
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ARRAY_HINT: Final = "it holds several values; name the field in array-fields"


def converter_of(field: pa.Field, formatted: frozenset[str], above: str) -> Callable[[Any], Any]:
    """What reads the values of a column; raises a ValueError that says what is wrong.

    Args:
        field: The column, or a field of its struct.
        formatted: Paths of moments that the server writes elsewhere: they are null here.
        above: Path of what the field is in, with a dot at its end.

    Raises:
        UnsupportedError: JSON has no counterpart of the column's type.
    """
    kind, path = field.type, f"{above}{field.name}"
    if path in formatted:
        return lambda _: None
    if pa.types.is_struct(kind):
        inside = [(each, converter_of(each, formatted, f"{path}.")) for each in kind.fields]
        return _required(lambda value: _struct(_single(value), inside), field)
    if pa.types.is_list(kind):
        inner = converter_of(kind.value_field.with_name(field.name), formatted, above)
        return _required(lambda value: _several(value, inner), field)
    if pa.types.is_string(kind) and field.metadata and b"elasticsearch.type" in field.metadata:
        return _required(_text, field)
    return _required(_scalar_converter(kind), field)


def _required(convert: Callable[[Any], Any], field: pa.Field) -> Callable[[Any], Any]:
    if field.nullable:
        return convert

    def converted(value: Any) -> Any:
        found = convert(value)
        if found is None:
            raise ValueError("it is missing, and must be there")
        return found

    return converted


def _scalar_converter(kind: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_integer(kind):
        least, most = _range(kind)
        return lambda value: _integer(_single(value), least, most)
    if pa.types.is_floating(kind):
        largest = MOST_IN_FLOAT if pa.types.is_float32(kind) else math.inf
        return lambda value: _number(_single(value), largest)
    if pa.types.is_decimal(kind):
        return lambda value: _decimal(_single(value), kind)
    if pa.types.is_boolean(kind):
        return lambda value: _boolean(_single(value))
    if pa.types.is_string(kind):
        return lambda value: _text(_single(value))
    if pa.types.is_binary(kind):
        return lambda value: _bytes(_single(value))
    if pa.types.is_timestamp(kind):
        zone = UTC if kind.tz else None
        return lambda value: moment_of(value, zone)
    if pa.types.is_date32(kind):
        return lambda value: _day(_single(value))
    raise UnsupportedError(
        f"documents have no values of the type {kind}",
        expected="booleans, numbers, text, bytes, moments, dates, structs and lists of these",
        found=str(kind),
    )


def _single(value: Any) -> Any:
    """One value: a list of one is the same to Elasticsearch, an empty one is none."""
    if isinstance(value, list):
        if len(value) > 1:
            raise ValueError(_ARRAY_HINT)
        return _single(value[0]) if value else None
    return value


def _several(value: Any, inner: Callable[[Any], Any]) -> list[Any] | None:
    if value is None:
        return None
    return [inner(each) for each in (value if isinstance(value, list) else [value])]


def _struct(
    value: Any, inner: Sequence[tuple[pa.Field, Callable[[Any], Any]]]
) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    return {field.name: convert(value_in(value, field)) for field, convert in inner}


def value_in(document: Mapping[str, Any], field: pa.Field) -> Any:
    """What a document has in a field, whose path may be written with dots: `{"maker.name": ""}`.

    Args:
        document: The document, or an object in it.
        field: The field.
    """
    found = document.get(field.name)
    kind = field.type.value_type if pa.types.is_list(field.type) else field.type
    if not pa.types.is_struct(kind):
        return found
    above = f"{field.name}."
    dotted = {
        name.removeprefix(above): value
        for name, value in document.items()
        if name.startswith(above)
    }
    if not dotted:
        return found
    if found is None or isinstance(found, dict):
        return {**(found or {}), **dotted}
    return [*found, dotted] if isinstance(found, list) else found


def _integer(value: Any, least: int, most: int) -> int | None:
    if value is None:
        return None
    found = value if type(value) is int else _exact(value)
    if not least <= found <= most:
        raise ValueError(f"it is not between {least} and {most}")
    return int(found)  # not before: of 1e999999999 it would be as many digits


def _exact(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("it is not a number")
    try:
        found = Decimal(str(value))
    except InvalidOperation:
        raise ValueError("it is not a number") from None
    if not found.is_finite():
        raise ValueError("it is not a number")
    return found


def _range(kind: pa.DataType) -> tuple[int, int]:
    bits = kind.bit_width
    if pa.types.is_unsigned_integer(kind):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _number(value: Any, most: float) -> float | None:
    if value is None:
        return None
    found = float(_exact(value))
    if abs(found) > most or not math.isfinite(found):
        raise ValueError("it is too large")
    return found


def _decimal(value: Any, kind: pa.Decimal128Type) -> Decimal | None:
    if value is None:
        return None
    found = _exact(value)
    if abs(found) >= 10 ** (kind.precision - kind.scale):
        raise ValueError(f"it has more than {kind.precision} digits")
    scaled = found.quantize(Decimal(1).scaleb(-kind.scale), context=_MOST_DIGITS)
    if found != scaled:
        raise ValueError(f"it has more than {kind.scale} decimal places")
    return scaled


def _boolean(value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    if value in ("true", "false", ""):
        return bool(value == "true")
    raise ValueError("it is neither true nor false")


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    try:
        return base64.b64decode(value)
    except (TypeError, binascii.Error) as error:
        raise ValueError("it is not base64") from error


def moment_of(value: Any, zone: Any = UTC) -> datetime | None:
    """Read a moment: text of ISO 8601, cut off anywhere behind the year, or milliseconds.

    Args:
        value: What stands in the document.
        zone: UTC, or None for a moment without a zone.

    Raises:
        ValueError: It is none; says why.
    """
    value = _single(value)
    if value is None:
        return None
    if isinstance(value, str) and not (value.lstrip("-").isdigit() and len(value) != 4):
        padded = value + "-01-01"[len(value) - 4 :] if len(value) in {4, 7} else value
        try:
            found = datetime.fromisoformat(padded)
        except ValueError:
            raise ValueError("it is not a moment of ISO 8601") from None
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    elif isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("it is not a moment")
    else:
        found = _EPOCH + timedelta(milliseconds=float(value))
    return found.replace(tzinfo=zone)


def _day(value: Any) -> date | None:
    found = moment_of(value)
    return None if found is None else found.date()
