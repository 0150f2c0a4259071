# SPDX-License-Identifier: Apache-2.0
"""Files of other writers, with a column of each supported type that ends with a null.

A reader that rejects one column rejects the whole file. A file can hold any of the columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

#: The zone of the readers. Every local time differs from UTC.
ZONE = "America/New_York"
MOMENT = datetime(2013, 7, 4, 5, 15, 30, 123456)
INSTANT = MOMENT.replace(tzinfo=UTC)
_UUID = UUID("8c9a7b1e-27a0-4d35-9d34-4d7f0a3c2b11")
_LONG = Decimal("-123456789012345678901234567890123456789012.3456789")


def _of_uuid() -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array([_UUID.bytes, None], pa.binary(16)))


def _of_json() -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(['{"a": 1}', None]))


PYARROW: Mapping[str, pa.Array] = {
    "bool": pa.array([True, None]),
    "i8": pa.array([-128, None], pa.int8()),
    "i64": pa.array([-(2**63), None], pa.int64()),
    "u8": pa.array([255, None], pa.uint8()),
    "u32": pa.array([2**32 - 1, None], pa.uint32()),
    "u64": pa.array([2**64 - 1, None], pa.uint64()),
    "f16": pa.array([1.5, None], pa.float16()),
    "f32": pa.array([-0.0, None], pa.float32()),
    "f64": pa.array([math.inf, None], pa.float64()),
    "dec9": pa.array([Decimal("-1.20"), None], pa.decimal128(9, 2)),
    "dec38": pa.array([Decimal(10) ** 37, None], pa.decimal128(38, 0)),
    "dec60": pa.array([_LONG, None], pa.decimal256(60, 10)),
    "wide_dec10": pa.array([Decimal("1.20"), None], pa.decimal256(10, 2)),
    "text": pa.array(["Grüße ✓", None]),
    "large_text": pa.array(["", None], pa.large_string()),
    "text_view": pa.array(["null", None], pa.string_view()),
    "binary": pa.array([b"\0\xff", None]),
    "fixed": pa.array([b"1234", None], pa.binary(4)),
    "enum": pa.array(["a", None]).dictionary_encode(),
    "uuid": _of_uuid(),
    "json": _of_json(),
    "date": pa.array([date(1900, 1, 1), None]),
    "time_ms": pa.array([time(5, 15, 30, 123000), None], pa.time32("ms")),
    "time_us": pa.array([time(5, 15, 30, 1), None], pa.time64("us")),
    "local": pa.array([MOMENT, None], pa.timestamp("us")),
    "local_ms": pa.array([MOMENT.replace(microsecond=0), None], pa.timestamp("ms")),
    "local_ns": pa.array([1, None], pa.timestamp("ns")),
    "instant": pa.array([INSTANT, None], pa.timestamp("us", tz="UTC")),
    "instant_ny": pa.array([INSTANT, None], pa.timestamp("us", tz=ZONE)),
    "duration": pa.array([timedelta(1, 2, 3), None], pa.duration("us")),
    "list": pa.array([[1, None], None], pa.list_(pa.int32())),
    "struct": pa.array([{"at": INSTANT}, None], pa.struct([("at", pa.timestamp("us", "UTC"))])),
    "map": pa.array([[("k", MOMENT)], None], pa.map_(pa.string(), pa.timestamp("us"))),
}

POLARS: Mapping[str, polars.Series] = {
    "bool": polars.Series([False, None]),
    "i64": polars.Series([2**63 - 1, None]),
    "u64": polars.Series([2**64 - 1, None], dtype=polars.UInt64),
    "f64": polars.Series([0.1, None]),
    "dec": polars.Series([Decimal("1.23"), None], dtype=polars.Decimal(20, 2)),
    "text": polars.Series(["Grüße ✓", None]),
    "binary": polars.Series([b"\0\xff", None]),
    "category": polars.Series(["a", None], dtype=polars.Categorical),
    "enum": polars.Series(["b", None], dtype=polars.Enum(["a", "b"])),
    "date": polars.Series([date(2013, 7, 4), None]),
    "time": polars.Series([time(5, 15, 30, 1), None]),
    "local": polars.Series([MOMENT, None]),
    "local_ns": polars.Series([1, None], dtype=polars.Datetime("ns")),
    "instant": polars.Series([INSTANT, None]),
    "duration": polars.Series([timedelta(1, 2, 3), None]),
    "list": polars.Series([[1, None], None]),
    "struct": polars.Series([{"a": 1, "b": "x"}, None]),
}

DUCKDB: Mapping[str, str] = {
    "bool": "true",
    "i16": "(-32768)::smallint",
    "u64": "18446744073709551615::ubigint",
    "huge": "18446744073709551616::hugeint",
    "f32": "1.5::float",
    "f64": "'NaN'::double",
    "dec": "1.23::decimal(38, 2)",
    "text": "'Grüße ✓'",
    "blob": "'\\x00\\xFF'::blob",
    "enum": "'a'::enum('a', 'b')",
    "uuid": f"'{_UUID}'::uuid",
    "json": "'{\"a\": 1}'::json",
    "date": "date '2013-07-04'",
    "time": "time '05:15:30.000001'",
    "time_of_zone": "'05:15:30+02'::timetz",
    "local": f"timestamp '{MOMENT}'",
    "local_ns": "timestamp_ns '1970-01-01 00:00:00.000000001'",
    "instant": f"timestamptz '{INSTANT}'",
    "interval": "interval '1 day 2 hours'",
    "list": "[1, null]::integer[]",
    "struct": "{'a': 1, 'b': [{'c': 'x'}, null]}",
    "map": "map {'k': 1::bigint}",
}

_POINTS = "select 'POINT(1 2)'::geometry as g union all select null"
_VARIANTS = "select {'a': 1, 'b': 'x'}::variant as v union all select null union all select 'x'"
#: Geometries in a column of their type, or as bytes that the footer describes; and variants.
DUCKDB_FILES: Mapping[str, tuple[str, str]] = {
    "geometry": (_POINTS, "geoparquet_version 'V2'"),
    "geometry alone": (_POINTS, "geoparquet_version 'NONE'"),
    "geo": (_POINTS, "geoparquet_version 'V1'"),
    "variant": (_VARIANTS, "shredding {v: 'variant'}"),
    "shredded variant": (_VARIANTS, "shredding {v: 'struct(a int)'}"),
}

SPARK: Mapping[str, str] = {
    "bool": "true",
    "i8": "cast(-128 as tinyint)",
    "i64": "-9223372036854775808",
    "f32": "cast(1.5 as float)",
    "f64": "double('NaN')",
    "dec": "cast(1.23 as decimal(38, 18))",
    "text": "'Grüße ✓'",
    "binary": "x'00ff'",
    "date": "date '1900-01-01'",
    "instant": f"timestamp '{INSTANT}'",
    "local": f"timestamp_ntz '{MOMENT}'",
    "interval": "interval '1 02:03:04.000005' day to second",
    "list": f"array(timestamp '{INSTANT}', null)",
    "struct": f"named_struct('at', timestamp '{INSTANT}', 'x', array(named_struct('y', 1), null))",
    "map": f"map('k', timestamp '{INSTANT}')",
}

#: Columns that make Spark's reader reject the whole file.
REFUSED_BY_SPARK: Mapping[str, Collection[str]] = {
    "spark": (),
    "pyarrow": ("f16", "dec60", "uuid", "time_ms", "time_us", "local_ns"),
    "polars": ("time", "local_ns"),
    "duckdb": ("uuid", "time", "time_of_zone", "local_ns", "interval"),
}


def write_pyarrow(path: Path, names: Collection[str] = PYARROW.keys()) -> None:
    """Write a Parquet file with pyarrow, without the Arrow schema, like other writers."""
    table = pa.table({name: PYARROW[name] for name in names})
    pq.write_table(table, path, store_schema=False)


def write_polars(path: Path, names: Collection[str] = POLARS.keys()) -> None:
    """Write a Parquet file with polars."""
    polars.DataFrame({name: POLARS[name] for name in names}).write_parquet(path)


def write_duckdb(path: Path, names: Collection[str] = DUCKDB.keys()) -> None:
    """Write a Parquet file with DuckDB."""
    duckdb.connect().execute(f"copy ({_select(DUCKDB, names)}) to '{path}' (format parquet)")


def write_with_duckdb(path: Path, name: str) -> None:
    """Write one of `DUCKDB_FILES`."""
    query, options = DUCKDB_FILES[name]
    duckdb.connect().execute(f"copy ({query}) to '{path}' (format parquet, {options})")


WRITERS: Mapping[str, tuple[Collection[str], Callable[..., None]]] = {
    "pyarrow": (PYARROW.keys(), write_pyarrow),
    "polars": (POLARS.keys(), write_polars),
    "duckdb": (DUCKDB.keys(), write_duckdb),
}


def spark_query(names: Collection[str] = SPARK.keys()) -> str:
    """Return a query for the rows that Spark writes."""
    return _select(SPARK, names)


def _select(values: Mapping[str, str], names: Collection[str]) -> str:
    chosen = {name: values[name] for name in names}
    some = ", ".join(f"{value} as `{name}`" for name, value in chosen.items())
    none = ", ".join("null" for _ in chosen)
    return f"select {some} union all select {none}".replace("`", '"' if values is DUCKDB else "`")


def of_duckdb(query: str) -> list[dict[str, Any]]:
    """Return the rows of a DuckDB query in the zone of the readers."""
    connection = duckdb.connect()
    connection.execute(f"set timezone = '{ZONE}'")
    found = connection.sql(query).to_arrow_table()
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows
