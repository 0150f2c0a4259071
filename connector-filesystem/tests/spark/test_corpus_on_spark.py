# SPDX-License-Identifier: Apache-2.0
"""Reads files of Spark, pyarrow, polars, and DuckDB with the connector and with Spark.

The session's time zone is not UTC, so the tests detect an instant that is read as a local time.
This module lists every difference. Each is a decision that `docs/formats.md` documents.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq
import pytest
from corpus import REFUSED_BY_SPARK, SPARK, WRITERS, ZONE, spark_query

from connector_filesystem import FileSink, FileSource
from connectors_core import Pipeline
from connectors_core.records import RecordPolicy

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

# Type and first value of a column in the connector and in Spark's reader.
OTHER_COLUMNS: Final = {
    ("spark", "interval"): (
        ("bigint", 93784000005),
        ("interval day to second", "INTERVAL '1 02:03:04.000005' DAY TO SECOND"),
    ),
    ("polars", "duration"): (
        ("interval day to second", "INTERVAL '1 00:00:02.000003' DAY TO SECOND"),
        ("bigint", 86402000003),
    ),
}
BAD: Final = "a bad record"
TYPES: Final = {
    "string": "STRING",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "decimal": "DECIMAL(20, 2)",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "binary": "BINARY",
    "array": "ARRAY<STRING>",
    "map": "MAP<STRING, STRING>",
    "struct": "STRUCT<a: STRING>",
}
VALUES: Final = (
    *("null", '"text"', '""', "1", "-0", "1.50", "1e3", "18446744073709551616", "true"),
    *('"1"', '"1.5"', '"true"', '{"a": 1}', '{"a": "x"}', '{"a": null}', "{}"),
    *("[]", "[1, null]", '["x", {"b": 2}]', '"2013-07-04"', '"2013-07-04T05:15:30Z"'),
    *('"2013-07-04T05:15:30.123456+02:00"', '"2013-07-04 05:15:30"', '"NaN"', '"Infinity"'),
    '"eA=="',
    # The field, and a field in it, occur twice.
    *('1, "v": 2', '{"a": 1, "a": "y"}'),
)
# A JSON value in a column of a type, as the connector and Spark read it.
OTHER_VALUES: Final[dict[tuple[str, str], tuple[Any, Any]]] = {
    ("double", "-0"): (-0.0, 0.0),
    # A number or a boolean may be a text, as in Flink.
    ("bigint", '"1"'): (1, BAD),
    ("double", '"1"'): (1.0, BAD),
    ("double", '"1.5"'): (1.5, BAD),
    ("boolean", '"true"'): (True, BAD),
    # The connector accepts only dates, not times or numbers of days.
    ("date", '"1"'): (BAD, "1970-01-02"),
    ("date", '"2013-07-04T05:15:30Z"'): (BAD, "2013-07-04"),
    ("date", '"2013-07-04T05:15:30.123456+02:00"'): (BAD, "2013-07-04"),
    ("date", '"2013-07-04 05:15:30"'): (BAD, "2013-07-04"),
    # The connector rejects seconds as times. A time without a zone is UTC in every session.
    ("timestamp", "1"): (BAD, "1969-12-31T19:00:01.000-05:00"),
    ("timestamp", "-0"): (BAD, "1969-12-31T19:00:00.000-05:00"),
    ("timestamp", '1, "v": 2'): (BAD, "1969-12-31T19:00:02.000-05:00"),
    ("timestamp", '"2013-07-04"'): (
        "2013-07-03T20:00:00.000-04:00",
        "2013-07-04T00:00:00.000-04:00",
    ),
    ("timestamp", '"2013-07-04 05:15:30"'): (
        "2013-07-04T01:15:30.000-04:00",
        "2013-07-04T05:15:30.000-04:00",
    ),
}
# Spark 3.5 reformats the value of a text. Spark 4 and later keep the text of the file.
OTHER_TEXTS_OF_35: Final[dict[tuple[str, str], tuple[Any, Any]]] = {
    ("string", "-0"): ("-0", "0"),
    ("string", "1.50"): ("1.50", "1.5"),
    ("string", "1e3"): ("1e3", "1000.0"),
    ("string", '{"a": 1}'): ('{"a": 1}', '{"a":1}'),
    ("string", '{"a": "x"}'): ('{"a": "x"}', '{"a":"x"}'),
    ("string", '{"a": null}'): ('{"a": null}', '{"a":null}'),
    ("string", '{"a": 1, "a": "y"}'): ('{"a": 1, "a": "y"}', '{"a":1,"a":"y"}'),
    ("string", "[1, null]"): ("[1, null]", "[1,null]"),
    ("string", '["x", {"b": 2}]'): ('["x", {"b": 2}]', '["x",{"b":2}]'),
    ("array", '["x", {"b": 2}]'): (["x", '{"b": 2}'], ["x", '{"b":2}']),
}


@pytest.fixture
def far_away(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", ZONE)
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def text_of(column: Column | str) -> Column:
    """Return a row or a column as Spark prints it in the session's time zone."""
    from pyspark.sql import functions as F

    return F.to_json(F.struct(column), {"ignoreNullFields": "false"})


