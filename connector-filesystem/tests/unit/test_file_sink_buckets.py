# SPDX-License-Identifier: Apache-2.0
"""Tests bucket folders: inside the target, distinct for distinct values, and readable."""

from __future__ import annotations

import posixpath
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connector_filesystem import FileSink
from connector_filesystem.sink.buckets import (
    DEFAULT_PARTITION,
    BucketAssigner,
    bucket_problem,
    escape_path_name,
    unescape_path_name,
)
from connectors_core.errors import ConfigurationError
from connectors_core.source import NumberSequenceSource
from connectors_core.testing import InProcess

TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30)


def folders(assigner: BucketAssigner, **columns: Any) -> list[str | None]:
    batch = pa.RecordBatch.from_pydict(columns)
    assigner.validate(batch.schema)
    assigned = assigner.assign(batch)
    assert assigned is not None
    return list(assigned.to_pylist())


@given(values=st.lists(st.none() | TEXTS, min_size=1, max_size=20), name=TEXTS.filter(bool))
@example(values=["..", ".", "/", "../..", "a\0b", "\n", DEFAULT_PARTITION, None, ""], name="..")
@example(values=["%2E%2E", "%2e", "%", "%%", "=", "_hidden", ".hidden"], name="_a/b=")
def test_column_folders_stay_inside_the_target_and_are_distinct_and_readable(
    values: list[str | None], name: str
) -> None:
    assigner = BucketAssigner.columns(name, keep_columns=True)
    found = folders(assigner, **{name: pa.array(values, pa.string())})
    by_folder: dict[str, set[str | None]] = {}
    for folder, value in zip(found, values, strict=True):
        assert folder is not None
        assert bucket_problem(folder) is None
        assert posixpath.normpath(posixpath.join("/target", folder)) == f"/target/{folder}"
        assert "/" not in folder
        key, _, escaped = folder.partition("=")
        assert unescape_path_name(key) == name
        assert unescape_path_name(escaped) == (value or None)
        by_folder.setdefault(folder, set()).add(value or None)
    assert all(len(own) == 1 for own in by_folder.values())


@given(text=TEXTS)
def test_escaping_is_reversible(text: str) -> None:
    assert unescape_path_name(escape_path_name(text)) == (text or None)


