# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks`: time per micro-batch, throughput of connectors and joins, and memory.

Each ratio compares the medians of several runs. The contestants alternate in the same benchmark
run. The result is a JSON file below build/bench and a table on the terminal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pyspark
import typer
from rich.console import Console
from rich.table import Table

from benchmarks import commits, compaction, files, memory, micro_batch, sql, warm_workers
from benchmarks.comparison import Result, compared
from benchmarks.session import new_session

OUTPUT = Path("build/bench")


class Part(StrEnum):
    """The parts that can be measured separately."""

    MICRO_BATCH = "micro-batch"
    FILES = "files"
    COMPACTION = "compaction"
    COMMITS = "commits"
    KAFKA = "kafka"
    KAFKA_FORMATS = "kafka-formats"
    ELASTICSEARCH = "elasticsearch"
    THROTTLING = "throttling"
    LOOKUP = "lookup"
    WARM_WORKERS = "warm-workers"
    SQL = "sql"
    GROWTH = "growth"


def main(
    runs: Annotated[int, typer.Option(help="Measured runs of each side.")] = 3,
    copies: Annotated[int, typer.Option(help="Copies of the flights table to read.")] = 8,
    plans: Annotated[int, typer.Option(help="Micro-batches per latency run.")] = 40,
    megabytes: Annotated[int, typer.Option(help="Size of each topic to read.")] = 200,
    tables: Annotated[int, typer.Option(help="Copies of the flights table as documents.")] = 2,
    rows: Annotated[
        int, typer.Option(help="Rows of the lookup joins, keys of one join, records in a format.")
    ] = 1_000_000,
    only: Annotated[
        list[Part] | None, typer.Option(help="Parts to measure; all by default.")
    ] = None,
) -> None:
    """Run the measurements and compare the results."""
    parts = only or list(Part)
    if Part.MICRO_BATCH in parts:
        report(Part.MICRO_BATCH, measure_micro_batches(runs, plans))
    if Part.FILES in parts:
        report(Part.FILES, measure_files(runs, copies))
    if Part.COMPACTION in parts:
        report(Part.COMPACTION, measure_compaction(runs))
    if Part.COMMITS in parts:
        report(Part.COMMITS, measure_commits(runs))
    if Part.SQL in parts:
        report(Part.SQL, measure_sql(runs, copies))
    if Part.WARM_WORKERS in parts:
        report(Part.WARM_WORKERS, measure_warm_workers(runs, plans))
    if Part.KAFKA in parts:
        from benchmarks import kafka

        report(Part.KAFKA, kafka.measure(runs, megabytes))
    if Part.KAFKA_FORMATS in parts:
        from benchmarks.kafka import formats

        report(Part.KAFKA_FORMATS, formats.measure(runs, rows))
    if Part.ELASTICSEARCH in parts:
        from benchmarks import elasticsearch

        report(Part.ELASTICSEARCH, elasticsearch.measure(runs, tables))
    if Part.THROTTLING in parts:
        from benchmarks.elasticsearch import throttled

        report(Part.THROTTLING, throttled.measure(runs))
    if Part.GROWTH in parts:
        from benchmarks import growth

        report(Part.GROWTH, growth.measure(OUTPUT / "growth"))
    if Part.LOOKUP in parts:
        from benchmarks import lookup

        report(Part.LOOKUP, lookup.measure(runs, rows))


def measure_micro_batches(runs: int, plans: int) -> Iterator[Result]:
    """Time per micro-batch."""
    spark = new_session()
    yield from compared(
        "time per micro-batch (ms)",
        runs,
        {
            "ours": lambda: micro_batch.ours(spark, plans),
            "rate-micro-batch with mapInArrow": lambda: micro_batch.peer(spark, plans),
        },
        aims={"rate-micro-batch with mapInArrow": "at most 1.3"},
    )
    spark.stop()


def measure_warm_workers(runs: int, plans: int) -> Iterator[Result]:
    """Measure the time that warm Python workers save."""
    spark = new_session()
    yield from warm_workers.measure(spark, runs, plans)
    spark.stop()


def measure_sql(runs: int, copies: int) -> Iterator[Result]:
    """Compare statements with pipelines in Python."""
    spark = new_session()
    many = files.prepare(OUTPUT / "many", copies * 4, ["parquet"])
    yield from sql.measure(spark, runs, many, files.prepare_small(OUTPUT / "small"))
    spark.stop()


