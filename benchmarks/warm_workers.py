# SPDX-License-Identifier: Apache-2.0
"""Time saved by each way to keep a Python worker warm, for small tasks and micro-batches."""

from __future__ import annotations

import functools
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks import micro_batch
from benchmarks.comparison import Result, alternating
from connectors_core.spark.warm_workers import SETTING, Warmth

NOTHING = "nothing"
KEPT = {
    NOTHING: "off",
    **{each.value: each.value for each in Warmth},
    "all": ",".join(Warmth),
}
TASKS = 40
WARM_UP = 8


@contextmanager
def workers(spark: SparkSession, kept: str) -> Iterator[None]:
    """Python workers that keep this object warm."""
    environment = spark.sparkContext.environment
    environment[SETTING] = kept
    try:
        yield
    finally:
        del environment[SETTING]


def small_tasks(spark: SparkSession) -> list[tuple[float, int, float]]:
    """Run jobs with one small task each. Return the milliseconds, worker, and CPU milliseconds.

    Each task keeps its worker warm and returns the CPU time that the worker had used at its start.
    """

    def warm(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import time

        from connectors_core.spark.warm_workers import keep_warm

        keep_warm()
        used = time.process_time() * 1e3
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"worker": [os.getpid()], "used": [used]})

    rows = spark.range(0, 1, 1, 1).mapInArrow(warm, "worker long, used double")
    tasks = []
    for _ in range(TASKS + WARM_UP):
        began = time.perf_counter()
        (row,) = rows.collect()
        tasks.append(((time.perf_counter() - began) * 1e3, row.worker, row.used))
    return tasks[WARM_UP:]


def small_task(spark: SparkSession) -> float:
    """Return the median milliseconds of a job with one small task, without the first jobs."""
    return statistics.median(milliseconds for milliseconds, _, _ in small_tasks(spark))


def worker_time(spark: SparkSession) -> float:
    """Return the median CPU milliseconds of a worker between two small tasks."""
    used: dict[int, list[float]] = {}
    for _, worker, milliseconds in small_tasks(spark):
        used.setdefault(worker, []).append(milliseconds)
    steps = [itertools.pairwise(times) for times in used.values()]
    return statistics.median(later - earlier for step in steps for earlier, later in step)


def measure(spark: SparkSession, runs: int, plans: int) -> Iterator[Result]:
    """Return the milliseconds with each kind of warm worker and with cold ones, in turns."""
    measured = {
        "CPU of a worker for a small task (ms)": lambda: worker_time(spark),
        "a small task (ms)": lambda: small_task(spark),
        "a micro-batch (ms)": lambda: micro_batch.ours(spark, plans),
    }
    for what, run in measured.items():

        def with_kept(kept: str, run: Callable[[], float] = run) -> float:
            with workers(spark, kept):
                return run()

        medians = alternating(
            runs, {name: functools.partial(with_kept, kept) for name, kept in KEPT.items()}
        )
        nothing = medians.pop(NOTHING)
        for name, median in medians.items():
            yield Result(f"{what}, kept warm: {name}", median, NOTHING, nothing)
