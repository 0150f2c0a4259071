# SPDX-License-Identifier: Apache-2.0
"""Spark's own conversion between its types and Arrow's; timestamps are in UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from connectors_core.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql.types import DataType, StructType

_TIME_ZONE: Final = "UTC"
_AS_TEXT: Final = "cast it to STRING"
_AS_BYTES: Final = "convert it to BINARY, with st_asbinary(column)"
_CARRIED_BY_NO_TASK: Final = {
    "CalendarIntervalType": f"{_AS_TEXT}, or compute an INTERVAL DAY TO SECOND",
    "YearMonthIntervalType": f"{_AS_TEXT}, or to INT for its months",
    "GeometryType": _AS_BYTES,
    "GeographyType": _AS_BYTES,
}
_INTERNAL: Final = {
    "VariantType": "write it as text, with to_json(column); parse_json reads it",
}


def spark_type(kind: pa.DataType) -> DataType:
    """Return the Spark type of an Arrow type."""
    from pyspark.sql.pandas import types

    return cast("DataType", cast(Any, types).from_arrow_type(kind, prefer_timestamp_ntz=True))


def arrow_type(kind: DataType) -> pa.DataType:
    """Return the Arrow type of a Spark type."""
    from pyspark.sql.pandas import types

    return _in_utc(types.to_arrow_type, kind)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a Spark schema.

    Raises:
        UnsupportedError: Spark gives the values of a column to no Python task.
    """
    from pyspark.sql.pandas import types

    _refuse(schema, _CARRIED_BY_NO_TASK, "Spark's Python tasks have")
    return _in_utc(types.to_arrow_schema, schema)


def check_writable(schema: StructType) -> None:
    """Refuse columns that leave Spark only as the bytes that it uses within.

    Raises:
        UnsupportedError: There is such a column, or Spark gives its values to no Python task.
    """
    _refuse(schema, {**_CARRIED_BY_NO_TASK, **_INTERNAL}, "sinks have")


def _refuse(schema: StructType, refused: Mapping[str, str], who: str) -> None:
    for field in schema:
        for kind in _types_in(field.dataType):
            hint = refused.get(type(kind).__name__)
            if hint is not None:
                raise UnsupportedError(
                    f"the column {field.name!r} has a type that only Spark has",
                    expected=f"a type that {who} too",
                    found=field.dataType.simpleString(),
                    option=field.name,
                    hint=hint,
                )


def _types_in(kind: DataType) -> Iterator[DataType]:
    """Yield a type and all types in it."""
    yield kind
    inner = vars(kind)
    nested = [inner.get(name) for name in ("elementType", "keyType", "valueType")]
    nested += [field.dataType for field in inner.get("fields", ())]
    for each in nested:
        if each is not None:
            yield from _types_in(each)


def _in_utc(convert: Callable[..., Any], found: object) -> Any:
    # Spark 4 has a time zone parameter, Spark 3.5 always uses UTC.
    takes_time_zone = "timezone" in convert.__code__.co_varnames
    return convert(found, timezone=_TIME_ZONE) if takes_time_zone else convert(found)
