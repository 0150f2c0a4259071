# SPDX-License-Identifier: Apache-2.0
"""Tests that dates and timestamps of Spark 2 and of 96 bits are read as their writer meant them."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading_files import chunks_of, rows_of, table_of

from connector_filesystem import FileSource
from connector_filesystem.source.calendars import LegacyCalendar
from connectors_core.source import Comparison

INSTANT = pa.timestamp("us", tz="UTC")
DAY = 86_400_000_000
# The days of 0001-01-01, 1500-02-29, 1500-03-01, 1582-10-04, and 1582-10-15 of Spark 2.
STORED = [-719_164, -171_596, -171_595, -141_428, -141_427, None]
MEANT = [(1, 1, 1), (1500, 3, 1), (1500, 3, 1), (1582, 10, 4), (1582, 10, 15)]
DATES = [*(date(*each) for each in MEANT), None]
LEGACY = {"org.apache.spark.version": "3.5.9", "org.apache.spark.legacyDateTime": ""}
LEGACY_INT96 = {"org.apache.spark.version": "3.5.9", "org.apache.spark.legacyINT96": ""}
IN_UTC = {"org.apache.spark.timeZone": "UTC"}
OF_SPARK_2 = {"org.apache.spark.version": "2.4.8"}
OF_SPARK_4 = {"org.apache.spark.version": "4.3.0"} | IN_UTC


def written(folder, footer, name="rows.parquet", **columns):
    path = folder / name
    table = pa.table(columns).replace_schema_metadata(footer)
    int96 = {"use_deprecated_int96_timestamps": True} if "int96" in columns else {}
    pq.write_table(table, path, row_group_size=2, **int96)
    return path


def instants(hours=0):
    micros = [None if day is None else day * DAY + hours * 3_600_000_000 for day in STORED]
    return pa.array(micros, INSTANT)


def bad_records(path):
    return sum(len(chunk.bad_records) for chunk in chunks_of(FileSource(path)))


@pytest.mark.parametrize("footer", [LEGACY, OF_SPARK_2, LEGACY | IN_UTC])
def test_dates_of_the_legacy_calendar_keep_their_year_month_and_day(tmp_path, footer):
    path = written(tmp_path, footer, d=pa.array(STORED, pa.int32()).cast(pa.date32()))
    assert [row["d"] for row in rows_of(FileSource(path))] == DATES


@pytest.mark.parametrize("footer", [None, OF_SPARK_4, LEGACY_INT96 | IN_UTC])
def test_other_files_count_days_as_arrow_does(tmp_path, footer):
    stored = pa.array(STORED[1:], pa.int32()).cast(pa.date32())
    path = written(tmp_path, footer, d=stored)
    assert table_of(FileSource(path)).column("d").combine_chunks().equals(stored)


def test_nested_dates_are_rebased(tmp_path):
    days = pa.array(STORED, pa.int32()).cast(pa.date32())
    rows = [{"d": [day], "m": {"k": day}, "n": 1} for day in DATES]
    lists = pa.ListArray.from_arrays(list(range(len(STORED) + 1)), days)
    maps = pa.MapArray.from_arrays(list(range(len(STORED) + 1)), ["k"] * len(STORED), days)
    struct = pa.StructArray.from_arrays(
        [lists, maps, pa.array([1] * len(STORED))], names=["d", "m", "n"]
    )
    source = FileSource(written(tmp_path, LEGACY, s=struct))
    found = rows_of(source)
    assert [{**row["s"], "m": dict(row["s"]["m"])} for row in found] == rows
    projected = source.apply_projection([("s", "d")])
    assert [row["s"]["d"] for row in rows_of(projected)] == [[day] for day in DATES]


@pytest.mark.parametrize(("zone", "hours"), [("UTC", 0), ("Etc/GMT+5", 5), ("+03:00", -3)])
@pytest.mark.parametrize("kind", ["t", "int96"])
def test_timestamps_of_a_fixed_zone_keep_their_local_time(tmp_path, zone, hours, kind):
    footer = LEGACY | LEGACY_INT96 | {"org.apache.spark.timeZone": zone}
    path = written(tmp_path, footer, **{kind: instants(hours)})
    expected = [datetime(*each, tzinfo=UTC).timestamp() + hours * 3600 for each in MEANT]
    found = table_of(FileSource(path)).column(kind).cast(pa.int64()).to_pylist()
    assert found == [*(int(each) * 10**6 for each in expected), None]


@pytest.mark.parametrize("kind", ["t", "int96"])
@pytest.mark.parametrize(
    "footer", [OF_SPARK_2, LEGACY | LEGACY_INT96 | {"org.apache.spark.timeZone": "Europe/Paris"}]
)
def test_an_old_timestamp_of_an_unknown_zone_is_a_bad_record(tmp_path, footer, kind):
    values = [datetime(1899, 12, 31), datetime(1900, 1, 2), None]
    path = written(tmp_path, footer, **{kind: pa.array(values, INSTANT)})
    assert [row[kind] for row in rows_of(FileSource(path))] == [
        datetime(1900, 1, 2, tzinfo=UTC),
        None,
    ]
    (bad,) = [bad for chunk in chunks_of(FileSource(path)) for bad in chunk.bad_records]
    assert "datetimeRebaseModeInWrite=CORRECTED" in bad.reason
    assert "before 1900-01-01" in bad.reason


def test_a_time_without_a_zone_is_never_rebased(tmp_path):
    stored = pa.array([day and day * DAY for day in STORED[1:]], pa.timestamp("us"))
    source = FileSource(written(tmp_path, LEGACY, t=stored))
    assert table_of(source).column("t").combine_chunks().equals(stored)


@pytest.mark.parametrize("meant", DATES[:-1])
def test_a_condition_on_the_legacy_calendar_keeps_its_rows(tmp_path, meant):
    days = pa.array(STORED, pa.int32()).cast(pa.date32())
    path = written(tmp_path, LEGACY | IN_UTC, d=days, t=instants())
    moment = datetime(meant.year, meant.month, meant.day, tzinfo=UTC)
    for name, value in (("d", meant), ("t", moment)):
        source, _ = FileSource(path).apply_filters([Comparison((name,), "=", value)])
        assert value in [row[name] for row in rows_of(source)]


def test_values_of_96_bits_that_fit_microseconds_are_exact(tmp_path):
    values = [-62_135_596_800_000_001, -1, 0, 1, 9_132_000_000_000_000_000, 2**63 - 1, None]
    stored = pa.array(values, INSTANT)
    lists = pa.ListArray.from_arrays(list(range(len(values) + 1)), stored)
    for column in (stored, lists):
        path = written(tmp_path, None, int96=column)
        assert table_of(FileSource(path)).column("int96").combine_chunks().equals(column)
        assert not bad_records(path)


def test_a_value_of_96_bits_that_does_not_fit_microseconds_is_a_bad_record(tmp_path):
    seconds = pa.array([0, 2**34 * 86_400 // 8, 9_223_372_036_855], pa.timestamp("s"))
    path = written(tmp_path, None, int96=seconds, n=pa.array([1, 2, 3]))
    source = FileSource(path)
    assert [row["n"] for row in rows_of(source)] == [1]
    assert bad_records(path) == 2
    assert [row["n"] for row in rows_of(source.apply_projection([("n",)]))] == [1, 2, 3]


def test_statistics_beyond_the_dates_of_python_are_unknown(tmp_path):
    far = pa.array([3_000_000, -5_000_000], pa.int32()).cast(pa.date32())
    path = written(tmp_path, None, d=far, t=pa.array([2**62, 0], INSTANT))
    for condition in (
        Comparison(("d",), "=", date(2020, 1, 1)),
        Comparison(("t",), ">", datetime(2020, 1, 1, tzinfo=UTC)),
    ):
        source, _ = FileSource(path).apply_filters([condition])
        assert table_of(source).num_rows == 2


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Africa/Casablanca", "", "none"])
def test_a_zone_whose_offset_varies_or_is_unknown_is_not_fixed(zone):
    footer = {b"org.apache.spark.version": b"2.4", b"org.apache.spark.timeZone": zone.encode()}
    assert LegacyCalendar.of(footer) == LegacyCalendar(datetimes=True, int96=True)
