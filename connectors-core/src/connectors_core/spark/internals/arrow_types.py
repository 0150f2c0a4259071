# SPDX-License-Identifier: Apache-2.0
"""Spark's own conversion between its types and Arrow's; timestamps are in UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import DataType, StructType

_TIME_ZONE: Final = "UTC"


def spark_type(kind: pa.DataType) -> DataType:
    """Return the Spark type of an Arrow type."""
    from pyspark.sql.pandas import types

    return cast("DataType", cast(Any, types).from_arrow_type(kind, prefer_timestamp_ntz=True))


def arrow_type(kind: DataType) -> pa.DataType:
    """Return the Arrow type of a Spark type."""
    from pyspark.sql.pandas import types

    return _in_utc(types.to_arrow_type, kind)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a Spark schema."""
    from pyspark.sql.pandas import types

    return _in_utc(types.to_arrow_schema, schema)


def _in_utc(convert: Callable[..., Any], found: object) -> Any:
    # Spark 4 has a time zone parameter, Spark 3.5 always uses UTC.
    takes_time_zone = "timezone" in convert.__code__.co_varnames
    return convert(found, timezone=_TIME_ZONE) if takes_time_zone else convert(found)
