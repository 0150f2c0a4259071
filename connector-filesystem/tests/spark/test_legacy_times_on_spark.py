# SPDX-License-Identifier: Apache-2.0
"""Compares the source with Spark's reader, for names with dots and files of the old calendar."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from connector_filesystem import FileSource
from connectors_core import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Days every few weeks from year 1 to 1905, and those around the change of the calendar.
ROWS = """
    SELECT d, to_utc_timestamp(d, 'UTC') t, d IS NULL `s.d`, struct(d) s FROM (
        SELECT explode(sequence(DATE'0001-01-01', DATE'1905-01-01', INTERVAL 37 DAYS)) d
        UNION ALL SELECT explode(sequence(DATE'1582-09-25', DATE'1582-10-25', INTERVAL 1 DAY))
        UNION ALL SELECT explode(sequence(DATE'1500-02-25', DATE'1500-03-05', INTERVAL 1 DAY))
    )
"""


def rows_of(frame: DataFrame) -> list[tuple[object, ...]]:
    shown = frame.selectExpr("unix_date(d)", "unix_micros(t)", "`s.d`", "unix_date(s.d)")
    return sorted(map(tuple, shown.collect()))


@pytest.mark.parametrize("kind", ["TIMESTAMP_MICROS", "INT96"])
def test_files_of_the_legacy_calendar_are_read_as_spark_reads_them(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    settings = {
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.outputTimestampType": kind,
        "spark.sql.session.timeZone": "UTC",
        "parquet.block.size": "65536",
    }
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        spark.sql(ROWS).coalesce(1).write.parquet(str(tmp_path / "rows"))
        theirs = spark.read.parquet(str(tmp_path / "rows"))
        with Pipeline(spark, f"legacy {kind}", checkpoint_location=tmp_path / "state") as pipeline:
            ours = pipeline.from_source(FileSource(tmp_path / "rows"), uid="rows")
            assert rows_of(ours) == rows_of(theirs)
            for condition in ("d = DATE'0001-01-01'", "`s.d` = false AND d < DATE'1582-10-20'"):
                assert rows_of(ours.where(condition)) == rows_of(theirs.where(condition))
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)
    assert FileSource(tmp_path / "rows").schema().field("d").type == pa.date32()
