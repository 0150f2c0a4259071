# SPDX-License-Identifier: Apache-2.0
"""Spark's own workers are found and kept warm."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

JOBS = 12


def as_it_was_kept(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The worker's number, and what its last task left behind."""
    import gc
    import os
    import sys
    from zipimport import zipimporter

    from connectors_core.runtime.warm_workers import BetweenTasks, keep_warm

    for _ in batches:
        pass
    callbacks = sum(isinstance(each, BetweenTasks) for each in gc.callbacks)
    kept = [
        "invalidate_caches" in vars(finder)
        for path, finder in sys.path_importer_cache.items()
        if isinstance(finder, zipimporter) and "pyspark.zip" in path
    ]
    yield pa.RecordBatch.from_pydict(
        {
            "pid": [os.getpid()],
            "callbacks": [callbacks],
            "frozen": [gc.get_freeze_count()],
            "kept": [all(kept)],
        }
    )
    keep_warm()


def test_a_worker_that_ran_a_task_is_warm_for_the_next(spark: SparkSession) -> None:
    reports: dict[int, list[Any]] = defaultdict(list)
    for _ in range(JOBS):
        (row,) = (
            spark.range(0, 1, 1, 1)
            .mapInArrow(as_it_was_kept, "pid long, callbacks long, frozen long, kept boolean")
            .collect()
        )
        reports[row.pid].append(row)
    again = [row for rows in reports.values() for row in rows[1:]]
    assert again, "no worker was used again"
    for row in again:
        assert (row.callbacks, row.kept) == (1, True)
        assert row.frozen > 0
