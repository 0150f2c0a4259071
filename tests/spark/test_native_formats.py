# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of `docs/native-formats.md`, in a classic session and under Spark Connect."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark.sql.datasource")
pytestmark = [pytest.mark.line("4.3"), pytest.mark.timeout(900)]

DOCUMENT = Path(__file__).parents[2] / "docs/native-formats.md"
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHECKS = """
assert (sundays, tuesdays, days) == (15, 15, 7), (sundays, tuesdays, days)
copied = spark.read.format("connector_filesystem").option("format", "parquet")
assert copied.load(f"{folder}/copy").count() == 101
"""


def example(folder: Path) -> str:
    """Return the examples of the page as one program."""
    code = "".join(CODE.findall(DOCUMENT.read_text(encoding="utf-8")))
    return code.replace("mkdtemp()", repr(str(folder))) + CHECKS


@pytest.mark.slow  # as Spark Connect runs the same examples
def test_the_examples_of_the_page_run(spark: SparkSession, tmp_path: Path) -> None:
    variables: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(example(tmp_path), DOCUMENT.name, "exec", dont_inherit=True), variables)


def test_the_examples_of_the_page_run_under_spark_connect(tmp_path: Path) -> None:
    code = example(tmp_path).replace(
        "builder.getOrCreate()", "builder.remote('local[2]').getOrCreate()"
    )
    assert "remote" in code
    run(tmp_path, sys.executable, "-c", code)


SPECIFICATION = """
name: copies
storage: {folder}/storage
libraries:
  - glob:
      include: transformations/**
"""
FLOWS = """
from pyspark import pipelines
from pyspark.sql import SparkSession

spark = SparkSession.active()
pipelines.create_sink("out", "connector_filesystem", {{"path": "{out}", "format": "parquet"}})


@pipelines.append_flow(target="out")
def copy():
    source = spark.readStream.format("connector_filesystem").option("format", "parquet")
    return source.load("{into}")
"""


def test_a_declarative_pipeline_reads_and_writes_formats(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": list(range(30))}), tmp_path / "in" / "ids.parquet")
    (tmp_path / "transformations").mkdir()
    flows = FLOWS.format(into=tmp_path / "in", out=tmp_path / "out")
    (tmp_path / "transformations" / "flows.py").write_text(flows)
    specification = tmp_path / "spark-pipeline.yml"
    specification.write_text(SPECIFICATION.format(folder=tmp_path.as_uri()))
    command = Path(sys.executable).with_name("spark-pipelines")
    run(tmp_path, str(command), "run", "--spec", str(specification))
    written = [pq.read_table(file) for file in (tmp_path / "out").glob("*.parquet")]
    assert sorted(i for table in written for i in table["id"].to_pylist()) == list(range(30))


def run(folder: Path, *command: str) -> None:
    """Run a program with this Python, and fail with the end of its output."""
    done = subprocess.run(
        command,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
