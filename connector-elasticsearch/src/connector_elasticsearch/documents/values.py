# SPDX-License-Identifier: Apache-2.0
"""Decodes values of documents with Elasticsearch's own rules.

Elasticsearch accepts more than the JSON type suggests: quoted numbers, a list of one as a single
value, and timestamps in milliseconds. A value that it would not accept raises a ValueError with the
reason, but without the value.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa

from connector_elasticsearch.documents.parser import Number, json_text
from connectors_core.errors import UnsupportedError

__all__ = ["MOST_IN_FLOAT", "Moments", "converter_of", "flat", "is_whole", "moment_of", "value_in"]

MOST_IN_FLOAT: Final = 3.4028234663852886e38
_MOST_DIGITS: Final = Context(prec=76)  # the precision of Arrow's decimals
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ARRAY_HINT: Final = "it contains several values; name the field in array-fields"
_MILLISECONDS: Final = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d{1,3})?")
_YEAR: Final = re.compile(r"\d{4}")


def converter_of(
    field: pa.Field, moments: Mapping[str, Moments], above: str = ""
) -> Callable[[Any], Any]:
    """Return a function that decodes the values of a column.

    It raises a ValueError with the reason.

    Args:
        field: The column, or a field of its struct.
        moments: By path, the timestamps that the server writes itself.
        above: The path of the field's parent, ending in a dot.

    Raises:
        UnsupportedError: The column's type has no JSON counterpart.
    """
    kind, path = field.type, f"{above}{field.name}"
    if pa.types.is_list(kind):
        inner = converter_of(kind.value_field.with_name(field.name), moments, above)
        return _required(lambda value: _several(value, inner), field)
    if pa.types.is_struct(kind):
        inside = [(each, converter_of(each, moments, f"{path}.")) for each in kind.fields]
        return _required(lambda value: _struct(_single(value), inside), field)
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        inner = converter_of(kind.item_field.with_name(field.name), moments, above)
        return _required(lambda value: _entries(_single(value), inner), field)
    if path in moments:
        return _required(_server_converter(kind, moments[path]), field)
    if pa.types.is_string(kind) and field.metadata and b"elasticsearch.type" in field.metadata:
        return _required(_text, field)
    return _required(_scalar_converter(kind), field)


class Moments:
    """The timestamps of one field of one document, as the server wrote them, in order.

    Args:
        is_several: Whether the field or a parent object can occur several times. The document then
            determines the nulls, which the server omits.
    """

    def __init__(self, *, is_several: bool) -> None:
        self._is_several = is_several
        self._left: list[Any] = []

    def begin(self, written: Iterable[Any]) -> None:
        """Take the timestamps that the server wrote for a document."""
        self._left = list(written)
        self._left.reverse()

    def next(self, value: Any) -> datetime | None:
        """Return the timestamp of the next value in the document.

        Raises:
            ValueError: The server wrote none, or the timestamp does not fit a column.
        """
        if not self._is_several:
            found = self._left or [None]
            self._left = []
            return moment_of(_single(found))
        if value is None:
            return None
        if not self._left:
            raise ValueError("the server cannot parse all of its timestamps")
        return moment_of(self._left.pop())

    def end(self) -> None:
        """Check that every timestamp was used.

        Raises:
            ValueError: A timestamp was not used.
        """
        if self._is_several and self._left:
            raise ValueError("the server found more timestamps than the field holds")


def _server_converter(kind: pa.DataType, moments: Moments) -> Callable[[Any], Any]:
    if pa.types.is_date32(kind):
        return lambda value: _date_of(moments.next(_single(value)))
    zone = UTC if kind.tz else None
    return lambda value: _in_zone(moments.next(_single(value)), zone)


def _required(convert: Callable[[Any], Any], field: pa.Field) -> Callable[[Any], Any]:
    if field.nullable:
        return convert

    def converted(value: Any) -> Any:
        found = convert(value)
        if found is None:
            raise ValueError("it is missing but required")
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
        return lambda value: _in_zone(moment_of(_single(value)), zone)
    if pa.types.is_date32(kind):
        return lambda value: _date_of(moment_of(_single(value)))
    raise UnsupportedError(
        f"documents cannot contain values of the type {kind}",
        expected="booleans, numbers, text, bytes, timestamps, dates, structs, lists of these, and "
        "maps from text to these",
        found=str(kind),
    )


def flat(value: Any) -> Iterator[Any]:
    """Yield the values of a field. To Elasticsearch, nested lists are the same as one list."""
    if isinstance(value, list):
        for each in value:
            yield from flat(each)
    else:
        yield value


def _single(value: Any) -> Any:
    """Return one value.

    To Elasticsearch, a list of one is the value, and null is a missing value.
    """
    if not isinstance(value, list):
        return value
    found = [each for each in flat(value) if each is not None]
    if len(found) > 1:
        raise ValueError(_ARRAY_HINT)
    return found[0] if found else None


def _several(value: Any, inner: Callable[[Any], Any]) -> list[Any] | None:
    if value is None:
        return None
    return [inner(each) for each in flat(value)]


def _struct(
    value: Any, inner: Sequence[tuple[pa.Field, Callable[[Any], Any]]]
) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    return {field.name: convert(value_in(value, field)) for field, convert in inner}


def _entries(value: Any, inner: Callable[[Any], Any]) -> list[tuple[str, Any]] | None:
    """Return the entries of a map, whose keys are the names of an object's fields."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    return [(_text(name) or "", inner(each)) for name, each in value.items()]


