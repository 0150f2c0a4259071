# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks`: time per micro-batch, rows per second of files, memory.

Every ratio is against a peer measured in the same run, in turns; medians of several runs. The
result is JSON below build/bench and a table on the terminal.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import files, memory, micro_batch
from benchmarks.session import new_session

OUTPUT = Path("build/bench")


def alternate(runs: int, ours: Callable[[], float], peer: Callable[[], float]) -> dict[str, float]:
    """Medians of both, run in turns so that a busy moment hits both."""
    pairs = [(ours(), peer()) for _ in range(runs + 1)][1:]  # the first warms up
    mine = statistics.median(pair[0] for pair in pairs)
    theirs = statistics.median(pair[1] for pair in pairs)
    return {"ours": mine, "peer": theirs}


def main(
    runs: Annotated[int, typer.Option(help="Measured runs of each side.")] = 3,
    copies: Annotated[int, typer.Option(help="Copies of the flights table to read.")] = 8,
    plans: Annotated[int, typer.Option(help="Micro-batches per latency run.")] = 40,
) -> None:
    """Measure and compare."""
    spark = new_session()
    results: list[dict[str, object]] = []
    latency = alternate(
        runs, lambda: micro_batch.ours(spark, plans), lambda: micro_batch.peer(spark, plans)
    )
    results.append(
        {
            "what": "time per micro-batch (ms), against rate-micro-batch with mapInArrow",
            **latency,
            "ratio": latency["ours"] / latency["peer"],
            "aim": "at most 1.3",
        }
    )
    data = files.prepare(OUTPUT / "data", copies)
    pairs = {
        **{f"read {kind} into Spark": files.read(spark, data, kind) for kind in files.FORMATS},
        **{f"parquet to {kind}": files.write(spark, data, kind) for kind in files.FORMATS},
        "parquet to parquet, flights late by an hour": files.write(
            spark, data, "parquet", "dep_delay > 60"
        ),
        "parquet to parquet, all flights, through Spark": files.write(
            spark, data, "parquet", "flight > 0"
        ),
    }
    aims = {"read parquet into Spark": 0.8, "read csv into Spark": 1.5, "parquet to parquet": 1.1}
    for what, pair in pairs.items():
        speed = alternate(runs, pair.ours, pair.peer)
        aim = aims.get(what)
        results.append(
            {
                "what": f"{what} (rows/s)",
                **speed,
                "ratio": speed["ours"] / speed["peer"],
                "aim": f"at least {aim}" if aim else "",
            }
        )
    version = spark.version
    spark.stop()
    for megabytes in (16, 64, 256):
        results.append(
            {
                "what": f"peak memory (MB) reading one CSV file of {megabytes} MB",
                "ours": memory.peak(OUTPUT / "data", megabytes),
            }
        )
    OUTPUT.mkdir(parents=True, exist_ok=True)
    target = OUTPUT / f"spark-{version}.json"
    target.write_text(json.dumps({"spark_version": version, "results": results}, indent=2))
    show(version, results)


def show(version: str, results: list[dict[str, object]]) -> None:
    """The results as a table."""
    table = Table(title=f"Spark {version}")
    for column in ("what", "ours", "peer", "ratio", "aim"):
        table.add_column(column)
    for result in results:
        cells = [result.get(column, "") for column in ("what", "ours", "peer", "ratio", "aim")]
        table.add_row(*[f"{c:,.2f}" if isinstance(c, float) else str(c) for c in cells])
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