def read_here(spark: SparkSession, root: Path, sources: dict[str, FileSource]) -> Any:
    """Return the types and rows of files that a pipeline reads."""
    from pyspark.sql import functions as F

    types, parts = {}, []
    with Pipeline(spark, "corpus", checkpoint_location=str(root / "checkpoint")) as pipeline:
        for name, source in sources.items():
            df = pipeline.from_source(source, uid=name, record_policy=RecordPolicy.skip())
            types[name] = {each.name: each.dataType.simpleString() for each in df.schema}
            parts.append(df.select(F.lit(name).alias("file"), text_of("*").alias("row")))
        whole = reduce(lambda one, other: one.union(other), parts)
        pipeline.sink_to(whole, FileSink(str(root / "out")), uid="out")
        pipeline.run()
    rows: dict[str, list[Any]] = {name: [] for name in sources}
    for row in pq.read_table(root / "out").to_pylist():
        rows[row["file"]].append(json.loads(row["row"]))
    return types, rows


def write(spark: SparkSession, name: str, folder: Path, without: Collection[str] = ()) -> list[str]:
    names = SPARK.keys() if name == "spark" else WRITERS[name][0]
    chosen = [each for each in names if each not in without]
    if name == "spark":
        spark.sql(spark_query(chosen)).coalesce(1).write.parquet(str(folder))
    else:
        folder.mkdir()
        WRITERS[name][1](folder / "a.parquet", chosen)
    return chosen


def values_of(rows: list[Any], column: str) -> list[Any]:
    return sorted((row[column] for row in rows), key=lambda value: value is None)


def spark_values(spark: SparkSession, root: Path) -> dict[str, dict[int, Any]]:
    """Return the values that Spark reads, by type and number, without bad values."""
    from pyspark.sql import functions as F

    parts = []
    for name, kind in TYPES.items():
        df = spark.read.schema(f"id INT, v {kind}, bad STRING").json(
            str(root / f"{name}.json"), columnNameOfCorruptRecord="bad"
        )
        value = F.when(F.col("bad").isNull(), text_of("v"))
        parts.append(df.select(F.lit(name).alias("type"), "id", value.alias("value")))
    values: dict[str, dict[int, Any]] = {name: {} for name in TYPES}
    for row in reduce(lambda one, other: one.union(other), parts).collect():
        if row["value"] is not None:
            values[row["type"]][row["id"]] = json.loads(row["value"])["v"]
    return values


def test_files_of_other_writers_match_spark_or_a_documented_decision(
    far_away: SparkSession, tmp_path: Path
) -> None:
    spark = far_away
    sources = {}
    for name in REFUSED_BY_SPARK:
        write(spark, name, tmp_path / name)
        sources[name] = FileSource(tmp_path / name)
    for name, kind in TYPES.items():
        path = tmp_path / f"{name}.json"
        lines = (f'{{"id": {at}, "v": {each}}}\n' for at, each in enumerate(VALUES))
        path.write_text("".join(lines))
        sources[name] = FileSource(path, schema=f"id INT, v {kind}")
    types, rows = read_here(spark, tmp_path, sources)

    for name, refused in REFUSED_BY_SPARK.items():
        chosen = write(spark, name, tmp_path / f"of-{name}", refused)
        df = spark.read.parquet(str(tmp_path / f"of-{name}"))
        theirs = [json.loads(row[0]) for row in df.select(text_of("*")).collect()]
        for column in chosen:
            here = (types[name][column], *values_of(rows[name], column))
            there = (df.schema[column].dataType.simpleString(), *values_of(theirs, column))
            other = OTHER_COLUMNS.get((name, column))
            expected = other and tuple((*each, None) for each in other)
            assert (here, there) == (expected or (there, there)), (name, column)

    found = {}
    of_spark = spark_values(spark, tmp_path)
    for name in TYPES:
        here = {row["id"]: row["v"] for row in rows[name]}
        for at, value in enumerate(VALUES):
            pair = here.get(at, BAD), of_spark[name].get(at, BAD)
            if repr(pair[0]) != repr(pair[1]):
                found[name, value] = pair
    expected = OTHER_VALUES | (OTHER_TEXTS_OF_35 if spark.version.startswith("3.5") else {})
    assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, columns in REFUSED_BY_SPARK.items() if columns])
def test_spark_rejects_the_columns_documented_as_rejected(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    for column in REFUSED_BY_SPARK[name]:
        others = [each for each in WRITERS[name][0] if each != column]
        write(spark, name, tmp_path / column, others)
        with pytest.raises(Exception, match=r"(?i)parquet|decimal|time"):
            spark.read.parquet(str(tmp_path / column)).collect()