def value_in(document: Mapping[str, Any], field: pa.Field) -> Any:
    """Return the value of a field, whose path can be written with dots: `{"maker.name": ""}`.

    Args:
        document: The document, or an object in it.
        field: The field. Its own name can contain dots.
    """
    found = document.get(field.name)
    if "." in field.name:
        found = _together([each for each in _spelled(document, field.name) if each is not None])
    kind = field.type.value_type if pa.types.is_list(field.type) else field.type
    if not (pa.types.is_struct(kind) or pa.types.is_map(kind)):
        return found
    above = f"{field.name}."
    dotted = {
        name.removeprefix(above): value
        for name, value in document.items()
        if name.startswith(above)
    }
    if not dotted:
        return found
    if found is None:
        return dotted
    if isinstance(found, dict):
        # To the server, a field that is written in both ways has the values of both.
        both = {name: [found[name], dotted[name]] for name in found.keys() & dotted.keys()}
        return {**found, **dotted, **both}
    return [*found, dotted] if isinstance(found, list) else found


def _spelled(value: Any, path: str) -> Iterator[Any]:
    """Yield the values of objects at a path. Each object can write a part of it with dots."""
    if isinstance(value, list):
        for each in flat(value):
            yield from _spelled(each, path)
    elif isinstance(value, dict):
        yield value.get(path)
        at = path.find(".")
        while at >= 0:
            yield from _spelled(value.get(path[:at]), path[at + 1 :])
            at = path.find(".", at + 1)


def _together(values: list[Any]) -> Any:
    """Return the values of one field: null, the only value, or a list."""
    return values if len(values) > 1 else values[0] if values else None


def _integer(value: Any, least: int, most: int) -> int | None:
    found = _exact(value)
    if found is None:
        return None
    if not least <= found <= most:
        raise ValueError(f"it is not between {least} and {most}")
    return int(found)  # after the check, because 1e999999999 would have as many digits


def _exact(value: Any) -> Decimal | None:
    """Return a number, or None for empty text, as Elasticsearch does."""
    if value is None or value == "":
        return None
    text = value.text if isinstance(value, Number) else value
    if not isinstance(text, str):
        raise ValueError("it is not a number")
    try:
        found = Decimal(text)
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
    exact = _exact(value)
    if exact is None:
        return None
    found = float(exact)
    if abs(found) > most or not math.isfinite(found):
        raise ValueError("it is too large")
    return found


def _decimal(value: Any, kind: pa.Decimal128Type) -> Decimal | None:
    found = _exact(value)
    if found is None:
        return None
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
    if value is None:
        return None
    if not isinstance(value, str):
        return json_text(value)
    if not (value.isascii() or is_whole(value)):
        raise ValueError("it contains half of a surrogate pair")
    return value


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    try:
        return base64.b64decode(value)
    except (TypeError, ValueError) as error:  # also raised for text that is not ASCII
        raise ValueError("it is not base64") from error


def moment_of(value: Any) -> datetime | None:
    """Parse a timestamp: ISO 8601 text, cut off anywhere after the year, or milliseconds.

    A number of four digits is a year, as in Elasticsearch.

    Args:
        value: The value in the document.

    Raises:
        ValueError: It is not a timestamp. The error contains the reason.
        OverflowError: It is outside the supported range.
    """
    if value is None:
        return None
    text = value.text if isinstance(value, Number) else value
    if not isinstance(text, str):
        raise ValueError("it is not a timestamp")
    if _MILLISECONDS.fullmatch(text) and not _YEAR.fullmatch(text):
        return _EPOCH + timedelta(microseconds=int(Decimal(text) * 1000))
    padded = text + "-01-01"[len(text) - 4 :] if len(text) in {4, 7} else text
    try:
        found = datetime.fromisoformat(padded)
    except ValueError:
        raise ValueError("it is not an ISO 8601 timestamp") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def is_whole(text: str) -> bool:
    """Whether a text contains only whole characters. JSON can contain half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _in_zone(moment: datetime | None, zone: Any) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=zone)


def _date_of(moment: datetime | None) -> date | None:
    return None if moment is None else moment.date()
