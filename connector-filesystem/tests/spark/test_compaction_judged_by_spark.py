# SPDX-License-Identifier: Apache-2.0
"""Spark reads the same rows, types, and descriptions from merged files as from their originals."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import corpus
import pandas as pd
import pytest
from staged_files import visible

from connector_filesystem import CsvOptions
from connector_filesystem.filesystem import FileLocation
from connector_filesystem.folder_compaction import FolderCompaction
from connectors_core.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

MOMENTS: Final = """
    select *, struct(d, array(t) ts) s from values
    (timestamp'0001-01-01 00:00:00', date'0001-01-01'),
    (timestamp'1582-10-04 12:00:00', date'1582-10-04'),
    (timestamp'1883-11-18 12:00:00.000001', date'1900-01-01'),
    (timestamp'9999-12-31 23:59:59.999999', date'9999-12-31'),
    (null, null) as v(t, d)
"""
PERIODS: Final = """
    select interval '1-2' year to month m, interval '1 02:03:04.000005' day to second d
    union all select null, null
"""
NAMES: Final = "select 1 `a.b`, struct(2 as b) a, array(map('k', struct(3 x))) `Grüße ✓`"
TYPE, REBASE = "spark.sql.parquet.outputTimestampType", "spark.sql.parquet.{}RebaseModeInWrite"
CALENDARS: Final = {
    name: {REBASE.format("datetime"): mode, REBASE.format("int96"): mode}
    for name, mode in {"today's": "CORRECTED", "legacy": "LEGACY"}.items()
}
#: Queries and settings of Spark, by the name of their folder.
QUERIES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "types": (corpus.spark_query(), {}),
    "former format": (corpus.spark_query(), {"spark.sql.parquet.writeLegacyFormat": "true"}),
    "periods": (PERIODS, {}),
    "names": (NAMES, {}),
    **{
        f"{calendar} {kind}": (MOMENTS, {TYPE: kind, **modes})
        for calendar, modes in CALENDARS.items()
        for kind in ("INT96", "TIMESTAMP_MICROS")
    },
}
QUERIES_SINCE_4: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "variants": (
        "select parse_json(v) v from values ('{\"a\": 1}'), ('[1]'), (null) as v(v)",
        {"spark.sql.variant.writeShredding.enabled": "false"},
    ),
    "shredded": ("select parse_json(concat('{\"a\": ', id, '}')) v from range(3)", {}),
    "points": ("select st_geomfromwkb(x'0101000000000000000000F03F0000000000000040') g", {}),
    "times": ("select time'12:13:14.000001' t", {}),
    "collations": ("select 'Grüße' collate utf8_lcase t", {}),
}
TYPES_SINCE_4: Final = {
    "spark.sql.geospatial.enabled": "true",
    "spark.sql.timeType.enabled": "true",
}
PAGES: Final = {
    "parquet.page.row.count.limit": "100",
    "parquet.writer.version": "v2",
    "compression": "zstd",
}
TEXT: Final = (
    """select * from values (1, 'a "quoted", text'), (2, ''), (3, null), (1, 'a') as v(a, b)"""
)
ARRAY: Final = '[{"a": 1},\n{"a": 2}]\n'


@contextlib.contextmanager
def settings(spark: SparkSession, given: Mapping[str, str]) -> Iterator[None]:
    before = {key: spark.conf.get(key, None) for key in given}
    for key, value in given.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)


def files_of(frame: DataFrame) -> DataFrameWriter:
    """Write each row of a frame twice, and one to a file."""
    return frame.union(frame).coalesce(1).write.option("maxRecordsPerFile", 1)


def write_all(spark: SparkSession, root: Path, queries: Mapping[str, Any]) -> None:
    for name, (query, given) in queries.items():
        with settings(spark, given):
            files_of(spark.sql(query)).parquet(str(root / name))
    ids = spark.range(0, 3000, numPartitions=3)
    ids.write.options(**PAGES).parquet(str(root / "pages"))
    days = spark.sql(MOMENTS).selectExpr("t", "d", "if(d is null, 'x/y = z', null) as `p q`")
    with settings(spark, CALENDARS["today's"]):
        files_of(days).partitionBy("d", "p q").parquet(str(root / "partitions"))
    texts = spark.sql(TEXT)
    files_of(texts).csv(str(root / "lines.csv"))
    files_of(texts).csv(str(root / "headers.csv"), header=True, compression="gzip")
    files_of(texts).json(str(root / "objects.json"), ignoreNullFields=False)
    for name, (names, write) in corpus.WRITERS.items():
        kept = [each for each in names if each not in corpus.REFUSED_BY_SPARK[name]]
        write_twice(root / name, partial(write, names=kept))
    write_twice(root / "pandas", lambda path: pd.DataFrame({"a": [1, 2]}).to_parquet(path))
    write_twice(root / "arrays.json", lambda path: path.with_suffix(".json").write_text(ARRAY))


def write_twice(folder: Path, write: Callable[[Path], Any]) -> None:
    folder.mkdir()
    for name in "ab":
        write(folder / f"{name}.parquet")


def read(spark: SparkSession, folder: Path) -> DataFrame:
    if folder.suffix == ".csv":
        return spark.read.csv(str(folder), header=folder.stem == "headers")
    if folder.suffix == ".json":
        return spark.read.json(str(folder), multiLine=folder.stem == "arrays")
    return spark.read.parquet(str(folder))


def found_by(
    spark: SparkSession, folders: list[Path]
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the schema and the rows of each folder."""
    from pyspark.sql import functions as F

    schemas, parts = {}, []
    for folder in folders:
        frame = read(spark, folder)
        schemas[folder.name] = frame.schema.json()
        columns = [
            F.expr(f"hex(st_asbinary(`{each.name}`))").alias(each.name)
            if each.dataType.typeName().startswith("geometry")
            else F.col(f"`{each.name}`")
            for each in frame.schema
        ]
        text = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
        parts.append(frame.select(F.lit(folder.name).alias("folder"), text.alias("row")))
    rows: dict[str, list[str]] = {folder.name: [] for folder in folders}
    for row in reduce(lambda one, other: one.union(other), parts).collect():
        rows[row["folder"]].append(row["row"])
    return schemas, {name: sorted(each) for name, each in rows.items()}