def measure_files(runs: int, copies: int) -> Iterator[Result]:
    """Measure reading and writing files, and memory."""
    spark = new_session()
    data = files.prepare(OUTPUT / "data", copies)
    many = files.prepare(OUTPUT / "many", copies * 4, ["parquet"])
    wide = files.prepare_wide(OUTPUT / "wide", 250_000 * copies)
    small = files.prepare_small(OUTPUT / "small")
    through = "flight % 2 >= 0"
    few = ["carrier", "dep_delay", "distance"]
    pairs = {
        "read 3 of 19 columns of parquet into Spark": files.read(spark, many, "parquet", few),
        "read 2 of 100 columns of parquet into Spark": files.read(
            spark, wide, "parquet", ["c3", "c50"]
        ),
        **{f"read {kind} into Spark": files.read(spark, data, kind) for kind in files.FORMATS},
        **{f"parquet to {kind}": files.write(spark, data, kind) for kind in files.FORMATS},
        "parquet to parquet, flights late by an hour": files.write(
            spark, data, "parquet", "dep_delay > 60"
        ),
        "parquet to parquet, all flights, through Spark": files.write(
            spark, data, "parquet", through
        ),
    }
    starts = {
        "write 4 rows": files.write(spark, small, "parquet"),
        "write 4 rows, through Spark": files.write(spark, small, "parquet", through),
        "read 4 rows into Spark": files.read(spark, small, "parquet"),
    }
    aims = {
        "read 3 of 19 columns of parquet into Spark": 0.9,
        "read 2 of 100 columns of parquet into Spark": 0.9,
        "read parquet into Spark": 0.8,
        "read csv into Spark": 2.5,
        "read json into Spark": 2.0,
        "parquet to parquet": 1.1,
        "parquet to parquet, flights late by an hour": 1.0,
    }
    for what, pair in pairs.items():
        yield from compared(
            f"{what} (rows/s)",
            runs,
            pair.contestants(),
            aims={"Spark's": f"at least {aims[what]}"} if what in aims else None,
        )
    for what, pair in starts.items():
        yield from compared(
            f"{what} (ms)",
            3 * runs,
            {"ours": pair.milliseconds(pair.ours), "Spark's": pair.milliseconds(pair.peer)},
            aims={"Spark's": "at most 1.5"},
        )
    for count in (1_000, 20_000):
        pair = files.read(spark, files.prepare_many(OUTPUT / "small-files", count), "json")
        yield from compared(
            f"small-files: read {count:,} JSON files into Spark (ms)",
            1,
            {"ours": pair.milliseconds(pair.ours), "Spark's": pair.milliseconds(pair.peer)},
            aims={"Spark's": "at most 1.0"},
        )
    spark.stop()
    for megabytes in (16, 64, 256):
        yield Result(
            f"peak memory (MB) reading one CSV file of {megabytes} MB",
            memory.peak(OUTPUT / "data", megabytes),
        )


def measure_compaction(runs: int) -> Iterator[Result]:
    """Measure reads of merged files, and the cost of merging."""
    spark = new_session()
    data = files.prepare(OUTPUT / "two", 2, ["parquet"])
    yield from compaction.measure(spark, runs, OUTPUT / "compaction", data)
    spark.stop()


def measure_commits(runs: int) -> Iterator[Result]:
    """Measure commits in tasks against commits on the driver."""
    spark = new_session()
    yield from commits.measure(spark, runs, OUTPUT / "commits")
    spark.stop()


def report(part: Part, results: Iterator[Result]) -> None:
    """Show the results of a part and append them to a file immediately."""
    version = pyspark.__version__
    OUTPUT.mkdir(parents=True, exist_ok=True)
    target = OUTPUT / f"{part.value}-spark-{version}.json"
    rows: list[dict[str, object]] = []
    table = Table(title=f"{part.value}, Spark {version}")
    for column in ("what", "ours", "against", "peer", "ratio", "aim"):
        table.add_column(column)
    for result in results:
        rows.append({**asdict(result), "ratio": result.ratio})
        cells = [_cell(rows[-1][str(column.header)]) for column in table.columns]
        table.add_row(*cells)
        print("  ".join(cells), flush=True)
        target.write_text(json.dumps({"spark_version": version, "results": rows}, indent=2))
    Console(width=160).print(table)


def _cell(value: object) -> str:
    return f"{value:,.2f}" if isinstance(value, int | float) else str(value or "")


if __name__ == "__main__":
    typer.run(main)
