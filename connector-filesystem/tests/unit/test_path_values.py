# SPDX-License-Identifier: Apache-2.0
"""Tests the values of partition columns in paths, in the spelling of Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading_files import splits_of, table_of

from connector_filesystem import FileSource
from connectors_core.errors import FatalError, InvalidOptionError
from connectors_core.source import Comparison

INSTANT = pa.timestamp("us", tz="UTC")


def source_of(root, value, kind, **options):
    folder = root / f"at={value}"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1]}), folder / "a.parquet")
    return FileSource(root, schema="id BIGINT", partition_columns={"at": kind}, **options)


def value_of(root, value, kind, **options):
    return table_of(source_of(root, value, kind, **options)).column("at")[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-07-01 00%3A00%3A00", datetime(2024, 6, 30, 22, tzinfo=UTC)),
        ("2024-07-01 00:00:00.5", datetime(2024, 6, 30, 22, 0, 0, 500_000, tzinfo=UTC)),
        ("2024-07-01T12%3A00", datetime(2024, 7, 1, 10, tzinfo=UTC)),
        ("2024-07-01", datetime(2024, 6, 30, 22, tzinfo=UTC)),
        ("2024-07-01 00%3A00%3A00Z", datetime(2024, 7, 1, tzinfo=UTC)),
        ("2024-10-27 02%3A30%3A00", datetime(2024, 10, 27, 0, 30, tzinfo=UTC)),  # occurs twice
        ("2024-03-31 02%3A30%3A00", datetime(2024, 3, 31, 1, 30, tzinfo=UTC)),  # never occurs
    ],
)
def test_a_time_of_spark_is_one_of_the_named_zone(tmp_path, text, expected):
    found = value_of(tmp_path, text, INSTANT, partition_time_zone="Europe/Berlin")
    assert found.as_py() == expected


def test_a_time_without_a_zone_is_refused_on_the_driver_and_the_option_is_named(tmp_path):
    source = source_of(tmp_path, "2024-07-01 00%3A00%3A00", INSTANT)
    with pytest.raises(FatalError, match="with a zone") as caught:
        splits_of(source)
    assert "set partition.time-zone" in caught.value.hint


def test_a_zone_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(InvalidOptionError, match="time zone is unknown"):
        FileSource(tmp_path, partition_time_zone="Mars/Base")


def test_the_type_of_a_column_can_be_one_of_spark(tmp_path):
    assert value_of(tmp_path, "2.5", "DECIMAL(3, 1)").type == pa.decimal128(3, 1)
    with pytest.raises(InvalidOptionError, match="a Spark SQL type"):
        FileSource(tmp_path, schema="id BIGINT", partition_columns={"at": "DECIMALS"})


def test_a_column_without_a_zone_keeps_its_time(tmp_path):
    found = value_of(tmp_path, "2024-07-01 00%3A00%3A00", pa.timestamp("us"))
    assert found.as_py() == datetime(2024, 7, 1)


@pytest.mark.parametrize("text", ["2024-13-01", "2024-02-30", "2024-07-01 25%3A00%3A00", "soon"])
@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us"), INSTANT])
def test_a_time_that_does_not_exist_is_refused(tmp_path, text, kind):
    with pytest.raises(FatalError) as caught:
        splits_of(source_of(tmp_path, text, kind, partition_time_zone="UTC"))
    assert caught.value.code == "PARTITION"


FAR = ["+10000-01-01", "10000-02-29", "+294246-12-31", "-0001-03-01", "0000-02-29", "-9999-12-31"]


@pytest.mark.parametrize("text", FAR)
def test_a_date_of_any_year_is_read(tmp_path, text):
    days = np.datetime64(text.removeprefix("+"), "D").astype(int)
    assert value_of(tmp_path, text, pa.date32()).cast(pa.int32()).as_py() == days


@pytest.mark.parametrize("text", FAR)
def test_a_time_of_any_year_is_read(tmp_path, text):
    expected = np.datetime64(f"{text.removeprefix('+')}T01:02:03", "us").astype(int)
    found = value_of(tmp_path, f"{text} 01%3A02%3A03", INSTANT, partition_time_zone="Etc/GMT-2")
    assert found.cast(pa.int64()).as_py() == expected - 2 * 3_600_000_000


def test_zones_have_their_rules_in_far_years(tmp_path):
    found = value_of(tmp_path, "10001-07-01", INSTANT, partition_time_zone="Europe/Berlin")
    wanted = np.datetime64("10001-06-30T22:00:00", "us").astype(int)
    assert found.cast(pa.int64()).as_py() == wanted


def test_a_condition_on_a_date_that_python_cannot_hold_reads_its_file(tmp_path):
    source = source_of(tmp_path, "+10000-01-01", pa.date32())
    source, _ = source.apply_filters([Comparison(("at",), ">", date(2024, 1, 1))])
    (split,) = splits_of(source)
    (found,) = source.partition_of(split).values()
    assert found.has_values
    assert (found.low, found.high) == (None, None)
