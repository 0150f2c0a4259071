# SPDX-License-Identifier: Apache-2.0
"""Pipelines for crash tests, which kill their drivers and workers.

Row values derive from row numbers, so the expected output is known without the pipeline.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.testing.faults import fault_point

COLLECTED_ROWS = "database.collected_rows"
"""A point in the function of `database`: it has the rows of an epoch, but has stored nothing."""
BASE = int(datetime(2013, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("ts", pa.timestamp("us", tz="UTC"))])
RIGHT_SCHEMA = pa.schema(
    [pa.field("rid", pa.int64()), pa.field("rts", pa.timestamp("us", tz="UTC"))]
)


def left_rows(numbers: pa.Array) -> pa.RecordBatch:
    """Create rows with the id i at i seconds after the base."""
    times = pc.add(pc.multiply(numbers, 1_000_000), BASE).cast(pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_arrays([numbers, times], schema=SCHEMA)


def right_rows(numbers: pa.Array) -> pa.RecordBatch:
    """Create rows with the id 2i at the time of the left row with that id."""
    ids = pc.multiply(numbers, 2)
    times = pc.add(pc.multiply(ids, 1_000_000), BASE).cast(pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_arrays([ids, times], schema=RIGHT_SCHEMA)


def left_time(number: int) -> datetime:
    """Return the time of a left row."""
    return datetime.fromtimestamp(BASE // 1_000_000 + number, UTC)


def right_time(number: int) -> datetime:
    """Return the time of a right row."""
    return left_time(2 * number)


def number_right(rows: int) -> int:
    """Return the number of rows in the right source. The last left rows have no match."""
    return rows * 5 // 12


def expected_pairs(rows: int) -> list[tuple[int, int | None]]:
    """Return the expected (id, rid) rows of the outer join."""
    matched = 2 * number_right(rows)
    return [(i, i if i % 2 == 0 and i < matched else None) for i in range(rows)]


def expected_counts(rows: int) -> list[tuple[int, int]]:
    """Return the expected (start in seconds after the base, rows) of each window."""
    return [(start, min(600, rows - start)) for start in range(0, rows, 600)]


def session():  # type: ignore[no-untyped-def]
    """Create a minimal session with task retries."""
    from connectors_core.testing.spark_session import new_session

    # No driver lives long enough to benefit from generated code.
    spark = new_session(
        {
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        }
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def build(spark, root: Path, scenario: str, rows: int, **settings):  # type: ignore[no-untyped-def]
    """Build the pipeline of a scenario: its shape and its sinks.

    The shapes are `stateless`, `join` (of two sources), `table` (a source and a table of Spark), or
    `files` (a stream of Spark).

    The sinks are `1`, `2`, `leased` (a sink with leases that loses rows on request), `stateful` (a
    sink whose writers number their rows), `function` (a function that writes with Spark), or
    `database` (a function that stores rows and the number of their epoch in one transaction).
    """
    from pyspark.sql import functions as F

    from connectors_core import Pipeline
    from connectors_core.source.data_generator import DataGeneratorSource
    from connectors_core.source.split import ReadLimits
    from connectors_core.source.watermarks import WatermarkStrategy
    from connectors_core.testing.directory_sink import DirectorySink
    from connectors_core.testing.leased_sink import LeasedDirectorySink
    from connectors_core.testing.stateful_sink import NumberingDirectorySink

    shape, sinks = scenario.split("-")
    kinds = {"leased": LeasedDirectorySink, "stateful": NumberingDirectorySink}
    first = kinds.get(sinks, DirectorySink)(root / "first")
    pipeline = Pipeline(
        spark,
        scenario,
        checkpoint_location=str(root / "checkpoint"),
        streaming=True,
        parallelism=2,
        **settings,
    )

    def add_sinks(rows) -> Pipeline:  # type: ignore[no-untyped-def]
        if sinks == "function":
            folder = root / "first"
            pipeline.for_each_batch(
                rows,
                lambda found, epoch: found.write.mode("overwrite").parquet(f"{folder}/e={epoch}"),
                uid="first",
            )
            return pipeline
        if sinks == "database":
            pipeline.for_each_batch(
                rows, lambda found, epoch: _store_once(root, found, epoch), uid="first"
            )
            return pipeline
        pipeline.sink_to(rows, first, uid="first")
        if sinks == "2":
            pipeline.sink_to(rows.where("id % 3 = 0"), DirectorySink(root / "second"), uid="second")
        return pipeline

    if shape == "files":
        lines = spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", 3)
        return add_sinks(lines.json(str(_written_files(root / "in", rows))))

    def strategy(column: str) -> WatermarkStrategy | None:
        if shape != "join":
            return None
        return WatermarkStrategy.for_bounded_out_of_orderness(
            timedelta(seconds=300)
        ).with_timestamp_assigner(column)

    limits = ReadLimits(rows=150)
    left = pipeline.from_source(
        DataGeneratorSource(
            left_rows, rows, SCHEMA, split_rows=100, batch_rows=40, lower_bound=left_time
        ),
        uid="left",
        watermark_strategy=strategy("ts"),
        limits=limits,
    )
    if shape == "table":
        table = spark.read.schema("id BIGINT").json(str(_written_files(root / "in", rows)))
        return add_sinks(left.join(F.broadcast(table), "id"))
    if shape == "stateless":
        return add_sinks(left)
    right = pipeline.from_source(
        DataGeneratorSource(
            right_rows,
            number_right(rows),
            RIGHT_SCHEMA,
            split_rows=100,
            batch_rows=40,
            lower_bound=right_time,
        ),
        uid="right",
        watermark_strategy=strategy("rts"),
        limits=limits,
    )
    joined = left.join(right, F.expr("id = rid AND ts = rts"), "left").select("id", "rid")
    pipeline.sink_to(joined, first, uid="first")
    if sinks == "2":
        counts = (
            left.groupBy(F.window("ts", "10 minutes"))
            .count()
            .select(F.col("window.start").alias("start"), "count")
        )
        pipeline.sink_to(counts, DirectorySink(root / "second"), uid="second")
    return pipeline


def _store_once(root: Path, rows, epoch: int) -> None:  # type: ignore[no-untyped-def]
    """Store the rows of an epoch in a database, unless they are stored already."""
    found = [(row["id"], epoch) for row in rows.select("id").collect()]
    fault_point(COLLECTED_ROWS)
    with closing(sqlite3.connect(root / "first.db")) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS epochs (epoch INTEGER PRIMARY KEY)")
        database.execute("CREATE TABLE IF NOT EXISTS stored (id INT, epoch INT)")
        if database.execute("INSERT OR IGNORE INTO epochs VALUES (?)", [epoch]).rowcount:
            database.executemany("INSERT INTO stored VALUES (?, ?)", found)


def stored_ids(root: Path) -> list[int]:
    """Return the ids of all rows in the database."""
    with closing(sqlite3.connect(root / "first.db")) as database:
        return [number for (number,) in database.execute("SELECT id FROM stored")]


def _written_files(folder: Path, rows: int, *, file_rows: int = 50) -> Path:
    """Write files of JSON rows with the ids 0 to rows, if they do not exist."""
    folder.mkdir(exist_ok=True)
    for start in range(0, rows, file_rows):
        path = folder / f"{start:06d}.json"
        if not path.exists():
            ids = range(start, min(start + file_rows, rows))
            path.write_text("".join(f'{{"id": {number}}}\n' for number in ids))
    return folder


def run(root: Path, scenario: str, rows: int) -> None:
    """Run the pipeline of a scenario to its end."""
    with build(session(), root, scenario, rows) as pipeline:
        assert pipeline.run(available_now=scenario.startswith("files"))


def run_batch(root: Path, rows: int) -> None:
    """Count the rows of a batch run by their last digit, and note which splits are read."""
    from connectors_core import Pipeline
    from connectors_core.source.data_generator import DataGeneratorSource
    from connectors_core.testing.directory_sink import DirectorySink

    def noted(numbers: pa.Array) -> pa.RecordBatch:
        with (root / "read").open("a") as notes:
            notes.write(f"{numbers[0]}\n")
        return left_rows(numbers)

    with Pipeline(
        session(),
        "batch",
        checkpoint_location=str(root / "checkpoint"),
        parallelism=2,
        resume_batch_runs=True,
    ) as pipeline:
        source = DataGeneratorSource(noted, rows, SCHEMA, split_rows=10, batch_rows=10)
        ids = pipeline.from_source(source, uid="ids")
        counts = ids.where("id % 10 < 3").groupBy((ids.id % 10).alias("digit")).count()
        pipeline.sink_to(counts, DirectorySink(root / "counts"), uid="counts")
        assert pipeline.run()
