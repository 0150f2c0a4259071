# SPDX-License-Identifier: Apache-2.0
"""Tests random queries over random files: pushdown changes no row, even with a failure between."""

from __future__ import annotations

import datetime
import json
import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from connector_filesystem import FileSource
from connectors_core import ConnectorError, Pipeline, ReadLimits
from connectors_core.testing import DirectorySink, Fault, FaultAction, injected

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ROWS = 240
FLAT = pa.schema(
    [
        ("id", pa.int64()),
        ("i", pa.int32()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("money", pa.decimal128(8, 2)),
        ("x", pa.float64()),
    ]
)
NESTED = FLAT.append(pa.field("o", pa.struct([("p", pa.int64()), ("q", pa.string())])))


def random_rows(rng: random.Random) -> pa.Table:
    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    start = datetime.datetime(2024, 3, 30, tzinfo=datetime.UTC)
    rows = [
        {
            "id": at,
            "i": maybe(rng.randint(-3, 3) + at // 40),
            "s": maybe(rng.choice(["", "a", "ab", "B", "é", "it's"])),
            "b": maybe(rng.random() < 0.5),
            "d": maybe(datetime.date(2024, 1, 1) + datetime.timedelta(days=at // 4)),
            "t": maybe(start + datetime.timedelta(minutes=at * 17)),
            "money": maybe(Decimal(rng.randint(-500, 500)) / 100),
            "x": maybe(rng.choice([0.0, 1.5, -2.0, float("nan")])),
            "o": maybe({"p": maybe(at), "q": maybe(rng.choice("xyz"))}),
        }
        for at in range(ROWS)
    ]
    return pa.Table.from_pylist(rows, schema=NESTED)


def write_files(table: pa.Table, folder: Path, suffix: str) -> None:
    for number in range(3):
        part = table.slice(number * ROWS // 3, ROWS // 3)
        path = folder / f"k={number}" / f"rows.{suffix}"
        path.parent.mkdir(parents=True)
        if suffix == "parquet":
            pq.write_table(part, path, row_group_size=16)
        elif suffix == "csv":
            pyarrow.csv.write_csv(part.select(FLAT.names), path)
        else:
            lines = (json.dumps(row, default=_json) for row in part.to_pylist())
            path.write_text("".join(f"{line}\n" for line in lines))


def _json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.date) else float(value)


def random_query(rng: random.Random, nested: bool) -> Callable[[DataFrame], DataFrame]:
    columns = ["i", "s", "b", "d", "t", "money", "x", "k", *(["o.p", "o.q", "o"] if nested else [])]
    values: dict[str, Callable[[], Any]] = {
        "id": lambda: rng.randint(0, ROWS),
        "i": lambda: rng.randint(-3, 8),
        "s": lambda: rng.choice(["", "a", "ab", "é", "it's"]),
        "d": lambda: datetime.date(2024, 1, 1) + datetime.timedelta(days=rng.randint(0, 60)),
        "t": lambda: datetime.datetime(2024, 3, 31, rng.randint(0, 23), tzinfo=datetime.UTC),
        "money": lambda: Decimal(rng.randint(-500, 500)) / 100,
        "x": lambda: rng.choice([0.0, 1.0, float("nan")]),
        "k": lambda: rng.randint(0, 3),
    }
    if nested:
        values |= {"o.p": lambda: rng.randint(0, ROWS), "o.q": lambda: rng.choice("xyz")}

    def leaf() -> Column:
        name = rng.choice([*values])
        column, value = F.col(name), F.lit(values[name]())
        return rng.choice(
            [
                lambda: column == value,
                lambda: column != value,
                lambda: column < value,
                lambda: column >= value,
                lambda: value > column,
                lambda: column.eqNullSafe(value),
                lambda: column.isNull(),
                lambda: column.isNotNull(),
                lambda: column.isin(*[values[name]() for _ in range(3)]),
                lambda: F.col("s").startswith("a"),
                lambda: F.col("b"),
            ]
        )()

    def condition(depth: int) -> Column:
        if depth == 0 or rng.random() < 0.3:
            return leaf()
        left, right = condition(depth - 1), condition(depth - 1)
        return rng.choice([left & right, left | right, ~left])

    chosen = rng.sample(columns, rng.randint(1, 3))
    first, second = condition(2), condition(1)
    plain = [name for name in chosen if "." not in name]
    shape = rng.choice(["filter", "union", "all", "selection"])

    def query(df: DataFrame) -> DataFrame:
        names = [F.col(name).cast("string").alias(name.replace(".", "_")) for name in chosen]
        if shape == "all":
            return df.where(first)
        if shape == "selection":
            return df.where(first).select("id", *plain).where("id > 7").withColumnRenamed("id", "n")
        if shape == "union":
            return df.where(first).select("id", *names).union(df.where(second).select("id", *names))
        return df.where(first).where(second).select("id", *names)

    return query


@pytest.mark.parametrize("seed", range(8))
def test_a_random_query_returns_the_same_rows_with_and_without_pushdown(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    suffix = ["parquet", "jsonl", "csv", "parquet"][seed % 4]
    table = random_rows(rng)
    write_files(table, tmp_path / "in", suffix)
    query = random_query(rng, nested=suffix != "csv")
    streaming, fails = seed % 3 != 0, seed % 2 == 0
    found = {}
    for pushdown in ("true", "false"):
        sink = DirectorySink(tmp_path / pushdown / "out")

        def run(pushdown: str = pushdown, sink: DirectorySink = sink) -> None:
            spark.conf.set("spark.connectors.pushdown", pushdown)
            pipeline = Pipeline(
                spark,
                "random",
                checkpoint_location=tmp_path / pushdown / "checkpoint",
                streaming=streaming,
                parallelism=2,
            )
            source = FileSource(
                tmp_path / "in",
                schema=FLAT if suffix == "csv" else NESTED,
                partition_columns={"k": pa.int32()},
                batch_rows=rng.randint(5, 50),
            )
            rows = pipeline.from_source(source, uid="files", limits=ReadLimits(rows=130))
            pipeline.sink_to(query(rows), sink, uid="out")
            pipeline.run()

        try:
            if fails:
                fault = Fault("before_decision", action=FaultAction.RAISE)
                with injected(fault), pytest.raises(ConnectorError):
                    run()
            run()
        finally:
            spark.conf.unset("spark.connectors.pushdown")
        found[pushdown] = Counter(map(str, sink.read().to_pylist()))
    assert found["true"] == found["false"]
