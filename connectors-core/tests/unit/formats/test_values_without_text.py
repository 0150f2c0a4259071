# SPDX-License-Identifier: Apache-2.0
"""Tests that a value without a text in a format makes its row bad, and no other."""

from __future__ import annotations

import pyarrow as pa
import pytest

from connectors_core.formats import CanalJsonFormat, CsvFormat, DebeziumJsonFormat, JsonFormat
from connectors_core.formats.text import CsvDialect

FAR = 9_223_372_036_825_200_000  # PostgreSQL's infinity
FLAT = {
    "date": (pa.date32(), [0, 2_932_897, -719_163, None, 2_932_896, -719_162]),
    "date of Java": (pa.date64(), [0, 86_400_000 * 2_932_897, -86_400_000 * 719_163, None, 0, 0]),
    "microseconds": (
        pa.timestamp("us", "UTC"),
        [0, FAR, -FAR, None, 253_402_300_799_999_999, -62_135_596_800_000_000],
    ),
    "seconds": (
        pa.timestamp("s"),
        [0, 253_402_300_800, -62_135_596_801, None, 253_402_300_799, 0],
    ),
}
FORMATS = {"json": JsonFormat(), "csv": CsvFormat(), "canal": CanalJsonFormat()}


def column_of(kind: pa.DataType, numbers: list[int | None]) -> pa.Array:
    raw = pa.int32() if kind == pa.date32() else pa.int64()
    return pa.array(numbers, raw).view(kind)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("name", FLAT)
def test_a_far_date_makes_its_row_bad(name: str, format_name: str) -> None:
    batch = pa.record_batch({"id": pa.array(range(6)), "at": column_of(*FLAT[name])})
    encoded = FORMATS[format_name].encode(batch)
    assert [each.at for each in encoded.bad] == [1, 2]
    assert "outside the years 1 to 9999" in encoded.bad[0].reason
    assert encoded.kept is not None
    assert encoded.kept.tolist() == [0, 3, 4, 5]
    assert len(encoded.messages) == 4
    assert b"out of range" not in b"".join(encoded.messages.to_pylist())


@pytest.mark.parametrize("encoder", [JsonFormat(), DebeziumJsonFormat()])
def test_a_far_date_is_found_at_every_depth(encoder: JsonFormat | DebeziumJsonFormat) -> None:
    times = column_of(pa.timestamp("us"), [0, FAR, 1, FAR])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 1, 3, 4]), times)
    maps = pa.MapArray.from_arrays(pa.array([0, 1, 1, 3, 4]), pa.array(list("abcd")), times)
    structs = pa.StructArray.from_arrays([lists], names=["inner"])
    for nested in (lists, maps, structs):
        encoded = encoder.encode(pa.record_batch({"nested": nested}))
        assert [each.at for each in encoded.bad] == [2, 3]


@pytest.mark.parametrize(
    ("spelling", "column"),
    [
        ("-1", pa.array([1, -1, None])),
        ("true", pa.array([False, True, None])),
        ("NaN", pa.array([1.0, float("nan"), None])),
        ("2013-01-01", pa.array([0, 15_706, None], pa.int32()).view(pa.date32())),
        ("1970-01-01T00:00:01Z", pa.array([0, 1, None]).view(pa.timestamp("s", "UTC"))),
    ],
)
def test_a_value_that_csv_reads_as_null_makes_its_row_bad(spelling: str, column: pa.Array) -> None:
    encoder = CsvFormat(dialect=CsvDialect(null_values=(spelling,)))
    batch = pa.record_batch({"value": column, "other": column})
    encoded = encoder.encode(batch)
    assert [each.at for each in encoded.bad] == [1]
    assert "is a spelling of null" in encoded.bad[0].reason
    decoded = encoder.decode(encoded.messages, batch.schema)
    assert decoded.rows.equals(batch.take(pa.array([0, 2])))
