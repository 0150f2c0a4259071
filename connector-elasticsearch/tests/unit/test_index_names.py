# SPDX-License-Identifier: Apache-2.0
"""Tests index names that contain columns and dates."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from connector_elasticsearch.sink.index_names import IndexName
from connectors_core.errors import ConfigurationError, InvalidOptionError

ROWS = pa.record_batch(
    {
        "to": ["lax", None],
        "n": [7, 8],
        "on": [True, False],
        "day": pa.array([date(2013, 1, 31), date(1999, 12, 1)]),
        "at": pa.array(
            [datetime(2013, 1, 31, 23, 59, 58, 999_999, UTC), None], pa.timestamp("us", "UTC")
        ),
        "there": pa.array(  # index names use UTC for every time zone
            [datetime(2013, 1, 31, 23, 59, tzinfo=UTC)] * 2, pa.timestamp("ms", "Asia/Tokyo")
        ),
    }
)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("{to}", ["lax", None]),
        ("flights-{to}-{n}", ["flights-lax-7", None]),
        ("{day|yyyy-MM-dd}", ["2013-01-31", "1999-12-01"]),
        ("a-{day|yy.MM}-b", ["a-13.01-b", "a-99.12-b"]),
        ("{at|yyyyMMddHHmmss}", ["20130131235958", None]),
        ("{there | dd}", ["31", "31"]),
        ("{day|'w'yyyy}", ["w2013", "w1999"]),
        ("{day|yyyy%}", ["2013%", "1999%"]),
        ("{at|yyyy_MM_dd_HH-ss}_index", ["2013_01_31_23-58_index", None]),
        ("{day|yyyy/MM/dd}-{to}", ["2013/01/31-lax", None]),
    ],
)
def test_a_pattern_yields_an_index_name_for_each_row(pattern: str, names: list[str | None]) -> None:
    name = IndexName(pattern)
    name.check(ROWS.schema)
    assert name.static is None
    assert not name.follows_clock
    assert name.of(ROWS).to_pylist() == names


def test_a_name_without_fields_is_static() -> None:
    assert IndexName("flights-2013").static == "flights-2013"


@pytest.mark.parametrize("pattern", ["<flights-{now/d}>", "<flights>", "<flights-{to}>"])
def test_date_math_is_refused_with_a_replacement(pattern: str) -> None:
    with pytest.raises(InvalidOptionError, match="date math") as refused:
        IndexName(pattern)
    assert "{now()|yyyy-MM-dd}" in (refused.value.expected or "")


@pytest.mark.parametrize(
    "clock",
    [
        "now()",
        "NOW()",
        "now( )",
        "NOW(\t)",
        "\t NOW( ) \t",
        "current_timestamp",
        "CURRENT_TIMESTAMP",
    ],
)
def test_now_is_the_time_of_the_write(clock: str) -> None:
    before = datetime.now(UTC).strftime("%Y%m%d%H%M")
    name = IndexName(f"x-{{{clock}|yyyyMMddHHmm}}")
    found = name.of(ROWS).to_pylist()
    assert name.follows_clock
    after = datetime.now(UTC).strftime("%Y%m%d%H%M")
    assert found in ([f"x-{before}"] * 2, [f"x-{after}"] * 2)


@pytest.mark.parametrize(
    "pattern", ["", "{", "a}", "{}", "{{to}}", "{now()}", "{at|}", "{at|SSS}", "{at|YYYY}", "{|dd}"]
)
def test_an_invalid_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        IndexName(pattern)
    assert refused.value.option == "index"


@pytest.mark.parametrize("pattern", ["{missing}", "{at}", "{to|yyyy}", "{day}", "{n|yyyy}", "{on}"])
def test_a_column_that_cannot_name_an_index_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        IndexName(pattern).check(ROWS.schema)
    assert refused.value.option == "index"


@pytest.mark.parametrize(
    "name", ["now", "now(", "NOW)", "current_timestamp()", "CURRENT_timestamp"]
)
def test_a_name_that_is_not_quite_the_clock_is_a_column(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is missing"):
        IndexName(f"{{{name}|yyyy}}").check(ROWS.schema)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_a_time_before_1970_names_the_index_of_its_own_day(unit: str) -> None:
    last = pa.array([datetime(1969, 12, 31, 23, 59, 59, 999_000)], pa.timestamp(unit))
    rows = pa.record_batch({"at": last})
    assert IndexName("old-{at|yyyy.MM.dd}").of(rows).to_pylist() == ["old-1969.12.31"]
