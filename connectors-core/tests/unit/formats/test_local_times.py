# SPDX-License-Identifier: Apache-2.0
"""Tests what local times mean that occur twice or never, because the clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.errors import InvalidOptionError
from connectors_core.formats import CsvFormat
from connectors_core.formats.text import AmbiguousTimes, CsvDialect
from connectors_core.formats.text.local_times import moments_of
from connectors_core.schema import MisfitError

NEW_YORK = "America/New_York"
TWICE, NEVER = "2021-11-07 01:30:00", "2021-03-14 02:30:00"
ZONES = [NEW_YORK, "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns", "Asia/Kolkata"]
SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("note", pa.string())])


def decoded(text, times="earlier"):
    dialect = CsvDialect(assume_time_zone=NEW_YORK, ambiguous_times=times)
    return CsvFormat(dialect=dialect).decode(pa.array([f'{text},"secret"']), SCHEMA)


@pytest.mark.parametrize(
    ("times", "twice", "never"),
    [
        ("earlier", "2021-11-07 05:30", "2021-03-14 07:30"),
        ("later", "2021-11-07 06:30", "2021-03-14 06:30"),
    ],
)
def test_the_option_chooses_the_clocks(times, twice, never):
    usual = ("2021-07-01 08:00:00", "2021-07-01 12:00")
    for text, expected in ((TWICE, twice), (NEVER, never), usual):
        (found,) = decoded(text, times).rows["at"].to_pylist()
        assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@pytest.mark.parametrize("text", [TWICE, NEVER])
def test_a_bad_time_is_described_without_its_value(text):
    result = decoded(text, "bad")
    assert result.bad[0].reason == "column at: a time occurs twice or never, as the clocks change"
    assert not result.rows.num_rows


@given(
    seconds=st.integers(-(2**31), 2**31 - 10**7),
    jitter=st.integers(-5400, 5400),
    zone=st.sampled_from(ZONES),
    times=st.sampled_from([AmbiguousTimes.EARLIER, AmbiguousTimes.LATER]),
)
def test_each_time_is_that_of_the_clocks_before_or_after_the_change(seconds, jitter, zone, times):
    there = ZoneInfo(zone)
    local = datetime.fromtimestamp(seconds, there).replace(tzinfo=None) + timedelta(seconds=jitter)
    fold = int(times is AmbiguousTimes.LATER)
    expected = local.replace(tzinfo=there, fold=fold).astimezone(UTC)
    found = moments_of(pa.array([local, None], pa.timestamp("us")), zone, times)
    assert found.to_pylist() == [expected, None]


def test_only_times_of_a_change_are_bad():
    day = pa.array([datetime(2021, 3, 14, hour) for hour in (1, 3)])
    assert len(moments_of(day, NEW_YORK, AmbiguousTimes.BAD)) == 2
    with pytest.raises(MisfitError, match="twice or never"):
        moments_of(pa.array([datetime.fromisoformat(NEVER)]), NEW_YORK, AmbiguousTimes.BAD)


def test_an_unknown_zone_is_refused_at_once():
    with pytest.raises(InvalidOptionError, match="Europe/Berlin") as refused:
        CsvDialect(assume_time_zone="Nowhere/X")
    assert refused.value.option == "csv.assume-time-zone"
