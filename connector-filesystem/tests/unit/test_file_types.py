# SPDX-License-Identifier: Apache-2.0
"""Tests that Parquet types that Spark lacks are read as the nearest type."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from uuid import UUID

import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading_files import Context, chunks_of, poll_all, rows_of

from connector_filesystem import FileSource, SchemaChangedError
from connector_filesystem.source.types import can_become, cast_values
from connectors_core.errors import ConfigurationError, FatalError
from connectors_core.formats.text import nearest_spark_type

UTC_MICROS = pa.timestamp("us", tz="UTC")
LONG = Decimal("-123456789012345678901234567890123456789012.3456789")
TEXT_OF_UUID = "8c9a7b1e-27a0-4d35-9d34-4d7f0a3c2b11"
MOMENT = datetime(2013, 1, 1, 5, 15, 30, 123456)
# The type and value in the file, and the type and value that the reader returns.
TYPES = {
    "time in ms": (pa.time32("ms"), time(5, 15, 30, 123000), pa.string(), "05:15:30.123"),
    "time in us": (pa.time64("us"), time(5, 15, 30, 1), pa.string(), "05:15:30.000001"),
    "time in ns": (pa.time64("ns"), 18930123456789, pa.string(), "05:15:30.123456789"),
    "uuid": (pa.uuid(), UUID(TEXT_OF_UUID).bytes, pa.string(), TEXT_OF_UUID),
    "json": (pa.json_(pa.string()), '{"a": 1}', pa.string(), '{"a": 1}'),
    "duration": (pa.duration("us"), timedelta(1, 2, 3), pa.duration("us"), timedelta(1, 2, 3)),
    "duration in s": (pa.duration("s"), 90061, pa.duration("us"), timedelta(1, 3661)),
    "duration in ns": (pa.duration("ns"), -1001, pa.duration("us"), timedelta(microseconds=-2)),
    "decimal of 60": (
        pa.decimal256(60, 10),
        LONG,
        pa.string(),
        "-123456789012345678901234567890123456789012.3456789000",
    ),
    "wide decimal of 10": (
        pa.decimal256(10, 2),
        Decimal("1.23"),
        pa.decimal128(10, 2),
        Decimal("1.23"),
    ),
    "narrow decimal": (pa.decimal32(9, 2), Decimal("1.2"), pa.decimal128(9, 2), Decimal("1.20")),
    "string view": (pa.string_view(), "x", pa.string(), "x"),
    "large string": (pa.large_string(), "x", pa.string(), "x"),
    "binary view": (pa.binary_view(), b"x", pa.binary(), b"x"),
    "fixed binary": (pa.binary(4), b"1234", pa.binary(), b"1234"),
    "seconds": (pa.timestamp("s"), MOMENT.replace(microsecond=0), pa.timestamp("us"), None),
    "nanoseconds": (pa.timestamp("ns"), 1357017330123456789, pa.timestamp("us"), MOMENT),
    "nanoseconds before 1970": (
        pa.timestamp("ns", tz="UTC"),
        -1,
        UTC_MICROS,
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    ),
    "another zone": (
        pa.timestamp("us", tz="America/New_York"),
        1357017330123456,
        UTC_MICROS,
        MOMENT.replace(tzinfo=UTC),
    ),
    "date in ms": (pa.date64(), date(2013, 1, 1), pa.date32(), date(2013, 1, 1)),
    "half": (pa.float16(), 1.5, pa.float32(), 1.5),
    "unsigned of 8": (pa.uint8(), 255, pa.int16(), 255),
    "unsigned of 64": (pa.uint64(), 2**64 - 1, pa.decimal128(20, 0), Decimal(2**64 - 1)),
    "null": (pa.null(), None, pa.string(), None),
}


def column_of(kind: pa.DataType, value: object) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array([value, None], kind.storage_type))
    return pa.array([value, None], kind)


@pytest.mark.parametrize("stored", [True, False], ids=["with", "without"])
def test_every_type_is_read_as_a_spark_type(tmp_path, stored):
    """Read files with the Arrow schema of pyarrow, and without it, like other writers."""
    columns = {name: column_of(kind, value) for name, (kind, value, *_) in TYPES.items()}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", store_schema=stored)
    source = FileSource(tmp_path)
    schema = source.schema()
    first, second = rows_of(source)
    assert set(second.values()) == {None}
    for name, (_, value, kind, expected) in TYPES.items():
        if name.startswith("duration") and not stored:
            kind, expected = pa.int64(), columns[name].cast(pa.int64())[0].as_py()
        assert schema.field(name).type == kind, name
        assert first[name] == (value if expected is None else expected), name


@pytest.mark.parametrize("name", TYPES)
def test_an_inferred_type_fits_its_file_in_nested_columns(name):
    kind, value, wanted, _ = TYPES[name]
    for found in (kind, pa.dictionary(pa.int8(), kind) if name == "large string" else kind):
        nested = pa.struct([("list", pa.list_(found)), ("map", pa.map_(pa.string(), found))])
        assert nearest_spark_type(nested) == pa.struct(
            [("list", pa.list_(wanted)), ("map", pa.map_(pa.string(), wanted))]
        )
        assert can_become(nested, nearest_spark_type(nested))
    column = column_of(kind, value)
    cast = cast_values(column, wanted)
    assert cast.type == wanted
    assert cast_values(column[1:], wanted).to_pylist() == [None]
    assert cast.null_count == column.null_count


def test_a_uuid_may_be_declared_as_its_bytes(tmp_path):
    kind, value, *_ = TYPES["uuid"]
    pq.write_table(pa.table({"id": column_of(kind, value)}), tmp_path / "a.parquet")
    assert rows_of(FileSource(tmp_path, schema="id BINARY")) == [{"id": value}, {"id": None}]


def test_96_bit_timestamps_are_instants_at_every_level_of_nesting(tmp_path):
    old = pa.array([MOMENT, datetime(1900, 1, 1), None], pa.timestamp("us"))
    deep = pa.StructArray.from_arrays([pa.array([1, 2, 3]), old], names=["n", "at"])
    data = pa.table(
        {
            "id": [1, 2, 3],
            "at": old,
            "list": pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), deep),
            "map": pa.MapArray.from_arrays([0, 1, 2, 3], ["a", "b", "c"], old),
        }
    )
    pq.write_table(data, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    source = FileSource(tmp_path)
    schema = source.schema()
    assert schema.field("at").type == UTC_MICROS
    assert schema.field("list").type.value_type.field("at").type == UTC_MICROS
    assert schema.field("map").type.item_type == UTC_MICROS
    moments = [MOMENT.replace(tzinfo=UTC), datetime(1900, 1, 1, tzinfo=UTC), None]
    rows = rows_of(source)
    assert [row["at"] for row in rows] == moments
    assert [row["list"][0]["at"] for row in rows] == moments
    assert [row["map"][0][1] for row in rows] == moments
    # A declared timestamp without a zone is in UTC.
    local = FileSource(tmp_path, schema="at TIMESTAMP_NTZ", on_schema_change="ignore-new")
    assert rows_of(local)[0] == {"at": MOMENT}


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint64()])
def test_integers_are_read_as_a_declared_decimal(tmp_path, kind):
    values = [0, 99, 100, None]
    pq.write_table(pa.table({"n": pa.array(values, kind)}), tmp_path / "a.parquet")
    source = FileSource(tmp_path, schema="n DECIMAL(5, 2)")
    assert rows_of(source) == [{"n": None if each is None else Decimal(each)} for each in values]
    chunks = chunks_of(FileSource(tmp_path, schema="n DECIMAL(4, 2)"))
    assert [bad.position for chunk in chunks for bad in chunk.bad_records] == ["row group 0, row 2"]
    assert [
        bad.reason for chunk in chunks for bad in chunk.bad_records if "100" in bad.reason
    ] == []


def test_a_float_is_not_read_as_a_declared_decimal(tmp_path):
    pq.write_table(pa.table({"x": [0.125]}), tmp_path / "a.parquet")
    with pytest.raises(SchemaChangedError, match="double instead of decimal"):
        rows_of(FileSource(tmp_path, schema="x DECIMAL(5, 2)"))


def test_a_file_without_columns_has_no_rows(tmp_path):
    polars.DataFrame({}).write_parquet(tmp_path / "0.parquet")
    pq.write_table(pa.table({}), tmp_path / "1.parquet")
    with pytest.raises(ConfigurationError, match="at least one column"):
        FileSource(tmp_path).schema()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "2.parquet")
    rows, rest = poll_all(FileSource(tmp_path), Context())
    assert (rows, rest) == ([{"a": 1}], [])
    assert rows_of(FileSource(tmp_path, schema="a BIGINT")) == [{"a": 1}]


def test_a_file_that_arrow_does_not_support_is_not_reported_as_damaged(tmp_path):
    series = polars.Series("n", [2**100], dtype=polars.Int128)
    polars.DataFrame({"n": series}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(ConfigurationError, match="a type or an encoding that cannot"):
        FileSource(tmp_path).schema()
    with pytest.raises(FatalError, match="a type or an encoding that cannot") as caught:
        rows_of(FileSource(tmp_path, schema="n DECIMAL(38, 0)"))
    assert caught.value.code == "FILE_UNSUPPORTED"
