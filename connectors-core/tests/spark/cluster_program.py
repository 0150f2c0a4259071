# SPDX-License-Identifier: Apache-2.0
"""A driver on a standalone cluster: `cluster_program.py ROOT MASTER`, runs until ROOT/stop exists.

It unites files that end and files that grow. Settings of Spark come from ROOT/spark.json, faults of
the executors from the environment.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pipeline_support import LogSource, new_pipeline, travel_with_closures

from connectors_core.source import PlanLimits
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.faults import ENVIRONMENT_VARIABLE


def main() -> None:
    from pyspark.sql import SparkSession

    travel_with_closures("__main__")
    root = Path(sys.argv[1])
    builder = (
        SparkSession.builder.master(sys.argv[2])
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "600m")
        .config("spark.executor.memory", "600m")
        .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.cores.max", "2")
        .config(f"spark.executorEnv.{ENVIRONMENT_VARIABLE}", os.environ[ENVIRONMENT_VARIABLE])
    )
    for key, value in json.loads((root / "spark.json").read_text()).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with new_pipeline(spark, root) as pipeline:
        limits = PlanLimits(rows=40)
        files = pipeline.from_source(LogSource(root / "files"), uid="files", limits=limits)
        live = pipeline.from_source(LogSource(root / "live", live=True), uid="live", limits=limits)
        pipeline.sink_to(files.union(live), DirectorySink(root / "out"), uid="out")
        pipeline.start()
        while not (root / "stop").exists():
            pipeline.await_termination(0.1)
    (root / "ended").touch()
    os._exit(0)


if __name__ == "__main__":
    main()
