# SPDX-License-Identifier: Apache-2.0
"""A driver on a standalone cluster: `cluster_program.py ROOT`, which runs until ROOT/stop exists.

It reads the union of bounded files and growing files. It reads Spark's settings from
ROOT/spark.json.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pipeline_support import LogSource, new_pipeline, travel_with_closures

from connectors_core.source import ReadLimits
from connectors_core.testing.leased_sink import LeasedDirectorySink
from connectors_core.testing.spark_session import new_session


def main() -> None:
    travel_with_closures("__main__")
    root = Path(sys.argv[1])
    spark = new_session(json.loads((root / "spark.json").read_text()))
    with new_pipeline(spark, root) as pipeline:
        limits = ReadLimits(rows=40)
        files = pipeline.from_source(LogSource(root / "files"), uid="files", limits=limits)
        live = pipeline.from_source(LogSource(root / "live", live=True), uid="live", limits=limits)
        pipeline.sink_to(files.union(live), LeasedDirectorySink(root / "out"), uid="out")
        pipeline.start()
        while not (root / "stop").exists():
            pipeline.await_termination(0.1)
    (root / "ended").touch()
    os._exit(0)


if __name__ == "__main__":
    main()