def test_several_columns_of_all_types_create_nested_folders() -> None:
    found = folders(
        BucketAssigner.columns("month", "origin", "late", "day", "at"),
        month=[1, 12, None],
        origin=pa.array(["EWR", "J/K", "EWR"]).dictionary_encode(),
        late=[True, False, None],
        day=[date(2013, 1, 1), None, date(2013, 1, 2)],
        at=pa.array([datetime(2013, 1, 1, 5, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
        rest=[1, 2, 3],
    )
    tail = "at=2013-01-01 05%3A00%3A00.000000Z"
    assert found == [
        f"month=1/origin=EWR/late=true/day=2013-01-01/{tail}",
        f"month=12/origin=J%2FK/late=false/day={DEFAULT_PARTITION}/{tail}",
        f"month={DEFAULT_PARTITION}/origin=EWR/late={DEFAULT_PARTITION}/day=2013-01-02/{tail}",
    ]


def test_date_patterns_use_the_local_time_of_their_zone() -> None:
    moments = [
        datetime(2013, 1, 1, 3, 59, 59, 999_999, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC),
        None,
    ]
    ts = pa.array(moments, pa.timestamp("us", "UTC"))
    pattern = "year=%Y/month=%m/hour=%H"
    assert folders(BucketAssigner.date_pattern("ts", pattern), ts=ts) == [
        "year=2013/month=01/hour=03",
        "year=1969/month=12/hour=23",
        "/".join(f"{part}={DEFAULT_PARTITION}" for part in ("year", "month", "hour")),
    ]
    there = BucketAssigner.date_pattern("ts", "%Y-%m-%d", time_zone="America/New_York")
    assert folders(there, ts=ts)[:2] == ["2012-12-31", "1969-12-31"]
    days = pa.array([date(2013, 5, 6), date(1960, 1, 2)])
    weeks = BucketAssigner.date_pattern("ts", "%G/W%V/%u-%j")
    assert folders(weeks, ts=days) == ["2013/W19/1-126", "1959/W53/6-002"]
    assert folders(BucketAssigner.date_pattern("ts", "%H%M%S"), ts=ts)[:2] == ["035959", "235959"]


def test_a_null_time_has_one_value_in_each_folder_of_a_date_pattern() -> None:
    null = DEFAULT_PARTITION
    for pattern, expected in {
        "day=%Y-%m-%d/hour=%H": f"day={null}/hour={null}",
        "by-day/%Y%m%d": f"by-day/{null}",
        "W%V/%u-%j": f"{null}/{null}",
        "plain=1/at=T%H%M": f"plain=1/at={null}",
    }.items():
        ts = pa.array([None], pa.timestamp("us"))
        assert folders(BucketAssigner.date_pattern("ts", pattern), ts=ts) == [expected]


LAST_DAY = (date(9999, 12, 31) - date(1970, 1, 1)).days
FIRST_DAY = (date(1, 1, 1) - date(1970, 1, 1)).days


@pytest.mark.parametrize(
    ("kind", "a_day"),
    [
        (pa.date32(), 1),
        (pa.date64(), 86_400_000),
        (pa.timestamp("s"), 86_400),
        (pa.timestamp("ms", "UTC"), 86_400_000),
        (pa.timestamp("us"), 86_400_000_000),
        (pa.dictionary(pa.int32(), pa.timestamp("us")), 86_400_000_000),
    ],
    ids=str,
)
def test_a_date_outside_the_years_1_to_9999_has_no_folder(kind: pa.DataType, a_day: int) -> None:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    whole = pa.int32() if pa.types.is_date32(plain) else pa.int64()
    days = [FIRST_DAY, LAST_DAY, FIRST_DAY - 1, LAST_DAY + 1, 40_000_000, None]
    values = [None if day is None else day * a_day for day in days]
    at = pa.array(values, whole).view(plain)
    at = at.dictionary_encode() if pa.types.is_dictionary(kind) else at
    found = folders(BucketAssigner.columns("at", "n"), at=at, n=[1] * 6, rest=[1] * 6)
    assert [None if each is None else each[: len("at=0001-01-01")] for each in found[:5]] == [
        "at=0001-01-01",
        "at=9999-12-31",
        None,
        None,
        None,
    ]
    assert found[5] == f"at={DEFAULT_PARTITION}/n=1"


@pytest.mark.parametrize(
    "pattern",
    ["", "none", "%B", "%Y/../%m", "/%Y", "%Y/", "_%Y", ".%Y", "%Y\0", "%Y%", "a//%Y", "%Y*"],
)
def test_date_patterns_that_leave_the_target_are_rejected(pattern: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        BucketAssigner.date_pattern("ts", pattern)
    assert caught.value.option == "partition.date-pattern"


@pytest.mark.parametrize(
    ("assigner", "option"),
    [
        (BucketAssigner.columns("absent"), "partition.columns"),
        (BucketAssigner.columns("nested"), "partition.columns"),
        (BucketAssigner.columns("id", "nested", "ts"), "partition.columns"),
        (BucketAssigner.date_pattern("absent", "%Y"), "partition.date-column"),
        (BucketAssigner.date_pattern("id", "%Y"), "partition.date-column"),
    ],
)
def test_columns_that_cannot_name_folders_are_rejected(
    assigner: BucketAssigner, option: str
) -> None:
    schema = pa.schema(
        [("id", pa.int64()), ("nested", pa.list_(pa.int64())), ("ts", pa.timestamp("us"))]
    )
    with pytest.raises(ConfigurationError) as caught:
        assigner.validate(schema)
    assert caught.value.option == option


def test_dropping_every_column_is_rejected() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    with pytest.raises(ConfigurationError, match="no columns"):
        BucketAssigner.columns("a", "b").validate(schema)
    BucketAssigner.columns("a", "b", keep_columns=True).validate(schema)


def test_invalid_bucket_columns_and_zones_are_rejected() -> None:
    for names in ((), ("a", "a"), ("",)):
        with pytest.raises(ConfigurationError):
            BucketAssigner.columns(*names)
    with pytest.raises(ConfigurationError):
        BucketAssigner.date_pattern("ts", "%Y", time_zone="Nowhere/At_All")


@pytest.mark.parametrize(
    "bucket",
    [None, "..", "a/../b", "/a", "a/", "a//b", ".", ".a", "_a", "a/_b", "a\0b", "x" * 256, "a*b"],
)
def test_buckets_that_are_hidden_or_leave_the_target_are_problems(bucket: str | None) -> None:
    assert bucket_problem(bucket) is not None


@pytest.mark.parametrize("bucket", ["secret\n", "secret/../b", ".secret", "_secret"])
def test_the_problem_of_a_bucket_does_not_show_its_value(bucket: str) -> None:
    assert "secret" not in str(bucket_problem(bucket))


@pytest.mark.parametrize("bucket", ["", "a", "a/b", "a=_b", "..a=1".lstrip("."), "_a=1", "é" * 100])
def test_other_buckets_are_valid(bucket: str) -> None:
    assert bucket_problem(bucket) is None


def test_a_bucket_function_with_an_invalid_result_is_rejected() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [1, 2]})
    for wrong in (pa.array([1, 2]), pa.array(["x"]), ["x", "y"]):
        with pytest.raises(ConfigurationError, match="unexpected value"):
            BucketAssigner.of(lambda _, wrong=wrong: wrong).assign(batch)
    chunked = pa.chunked_array([["x"], ["y"]])
    assert BucketAssigner.of(lambda _: chunked).assign(batch).to_pylist() == ["x", "y"]


@pytest.mark.parametrize("shown", ["bucket_assigner", "partition.columns"])
def test_a_pipeline_error_names_a_missing_column_as_the_user_wrote_it(
    tmp_path: Path, shown: str
) -> None:
    sink = (
        FileSink(tmp_path, format="csv", bucket_assigner=BucketAssigner.columns("month"))
        if shown == "bucket_assigner"
        else FileSink.from_options({"path": str(tmp_path), "format": "csv", shown: "month"})
    )
    pipeline = InProcess().pipeline("p", tmp_path / "state")
    rows = pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers")
    with pytest.raises(ConfigurationError, match=f"option: {shown}"):
        pipeline.sink_to(rows, sink, uid="out")
