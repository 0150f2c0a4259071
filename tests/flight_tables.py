# SPDX-License-Identifier: Apache-2.0
"""An environment with tables of files, for the tests of tables on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from connectors_core import TableEnvironment

FLIGHTS = """
  id BIGINT, carrier STRING, delay BIGINT, at TIMESTAMP,
  hours AS delay / 60,
  file STRING METADATA FROM 'file.name' VIRTUAL,
  now AS PROCTIME(),
  WATERMARK FOR at AS at - INTERVAL '5' SECOND
"""


class Tables:
    """An environment with tables of files."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder = folder
        self.env = TableEnvironment(spark, checkpoint_location=folder / "checkpoints")
        (folder / "in").mkdir()
        (folder / "carriers").mkdir()
        (folder / "carriers" / "1.csv").write_text("code,name\nAA,American\nUA,United\n")
        self.put(1, "1,AA,30", "2,UA,90", "3,AA,150")
        self.create("flights", FLIGHTS, "in", "csv")
        self.create("carriers", "code STRING, name STRING", "carriers", "csv")
        self.create("late", "id BIGINT, hours DOUBLE", "late", "parquet")

    def create(self, name: str, columns: str, path: str, kind: str, **options: str) -> None:
        given = {"connector": "filesystem", "path": str(self.folder / path), "format": kind}
        pairs = ", ".join(f"'{key}' = '{value}'" for key, value in {**given, **options}.items())
        self.env.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ({pairs})")

    def put(self, number: int, *rows: str) -> None:
        lines = [f"{row},2024-01-01T00:0{number}:00Z" for row in rows]
        file = self.folder / "in" / f".{number}.csv"
        file.write_text("\n".join(["id,carrier,delay,at", *lines, ""]))
        file.rename(self.folder / "in" / f"{number}.csv")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.env.execute_sql(query).collect()
