# SPDX-License-Identifier: Apache-2.0
"""Tests that types which only Spark has are refused where the pipeline is built, with a hint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyspark.sql.types
import pytest
from pipeline_support import new_pipeline

from connectors_core import UnsupportedError
from connectors_core.testing.directory_sink import DirectorySink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INTERNAL = {"VariantType": ("parse_json('[1]')", "to_json")}
CARRIED_BY_NO_TASK = {
    "GeometryType": ("st_geomfromwkb(x'0101000000000000000000F03F0000000000000040')", "BINARY"),
    "CalendarIntervalType": ("make_interval(1, 2)", "STRING"),
    "YearMonthIntervalType": ("interval '1-2' year to month", "STRING"),
}
KNOWN = [name for name in INTERNAL | CARRIED_BY_NO_TASK if hasattr(pyspark.sql.types, name)]


def rows_with(spark: SparkSession, name: str) -> tuple[list[DataFrame], str]:
    """Return rows with a value of a type, also within others, and a part of the hint."""
    value, hint = (INTERNAL | CARRIED_BY_NO_TASK)[name]
    nested = f"named_struct('x', array({value}))"
    return [spark.sql(f"select 1 id, {each} odd") for each in (value, nested)], hint


@pytest.mark.parametrize("name", KNOWN)
def test_a_type_that_only_spark_has_is_refused_before_a_sink_starts(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    frames, hint = rows_with(spark, name)
    with new_pipeline(spark, tmp_path) as pipeline:
        for number, df in enumerate(frames):
            with pytest.raises(UnsupportedError, match="'odd'") as caught:
                pipeline.sink_to(df, DirectorySink(tmp_path / "out"), uid=f"out-{number}")
            assert hint in str(caught.value.hint)


@pytest.mark.parametrize("name", [name for name in KNOWN if name in INTERNAL])
def test_a_function_of_the_user_receives_such_values(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    (df, _), _ = rows_with(spark, name)
    seen: list[str] = []
    with new_pipeline(spark, tmp_path, streaming=None) as pipeline:
        pipeline.for_each_batch(
            df, lambda rows, _: seen.append(rows.schema["odd"].dataType.simpleString()), uid="f"
        )
        pipeline.run()
    assert seen == [df.schema["odd"].dataType.simpleString()]
