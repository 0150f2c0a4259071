# SPDX-License-Identifier: Apache-2.0
"""Reads files of pyarrow, polars, and DuckDB with the connector and with DuckDB.

This module lists every difference. Each is a decision that `docs/formats.md` documents.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus import DUCKDB, INSTANT, MOMENT, WRITERS, of_duckdb, write_with_duckdb
from reading_files import rows_of

from connector_filesystem import FileSource
from connectors_core.errors import ConfigurationError, FatalError

# The connector's values for types of DuckDB that Spark lacks.
OTHER_COLUMNS: Final[dict[tuple[str, str], Any]] = {
    ("pyarrow", "dec60"): "-123456789012345678901234567890123456789012.3456789000",
    ("pyarrow", "time_ms"): "05:15:30.123",
    ("pyarrow", "time_us"): "05:15:30.000001",
    ("pyarrow", "local_ns"): datetime(1970, 1, 1),
    ("polars", "time"): "05:15:30.000001000",
    ("polars", "local_ns"): datetime(1970, 1, 1),
    ("polars", "duration"): timedelta(1, 2, 3),
    ("duckdb", "time"): "05:15:30.000001",
    ("duckdb", "time_of_zone"): "03:15:30.000000",
    ("duckdb", "local_ns"): datetime(1970, 1, 1),
    ("duckdb", "interval"): b"\0\0\0\0\1\0\0\0\0\xddm\0",
}


@pytest.mark.parametrize("name", WRITERS)
def test_parquet_matches_duckdb_or_a_documented_decision(tmp_path, name):
    names, write = WRITERS[name]
    path = tmp_path / "a.parquet"
    write(path)
    here, theirs = rows_of(FileSource(path)), of_duckdb(f"select * from '{path}'")
    for column in names:
        values = [row[column] for row in here]
        other = OTHER_COLUMNS.get((name, column))
        expected = [other, None] if other is not None else [row[column] for row in theirs]
        assert repr(values) == repr(expected) or values == expected, column


ROWS: Final = [
    {
        "id": 1,
        "long": 2**64,
        "x": 0.1,
        "flag": True,
        "text": 'a "quoted", text \\ ✓',
        "day": MOMENT.date(),
        "list": [1, None],
        "struct": {"a": 1, "b": "x"},
    },
    {"id": None, "long": 1, "x": -1e300, "flag": None, "text": None, "day": None}
    | {"list": [], "struct": {"a": None, "b": ""}},
]
FLAT: Final = ("id", "long", "x", "flag", "text", "day")


def written(path, columns):
    """Write a file with the named writer."""
    frame = polars.DataFrame(ROWS, schema_overrides={"long": polars.Int128}).select(columns)
    writer, _, format = path.name.rpartition(".")
    if writer == "polars":
        (frame.write_csv if format == "csv" else frame.write_ndjson)(path)
        return
    frame = frame.with_columns(frame["long"].cast(polars.String))
    connection = duckdb.connect()
    connection.register("frame", frame.to_arrow())
    of_long = "select * replace (long::hugeint as long) from frame"
    options = "format csv, header" if format == "csv" else "format json"
    connection.execute(f"copy ({of_long}) to '{path}' ({options})")


@pytest.mark.parametrize("writer", ["polars", "duckdb"])
@pytest.mark.parametrize("format", ["csv", "json"])
def test_text_is_read_as_it_was_written(tmp_path, writer, format):
    columns = FLAT if format == "csv" else ROWS[0].keys()
    path = tmp_path / f"{writer}.{format}"
    written(path, columns)
    inferred = rows_of(FileSource(path))
    expected = [{name: row[name] for name in columns} for row in ROWS]
    for row, wanted in zip(inferred, expected, strict=True):
        assert row["long"] == Decimal(wanted["long"])
        rest = [name for name in columns if name != "long"]
        assert {name: row[name] for name in rest} == {name: wanted[name] for name in rest}
    declared = FileSource(
        path,
        schema="id BIGINT, long DECIMAL(38, 0), x DOUBLE, flag BOOLEAN, text STRING, day DATE"
        + ("" if format == "csv" else ", list ARRAY<INT>, struct MAP<STRING, STRING>"),
    )
    for row, wanted in zip(rows_of(declared), expected, strict=True):
        texts = {name: row[name] for name in FLAT}
        assert texts == {name: wanted[name] for name in FLAT}
        if format == "json":
            a = wanted["struct"]["a"]
            entries = [("a", None if a is None else str(a)), ("b", wanted["struct"]["b"])]
            assert row["struct"] == entries


def test_instants_in_text_match_duckdb(tmp_path):
    path = tmp_path / "a.json"
    connection = duckdb.connect()
    connection.execute("set timezone = 'America/New_York'")
    connection.execute(f"copy (select {DUCKDB['instant']} as at) to '{path}' (format json)")
    assert b"01:15:30.123456-04" in path.read_bytes()
    [row] = rows_of(FileSource(path, schema="at TIMESTAMP"))
    assert row == {"at": INSTANT}


@pytest.mark.parametrize("name", ["variant", "shredded variant"])
def test_a_variant_is_refused_and_never_its_bytes(tmp_path, name):
    path = tmp_path / "a.parquet"
    write_with_duckdb(path, name)
    with pytest.raises(ConfigurationError, match="'v' has VARIANT values"):
        FileSource(path).schema()
    with pytest.raises(FatalError, match="cannot be read") as caught:
        rows_of(FileSource(path, schema="v STRUCT<metadata: BINARY, value: BINARY>"))
    assert caught.value.code == "FILE_UNSUPPORTED"


def test_the_other_columns_of_a_variant_are_read(tmp_path):
    path = tmp_path / "a.parquet"
    duckdb.sql(f"copy (select 1 as id, {{'a': 1}}::variant as v) to '{path}' (format parquet)")
    source = FileSource(path, schema="id INT", on_schema_change="ignore-new")
    assert rows_of(source) == [{"id": 1}]


def test_a_struct_that_looks_like_a_variant_is_none(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"v": [{"metadata": b"a", "value": b"b"}]})
    pq.write_table(table, path)
    assert rows_of(FileSource(path)) == table.to_pylist()


def test_a_geometry_is_well_known_bytes(tmp_path):
    path = tmp_path / "a.parquet"
    write_with_duckdb(path, "geometry")
    point, none = rows_of(FileSource(path))
    assert (len(point["g"]), none["g"]) == (21, None)