def test_spark_reads_merged_files_as_it_read_the_originals(
    spark: SparkSession, tmp_path: Path
) -> None:
    is_new = not spark.version.startswith("3.")
    queries = {**QUERIES, **(QUERIES_SINCE_4 if is_new else {})}
    types = TYPES_SINCE_4 if is_new else {}
    with settings(spark, {"spark.sql.session.timeZone": corpus.ZONE, **types}):
        write_all(spark, tmp_path, queries)
        for name in corpus.DUCKDB_FILES if is_new else ():
            write_twice(tmp_path / f"duckdb {name}", partial(corpus.write_with_duckdb, name=name))
        folders = sorted(tmp_path.iterdir())
        before = found_by(spark, folders)
        for folder in folders:
            originals = visible(folder)
            compaction = FolderCompaction(
                FileLocation(str(folder)), 10_000_000, CsvOptions(header=folder.stem == "headers")
            )
            if folder.stem == "arrays":
                with pytest.raises(ConfigurationError, match="first line is not a JSON object"):
                    compaction.run()
                assert visible(folder) == originals
            else:
                assert compaction.run() == len(originals)
                assert len(visible(folder)) == len({path.parent for path in originals}), folder
        assert found_by(spark, folders) == before
        pages = spark.read.parquet(str(tmp_path / "pages"))
        for value in (5, 1005, 2999):
            assert pages.where(f"id = {value}").count() == 1


def test_spark_finds_the_rows_of_a_bucket_after_compaction(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "ids"
    writer = spark.range(0, 40, numPartitions=2).write.bucketBy(2, "id")
    writer.options(path=str(folder), maxRecordsPerFile=5).saveAsTable("compacted_buckets")
    try:
        originals = visible(folder)
        FolderCompaction(FileLocation(str(folder)), 10_000_000, None).run()
        assert 2 < len(visible(folder)) < len(originals)
        spark.catalog.refreshTable("compacted_buckets")
        table = spark.table("compacted_buckets")
        assert all(table.where(f"id = {value}").count() == 1 for value in range(0, 40, 9))
    finally:
        spark.sql("DROP TABLE compacted_buckets")
