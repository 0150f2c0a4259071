# SPDX-License-Identifier: Apache-2.0
"""Make the Spark of this environment start faster, which halves the time of a short test.

Spark's Python workers import pyspark from a zip file. They compile every module again, and each
worker reads the zip's directory once per package when it invalidates its import caches. A folder
with the same name that links to the installed package avoids both costs. An archive (Java's AppCDS,
JEP 350) contains the classes that a small streaming query needs, and ``-XX:SharedArchiveFile`` maps
it. A JVM that the archive does not fit ignores it.

Usage: python tools/quick_start.py ARCHIVE
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from pathlib import Path

import pyspark


def unzip_pyspark() -> None:
    """Replace pyspark's zip file with a folder that links to pyspark."""
    package = Path(pyspark.__file__).parent
    path = package / "python" / "lib" / "pyspark.zip"
    if path.is_file():
        path.unlink()
        path.mkdir()
        (path / package.name).symlink_to(os.path.relpath(package, path), target_is_directory=True)


def archive_classes(archive: Path) -> None:
    """Run a small stream with state and Python workers, and archive the loaded classes."""
    archive.unlink(missing_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={archive} -Xlog:disable"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    with tempfile.TemporaryDirectory() as folder:
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "1")
            .config("spark.sql.warehouse.dir", Path(folder, "warehouse").as_uri())
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("OFF")
        rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
        rows = rate.mapInArrow(lambda batches: batches, rate.schema)
        rows = rows.withWatermark("timestamp", "1 second")
        counts = rows.groupBy(F.window("timestamp", "1 minute")).count()
        query = (
            counts.writeStream.foreachBatch(lambda batch, _: batch.collect())
            .option("checkpointLocation", str(Path(folder, "checkpoint")))
            .start()
        )
        while query.lastProgress is None:
            query.awaitTermination(0.1)
        query.stop()
        gateway = spark.sparkContext._gateway
        spark.stop()
        # The JVM writes the archive when it ends, which is when its input ends.
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    unzip_pyspark()
    archive_classes(Path(sys.argv[1]).absolute())
