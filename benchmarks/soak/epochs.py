# SPDX-License-Identifier: Apache-2.0
"""Many epochs of a trivial pipeline in one driver, without faults."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from benchmarks.micro_batch import trigger_times, trivial
from benchmarks.session import new_session
from benchmarks.soak.measurements import Measurements
from benchmarks.soak.processes import tree

# Spark and the pipeline keep 100 epochs. After twice that number, all retained state exists.
_BEGIN: Final = 200
_LOOK_SECONDS: Final = 3.0
_TELL_SECONDS: Final = 30.0


def run(epochs: int, say: Callable[[str], None]) -> Measurements:
    """Run the epochs. Times are epoch numbers."""
    spark = new_session()
    spark_jvm = spark._jvm
    assert spark_jvm is not None
    runtime = spark_jvm.java.lang.Runtime.getRuntime()
    found = Measurements(begin=min(_BEGIN, epochs // 2))
    times: dict[int, float] = {}
    told = 0.0
    with trivial(spark, epochs) as (pipeline, checkpoint):
        pipeline.start()
        query = spark.streams.active[0]
        ended = False
        while not ended:
            ended = pipeline.await_termination(timeout=_LOOK_SECONDS)
            times |= trigger_times(list(query.recentProgress))
            if ended or not times:
                continue
            epoch = max(times)
            found.take(epoch, tree(os.getpid()))
            spark_jvm.java.lang.System.gc()
            live = (runtime.totalMemory() - runtime.freeMemory()) / 2**20
            found.add("driver, JVM's live objects (MB)", epoch, live)
            found.count(epoch, checkpoint)
            if time.monotonic() - told > _TELL_SECONDS:
                told = time.monotonic()
                say(f"epoch {epoch:,} of {epochs:,}: {found.newest()}")
    for epoch, milliseconds in times.items():
        found.add("time per epoch (ms)", epoch, milliseconds)
    if len(times) < epochs:
        found.problems.append(f"{len(times)} of {epochs} epochs were seen")
    spark.stop()
    return found
