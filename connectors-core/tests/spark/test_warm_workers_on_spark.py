# SPDX-License-Identifier: Apache-2.0
"""Tests the changes to Spark's workers: only in their first tasks, and only if enabled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from connectors_core.spark.warm_workers import SETTING

JOBS = 8
COLUMNS = "pid long, callbacks long, frozen long, kept boolean"


def as_it_was_kept(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the worker's process ID and the objects left by its last task, and import a module."""
    import gc
    import os
    import sys
    import types
    from zipimport import zipimporter

    from connectors_core.spark.warm_workers import AcknowledgeAtOnce, keep_warm

    for _ in batches:
        pass
    callbacks = sum(isinstance(each, AcknowledgeAtOnce) for each in gc.callbacks)
    kept = [
        "invalidate_caches" in vars(finder)
        for path, finder in sys.path_importer_cache.items()
        if isinstance(finder, zipimporter) and "spark-core_" in path
    ]
    yield pa.RecordBatch.from_pydict(
        {
            "pid": [os.getpid()],
            "callbacks": [callbacks],
            "frozen": [gc.get_freeze_count()],
            "kept": [bool(kept) and all(kept)],
        }
    )
    keep_warm()
    sys.modules[f"module{len(sys.modules)}"] = types.ModuleType("module")


def used_again(spark: SparkSession) -> dict[int, list[Any]]:
    """Return the reports of workers that had run an earlier task."""
    reports: dict[int, list[Any]] = defaultdict(list)
    for _ in range(JOBS):
        (row,) = spark.range(0, 1, 1, 1).mapInArrow(as_it_was_kept, COLUMNS).collect()
        reports[row.pid].append(row)
    again = {pid: rows[1:] for pid, rows in reports.items() if len(rows) > 1}
    assert again, "no worker was used again"
    return again


def test_a_worker_is_warmed_only_in_its_first_task(spark: SparkSession) -> None:
    environment = spark.sparkContext.environment
    environment["WORKERS_OF"] = "this test"
    try:
        again = used_again(spark)
    finally:
        del environment["WORKERS_OF"]
    for rows in again.values():
        assert {(row.callbacks, row.kept) for row in rows} == {(1, True)}
        frozen = [row.frozen for row in rows]
        assert frozen[0] > 0
        assert frozen == sorted(frozen, reverse=True)  # nothing is added to it


def test_a_worker_is_not_changed_if_warming_is_disabled(spark: SparkSession) -> None:
    environment = spark.sparkContext.environment  # target of spark.executorEnv.*
    environment[SETTING] = "off"
    try:
        again = used_again(spark)
    finally:
        del environment[SETTING]
    found = {(row.callbacks, row.frozen, row.kept) for rows in again.values() for row in rows}
    assert found == {(0, 0, False)}
