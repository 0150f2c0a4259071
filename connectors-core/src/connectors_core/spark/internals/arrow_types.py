# SPDX-License-Identifier: Apache-2.0
"""Spark's own conversion of types between its rows and Arrow; timestamps are in UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import DataType, StructType

_TIME_ZONE: Final = "UTC"


def spark_type(kind: pa.DataType) -> DataType:
    """The type that Spark reads an Arrow type as."""
    from pyspark.sql.pandas import types

    return cast("DataType", cast(Any, types).from_arrow_type(kind, prefer_timestamp_ntz=True))


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type in which Spark stores its own."""
    from pyspark.sql.pandas import types

    return _in_utc(types.to_arrow_type, kind)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema in which Spark stores rows."""
    from pyspark.sql.pandas import types

    return _in_utc(types.to_arrow_schema, schema)


def _in_utc(convert: Callable[..., Any], found: object) -> Any:
    # Spark 4 asks for the time zone, Spark 3.5 always takes UTC.
    takes_time_zone = "timezone" in convert.__code__.co_varnames
    return convert(found, timezone=_TIME_ZONE) if takes_time_zone else convert(found)
